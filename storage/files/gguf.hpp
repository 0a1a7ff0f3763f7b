// SPDX-License-Identifier: Apache-2.0
#pragma once
// The GGUF container, versions 2 and 3: typed metadata, tensor descriptions, tensor bytes; all
// little-endian. Readers validate everything before handing out a span: counts against the bytes
// that could hold them, string lengths, value types, alignment, block sizes, offsets inside the
// file, no overlap. What a block of a quantised tensor means is not known here.
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "storage/files/mapped_file.hpp"
#include "storage/types/errc.hpp"

namespace semantic::storage {

/// Types of tensors, with the numbers that files have for them. Other numbers are refused.
enum class gguf_type : std::uint32_t {
    f32 = 0,
    f16 = 1,
    q4_0 = 2,
    q4_1 = 3,
    q5_0 = 6,
    q5_1 = 7,
    q8_0 = 8,
    q2_k = 10,
    q3_k = 11,
    q4_k = 12,
    q5_k = 13,
    q6_k = 14,
    iq2_xxs = 16,
    iq2_xs = 17,
    iq3_xxs = 18,
    iq1_s = 19,
    iq4_nl = 20,
    iq3_s = 21,
    iq2_s = 22,
    iq4_xs = 23,
    i8 = 24,
    i16 = 25,
    i32 = 26,
    i64 = 27,
    f64 = 28,
    iq1_m = 29,
    bf16 = 30,
    tq1_0 = 34,
    tq2_0 = 35,
    mxfp4 = 39,
};

/// The size of a block of a quantised type. A row of a tensor is a whole number of blocks.
struct gguf_block_size {
    const char* name;      // "Q4_K"
    std::size_t elements;  // of one block
    std::size_t bytes;
};
/// Returns: null where this program does not know the type.
const gguf_block_size* find_block_size(gguf_type type) noexcept;

enum class gguf_value_type : std::uint32_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    string = 8,
    array = 9,
    u64 = 10,
    i64 = 11,
    f64 = 12,
};
const char* to_string(gguf_value_type type) noexcept;  // "u32", "string", ...

/// An array of the metadata: strings in `strings`; numbers and booleans in `packed`, encoded as in
/// the file.
struct gguf_array {
    gguf_value_type type{};
    std::size_t count = 0;
    std::span<const std::byte> packed;      // numbers and booleans
    std::vector<std::string_view> strings;  // strings, bytes of any kind

    /// Returns: an element as a number. Requires: index < count; numbers or booleans.
    double number(std::size_t index) const;
};

/// Whole numbers keep their sign, so that a count above 2^63 is not taken for a negative one.
using gguf_value =
    std::variant<std::uint64_t, std::int64_t, float, double, bool, std::string_view, gguf_array>;

struct gguf_tensor {
    gguf_type type{};
    std::vector<std::int64_t> shape;   // row-major: the file's dimensions, last first
    std::span<const std::byte> bytes;  // inside the file
};

/// A parsed file over bytes that somebody else keeps alive.
struct gguf_view {
    std::uint32_t version = 0;
    std::map<std::string, gguf_value, std::less<>> metadata;
    std::map<std::string, gguf_tensor, std::less<>> tensors;

    /// Errors: corrupt, naming the field, key or tensor; incompatible for a version, byte order or
    /// tensor type that is not read.
    static result<gguf_view> parse(std::span<const std::byte> file);
};

/// A GGUF file mapped read-only. Movable; the views stay valid while it lives.
class gguf_file {
  public:
    /// Blocks. Errors: those of mapped_file::open() and gguf_view::parse(); each names the path.
    static result<gguf_file> open(const std::string& path);

    const std::string& path() const noexcept { return path_; }
    const gguf_view& view() const noexcept { return view_; }
    std::span<const std::byte> bytes() const noexcept { return mapped_.bytes(); }
    /// See mapped_file::drop().
    void drop(std::span<const std::byte> part) const noexcept { mapped_.drop(part); }

  private:
    gguf_file(std::string path, mapped_file mapped, gguf_view view)
        : path_(std::move(path)), mapped_(std::move(mapped)), view_(std::move(view)) {}
    std::string path_;
    mapped_file mapped_;
    gguf_view view_;  // of mapped_'s bytes
};

/// Blocks. Whether a model of that path is a GGUF file and not a folder.
bool is_gguf_path(const std::string& path) noexcept;

/// Blocks. Opens a model in one file or in several (NAME-00001-of-00003.gguf, as the metadata say),
/// of which `path` may be any; the others are in the same folder. Returns: all files, in order.
/// Errors: those of gguf_file::open(); incompatible where the parts contradict each other; corrupt
/// where two of them have a tensor of the same name, or there are more or fewer tensors than they
/// say.
result<std::vector<gguf_file>> open_gguf(const std::string& path);

}  // namespace semantic::storage
