// SPDX-License-Identifier: Apache-2.0
#include "storage/files/gguf.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>

#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read where it lies");

constexpr std::uint32_t magic = 0x46554747;  // "GGUF"
constexpr std::uint64_t alignment_default = 32;
constexpr std::uint64_t alignment_max = 1u << 20;
constexpr std::uint32_t dimensions_max = 4;
constexpr std::size_t key_bytes_max = 65535;
constexpr std::size_t name_bytes_max = 256;
// The least that an entry takes, so that a count is refused before anything is reserved for it.
constexpr std::uint64_t pair_bytes_min = 8 + 1 + 4 + 1;            // key, type, value
constexpr std::uint64_t tensor_bytes_min = 8 + 1 + 4 + 8 + 4 + 8;  // name, dimension, type, offset

struct type_row {
    gguf_type type;
    gguf_block_size size;
};
// Sizes: ggml's block structures (ggml-common.h).
constexpr std::array<type_row, 30> types = {{
    {gguf_type::f32, {"F32", 1, 4}},
    {gguf_type::f16, {"F16", 1, 2}},
    {gguf_type::q4_0, {"Q4_0", 32, 18}},
    {gguf_type::q4_1, {"Q4_1", 32, 20}},
    {gguf_type::q5_0, {"Q5_0", 32, 22}},
    {gguf_type::q5_1, {"Q5_1", 32, 24}},
    {gguf_type::q8_0, {"Q8_0", 32, 34}},
    {gguf_type::q2_k, {"Q2_K", 256, 84}},
    {gguf_type::q3_k, {"Q3_K", 256, 110}},
    {gguf_type::q4_k, {"Q4_K", 256, 144}},
    {gguf_type::q5_k, {"Q5_K", 256, 176}},
    {gguf_type::q6_k, {"Q6_K", 256, 210}},
    {gguf_type::iq2_xxs, {"IQ2_XXS", 256, 66}},
    {gguf_type::iq2_xs, {"IQ2_XS", 256, 74}},
    {gguf_type::iq3_xxs, {"IQ3_XXS", 256, 98}},
    {gguf_type::iq1_s, {"IQ1_S", 256, 50}},
    {gguf_type::iq4_nl, {"IQ4_NL", 32, 18}},
    {gguf_type::iq3_s, {"IQ3_S", 256, 110}},
    {gguf_type::iq2_s, {"IQ2_S", 256, 82}},
    {gguf_type::iq4_xs, {"IQ4_XS", 256, 136}},
    {gguf_type::i8, {"I8", 1, 1}},
    {gguf_type::i16, {"I16", 1, 2}},
    {gguf_type::i32, {"I32", 1, 4}},
    {gguf_type::i64, {"I64", 1, 8}},
    {gguf_type::f64, {"F64", 1, 8}},
    {gguf_type::iq1_m, {"IQ1_M", 256, 56}},
    {gguf_type::bf16, {"BF16", 1, 2}},
    {gguf_type::tq1_0, {"TQ1_0", 256, 54}},
    {gguf_type::tq2_0, {"TQ2_0", 256, 66}},
    {gguf_type::mxfp4, {"MXFP4", 32, 17}},
}};

struct value_row {
    const char* name;
    std::size_t bytes;  // 0: no fixed size
};
constexpr std::array<value_row, 13> value_types = {{{"u8", 1},
                                                    {"i8", 1},
                                                    {"u16", 2},
                                                    {"i16", 2},
                                                    {"u32", 4},
                                                    {"i32", 4},
                                                    {"f32", 4},
                                                    {"bool", 1},
                                                    {"string", 0},
                                                    {"array", 0},
                                                    {"u64", 8},
                                                    {"i64", 8},
                                                    {"f64", 8}}};

/// Returns: the name in quotes for a message, cut after 80 bytes, with '?' for anything not
/// printable.
std::string shown(std::string_view name) {
    std::string text = "\"";
    for (const char c : name.substr(0, 80)) text += c >= ' ' && c <= '~' ? c : '?';
    return text + "\"";
}

