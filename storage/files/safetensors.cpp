// SPDX-License-Identifier: Apache-2.0
#include "storage/files/safetensors.hpp"

#include <boost/json/object.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "storage/files/strict_json.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

namespace json = boost::json;

constexpr std::size_t prefix_bytes = 8;
// The limit of the reference reader: a larger header is a damaged length, not a model.
constexpr std::uint64_t header_bytes_max = 100'000'000;

struct dtype_row {
    dtype type;
    const char* name;
    std::size_t bytes;
};
constexpr std::array<dtype_row, 13> dtypes = {{
    {dtype::f64, "F64", 8},
    {dtype::f32, "F32", 4},
    {dtype::f16, "F16", 2},
    {dtype::bf16, "BF16", 2},
    {dtype::i64, "I64", 8},
    {dtype::i32, "I32", 4},
    {dtype::i16, "I16", 2},
    {dtype::i8, "I8", 1},
    {dtype::u64, "U64", 8},
    {dtype::u32, "U32", 4},
    {dtype::u16, "U16", 2},
    {dtype::u8, "U8", 1},
    {dtype::boolean, "BOOL", 1},
}};

failure corrupt(std::string message) { return {errc::corrupt, std::move(message)}; }

std::optional<dtype> dtype_of(std::string_view name) {
    for (const dtype_row& row : dtypes)
        if (name == row.name) return row.type;
    return std::nullopt;
}

std::optional<std::uint64_t> as_unsigned(const json::value& value) {
    if (value.is_uint64()) return value.get_uint64();
    if (value.is_int64() && value.get_int64() >= 0)
        return static_cast<std::uint64_t>(value.get_int64());
    return std::nullopt;
}

std::string_view as_view(const json::string& text) { return {text.data(), text.size()}; }
std::string_view as_view(json::string_view text) { return {text.data(), text.size()}; }

/// Reads "shape" into `tensor`. Returns: how many bytes a tensor of this shape and type has.
/// Errors: corrupt.
result<std::uint64_t> parse_shape(const json::value* shape, tensor_place& tensor) {
    if (shape == nullptr || !shape->is_array()) return corrupt("no shape");
    std::uint64_t bytes = dtype_bytes(tensor.type);
    for (const json::value& extent : shape->get_array()) {
        const auto count = as_unsigned(extent);
        if (!count || *count > static_cast<std::uint64_t>(INT64_MAX))
            return corrupt("a shape entry is not a count");
        if (__builtin_mul_overflow(bytes, *count, &bytes)) return corrupt("the shape overflows");
        tensor.shape.push_back(static_cast<std::int64_t>(*count));
    }
    return bytes;
}

/// Reads the entry of one tensor in the header. Its offsets count from the end of the header;
/// `data_bytes`: bytes of the file after that. Errors: corrupt.
result<tensor_place> parse_tensor(const json::value& entry, std::uint64_t data_bytes) {
    if (!entry.is_object()) return corrupt("its entry is not an object");
    const json::object& fields = entry.get_object();
    const json::value* type = fields.if_contains("dtype");
    if (type == nullptr || !type->is_string()) return corrupt("no dtype");
    const auto known = dtype_of(as_view(type->get_string()));
    if (!known)
        return corrupt("unknown dtype \"" + std::string(as_view(type->get_string())) + "\"");

    tensor_place tensor;
    tensor.type = *known;
    const auto needed = parse_shape(fields.if_contains("shape"), tensor);
    if (!needed) return needed.error();

    const json::value* offsets = fields.if_contains("data_offsets");
    if (offsets == nullptr || !offsets->is_array() || offsets->get_array().size() != 2)
        return corrupt("data_offsets is not a pair");
    const auto begin = as_unsigned(offsets->get_array()[0]);
    const auto end = as_unsigned(offsets->get_array()[1]);
    if (!begin || !end || *begin > *end) return corrupt("data_offsets is not a range");
    if (*end > data_bytes)
        return corrupt("it ends at data byte " + std::to_string(*end) + ", the file has " +
                       std::to_string(data_bytes) + ": incomplete download?");
    if (*end - *begin != *needed)
        return corrupt("its shape needs " + std::to_string(*needed) + " bytes, data_offsets give " +
                       std::to_string(*end - *begin));
    tensor.begin = *begin;
    tensor.end = *end;
    return tensor;
}

