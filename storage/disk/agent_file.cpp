// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/agent_file.hpp"

#include <algorithm>
#include <charconv>

#include "storage/disk/block_format.hpp"
#include "storage/disk/manifest.hpp"
#include "storage/files/checksum.hpp"
#include "storage/files/safetensors.hpp"
#include "storage/files/utf8.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/types/as_size.hpp"
#include "storage/types/assert.hpp"
#include "storage/types/hex.hpp"

namespace semantic::storage {

namespace {

constexpr const char* agent_format_name = "semantic-agent-cache";
constexpr const char* agent_format_version = "1";
constexpr std::string_view note_prefix = "note.";
constexpr const char* metadata_sum = "xxh3_128.metadata";

using metadata_map = std::map<std::string, std::string, std::less<>>;

failure corrupt(std::string message) { return {errc::corrupt, std::move(message)}; }

template <class Numbers>
std::string join(const Numbers& numbers) {
    std::string text;
    for (const auto each : numbers) {
        if (!text.empty()) text += ',';
        text += std::to_string(each);
    }
    return text;
}

/// Reads a list of numbers separated by commas; `name` is for the message. Errors: corrupt, when
/// the text is not `count` whole numbers from 0 to 2^31 - 1.
result<std::vector<std::int32_t>> split(std::string_view text, std::size_t count,
                                        const char* name) {
    std::vector<std::int32_t> numbers;
    while (!text.empty() && numbers.size() <= count) {
        std::int32_t value = -1;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const auto used = static_cast<std::size_t>(end - text.data());
        if (error != std::errc() || value < 0 || (used < text.size() && text[used] != ','))
            return corrupt(std::string(name) + " is not a list of whole numbers");
        numbers.push_back(value);
        text.remove_prefix(std::min(text.size(), used + 1));
    }
    if (numbers.size() == count) return numbers;
    return corrupt(std::string(name) + " does not have " + std::to_string(count) + " entries");
}

/// Adds a value of any bytes under `key`. Metadata of safetensors are UTF-8, so other bytes are
/// written as hex digits under "KEY.hex".
void put_bytes(metadata_map& metadata, const std::string& key, std::string_view bytes) {
    if (utf8::is_valid(bytes)) {
        metadata[key] = bytes;
        return;
    }
    std::string& hex = metadata[key + ".hex"];
    for (char each : bytes) append_hex(hex, each);
}

/// Returns: the value of `key`. Errors: corrupt, when there is none.
result<std::string> field(const metadata_map& metadata, const std::string& key) {
    const auto found = metadata.find(key);
    if (found == metadata.end()) return corrupt("no metadata \"" + key + "\"");
    return found->second;
}

/// Returns: a value that put_bytes() wrote. Errors: corrupt.
result<std::string> bytes_field(const metadata_map& metadata, const std::string& key) {
    const auto found = metadata.find(key + ".hex");
    if (found == metadata.end()) return field(metadata, key);
    auto bytes = bytes_of_hex(found->second);
    if (!bytes) return corrupt(key + " is not hex");
    return std::move(*bytes);
}

/// Returns: the checksum of all metadata but its own, as hex digits: over every key and value in
/// the order of the keys, each preceded by its length.
std::string sum_of(const metadata_map& metadata) {
    field_hasher hasher;
    for (const auto& [key, value] : metadata)
        if (key != metadata_sum) hasher.add(key).add(value);
    return hasher.finish().hex();
}

kv_part part_of(const kv_layout& layout, int layer) {
    return layout.layer(layer).window == 0 ? kv_part::full : kv_part::sliding;
}

/// The tensors of all layers, in the order of the layers.
std::vector<tensor_plan> all_tensors(const kv_layout& layout, bool wide) {
    std::vector<tensor_plan> plans = plan_tensors(layout, kv_part::full, wide);
    const std::vector<tensor_plan> sliding = plan_tensors(layout, kv_part::sliding, wide);
    plans.insert(plans.end(), sliding.begin(), sliding.end());
    std::stable_sort(plans.begin(), plans.end(),
                     [](const tensor_plan& a, const tensor_plan& b) { return a.layer < b.layer; });
    return plans;
}

/// Calls `visit(block index, offset from plan.rows_in() of that block, byte count)` for each piece
/// of a tensor, in the order of the file: head by head, and for each head block by block, because a
/// tensor of the file joins what all blocks hold of a layer. `tokens`: of the whole agent. Returns
/// the first failure of `visit`, after which it is not called again.
template <class Visit>
result<void> visit_pieces(const tensor_plan& plan, int block_tokens, std::size_t tokens,
                          Visit visit) {
    const std::size_t all_rows = plan.rows(tokens);
    const std::size_t last_block = (tokens - 1) / as_size(block_tokens);
    for (int head = 0; head < plan.heads; ++head)
        for (std::size_t begin = 0; begin < all_rows; begin += plan.room) {
            const std::size_t rows = std::min(plan.room, all_rows - begin);
            const std::size_t at = as_size(head) * plan.room * plan.row_bytes;
            // A wide tail has one piece, which belongs to the last block.
            const std::size_t block =
                plan.location == tensor_plan::place::frame ? begin / plan.room : last_block;
            if (auto ok = visit(block, at, rows * plan.row_bytes); !ok) return ok;
        }
    return {};
}

/// Whether the state ends inside a group of its recipe and the last block has the f16 rows of that
/// group (its wide tail) in every part.
bool has_wide_tail(const agent_state& state, const kv_layout& layout) {
    const auto tokens = static_cast<int>(state.tokens.size());
    if (layout.group_start(tokens) == tokens) return false;
    return std::ranges::all_of(kv_parts, [&](kv_part part) {
        if (layout.layers(part).empty()) return true;
        const auto& block = state.blocks.back().at(part);
        return block != nullptr && block->wide_end() == tokens % layout.block_tokens();
    });
}

/// Returns: the name of the KV recipe; empty for one without a name (groups of another size).
std::string recipe_of(const kv_layout& layout) { return std::string(name_of(layout.recipe())); }

std::string state_tensor(const kept_state& kept) { return "state_" + std::to_string(kept.tokens); }

std::string state_checksum_key(const kept_state& kept) { return "xxh3_64." + state_tensor(kept); }

/// Adds the positions of the recurrent states, in tokens, and which of them are roots.
void put_states(const agent_state& state, metadata_map& metadata) {
    if (state.states.empty()) return;
    std::vector<std::uint32_t> places, roots;
    for (const kept_state& each : state.states) {
        places.push_back(each.tokens);
        roots.push_back(each.is_root ? 1 : 0);
    }
    metadata["state_places"] = join(places);
    metadata["state_roots"] = join(roots);
}

/// Reads what put_states() wrote into `state.states`, without the states' bytes. `tokens`: of the
/// agent. Errors: corrupt.
result<void> read_states(const metadata_map& metadata, std::size_t tokens, agent_state& state) {
    if (!metadata.contains("state_places")) return {};
    const auto places = field(metadata, "state_places");
    // `places` is there: contains() was true.
    const auto count = static_cast<std::size_t>(std::ranges::count(*places, ',')) + 1;
    if (count > kept_states_max)
        return corrupt("state_places has " + std::to_string(count) + " entries, at most " +
                       std::to_string(kept_states_max) + " are possible");
    const auto numbers = split(*places, count, "state_places");
    if (!numbers) return numbers.error();
    const auto roots_text = field(metadata, "state_roots");
    if (!roots_text) return roots_text.error();
    const auto roots = split(*roots_text, count, "state_roots");
    if (!roots) return roots.error();
    std::uint32_t before = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto place = static_cast<std::uint32_t>((*numbers)[i]);
        if (place <= before || place > tokens)
            return corrupt("state_places is not a list of places that ascend within the tokens");
        if ((*roots)[i] > 1) return corrupt("state_roots has a kind that is none");
        state.states.push_back({place, (*roots)[i] == 1});
        before = place;
    }
    return {};
}

/// Returns: the metadata of an agent's file but for its recurrent states and the checksums.
metadata_map metadata_of(const agent_state& state, const block_hash& fingerprint,
                         const std::string& recipe) {
    std::vector<std::uint32_t> lengths;
    std::uint32_t before = 0;
    for (std::uint32_t end : state.token_ends) {
        lengths.push_back(end - before);
        before = end;
    }
    metadata_map metadata = {{"format", agent_format_name},
                             {"format_version", agent_format_version},
                             {"fingerprint", fingerprint.hex()},
                             {"agent", state.id.str()},
                             {"token_count", std::to_string(state.tokens.size())},
                             {"token_ids", join(state.tokens)},
                             {"token_bytes", join(lengths)}};
    if (!recipe.empty()) metadata["kv_recipe"] = recipe;
    put_bytes(metadata, "text", state.text);
    for (const auto& [key, value] : state.notes)
        // The keys of metadata are UTF-8, so a note under any other key cannot be written.
        if (utf8::is_valid(key)) put_bytes(metadata, std::string(note_prefix) + key, value);
    return metadata;
}

/// Compares format, version, recipe and fingerprint with this server's. The recipe comes before the
/// fingerprint, so that the message names what differs; files of older programs have none. Errors:
/// corrupt, incompatible.
result<void> check_format(const metadata_map& metadata, const block_hash& fingerprint,
                          const std::string& recipe) {
    const std::pair<const char*, std::string> expected[] = {
        {"format", agent_format_name},
        {"format_version", agent_format_version},
        {"kv_recipe", recipe},
        {"fingerprint", fingerprint.hex()}};
    for (const auto& [key, value] : expected) {
        if (key == std::string_view("kv_recipe") && !metadata.contains(key)) continue;
        const auto found = field(metadata, key);
        if (!found) return found.error();
        if (*found != value)
            return failure{errc::incompatible, std::string("its ") + key + " is " + *found +
                                                   ", this server's is " + value};
    }
    return {};
}

/// The number of tokens that the file's metadata has. Errors: it is missing or no number.
result<std::size_t> token_count_of(const metadata_map& metadata) {
    const auto text = field(metadata, "token_count");
    if (!text) return text.error();
    const auto counted = split(*text, 1, "token_count");
    if (!counted) return counted.error();
    const auto count = static_cast<std::size_t>(counted->front());
    if (count >= 1 && count <= manifest_tokens_max) return count;
    return corrupt("token_count is " + *text + ", 1 to " + std::to_string(manifest_tokens_max) +
                   " are possible");
}

/// Reads tokens, text, token ends and notes into `state`. `count`: its tokens. Errors: corrupt.
result<void> read_words(const metadata_map& metadata, std::size_t count, agent_state& state) {
    const auto ids = field(metadata, "token_ids");
    if (!ids) return ids.error();
    auto tokens = split(*ids, count, "token_ids");
    if (!tokens) return tokens.error();
    state.tokens = std::move(*tokens);
    const auto lengths_text = field(metadata, "token_bytes");
    if (!lengths_text) return lengths_text.error();
    const auto lengths = split(*lengths_text, count, "token_bytes");
    if (!lengths) return lengths.error();
    auto text = bytes_field(metadata, "text");
    if (!text) return text.error();
    state.text = std::move(*text);
    if (state.text.size() > manifest_text_bytes_max) return corrupt("text is too long");
    std::uint64_t end = 0;
    for (std::int32_t length : *lengths) {
        end += static_cast<std::uint64_t>(length);
        if (end > state.text.size()) return corrupt("token_bytes goes beyond the text");
        state.token_ends.push_back(static_cast<std::uint32_t>(end));
    }
    for (const auto& [key, value] : metadata) {
        if (!key.starts_with(note_prefix)) continue;
        std::string name = key.substr(note_prefix.size());
        // A note in hex digits has this ending, which is not part of its name.
        if (name.ends_with(".hex")) name.resize(name.size() - 4);
        auto bytes = bytes_field(metadata, std::string(note_prefix) + name);
        if (!bytes) return bytes.error();
        state.notes[name] = std::move(*bytes);
    }
    if (state.notes.size() > manifest_notes_max) return corrupt("it has too many notes");
    return {};
}

/// Checks that the file has a tensor of the right size, with a checksum, for each recurrent state.
/// Errors: corrupt.
result<void> check_states(const safetensors_index& index, std::span<const kept_state> states,
                          std::size_t state_bytes) {
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(state_bytes)};
    for (const kept_state& each : states) {
        const auto found = index.tensors.find(state_tensor(each));
        if (found == index.tensors.end())
            return corrupt("no tensor \"" + state_tensor(each) + "\"");
        if (found->second.type != dtype::u8 || found->second.shape != shape)
            return corrupt("tensor \"" + state_tensor(each) + "\" has the wrong shape");
        if (!index.metadata.contains(state_checksum_key(each)))
            return corrupt("tensor \"" + state_tensor(each) + "\" has no checksum");
    }
    return {};
}

