// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the store's tests share: a small model's layout, blocks whose every byte follows from their
// tokens, a way to check them.

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/disk/block_file.hpp"
#include "storage/files/checksum.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage::tests {

constexpr int block_tokens = 8;

inline kv_layout small_layout(int bits = 4) {
    return kv_layout({{1, 16, 16, 0}, {2, 16, 32, 0}}, {bits, 16}, block_tokens);
}

/// Latent attention: values are the first 32 elements of keys of 48.
inline kv_layout latent_layout(int bits = 8) {
    return kv_layout({{1, 48, 32, 0, true}, {1, 48, 32, 0, true}}, {bits, 16}, block_tokens);
}

/// One full layer and two that see windows of 11 and 5 tokens: two or three blocks.
inline kv_layout sliding_layout(int bits = 4) {
    return kv_layout({{1, 16, 16, 11}, {2, 16, 32, 0}, {1, 16, 16, 5}}, {bits, 16}, block_tokens);
}

/// Three full and three sliding layers in two frames each: the last two of a part share one.
inline kv_layout frame_sharing_layout() {
    return kv_layout({{2, 16, 32, 11},
                      {2, 16, 32, 0},
                      {1, 16, 16, 0},
                      {1, 16, 16, 5},
                      {1, 16, 16, 0},
                      {1, 16, 16, 11}},
                     {8, 16}, block_tokens);
}

/// One full and two sliding layers whose blocks end in groups of 2 tokens with f16 rows.
inline kv_layout wide_layout() {
    const kv_form rotated{4, true, false};
    return kv_layout({{1, 16, 16, 11}, {2, 16, 32, 0}, {1, 16, 16, 5}},
                     kv_recipe(rotated, rotated, 16).with_wide_tail(2), block_tokens);
}

/// KV and a recurrent state of 1,000 bytes.
inline kv_layout recurrent_layout() {
    return kv_layout({{1, 16, 16, 0}, {2, 16, 32, 0}}, {4, 16}, block_tokens, 1000);
}

inline agent_id id_of(const std::string& text) { return agent_id::parse(text).value(); }

inline block_hash fingerprint_of(const std::string& model) { return checksum128(model); }

/// Calls `visit(offset, byte count, seed)` for each row, scale and bias of one token of one layer.
template <class Visit>
void visit_token(const kv_layout& layout, int layer, int token, Visit visit) {
    unsigned part = 0;
    for (const kv_region& region : layout.stored(layer))
        for (int head = 0; head < region.heads; ++head) {
            const std::size_t parameter_bytes = static_cast<std::size_t>(region.groups) * 2;
            const std::size_t scale = region.scale_at(layout.block_tokens(), head, token);
            visit(region.row_at(layout.block_tokens(), head, token), region.row_bytes, ++part);
            visit(scale, parameter_bytes, ++part);
            visit(scale + region.biases - region.scales, parameter_bytes, ++part);
        }
}

/// The byte that belongs at a place: depends on everything that KV depends on, the tokens before it
/// included.
inline std::byte byte_for(std::uint64_t history, int layer, unsigned part, std::size_t i) {
    std::uint64_t x = history ^ (static_cast<std::uint64_t>(layer) << 40) ^
                      (static_cast<std::uint64_t>(part) << 20) ^ i;
    x *= 0x9e3779b97f4a7c15u;
    return std::byte(x >> 56);
}

/// Tokens' histories: [i] represents tokens 0 to i, as a model of these weights reads them.
inline std::vector<std::uint64_t> histories(const std::vector<token_id>& tokens,
                                            std::uint64_t weights = 1) {
    std::vector<std::uint64_t> all;
    std::uint64_t history = weights;
    for (token_id token : tokens) {
        history = (history ^ static_cast<std::uint64_t>(token)) * 0x100000001b3u;
        all.push_back(history);
    }
    return all;
}

/// Calls `visit(row, byte count, part)` for each f16 row of a token of a group.
template <class Visit>
void visit_wide(const kv_layout& layout, int layer, int token, const wide_rows& rows, Visit visit) {
    const kv_layer& shape = layout.layer(layer);
    const int row = token % layout.recipe().wide_tail;
    for (int head = 0; head < shape.kv_heads; ++head) {
        const auto part = 100 + 2 * static_cast<unsigned>(head);
        visit(rows.key(shape, head, row), static_cast<std::size_t>(shape.k_dim) * 2, part);
        visit(rows.value(shape, head, row), static_cast<std::size_t>(shape.v_dim) * 2, part + 1);
    }
}