result<void> parse_metadata(const json::value& entry,
                            std::map<std::string, std::string, std::less<>>& metadata) {
    if (!entry.is_object()) return corrupt("__metadata__ is not an object");
    for (const auto& [key, value] : entry.get_object()) {
        if (!value.is_string())
            return corrupt("__metadata__ \"" + std::string(as_view(key)) + "\" is not a string");
        metadata.emplace(as_view(key), as_view(value.get_string()));
    }
    return {};
}

/// Sorts the tensors by their bytes and checks that they cover the data without an overlap, a gap
/// or bytes after the last one. Errors: corrupt.
result<void> check_coverage(std::vector<std::pair<std::string, tensor_place>>& tensors,
                            std::uint64_t data_bytes) {
    std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.begin, a.second.end) < std::pair(b.second.begin, b.second.end);
    });
    std::uint64_t covered = 0;
    for (const auto& [name, tensor] : tensors) {
        if (tensor.begin < covered)
            return corrupt("tensor \"" + name + "\" overlaps the one before it");
        if (tensor.begin > covered)
            return corrupt("nothing describes the bytes before tensor \"" + name + "\"");
        covered = tensor.end;
    }
    if (covered != data_bytes)
        return corrupt("the tensors cover " + std::to_string(covered) + " bytes, the file has " +
                       std::to_string(data_bytes));
    return {};
}

std::uint64_t load_le64(std::span<const std::byte> bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = prefix_bytes; i-- > 0;)
        value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
    return value;
}

}  // namespace

std::size_t dtype_bytes(dtype type) noexcept {
    for (const dtype_row& row : dtypes)
        if (row.type == type) return row.bytes;
    return 0;
}

const char* to_string(dtype type) noexcept {
    for (const dtype_row& row : dtypes)
        if (row.type == type) return row.name;
    return "unknown";
}

result<std::size_t> safetensors_index::bytes_needed(std::span<const std::byte> start,
                                                    std::uint64_t file_bytes) {
    if (file_bytes < prefix_bytes || start.size() < prefix_bytes)
        return corrupt("the file has " + std::to_string(file_bytes) +
                       " bytes, a safetensors file starts with 8: incomplete download?");
    const std::uint64_t header_bytes = load_le64(start);
    if (header_bytes > header_bytes_max)
        return corrupt("the header length is " + std::to_string(header_bytes) +
                       ", more than 100000000: not a safetensors file");
    if (header_bytes > file_bytes - prefix_bytes)
        return corrupt("the header says " + std::to_string(header_bytes) + " bytes, the file has " +
                       std::to_string(file_bytes - prefix_bytes) + ": incomplete download?");
    return prefix_bytes + static_cast<std::size_t>(header_bytes);
}

result<safetensors_index> safetensors_index::read(readable_file& file, std::uint64_t file_bytes) {
    std::vector<std::byte> start(
        static_cast<std::size_t>(std::min<std::uint64_t>(file_bytes, prefix_bytes)));
    if (auto ok = file.read_at(0, start); !ok) return ok.error();
    const auto needed = bytes_needed(start, file_bytes);
    if (!needed) return needed.error();
    // The first 8 bytes are kept and not read again: the file may change meanwhile, and the header
    // must have the length that was checked.
    start.resize(*needed);
    if (auto ok = file.read_at(prefix_bytes, std::span(start).subspan(prefix_bytes)); !ok)
        return ok.error();
    return parse(start, file_bytes);
}

