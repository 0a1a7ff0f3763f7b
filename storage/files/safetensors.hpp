// SPDX-License-Identifier: Apache-2.0
#pragma once
// The safetensors container: 8-byte little-endian header length, JSON header, tensor bytes.
// Readers validate everything before handing out a span: header size, UTF-8 JSON, known dtypes,
// shape products with overflow checks, offsets inside the file, no overlap. Source:
// https://github.com/huggingface/safetensors (format section).

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/files/file.hpp"
#include "storage/files/mapped_file.hpp"
#include "storage/types/errc.hpp"

namespace semantic::storage {

enum class dtype { f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean };

/// Bytes of one element.
std::size_t dtype_bytes(dtype type) noexcept;
const char* to_string(dtype type) noexcept;  // "F32", "BF16", ...

struct tensor_view {
    dtype type{};
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;  // row-major, inside the file's mapping or buffer
};

struct tensor_place {
    dtype type{};
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;  // byte offsets in the file
    std::uint64_t end = 0;
};

/// A parsed header without the tensors' bytes, for readers that fetch each tensor where it belongs.
struct safetensors_index {
    std::map<std::string, tensor_place, std::less<>> tensors;
    std::map<std::string, std::string, std::less<>> metadata;  // "__metadata__"

    /// Returns: how many bytes from the start of the file parse() needs. `start`: at least the
    /// first 8 bytes of the file, or all of it if it is shorter. Errors: corrupt, when a file of
    /// `file_bytes` bytes cannot have that header.
    static result<std::size_t> bytes_needed(std::span<const std::byte> start,
                                            std::uint64_t file_bytes);
    /// Blocks. Reads the header only. Errors: corrupt, and those of the file.
    static result<safetensors_index> read(readable_file& file, std::uint64_t file_bytes);
    /// Parses the start of a file, at least bytes_needed() bytes of it. Errors: corrupt, naming
    /// what is wrong.
    static result<safetensors_index> parse(std::span<const std::byte> start,
                                           std::uint64_t file_bytes);
};

/// A parsed header over bytes that somebody else keeps alive.
struct safetensors_view {
    std::map<std::string, tensor_view, std::less<>> tensors;
    std::map<std::string, std::string, std::less<>> metadata;  // "__metadata__"

    /// Errors: corrupt, naming what is wrong ("the header says 120 bytes, the file has 80:
    /// incomplete download?").
    static result<safetensors_view> parse(std::span<const std::byte> file);
};

/// A safetensors file mapped read-only. Movable; the views stay valid while it lives.
class safetensors_file {
  public:
    /// Blocks. Errors: not_found, io, corrupt; each names the path.
    static result<safetensors_file> open(const std::string& path);

    const safetensors_view& view() const noexcept { return view_; }
    std::span<const std::byte> bytes() const noexcept { return mapped_.bytes(); }
    /// See mapped_file::drop().
    void drop(std::span<const std::byte> part) const noexcept { mapped_.drop(part); }

  private:
    safetensors_file(mapped_file mapped, safetensors_view view)
        : mapped_(std::move(mapped)), view_(std::move(view)) {}
    mapped_file mapped_;
    safetensors_view view_;  // of mapped_'s bytes
};

struct tensor_to_write {
    std::string name;
    dtype type{};
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;  // may be left out where only the header is wanted
};

/// Returns: length prefix and JSON header, padded with spaces to 8 bytes; tensor bytes follow in
/// the order given. Requires: shapes and byte counts agree.
std::string safetensors_header(std::span<const tensor_to_write> tensors,
                               const std::map<std::string, std::string, std::less<>>& metadata);

}  // namespace semantic::storage