/// Writes the rows of the group at the sequence's position and of the group at `total`.
inline void write_wide(kv_sequence& sequence, const kv_layout& layout, int at, int total,
                       std::uint64_t history) {
    const int group = layout.group_start(at);
    const bool is_first = group <= sequence.token_count();
    if (!layout.has_wide_tail() || (!is_first && group != layout.group_start(total - 1))) return;
    for (int layer = 0; layer < layout.layer_count(); ++layer)
        visit_wide(layout, layer, at,
                   is_first ? sequence.group_rows(layer) : sequence.next_group_rows(layer),
                   [&](std::byte* row, std::size_t count, unsigned part) {
                       for (std::size_t i = 0; i < count; ++i)
                           row[i] = byte_for(history, layer, part, i);
                   });
}

/// Whether the f16 rows of the tokens [group_start(count), count) are in `rows`.
inline bool wide_holds(const kv_layout& layout, int layer, const wide_rows& rows,
                       const std::vector<token_id>& tokens, int count) {
    const auto history = histories(tokens);
    bool same = true;
    for (int at = layout.group_start(count); at < count; ++at)
        visit_wide(layout, layer, at, rows,
                   [&](const std::byte* row, std::size_t n, unsigned part) {
                       for (std::size_t i = 0; i < n; ++i)
                           same = same && row[i] == byte_for(history[static_cast<std::size_t>(at)],
                                                             layer, part, i);
                   });
    return same;
}

inline void append_tokens(kv_sequence& sequence, const kv_layout& layout,
                          const std::vector<token_id>& tokens, std::uint64_t weights = 1) {
    const auto history = histories(tokens, weights);
    const int total = static_cast<int>(tokens.size());
    ASSERT(sequence.reserve(total));
    for (int at = sequence.token_count(); at < total; ++at) {
        write_wide(sequence, layout, at, total, history[static_cast<std::size_t>(at)]);
        for (int layer = 0; layer < layout.layer_count(); ++layer) {
            std::byte* frame =
                sequence.frames(layer)[static_cast<std::size_t>(at / layout.block_tokens())];
            visit_token(layout, layer, at % layout.block_tokens(),
                        [&](std::size_t offset, std::size_t count, unsigned part) {
                            for (std::size_t i = 0; i < count; ++i)
                                frame[offset + i] =
                                    byte_for(history[static_cast<std::size_t>(at)], layer, part, i);
                        });
        }
    }
    sequence.advance(total);
}

/// Whether the first `count` tokens' bytes of one layer in a block's frame are those of `history`.
inline bool frame_holds(const kv_layout& layout, const std::byte* frame, int layer, int token,
                        std::uint64_t history) {
    bool same = true;
    visit_token(layout, layer, token, [&](std::size_t offset, std::size_t bytes, unsigned part) {
        for (std::size_t i = 0; i < bytes; ++i)
            same = same && frame[offset + i] == byte_for(history, layer, part, i);
    });
    return same;
}

/// Whether `blocks` have all that a sequence needs after the first `count` tokens, with exactly the
/// bytes that `tokens` give.
inline bool holds(const kv_layout& layout, const std::vector<kv_block_parts>& blocks,
                  const std::vector<token_id>& tokens, int count, std::uint64_t weights = 1) {
    const auto history = histories(tokens, weights);
    const int window_start = layout.slides() ? layout.first_sliding_block(count) : 0;
    for (int at = 0; at < count; ++at)
        for (const kv_part part : kv_parts) {
            const int index = at / layout.block_tokens();
            const auto& block = blocks[static_cast<std::size_t>(index)].at(part);
            const bool needed = part == kv_part::full || index >= window_start;
            for (const int layer : layout.layers(part)) {
                if (block == nullptr && needed) return false;
                if (block != nullptr &&
                    !frame_holds(layout, block->frame(layer), layer, at % layout.block_tokens(),
                                 history[static_cast<std::size_t>(at)]))
                    return false;
            }
        }
    return true;
}

/// Where the states of tests are kept in a text of `count` tokens: at its end, every five tokens
/// before that, and in the middle.
inline std::vector<int> kept_places(int count) {
    std::vector<int> places;
    for (int place = 1; place <= count; ++place)
        if ((count - place) % 5 == 0 || place == count / 2) places.push_back(place);
    return places;
}

