// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/block_format.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "storage/pool/block_pool.hpp"
#include "storage/types/as_size.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

constexpr const char* format_name = "semantic-block";
constexpr std::string_view extension = ".safetensors";
constexpr std::string_view sliding_extension = ".sliding.safetensors";
constexpr std::string_view state_extension = ".state.safetensors";
constexpr std::size_t length_bytes = 8;  // of the header, in front of it

/// Adds the tensors of one region (K or V of a layer): one of f16 rows, or packed weights with
/// their scales and biases. `room`: rows of a head in a frame.
void add_region(std::vector<tensor_plan>& plans, const std::string& name, int layer,
                const kv_region& region, std::size_t room) {
    const std::size_t parameter_bytes = as_size(region.groups) * 2;
    if (region.bits == 16) {
        plans.push_back({name, dtype::f16, layer, region.heads, region.weights, region.row_bytes,
                         as_size(region.dim), room});
        return;
    }
    plans.push_back({name + "_weights", dtype::u32, layer, region.heads, region.weights,
                     region.row_bytes, region.row_bytes / 4, room});
    plans.push_back({name + "_scales", dtype::f16, layer, region.heads, region.scales,
                     parameter_bytes, as_size(region.groups), room});
    plans.push_back({name + "_biases", dtype::f16, layer, region.heads, region.biases,
                     parameter_bytes, as_size(region.groups), room});
}

/// Adds the two tensors of a layer's wide tail: f16 rows of keys and of values.
void add_wide(std::vector<tensor_plan>& plans, const std::string& prefix, int layer,
              const kv_layout& layout) {
    using place = tensor_plan::place;
    const kv_layer& shape = layout.layer(layer);
    const std::size_t room = as_size(layout.recipe().wide_tail), k = as_size(shape.k_dim),
                      v = as_size(shape.v_dim);
    plans.push_back({prefix + "_k_wide", dtype::f16, layer, shape.kv_heads, 0, k * 2, k, room,
                     place::wide_keys});
    plans.push_back({prefix + "_v_wide", dtype::f16, layer, shape.kv_heads, 0, v * 2, v, room,
                     place::wide_values});
}

/// Appends the number in decimal digits.
template <class Number>
void append_number(std::string& text, Number value) {
    // A number of 64 bits has at most 20 characters.
    char digits[24];
    const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), value);
    ASSERT(error == std::errc());
    text.append(digits, end);
}

const char* name_of(kv_part part) {
    if (part == kv_part::state) return "state";
    return part == kv_part::full ? "full" : "sliding";
}

/// Compares one metadata field with what is expected. Errors: corrupt where it is missing, `kind`
/// where it differs.
result<void> expect_field(const safetensors_index& index, const std::string& key,
                          const std::string& expected, errc kind) {
    const auto found = index.metadata.find(key);
    if (found == index.metadata.end()) return failure{errc::corrupt, "no metadata \"" + key + "\""};
    if (found->second != expected)
        return failure{kind, "metadata \"" + key + "\" is not that of the block asked for"};
    return {};
}

std::string join(std::span<const token_id> tokens) {
    std::string text;
    for (token_id token : tokens) {
        if (!text.empty()) text += ',';
        append_number(text, token);
    }
    return text;
}

}  // namespace

std::vector<std::int64_t> tensor_plan::shape(std::size_t tokens) const {
    return {1, heads, static_cast<std::int64_t>(rows(tokens)),
            static_cast<std::int64_t>(row_element)};
}

std::byte* tensor_plan::rows_in(const kv_block& block) const {
    if (location == place::frame) return const_cast<kv_block&>(block).frame(layer) + at;
    const wide_rows wide = block.wide()->rows(layer);
    return location == place::wide_keys ? wide.keys : wide.values;
}

