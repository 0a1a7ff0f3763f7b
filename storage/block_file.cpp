#include "storage/block_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "storage/checksum.hpp"
#include "storage/safetensors.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

static_assert(std::endian::native == std::endian::little,
              "block files are little-endian and are read in place");

constexpr const char* format_name = "semantic-block";
constexpr std::string_view extension = ".safetensors";
constexpr std::string_view sliding_extension = ".sliding.safetensors";

std::size_t as_size(int value) { return static_cast<std::size_t>(value); }

void add_region(std::vector<tensor_plan>& plans, const std::string& name, int layer,
                const kv_region& region, int bits) {
    const std::size_t parameter_bytes = as_size(region.groups) * 2;
    if (bits == 16) {
        plans.push_back({name, dtype::f16, layer, region.heads, region.weights, region.row_bytes,
                         as_size(region.dim)});
        return;
    }
    plans.push_back({name + "_weights", dtype::u32, layer, region.heads, region.weights,
                     region.row_bytes, region.row_bytes / 4});
    plans.push_back({name + "_scales", dtype::f16, layer, region.heads, region.scales,
                     parameter_bytes, as_size(region.groups)});
    plans.push_back({name + "_biases", dtype::f16, layer, region.heads, region.biases,
                     parameter_bytes, as_size(region.groups)});
}

}  // namespace

std::vector<tensor_plan> plan_tensors(const kv_layout& layout, kv_part part) {
    std::vector<tensor_plan> plans;
    for (const int layer : layout.layers(part)) {
        const std::string prefix = "layer_" + std::to_string(layer);
        const char* names[] = {"_k", "_v"};
        for (std::size_t i = 0; i < layout.stored(layer).size(); ++i)
            add_region(plans, prefix + names[i], layer, layout.stored(layer)[i],
                       layout.recipe().bits);
    }
    return plans;
}

namespace {

std::vector<std::int64_t> shape_of(const tensor_plan& plan, std::size_t tokens) {
    return {1, plan.heads, static_cast<std::int64_t>(tokens),
            static_cast<std::int64_t>(plan.row_element)};
}

/// The rows of the first `tokens` tokens of one head: contiguous in a frame and in a file.
std::size_t head_offset(const tensor_plan& plan, const kv_layout& layout, int head) {
    return plan.at + as_size(head) * as_size(layout.block_tokens()) * plan.row_bytes;
}

std::string join(std::span<const token_id> tokens) {
    std::string text;
    for (token_id token : tokens) {
        if (!text.empty()) text += ',';
        text += std::to_string(token);
    }
    return text;
}

std::map<std::string, std::string, std::less<>> identity_metadata(const block_identity& identity,
                                                                  kv_part part) {
    return {{"format", format_name},
            {"format_version", std::to_string(block_format_version)},
            {"layers", part == kv_part::full ? "full" : "sliding"},
            {"fingerprint", identity.fingerprint.hex()},
            {"hash", block_name(identity).hex()},
            {"parent", identity.parent.hex()},
            {"token_count", std::to_string(identity.tokens.size())},
            {"token_ids", join(identity.tokens)}};
}

std::string checksum_key(const tensor_plan& plan) { return "xxh3_64." + plan.name; }

/// The bytes of one tensor: straight from the frame when the block is full, else gathered in
/// `scratch`.
std::span<const std::byte> tensor_bytes(const tensor_plan& plan, const kv_layout& layout,
                                        const kv_block& block, std::size_t tokens,
                                        std::byte* scratch) {
    const std::byte* frame = block.frame(plan.layer);
    const std::size_t head_bytes = tokens * plan.row_bytes;
    if (tokens == as_size(layout.block_tokens()))
        return {frame + plan.at, as_size(plan.heads) * head_bytes};
    for (int head = 0; head < plan.heads; ++head)
        std::memcpy(scratch + as_size(head) * head_bytes, frame + head_offset(plan, layout, head),
                    head_bytes);
    return {scratch, as_size(plan.heads) * head_bytes};
}

/// Compares one metadata field. Errors: `kind`.
result<void> expect_field(const safetensors_index& index, const std::string& key,
                          const std::string& expected, errc kind) {
    const auto found = index.metadata.find(key);
    if (found == index.metadata.end()) return failure{errc::corrupt, "no metadata \"" + key + "\""};
    if (found->second != expected)
        return failure{kind, "metadata \"" + key + "\" is not that of the block asked for"};
    return {};
}

/// Everything that can be checked before a byte of KV is read.
result<void> check_index(const safetensors_index& index, const block_identity& expected,
                         kv_part part, const std::vector<tensor_plan>& plans) {
    const auto fields = identity_metadata(expected, part);
    for (const char* key : {"format", "format_version", "fingerprint"})
        if (auto ok = expect_field(index, key, fields.at(key), errc::incompatible); !ok) return ok;
    for (const auto& [key, value] : fields)
        if (auto ok = expect_field(index, key, value, errc::corrupt); !ok) return ok;
    if (index.tensors.size() != plans.size())
        return failure{errc::corrupt, "it holds " + std::to_string(index.tensors.size()) +
                                          " tensors, the model has " +
                                          std::to_string(plans.size())};
    for (const tensor_plan& plan : plans) {
        const auto found = index.tensors.find(plan.name);
        if (found == index.tensors.end())
            return failure{errc::corrupt, "no tensor \"" + plan.name + "\""};
        if (found->second.type != plan.type ||
            found->second.shape != shape_of(plan, expected.tokens.size()))
            return failure{errc::corrupt, "tensor \"" + plan.name + "\" has the wrong shape"};
        if (!index.metadata.contains(checksum_key(plan)))
            return failure{errc::corrupt, "tensor \"" + plan.name + "\" has no checksum"};
    }
    return {};
}

/// Reads one tensor into its frame and compares its checksum.
result<void> read_tensor(readable_file& file, const safetensors_index& index,
                         const tensor_plan& plan, const kv_layout& layout, std::size_t tokens,
                         kv_block& block) {
    const std::uint64_t begin = index.tensors.find(plan.name)->second.begin;
    // A full block's heads lie side by side in the frame as in the file: one read.
    const bool full = tokens == as_size(layout.block_tokens());
    const int pieces = full ? 1 : plan.heads;
    const std::size_t piece_bytes = tokens * plan.row_bytes * (full ? as_size(plan.heads) : 1);
    checksum64 checksum;
    for (int piece = 0; piece < pieces; ++piece) {
        const std::span<std::byte> into(block.frame(plan.layer) + head_offset(plan, layout, piece),
                                        piece_bytes);
        if (auto read = file.read_at(begin + as_size(piece) * piece_bytes, into); !read)
            return read.error();
        checksum.add(into);
    }
    if (checksum.hex() != index.metadata.find(checksum_key(plan))->second)
        return failure{errc::corrupt, "the checksum of tensor \"" + plan.name + "\" is wrong"};
    return {};
}

}  // namespace