/// Reads forward through the file. It keeps the first complaint; after that every read returns zero
/// or nothing. So callers read straight on and look at failed() once, at the end.
class cursor {
  public:
    explicit cursor(std::span<const std::byte> file) : file_(file) {}

    template <class T>
    T take() {
        T value{};
        const auto bytes = take_bytes(sizeof(T));
        if (bytes.size() == sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
        return value;
    }
    std::span<const std::byte> take_bytes(std::uint64_t count) {
        if (failed()) return {};
        if (count > left()) {
            complain("needs " + std::to_string(count) + " bytes at " + std::to_string(at_) +
                     ", the file has " + std::to_string(file_.size()) + ": incomplete download?");
            return {};
        }
        const auto bytes = file_.subspan(at_, static_cast<std::size_t>(count));
        at_ += static_cast<std::size_t>(count);
        return bytes;
    }
    std::string_view take_string() {
        const auto bytes = take_bytes(take<std::uint64_t>());
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }

    std::uint64_t left() const { return file_.size() - at_; }
    std::uint64_t at() const { return at_; }
    bool failed() const { return fault_.has_value(); }
    /// Requires: failed().
    const failure& fault() const { return *fault_; }
    /// Names what is read next; complaints begin with it.
    void reading(std::string subject) { subject_ = std::move(subject); }
    void complain(const std::string& message, errc code = errc::corrupt) {
        if (!failed())
            fault_ = failure{code, subject_.empty() ? message : subject_ + ": " + message};
    }

  private:
    std::span<const std::byte> file_;
    std::size_t at_ = 0;
    std::string subject_;
    std::optional<failure> fault_;
};

/// Reads the number of a value type; complains about one that does not exist.
gguf_value_type take_type(cursor& source) {
    const auto number = source.take<std::uint32_t>();
    if (number < value_types.size()) return static_cast<gguf_value_type>(number);
    source.complain("there is no value type " + std::to_string(number));
    return gguf_value_type::u8;
}

bool take_boolean(cursor& source) {
    const auto byte = source.take<std::uint8_t>();
    if (byte > 1) source.complain("a boolean is " + std::to_string(byte));
    return byte == 1;
}

gguf_array take_array(cursor& source) {
    gguf_array out;
    out.type = take_type(source);
    const auto count = source.take<std::uint64_t>();
    if (out.type == gguf_value_type::array) source.complain("arrays of arrays are not read");
    const std::size_t each = value_types[static_cast<std::size_t>(out.type)].bytes;
    // An element takes at least `each` bytes, a string 8 for its length. So a count that the file
    // cannot hold is refused before memory is reserved for it.
    if (count > source.left() / std::max<std::size_t>(each, each == 0 ? 8 : 1)) {
        source.complain("an array of " + std::to_string(count) +
                        " elements does not fit into the " + std::to_string(source.left()) +
                        " bytes behind it: incomplete download?");
    }
    if (source.failed()) return out;
    out.count = static_cast<std::size_t>(count);
    if (out.type == gguf_value_type::string) {
        out.strings.reserve(out.count);
        for (std::size_t i = 0; i < out.count && !source.failed(); ++i)
            out.strings.push_back(source.take_string());
        return out;
    }
    out.packed = source.take_bytes(count * each);
    if (out.type == gguf_value_type::boolean &&
        std::any_of(out.packed.begin(), out.packed.end(),
                    [](std::byte b) { return std::to_integer<int>(b) > 1; })) {
        source.complain("a boolean in it is neither 0 nor 1");
    }
    return out;
}

/// Reads a value with its type in front. Whole numbers come as 64 bits.
gguf_value take_value(cursor& source) {
    switch (take_type(source)) {
        case gguf_value_type::u8:
            return std::uint64_t{source.take<std::uint8_t>()};
        case gguf_value_type::u16:
            return std::uint64_t{source.take<std::uint16_t>()};
        case gguf_value_type::u32:
            return std::uint64_t{source.take<std::uint32_t>()};
        case gguf_value_type::u64:
            return source.take<std::uint64_t>();
        case gguf_value_type::i8:
            return std::int64_t{source.take<std::int8_t>()};
        case gguf_value_type::i16:
            return std::int64_t{source.take<std::int16_t>()};
        case gguf_value_type::i32:
            return std::int64_t{source.take<std::int32_t>()};
        case gguf_value_type::i64:
            return source.take<std::int64_t>();
        case gguf_value_type::f32:
            return source.take<float>();
        case gguf_value_type::f64:
            return source.take<double>();
        case gguf_value_type::boolean:
            return take_boolean(source);
        case gguf_value_type::string:
            return source.take_string();
        case gguf_value_type::array:
            return take_array(source);
    }
    return false;
}

struct file_header {
    std::uint32_t version = 0;
    std::uint64_t tensors = 0;
    std::uint64_t pairs = 0;
};

/// Reads magic, version and counts; complains about counts that the file cannot hold.
file_header take_header(cursor& source) {
    file_header header;
    if (source.take<std::uint32_t>() != magic) source.complain("does not begin with GGUF");
    header.version = source.take<std::uint32_t>();
    // 2 or 3 in the other byte order.
    if (header.version == 0x02000000 || header.version == 0x03000000) {
        source.complain("the file is big-endian, which is not read", errc::incompatible);
    } else if (header.version != 2 && header.version != 3) {
        source.complain("is GGUF version " + std::to_string(header.version) + ", read are 2 and 3",
                        errc::incompatible);
    }
    header.tensors = source.take<std::uint64_t>();
    header.pairs = source.take<std::uint64_t>();
    if (header.tensors > source.left() / tensor_bytes_min ||
        header.pairs > source.left() / pair_bytes_min)
        source.complain("the header speaks of " + std::to_string(header.tensors) + " tensors and " +
                        std::to_string(header.pairs) + " metadata values, which do not fit into " +
                        std::to_string(source.left()) + " bytes: incomplete download?");
    return header;
}

/// Reads one metadata key and its value into `out`.
void take_pair(cursor& source, gguf_view& out) {
    source.reading("a metadata key");
    const std::string_view key = source.take_string();
    if (key.empty() || key.size() > key_bytes_max)
        source.complain("has " + std::to_string(key.size()) + " bytes, allowed are 1 to " +
                        std::to_string(key_bytes_max));
    source.reading("metadata " + shown(key));
    gguf_value value = take_value(source);
    if (source.failed()) return;
    if (!out.metadata.emplace(key, std::move(value)).second) source.complain("stands there twice");
}

/// A tensor as the file describes it, before its bytes are known to be there.
struct described_tensor {
    std::string name;
    gguf_tensor tensor;
    std::uint64_t offset = 0;  // from the start of the tensors' bytes
    std::uint64_t bytes = 0;
};

/// Returns: the bytes of a tensor, or nothing where they are more than a number holds.
std::optional<std::uint64_t> tensor_bytes(const gguf_tensor& tensor, const gguf_block_size& block) {
    std::uint64_t blocks = static_cast<std::uint64_t>(tensor.shape.back()) / block.elements;
    for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
        const auto extent = static_cast<std::uint64_t>(tensor.shape[i]);
        if (blocks > std::numeric_limits<std::uint64_t>::max() / block.bytes / extent)
            return std::nullopt;
        blocks *= extent;
    }
    if (blocks > std::numeric_limits<std::uint64_t>::max() / block.bytes) return std::nullopt;
    return blocks * block.bytes;
}