std::vector<tensor_plan> plan_tensors(const kv_layout& layout, kv_part part, bool wide) {
    const std::size_t room = as_size(layout.block_tokens());
    std::vector<tensor_plan> plans;
    for (const int layer : layout.layers(part)) {
        const std::string prefix = "layer_" + std::to_string(layer);
        const char* names[] = {"_k", "_v"};
        for (std::size_t i = 0; i < layout.stored(layer).size(); ++i)
            add_region(plans, prefix + names[i], layer, layout.stored(layer)[i], room);
        if (wide) add_wide(plans, prefix, layer, layout);
    }
    return plans;
}

// --- names ---

block_hash block_name(const block_identity& block) {
    return field_hasher()
        .add(std::as_bytes(std::span(block.fingerprint.bytes)))
        .add(block.tenant_salt)
        .add(std::as_bytes(std::span(block.parent.bytes)))
        .add(std::as_bytes(block.tokens))
        .finish();
}

block_hash state_name(const block_identity& block) {
    return field_hasher()
        .add(std::as_bytes(std::span(block.fingerprint.bytes)))
        .add(block.tenant_salt)
        .add(std::as_bytes(std::span(block.parent.bytes)))
        .add(std::as_bytes(block.tokens))
        .add("state")
        .finish();
}

std::vector<block_hash> block_names(const block_hash& fingerprint, std::string_view tenant_salt,
                                    std::span<const token_id> tokens, int block_tokens) {
    std::vector<block_hash> names;
    block_hash parent;
    while (!tokens.empty()) {
        const std::size_t count = std::min(tokens.size(), as_size(block_tokens));
        parent = block_name({fingerprint, tenant_salt, parent, tokens.first(count)});
        names.push_back(parent);
        tokens = tokens.subspan(count);
    }
    return names;
}

std::string block_directory(const block_hash& name) { return "blocks/" + name.hex().substr(0, 2); }

std::string block_path(const block_hash& name, kv_part part) {
    std::string path = block_directory(name) + "/" + name.hex();
    switch (part) {
        case kv_part::full:
            return path.append(extension);
        case kv_part::sliding:
            return path.append(sliding_extension);
        case kv_part::state:
            break;
    }
    return path.append(state_extension);
}

result<std::pair<block_hash, kv_part>> parse_block_file_name(std::string_view file_name) {
    constexpr std::pair<std::string_view, kv_part> endings[] = {
        {sliding_extension, kv_part::sliding},
        {state_extension, kv_part::state},
        {extension, kv_part::full}};
    for (const auto& [ending, part] : endings) {
        if (!file_name.ends_with(ending)) continue;
        const auto name =
            block_hash::from_hex(file_name.substr(0, file_name.size() - ending.size()));
        if (!name) return name.error();
        return std::pair{*name, part};
    }
    return failure{errc::bad_value, "not a block file"};
}

// --- headers ---

std::array<std::pair<const char*, std::string>, 8> identity_fields(const block_identity& identity,
                                                                   kv_part part) {
    return {{{"fingerprint", identity.fingerprint.hex()},
             {"format", format_name},
             {"format_version", std::to_string(block_format_version)},
             {"hash", (part == kv_part::state ? state_name(identity) : block_name(identity)).hex()},
             {"layers", name_of(part)},
             {"parent", identity.parent.hex()},
             {"token_count", std::to_string(identity.tokens.size())},
             {"token_ids", join(identity.tokens)}}};
}

result<void> check_identity(const safetensors_index& index, const block_identity& expected,
                            kv_part part) {
    const auto fields = identity_fields(expected, part);
    // First the fields by which a file of another model or version is distinguished from a damaged
    // one.
    for (const std::string_view first : {"format", "format_version", "fingerprint"})
        for (const auto& [key, value] : fields)
            if (key == first)
                if (auto ok = expect_field(index, key, value, errc::incompatible); !ok) return ok;
    // Now the others; the three above are equal already.
    for (const auto& [key, value] : fields)
        if (auto ok = expect_field(index, key, value, errc::corrupt); !ok) return ok;
    return {};
}