/// Checks that the file has exactly the tensors of `plans`, in their shapes and with checksums, and
/// `states` tensors of recurrent states. Errors: corrupt.
result<void> check_tensors(const safetensors_index& index, const std::vector<tensor_plan>& plans,
                           std::size_t tokens, std::size_t states) {
    if (index.tensors.size() != plans.size() + states)
        return corrupt("it holds " + std::to_string(index.tensors.size()) +
                       " tensors, the model has " + std::to_string(plans.size() + states));
    for (const tensor_plan& plan : plans) {
        const auto found = index.tensors.find(plan.name);
        if (found == index.tensors.end()) return corrupt("no tensor \"" + plan.name + "\"");
        if (found->second.type != plan.type || found->second.shape != plan.shape(tokens))
            return corrupt("tensor \"" + plan.name + "\" has the wrong shape");
        if (!index.metadata.contains(plan.checksum_key()))
            return corrupt("tensor \"" + plan.name + "\" has no checksum");
    }
    return {};
}

/// All of a file but the bytes of its tensors, checked.
struct file_header {
    safetensors_index index;
    agent_state state;  // without blocks
    bool is_wide = false;
    std::vector<tensor_plan> plans;
};

/// Reads and checks the header of an agent's file. `id`: the name that the agent gets. Errors:
/// corrupt, incompatible, those of the file.
result<file_header> read_header(readable_file& file, const agent_id& id,
                                const block_hash& fingerprint, const kv_layout& layout) {
    const auto file_bytes = file.size();
    if (!file_bytes) return file_bytes.error();
    auto index = safetensors_index::read(file, *file_bytes);
    if (!index) return index.error();
    if (auto ok = check_format(index->metadata, fingerprint, recipe_of(layout)); !ok)
        return ok.error();
    const auto sum = field(index->metadata, metadata_sum);
    if (!sum) return sum.error();
    if (*sum != sum_of(index->metadata)) return corrupt("the checksum of the metadata is wrong");
    const auto count = token_count_of(index->metadata);
    if (!count) return count.error();
    file_header header{std::move(*index), {id, {}, {}, {}, {}, {}, {}, {}}, false, {}};
    if (auto ok = read_states(header.index.metadata, *count, header.state); !ok) return ok.error();
    const auto tokens = static_cast<int>(*count);
    // The wide tail is optional: the number of tensors says whether the file has one.
    std::vector<tensor_plan> wide = all_tensors(layout, layout.has_wide_tail());
    const std::size_t states = header.state.states.size();
    header.is_wide =
        layout.group_start(tokens) < tokens && header.index.tensors.size() == wide.size() + states;
    header.plans = header.is_wide ? std::move(wide) : all_tensors(layout, false);
    if (auto ok = check_tensors(header.index, header.plans, *count, states); !ok) return ok.error();
    if (auto ok = check_states(header.index, header.state.states, layout.state_bytes()); !ok)
        return ok.error();
    if (auto ok = read_words(header.index.metadata, *count, header.state); !ok) return ok.error();
    return header;
}