/// Reads the dimensions of a tensor. The file has the fastest dimension first; `out.shape` has it
/// last.
void take_shape(cursor& source, gguf_tensor& out) {
    const auto dimensions = source.take<std::uint32_t>();
    if (source.failed()) return;
    if (dimensions < 1 || dimensions > dimensions_max)
        return source.complain("has " + std::to_string(dimensions) +
                               " dimensions, allowed are 1 to " + std::to_string(dimensions_max));
    for (std::uint32_t i = 0; i < dimensions; ++i) {
        const auto extent = source.take<std::uint64_t>();
        if (extent < 1 ||
            extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
            source.complain("dimension " + std::to_string(i) + " is " + std::to_string(extent));
            return;
        }
        out.shape.push_back(static_cast<std::int64_t>(extent));
    }
    std::reverse(out.shape.begin(), out.shape.end());
}

/// Reads the description of one tensor and computes how many bytes it needs.
described_tensor take_tensor(cursor& source) {
    described_tensor out;
    source.reading("a tensor's name");
    out.name = source.take_string();
    if (out.name.empty() || out.name.size() > name_bytes_max)
        source.complain("has " + std::to_string(out.name.size()) + " bytes, allowed are 1 to " +
                        std::to_string(name_bytes_max));
    source.reading("tensor " + shown(out.name));
    take_shape(source, out.tensor);
    const auto number = source.take<std::uint32_t>();
    out.offset = source.take<std::uint64_t>();
    if (source.failed()) return out;
    out.tensor.type = static_cast<gguf_type>(number);
    const gguf_block_size* block = find_block_size(out.tensor.type);
    if (block == nullptr) {
        source.complain("its type " + std::to_string(number) + " is not known", errc::incompatible);
        return out;
    }
    if (static_cast<std::uint64_t>(out.tensor.shape.back()) % block->elements != 0) {
        source.complain("its rows of " + std::to_string(out.tensor.shape.back()) +
                        " elements are no whole number of " + block->name + " blocks of " +
                        std::to_string(block->elements));
        return out;
    }
    const auto bytes = tensor_bytes(out.tensor, *block);
    if (!bytes) source.complain("its shape is too large");
    out.bytes = bytes.value_or(0);
    return out;
}