result<safetensors_index> safetensors_index::parse(std::span<const std::byte> start,
                                                   std::uint64_t file_bytes) {
    const auto data_at = bytes_needed(start, file_bytes);
    if (!data_at) return data_at.error();
    if (start.size() < *data_at)
        return corrupt("the header needs " + std::to_string(*data_at) + " bytes, " +
                       std::to_string(start.size()) + " are at hand");
    const std::uint64_t data_bytes = file_bytes - *data_at;
    const std::string_view text(reinterpret_cast<const char*>(start.data()) + prefix_bytes,
                                *data_at - prefix_bytes);
    if (!text.starts_with('{')) return corrupt("the header does not start with {");
    const auto header = parse_strict_json(text);
    if (!header) return failure{errc::corrupt, "header: " + header.error().what};

    safetensors_index index;
    std::vector<std::pair<std::string, tensor_place>> tensors;
    // It is an object, since the text begins with '{'.
    for (const auto& [key, entry] : header->get_object()) {
        const std::string name(as_view(key));
        if (name == "__metadata__") {
            if (auto ok = parse_metadata(entry, index.metadata); !ok) return ok.error();
            continue;
        }
        auto tensor = parse_tensor(entry, data_bytes);
        if (!tensor) return corrupt("tensor \"" + name + "\": " + tensor.error().what);
        tensors.emplace_back(name, std::move(*tensor));
    }
    if (auto ok = check_coverage(tensors, data_bytes); !ok) return ok.error();
    for (auto& [name, tensor] : tensors) {
        tensor.begin += *data_at;
        tensor.end += *data_at;
        index.tensors.emplace(std::move(name), std::move(tensor));
    }
    return index;
}

result<safetensors_view> safetensors_view::parse(std::span<const std::byte> file) {
    auto index = safetensors_index::parse(file, file.size());
    if (!index) return index.error();
    safetensors_view view;
    view.metadata = std::move(index->metadata);
    for (auto& [name, place] : index->tensors) {
        const auto bytes = file.subspan(static_cast<std::size_t>(place.begin),
                                        static_cast<std::size_t>(place.end - place.begin));
        view.tensors.emplace(name, tensor_view{place.type, std::move(place.shape), bytes});
    }
    return view;
}

result<safetensors_file> safetensors_file::open(const std::string& path) {
    auto mapped = mapped_file::open(path);
    if (!mapped) return mapped.error();
    auto view = safetensors_view::parse(mapped->bytes());
    if (!view) return failure{view.error().code, path + ": " + view.error().what};
    return safetensors_file(std::move(*mapped), std::move(*view));
}

std::string safetensors_header(std::span<const tensor_to_write> tensors,
                               const std::map<std::string, std::string, std::less<>>& metadata) {
    std::string text = "{";
    if (!metadata.empty()) {
        text += "\"__metadata__\":{";
        for (const auto& [key, value] : metadata) {
            if (text.back() != '{') text += ',';
            append_json_string(text, key);
            text += ':';
            append_json_string(text, value);
        }
        text += '}';
    }
    std::uint64_t offset = 0;
    for (const tensor_to_write& tensor : tensors) {
        std::uint64_t needed = dtype_bytes(tensor.type);
        if (text.back() != '{') text += ',';
        append_json_string(text, tensor.name);
        text += std::string(":{\"dtype\":\"") + to_string(tensor.type) + "\",\"shape\":[";
        for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
            ASSERT(tensor.shape[i] >= 0);
            needed *= static_cast<std::uint64_t>(tensor.shape[i]);
            if (i != 0) text += ',';
            text += std::to_string(tensor.shape[i]);
        }
        ASSERT(tensor.bytes.data() == nullptr || needed == tensor.bytes.size());
        text += "],\"data_offsets\":[" + std::to_string(offset) + ',' +
                std::to_string(offset + needed) + "]}";
        offset += needed;
    }
    text += '}';
    // Blanks, so that the tensors begin at a multiple of 8 bytes.
    text.resize((text.size() + 7) / 8 * 8, ' ');

    std::string header;
    for (std::size_t i = 0; i < prefix_bytes; ++i)
        header += static_cast<char>(static_cast<std::uint64_t>(text.size()) >> (8 * i) & 0xff);
    return header + text;
}

}  // namespace semantic::storage
