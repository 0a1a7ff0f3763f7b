// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files of a model's tensors: safetensors of a folder, or the parts of a GGUF. Tensors have the
// names that published folders give them.
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

/// A tensor in a mapped file.
struct stored_tensor {
    std::string name;  // "model.layers.0.self_attn.q_proj.weight"
    storage::dtype type{};
    std::optional<storage::gguf_type> blocks;  // set if quantised in blocks; then `type` is unused
    std::vector<std::int64_t> shape;           // row-major
    std::span<const std::byte> bytes;
    /// The rows of each head are ordered so that the two elements which rope rotates together are
    /// neighbours.
    bool rope_neighbours = false;
    std::string own_name;  // the name in the file, for error messages

    const char* type_name() const noexcept;  // "BF16", "Q4_K"
};

class weight_file {
  public:
    explicit weight_file(storage::safetensors_file file, std::string path);
    /// `tensors`: those of this file, under published names.
    weight_file(storage::gguf_file file, std::vector<stored_tensor> tensors);

    const std::string& path() const noexcept { return path_; }
    const std::vector<stored_tensor>& tensors() const noexcept { return tensors_; }
    /// Whether it is a GGUF: then every tensor is part of the model, and an unused one is an error.
    bool is_gguf() const noexcept { return std::holds_alternative<storage::gguf_file>(file_); }
    std::span<const std::byte> bytes() const noexcept;
    /// Releases the pages of `part` from memory, see mapped_file::drop().
    void drop(std::span<const std::byte> part) const noexcept;

  private:
    std::string path_;
    std::variant<storage::safetensors_file, storage::gguf_file> file_;
    std::vector<stored_tensor> tensors_;  // into file_'s mapping
};

/// Blocks. Opens the files of a model. In a folder: model.safetensors, otherwise the files that
/// model.safetensors.index.json lists, otherwise every *.safetensors. For a GGUF: the file and the
/// parts next to it. Errors: not_found, io, corrupt, incompatible; each names the file.
storage::result<std::vector<weight_file>> open_weight_files(const std::string& model);

/// Keeps two readers of the same files together: one hashes them, one packs them. The hashing waits
/// if it is more than lead_bytes ahead, so that each page is read from disk once. Thread: any.
class read_pace {
  public:
    /// Called when `bytes` more bytes were packed.
    void advance(std::uint64_t bytes);
    /// Called when packing has ended: nobody waits any more.
    void finish();
    /// Ends the hashing: its result is not needed.
    void stop();
    /// Blocks until byte `hashed` (of all files, one after the other) is at most `lead_bytes` ahead
    /// of packing. Returns: false after stop().
    bool wait_for(std::uint64_t hashed);

    static constexpr std::uint64_t lead_bytes = std::uint64_t{256} << 20;

  private:
    std::mutex mutex_;
    std::condition_variable moved_;
    std::uint64_t packed_ = 0;  // bytes so far
    bool is_finished_ = false, is_stopped_ = false;
};

/// Blocks. Returns: the XXH3-128 of each file; incomplete after pace.stop(). Releases the files'
/// pages as it goes.
std::vector<storage::block_hash> hash_each(const std::vector<weight_file>& files, read_pace& pace);
/// XXH3-128 over the hashes, in the order given, and over `form` unless it is empty.
storage::block_hash hash_together(std::vector<storage::block_hash> hashes, const std::string& form);

}  // namespace semantic::engine