/// Returns: the alignment that the metadata set for tensors; 32 where they set none.
std::uint64_t alignment_of(cursor& source, const gguf_view& view) {
    const auto found = view.metadata.find("general.alignment");
    if (found == view.metadata.end()) return alignment_default;
    const auto* value = std::get_if<std::uint64_t>(&found->second);
    source.reading("metadata \"general.alignment\"");
    if (value == nullptr) {
        source.complain("is no unsigned whole number");
    } else if (!std::has_single_bit(*value) || *value > alignment_max) {
        source.complain("is " + std::to_string(*value) + ", allowed are powers of two up to " +
                        std::to_string(alignment_max));
    }
    return source.failed() ? alignment_default : *value;
}

/// Gives each tensor its bytes of `data`, the part of the file after the header, and moves it to
/// `out`. Complains about tensors that overlap or go beyond the end. They may be in any order and
/// have gaps.
void place_tensors(cursor& source, std::vector<described_tensor>& tensors,
                   std::span<const std::byte> data, std::uint64_t alignment, gguf_view& out) {
    std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
        return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
    });
    std::uint64_t end = 0;
    for (described_tensor& each : tensors) {
        source.reading("tensor " + shown(each.name));
        if (each.offset % alignment != 0)
            source.complain("begins at " + std::to_string(each.offset) +
                            ", which is no multiple of " + std::to_string(alignment));
        if (each.offset < end) source.complain("overlaps another one");
        if (each.offset > data.size() || each.bytes > data.size() - each.offset)
            source.complain("has " + std::to_string(each.bytes) + " bytes at " +
                            std::to_string(each.offset) + " of the tensors' " +
                            std::to_string(data.size()) + ": incomplete download?");
        if (source.failed()) return;
        end = each.offset + each.bytes;
        each.tensor.bytes = data.subspan(static_cast<std::size_t>(each.offset),
                                         static_cast<std::size_t>(each.bytes));
        if (!out.tensors.emplace(each.name, std::move(each.tensor)).second)
            source.complain("stands there twice");
    }
}