/// The recurrent state after the first `count` tokens, whose bytes follow from them.
inline recurrent_ptr make_kept(block_pool& pool, const std::vector<token_id>& tokens, int count,
                               std::uint64_t weights = 1) {
    auto state = recurrent_state::make(pool);
    ASSERT(state);
    const std::uint64_t history = histories(tokens, weights)[static_cast<std::size_t>(count - 1)];
    const auto bytes = (*state)->bytes();
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_for(history, 999, 1, i);
    return *state;
}

/// The name of the state after the first `count` tokens of a text of the default tenant.
inline block_hash kept_name(const std::vector<token_id>& tokens, int count,
                            const std::string& model = "model") {
    const int begin = (count - 1) / block_tokens * block_tokens;
    const std::span all(tokens);
    const auto names = block_names(fingerprint_of(model), "salt",
                                   all.first(static_cast<std::size_t>(begin)), block_tokens);
    return state_name(
        {fingerprint_of(model), "salt", names.empty() ? block_hash{} : names.back(),
         all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count - begin))});
}

/// Whether the state after the first `count` tokens is the one that these give, where there are
/// states.
inline bool kept_holds(const kv_layout& layout, const recurrent_ptr& state,
                       const std::vector<token_id>& tokens, int count, std::uint64_t weights = 1) {
    if (!layout.has_states() || count == 0) return state == nullptr;
    if (state == nullptr || state->bytes().size() != layout.state_bytes()) return false;
    const std::uint64_t history = histories(tokens, weights)[static_cast<std::size_t>(count - 1)];
    bool same = true;
    for (std::size_t i = 0; i < layout.state_bytes(); ++i)
        same = same && state->bytes()[i] == byte_for(history, 999, 1, i);
    return same;
}

/// `count` tokens that differ from those of another seed from the first on.
inline std::vector<token_id> some_tokens(int count, int seed = 0) {
    std::vector<token_id> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(1000 * (seed + 1) + i * 7 % 977);
    return tokens;
}

/// A state as the engine would publish it, with bytes that follow from its tokens.
inline agent_state make_state(block_pool& pool, const std::string& id,
                              const std::vector<token_id>& tokens, int last_used_seconds = 1000,
                              std::uint64_t weights = 1) {
    kv_sequence sequence(pool, {}, 0);
    append_tokens(sequence, pool.layout(), tokens, weights);
    agent_state state{id_of(id), tokens, {}, {}, sequence.share(), {}, {}, {}};
    for (token_id token : tokens) {
        state.text += std::to_string(token);
        state.text += ' ';
        state.token_ends.push_back(static_cast<std::uint32_t>(state.text.size()));
    }
    state.created = std::chrono::system_clock::time_point(std::chrono::seconds(500));
    state.last_used =
        std::chrono::system_clock::time_point(std::chrono::seconds(last_used_seconds));
    state.notes["day"] = "Friday";
    if (pool.layout().has_states())
        for (const int place : kept_places(static_cast<int>(tokens.size())))
            state.states.push_back({static_cast<std::uint32_t>(place), false, false,
                                    make_kept(pool, tokens, place, weights)});
    return state;
}

/// A manifest whose header proves a version that nobody here knows.
inline std::string later_manifest() {
    std::string file("SEMAGENT\x63\0\0\0\0\0\0\0", 16);
    const std::uint64_t sum = checksum_of(file);
    file.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    return file + "whatever comes then";
}

/// Whether the agent has these tokens, and every byte of them comes back from pool or disk.
inline bool is_whole(agent_cache_store& store, const kv_layout& layout, const std::string& id,
                     const std::vector<token_id>& tokens, std::uint64_t weights = 1) {
    const auto state = store.find(id_of(id));
    if (state == nullptr || state->tokens != tokens) return false;
    const int count = static_cast<int>(tokens.size());
    const auto restored = store.restore(*state, count);
    return restored && restored->tokens == count &&
           holds(layout, restored->blocks, tokens, count, weights) &&
           kept_holds(layout, restored->state, tokens, count, weights);
}

inline store_options options_for(const std::string& directory, file_system* files = nullptr) {
    return {directory, fingerprint_of("model"), "salt", files};
}

}  // namespace semantic::storage::tests
