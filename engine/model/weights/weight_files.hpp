// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files that a model's tensors lie in: safetensors of a folder, or the parts of a GGUF. Their
// tensors have the names of published folders.
// Owner: the loader, on its stack. Thread: any; files are read-only once open.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "storage/files/gguf.hpp"
#include "storage/files/safetensors.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

/// A tensor where it lies.
struct stored_tensor {
    std::string name;  // "model.layers.0.self_attn.q_proj.weight"
    storage::dtype type{};
    std::optional<storage::gguf_type> blocks;  // quantised in blocks; `type` then says nothing
    std::vector<std::int64_t> shape;           // row-major
    std::span<const std::byte> bytes;
    /// The rows of a head lie so that the two elements that rope turns together are neighbours.
    bool rope_neighbours = false;
    std::string own_name;  // in the file, for complaints

    const char* type_name() const noexcept;  // "BF16", "Q4_K"
};

class weight_file {
  public:
    explicit weight_file(storage::safetensors_file file, std::string path);
    /// `tensors`: of this file, under published names.
    weight_file(storage::gguf_file file, std::vector<stored_tensor> tensors);

    const std::string& path() const noexcept { return path_; }
    const std::vector<stored_tensor>& tensors() const noexcept { return tensors_; }
    /// Whether every tensor is a part of the model, so that one without a use is a mistake.
    bool is_gguf() const noexcept { return std::holds_alternative<storage::gguf_file>(file_); }
    std::span<const std::byte> bytes() const noexcept;
    /// See mapped_file::drop().
    void drop(std::span<const std::byte> part) const noexcept;

  private:
    std::string path_;
    std::variant<storage::safetensors_file, storage::gguf_file> file_;
    std::vector<stored_tensor> tensors_;  // into file_'s mapping
};

/// Blocks. Of a folder: opens model.safetensors, else the shards that model.safetensors.index.json
/// names, else every *.safetensors. Of a GGUF file: that and the parts next to it. Errors:
/// not_found, io, corrupt, incompatible; each names the file.
storage::result<std::vector<weight_file>> open_weight_files(const std::string& model);

/// Keeps the hashing of files near their packing, so that where memory is short the second reader
/// still finds a page in memory. Thread: any.
class read_pace {
  public:
    /// Says that so many more bytes were packed.
    void advance(std::uint64_t bytes);
    /// Says that packing has ended: every waiter goes on.
    void finish();
    /// Says that nobody needs the hashes any more.
    void stop();
    /// Blocks until hashing up to byte `hashed` of all files is at most `lead_bytes` ahead.
    /// Returns: false when there is no use in hashing on.
    bool wait_for(std::uint64_t hashed);

    static constexpr std::uint64_t lead_bytes = std::uint64_t{256} << 20;

  private:
    std::mutex mutex_;
    std::condition_variable moved_;
    std::uint64_t packed_ = 0;
    bool is_finished_ = false, is_stopped_ = false;
};

/// Blocks. XXH3-128 of every file, one after the other; of no use after pace.stop(). Lets their
/// pages go.
std::vector<storage::block_hash> hash_each(const std::vector<weight_file>& files, read_pace& pace);
/// XXH3-128 over the hashes, in the order given; `form`, unless empty, joins in as a last entry.
storage::block_hash hash_together(std::vector<storage::block_hash> hashes, const std::string& form);

}  // namespace semantic::engine