block_hash block_name(const block_identity& block) {
    return field_hasher()
        .add(std::as_bytes(std::span(block.fingerprint.bytes)))
        .add(block.tenant_salt)
        .add(std::as_bytes(std::span(block.parent.bytes)))
        .add(std::as_bytes(block.tokens))
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
    return path.append(part == kv_part::full ? extension : sliding_extension);
}

result<std::pair<block_hash, kv_part>> parse_block_file_name(std::string_view file_name) {
    const bool sliding = file_name.ends_with(sliding_extension);
    const std::string_view expected = sliding ? sliding_extension : extension;
    if (!file_name.ends_with(expected)) return failure{errc::bad_value, "not a block file"};
    const auto name = block_hash::from_hex(file_name.substr(0, file_name.size() - expected.size()));
    if (!name) return name.error();
    return std::pair{*name, sliding ? kv_part::sliding : kv_part::full};
}

std::uint64_t block_file_bytes_max(const kv_layout& layout, kv_part part, std::size_t tokens) {
    // What the header holds beside tensors is below 1 KiB; an entry of a tensor, its checksum
    // included, below 320 bytes; a token id below 11 digits and a comma.
    constexpr std::uint64_t fixed_bytes = 1024, tensor_header_bytes = 320, token_header_bytes = 12;
    std::uint64_t bytes = fixed_bytes + tokens * token_header_bytes;
    for (const tensor_plan& plan : plan_tensors(layout, part))
        bytes += tensor_header_bytes + as_size(plan.heads) * tokens * plan.row_bytes;
    return bytes;
}

result<std::uint64_t> write_block_file(file_system& files, const std::string& path,
                                       const block_identity& identity, const kv_layout& layout,
                                       const kv_block& block) {
    const std::size_t tokens = identity.tokens.size();
    ASSERT(tokens >= 1 && tokens <= as_size(layout.block_tokens()));
    const auto plans = plan_tensors(layout, block.part());
    std::size_t gathered_bytes = 0;
    if (tokens < as_size(layout.block_tokens()))
        for (const tensor_plan& plan : plans)
            gathered_bytes += as_size(plan.heads) * tokens * plan.row_bytes;

    std::vector<std::byte> gathered(gathered_bytes);
    std::byte* scratch = gathered.data();
    auto metadata = identity_metadata(identity, block.part());
    std::vector<tensor_to_write> tensors;
    for (const tensor_plan& plan : plans) {
        const auto bytes = tensor_bytes(plan, layout, block, tokens, scratch);
        if (!gathered.empty()) scratch += bytes.size();
        checksum64 checksum;
        checksum.add(bytes);
        metadata[checksum_key(plan)] = checksum.hex();
        tensors.push_back({plan.name, plan.type, shape_of(plan, tokens), bytes});
    }

    auto file = files.create(path);
    if (!file) return file.error();
    const std::string header = safetensors_header(tensors, metadata);
    std::uint64_t written = header.size();
    if (auto ok = (*file)->write(std::as_bytes(std::span(header))); !ok) return ok.error();
    if (!gathered.empty()) {
        if (auto ok = (*file)->write(gathered); !ok) return ok.error();
        written += gathered.size();
    } else {
        for (const tensor_to_write& tensor : tensors) {
            if (auto ok = (*file)->write(tensor.bytes); !ok) return ok.error();
            written += tensor.bytes.size();
        }
    }
    if (auto ok = (*file)->sync(); !ok) return ok.error();
    return written;
}

result<block_read> read_block_file(file_system& files, const std::string& path,
                                   const block_identity& expected, kv_part part, block_pool& pool) {
    const auto at_path = [&path](const failure& f) {
        // Errors of the file system name the path already.
        if (f.what.starts_with(path)) return f;
        return failure{f.code, path + ": " + f.what};
    };
    auto file = files.open(path);
    if (!file) return at_path(file.error());
    const auto file_bytes = (*file)->size();
    if (!file_bytes) return at_path(file_bytes.error());
    const auto index = safetensors_index::read(**file, *file_bytes);
    if (!index) return at_path(index.error());
    const auto plans = plan_tensors(pool.layout(), part);
    if (auto ok = check_index(*index, expected, part, plans); !ok) return at_path(ok.error());

    auto block = kv_block::make(pool, part);
    if (!block) return at_path(block.error());
    for (const tensor_plan& plan : plans) {
        const auto ok =
            read_tensor(**file, *index, plan, pool.layout(), expected.tokens.size(), **block);
        if (!ok) return at_path(ok.error());
    }
    return block_read{std::move(*block), *file_bytes};
}

}  // namespace semantic::storage