/// Reads the bytes of one recurrent state into memory of the pool and compares their checksum.
/// Errors: corrupt, pool_exhausted, those of the file.
/// Requires: check_states() has found the state's tensor and its checksum.
result<void> read_kept(readable_file& file, const safetensors_index& index, block_pool& pool,
                       kept_state& kept) {
    auto made = recurrent_state::make(pool);
    if (!made) return made.error();
    const auto at = index.tensors.find(state_tensor(kept))->second.begin;
    if (auto ok = file.read_at(at, (*made)->bytes()); !ok) return ok;
    const checksum_digits digits = digits_of_checksum((*made)->bytes());
    if (index.metadata.find(state_checksum_key(kept))->second !=
        std::string_view(digits.data(), digits.size()))
        return corrupt("the checksum of tensor \"" + state_tensor(kept) + "\" is wrong");
    kept.state = std::move(*made);
    return {};
}

}  // namespace

result<std::uint64_t> write_agent_file(const agent_state& state, const block_hash& fingerprint,
                                       const kv_layout& layout, const byte_sink& sink) {
    const auto plans = all_tensors(layout, has_wide_tail(state, layout));
    const std::size_t tokens = state.tokens.size();
    metadata_map metadata = metadata_of(state, fingerprint, recipe_of(layout));
    std::vector<tensor_to_write> tensors;
    for (const tensor_plan& plan : plans) {
        const kv_part part = part_of(layout, plan.layer);
        checksum64 sum;
        // Cannot fail, since the visitor does not. The header, with the checksums, comes before the
        // rows, so all rows are read twice: here and when they are written below.
        (void)visit_pieces(plan, layout.block_tokens(), tokens,
                           [&](std::size_t block, std::size_t at, std::size_t bytes) {
                               sum.add({plan.rows_in(*state.blocks[block].at(part)) + at, bytes});
                               return result<void>();
                           });
        metadata[plan.checksum_key()] = sum.hex();
        tensors.push_back({plan.name, plan.type, plan.shape(tokens), {}});
    }
    put_states(state, metadata);
    for (const kept_state& each : state.states) {
        const auto bytes = each.state->bytes();
        const checksum_digits digits = digits_of_checksum(bytes);
        metadata[state_checksum_key(each)] = std::string(digits.data(), digits.size());
        tensors.push_back(
            {state_tensor(each), dtype::u8, {static_cast<std::int64_t>(bytes.size())}, {}});
    }
    metadata[metadata_sum] = sum_of(metadata);
    const std::string header = safetensors_header(tensors, metadata);
    std::uint64_t written = header.size();
    if (auto ok = sink(std::as_bytes(std::span(header))); !ok) return ok.error();
    for (const tensor_plan& plan : plans) {
        const kv_part part = part_of(layout, plan.layer);
        auto ok =
            visit_pieces(plan, layout.block_tokens(), tokens,
                         [&](std::size_t block, std::size_t at, std::size_t bytes) {
                             written += bytes;
                             return sink({plan.rows_in(*state.blocks[block].at(part)) + at, bytes});
                         });
        if (!ok) return ok.error();
    }
    for (const kept_state& each : state.states) {
        if (auto ok = sink(each.state->bytes()); !ok) return ok.error();
        written += each.state->bytes().size();
    }
    return written;
}