/// Returns: element `index` of packed numbers, which need not be aligned.
template <class T>
T element(std::span<const std::byte> packed, std::size_t index) {
    T value{};
    std::memcpy(&value, packed.data() + index * sizeof(T), sizeof(T));
    return value;
}

/// Which file of a model that is split over several this is; number 0 of 1 for a model in one file.
struct part_of {
    std::uint64_t number = 0;
    std::uint64_t count = 1;
    std::uint64_t tensors = 0;  // of all parts together
};

/// Reads the metadata `split.*` of a file. Errors: corrupt.
result<part_of> read_part(const gguf_file& file) {
    // Returns: a whole number of the metadata, `missing` where the key is not there.
    const auto read = [&](const char* key, std::uint64_t missing) -> result<std::uint64_t> {
        const auto found = file.view().metadata.find(key);
        if (found == file.view().metadata.end()) return missing;
        if (const auto* value = std::get_if<std::uint64_t>(&found->second)) return *value;
        const auto* value = std::get_if<std::int64_t>(&found->second);
        if (value != nullptr && *value >= 0) return static_cast<std::uint64_t>(*value);
        return failure{errc::corrupt,
                       file.path() + ": metadata \"" + key + "\": is no whole number from 0"};
    };
    const auto number = read("split.no", 0);
    const auto count = read("split.count", 1);
    const auto tensors = read("split.tensors.count", file.view().tensors.size());
    if (!number) return number.error();
    if (!count) return count.error();
    if (!tensors) return tensors.error();
    // Files of one part are written with a count of 0 or 1.
    part_of part{*number, std::max<std::uint64_t>(*count, 1), *tensors};
    // The names of the parts have five digits.
    if (part.count > 99999 || part.number >= part.count)
        return failure{errc::corrupt, file.path() + ": says that it is part " +
                                          std::to_string(part.number) + " of " +
                                          std::to_string(part.count)};
    return part;
}

/// Returns: the path of part `number` (from 0) of `count`: STEM-00001-of-00003.gguf counts from 1.
std::string part_path(const std::string& stem, std::uint64_t number, std::uint64_t count) {
    std::array<char, 32> ending{};
    std::snprintf(ending.data(), ending.size(), "-%05u-of-%05u.gguf",
                  static_cast<unsigned>(number + 1), static_cast<unsigned>(count));
    return stem + ending.data();
}

/// Returns: "NAME" of "NAME-00001-of-00003.gguf"; nothing where the path does not end with the
/// numbers of `part`.
std::optional<std::string> stem_of(const std::string& path, const part_of& part) {
    const std::string ending = part_path("", part.number, part.count);
    if (!path.ends_with(ending)) return std::nullopt;
    return path.substr(0, path.size() - ending.size());
}

/// Checks that no tensor is in two files and that all files together have `tensors` of them.
/// Errors: corrupt.
result<void> check_parts(const std::vector<gguf_file>& files, std::uint64_t tensors) {
    std::set<std::string_view> names;
    for (const gguf_file& file : files) {
        for (const auto& [name, tensor] : file.view().tensors) {
            if (!names.insert(name).second)
                return failure{errc::corrupt,
                               file.path() + ": tensor " + shown(name) + " is in another part too"};
        }
    }
    if (names.size() != tensors)
        return failure{errc::corrupt, files.front().path() + ": its parts have " +
                                          std::to_string(names.size()) + " tensors, it says " +
                                          std::to_string(tensors)};
    return {};
}

}  // namespace

const gguf_block_size* find_block_size(gguf_type type) noexcept {
    for (const type_row& row : types)
        if (row.type == type) return &row.size;
    return nullptr;
}

const char* to_string(gguf_value_type type) noexcept {
    return value_types[static_cast<std::size_t>(type)].name;
}