block_format::block_format(const kv_layout& layout, kv_part part)
    : layout_(layout),
      part_(part),
      lists_{list_of(layout, part, false), list_of(layout, part, layout.has_wide_tail())},
      full_(ending(lists_[0], as_size(layout.block_tokens()))) {}

/// Returns: the tensors of a part, and their order by name, in which metadata are written.
block_format::tensor_list block_format::list_of(const kv_layout& layout, kv_part part, bool wide) {
    tensor_list list{plan_tensors(layout, part, wide), {}};
    list.by_name.resize(list.plans.size());
    std::iota(list.by_name.begin(), list.by_name.end(), std::size_t{0});
    std::ranges::sort(list.by_name, {}, [&](std::size_t i) { return list.plans[i].name; });
    return list;
}

std::uint64_t block_format::file_bytes_max(std::size_t tokens) const {
    // The header without its tensors is below 1 KiB; an entry of a tensor with its checksum is
    // below 320 bytes; a token id takes at most 11 digits and a comma.
    constexpr std::uint64_t fixed_bytes = 1024, tensor_header_bytes = 320, token_header_bytes = 12;
    std::uint64_t bytes = fixed_bytes + tokens * token_header_bytes;
    for (const tensor_plan& plan : lists_[1].plans)
        bytes += tensor_header_bytes + plan.bytes(tokens);
    return bytes;
}

/// Returns: the header after the identity's fields: places for the checksums, then the tensors with
/// their offsets; without padding. `digits` are offsets into it.
block_format::header block_format::ending(const tensor_list& list, std::size_t tokens) {
    constexpr const char* no_digits = "0000000000000000";
    header end;
    std::string& text = end.bytes;
    end.digits.resize(list.plans.size());
    for (const std::size_t i : list.by_name) {
        text.append(",\"").append(list.plans[i].checksum_key()).append("\":\"");
        end.digits[i] = text.size();
        text.append(no_digits) += '"';
    }
    text += '}';
    for (const tensor_plan& plan : list.plans) {
        text.append(",\"").append(plan.name).append("\":{\"dtype\":\"");
        text.append(to_string(plan.type)).append("\",\"shape\":[1,");
        append_number(text, plan.heads);
        append_number(text += ',', plan.rows(tokens));
        append_number(text += ',', plan.row_element);
        append_number(text.append("],\"data_offsets\":["), end.data_bytes);
        end.data_bytes += plan.bytes(tokens);
        append_number(text += ',', end.data_bytes);
        text.append("]}");
    }
    text += '}';
    return end;
}

block_format::header block_format::header_of(const block_identity& identity, bool wide) const {
    const std::size_t tokens = identity.tokens.size();
    ASSERT(tokens >= 1 && tokens <= as_size(layout_.block_tokens()));
    header partial;
    const bool full = tokens == as_size(layout_.block_tokens());
    ASSERT(!wide || may_be_wide(tokens));
    if (!full) partial = ending(lists_[wide ? 1 : 0], tokens);
    const header& end = full ? full_ : partial;
    header whole{std::string(length_bytes, '\0'), end.digits, end.data_bytes};
    std::string& text = whole.bytes;
    text += "{\"__metadata__\":{";
    for (const auto& [key, value] : identity_fields(identity, part_)) {
        if (text.back() != '{') text += ',';
        text.append("\"").append(key).append("\":\"").append(value) += '"';
    }
    // ending() counted from its own beginning.
    for (std::size_t& at : whole.digits) at += text.size();
    text += end.bytes;
    // Blanks up to a multiple of 8 bytes, then the length in front, little-endian.
    text.resize((text.size() + 7) / 8 * 8, ' ');
    for (std::size_t i = 0; i < length_bytes; ++i)
        text[i] = static_cast<char>((text.size() - length_bytes) >> (8 * i) & 0xff);
    return whole;
}

}  // namespace semantic::storage