result<agent_state> read_agent_file(readable_file& file, const agent_id& id,
                                    const block_hash& fingerprint, block_pool& pool) {
    const kv_layout& layout = pool.layout();
    auto header = read_header(file, id, fingerprint, layout);
    if (!header) return header.error();
    agent_state& state = header->state;
    const std::size_t count = state.tokens.size();
    const std::size_t per_block = as_size(layout.block_tokens());
    std::vector<std::shared_ptr<kv_block>> blocks[kv_parts.size()];
    for (const kv_part part : kv_parts) {
        if (part == kv_part::sliding && !layout.slides()) continue;
        auto made = kv_block::make_many(pool, part, (count + per_block - 1) / per_block);
        if (!made) return made.error();
        blocks[static_cast<std::size_t>(part)] = std::move(*made);
        if (!header->is_wide || layout.layers(part).empty()) continue;
        auto rows = wide_tail::make(pool, part);
        if (!rows) return rows.error();
        blocks[static_cast<std::size_t>(part)].back()->keep_wide(
            std::move(*rows), static_cast<int>(count % per_block));
    }
    for (const tensor_plan& plan : header->plans) {
        const auto& own = blocks[static_cast<std::size_t>(part_of(layout, plan.layer))];
        std::uint64_t from = header->index.tensors.find(plan.name)->second.begin;
        checksum64 sum;
        auto ok = visit_pieces(plan, layout.block_tokens(), count,
                               [&](std::size_t block, std::size_t at, std::size_t bytes) {
                                   const std::span rows(plan.rows_in(*own[block]) + at, bytes);
                                   auto read = file.read_at(from, rows);
                                   if (read) sum.add(rows);
                                   from += bytes;
                                   return read;
                               });
        if (!ok) return ok.error();
        if (sum.hex() != header->index.metadata.find(plan.checksum_key())->second)
            return corrupt("the checksum of tensor \"" + plan.name + "\" is wrong");
    }
    state.blocks.resize((count + per_block - 1) / per_block);
    for (std::size_t i = 0; i < state.blocks.size(); ++i)
        for (const kv_part part : kv_parts)
            if (!blocks[static_cast<std::size_t>(part)].empty())
                state.blocks[i].at(part) = blocks[static_cast<std::size_t>(part)][i];
    for (kept_state& each : state.states)
        if (auto ok = read_kept(file, header->index, pool, each); !ok) return ok.error();
    state.created = state.last_used = std::chrono::system_clock::now();
    return std::move(state);
}

result<agent_file_size> check_agent_file(readable_file& file, const block_hash& fingerprint,
                                         const kv_layout& layout) {
    const auto nobody = agent_id::parse("nobody").value();  // read_header() needs some name
    const auto header = read_header(file, nobody, fingerprint, layout);
    if (!header) return header.error();
    return agent_file_size{static_cast<int>(header->state.tokens.size()),
                           header->state.states.size()};
}

}  // namespace semantic::storage