double gguf_array::number(std::size_t index) const {
    ASSERT(index < count);
    switch (type) {
        case gguf_value_type::u8:
        case gguf_value_type::boolean:
            return element<std::uint8_t>(packed, index);
        case gguf_value_type::i8:
            return element<std::int8_t>(packed, index);
        case gguf_value_type::u16:
            return element<std::uint16_t>(packed, index);
        case gguf_value_type::i16:
            return element<std::int16_t>(packed, index);
        case gguf_value_type::u32:
            return element<std::uint32_t>(packed, index);
        case gguf_value_type::i32:
            return element<std::int32_t>(packed, index);
        case gguf_value_type::f32:
            return static_cast<double>(element<float>(packed, index));
        case gguf_value_type::u64:
            return static_cast<double>(element<std::uint64_t>(packed, index));
        case gguf_value_type::i64:
            return static_cast<double>(element<std::int64_t>(packed, index));
        case gguf_value_type::f64:
            return element<double>(packed, index);
        case gguf_value_type::string:
        case gguf_value_type::array:
            break;
    }
    ASSERT(type != gguf_value_type::string && type != gguf_value_type::array);
    return 0;
}

result<gguf_view> gguf_view::parse(std::span<const std::byte> file) {
    cursor source(file);
    gguf_view view;
    const file_header header = take_header(source);
    view.version = header.version;
    for (std::uint64_t i = 0; i < header.pairs && !source.failed(); ++i) take_pair(source, view);
    std::vector<described_tensor> tensors;
    for (std::uint64_t i = 0; i < header.tensors && !source.failed(); ++i)
        tensors.push_back(take_tensor(source));
    if (source.failed()) return source.fault();
    const std::uint64_t alignment = alignment_of(source, view);
    // A file without tensors may end before the aligned offset at which their bytes would begin.
    const std::uint64_t begin =
        std::min<std::uint64_t>((source.at() + alignment - 1) / alignment * alignment, file.size());
    if (!source.failed())
        place_tensors(source, tensors, file.subspan(static_cast<std::size_t>(begin)), alignment,
                      view);
    if (source.failed()) return source.fault();
    return view;
}

result<gguf_file> gguf_file::open(const std::string& path) {
    auto mapped = mapped_file::open(path);
    if (!mapped) return mapped.error();
    auto view = gguf_view::parse(mapped->bytes());
    if (!view) return failure{view.error().code, path + ": " + view.error().what};
    return gguf_file(path, std::move(*mapped), std::move(*view));
}

bool is_gguf_path(const std::string& path) noexcept {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    return std::filesystem::is_regular_file(status) ||
           (path.ends_with(".gguf") && !std::filesystem::is_directory(status));
}

result<std::vector<gguf_file>> open_gguf(const std::string& path) {
    auto named = gguf_file::open(path);
    if (!named) return named.error();
    const auto part = read_part(*named);
    if (!part) return part.error();
    std::vector<gguf_file> files;
    if (part->count == 1) {
        files.push_back(std::move(*named));
        return files;
    }
    const auto stem = stem_of(path, *part);
    if (!stem)
        return failure{errc::incompatible,
                       path + ": is part " + std::to_string(part->number + 1) + " of " +
                           std::to_string(part->count) +
                           ", and its name does not end so (-00001-of-00002.gguf): without it the "
                           "other parts cannot be found"};
    for (std::uint64_t i = 0; i < part->count; ++i) {
        if (i == part->number) {
            files.push_back(std::move(*named));
            continue;
        }
        auto other = gguf_file::open(part_path(*stem, i, part->count));
        if (!other) return other.error();
        const auto its = read_part(*other);
        if (!its) return its.error();
        if (its->number != i || its->count != part->count || its->tensors != part->tensors)
            return failure{errc::incompatible, other->path() + ": is part " +
                                                   std::to_string(its->number + 1) + " of " +
                                                   std::to_string(its->count) +
                                                   " by its metadata, not what its name says"};
        files.push_back(std::move(*other));
    }
    if (auto ok = check_parts(files, part->tensors); !ok) return ok.error();
    return files;
}

}  // namespace semantic::storage
