// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/state_blocks.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "storage/disk/manifest.hpp"

namespace semantic::storage {

namespace {

std::string_view view_of(const block_hash& hash) {
    return {reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()};
}

}  // namespace

std::vector<block_hash> state_blocks::names_of(std::string_view salt,
                                               std::span<const token_id> tokens) const {
    return block_names(fingerprint_, salt, tokens, layout_.block_tokens());
}

block_place state_blocks::place(const agent_state& state, const std::vector<block_hash>& names,
                                std::size_t index) const {
    const std::size_t begin = index * block_tokens();
    block_place found =
        place(state, names, begin, std::min(begin + block_tokens(), state.tokens.size()));
    found.name = names[index];
    return found;
}

/// Describes the block with the tokens [begin, end), without its name.
block_place state_blocks::place(const agent_state& state, const std::vector<block_hash>& names,
                                std::size_t begin, std::size_t end) const {
    const std::size_t index = begin / block_tokens();
    const block_hash parent = index == 0 ? block_hash{} : names[index - 1];
    return {
        {},
        {fingerprint_, salt_of(state), parent, std::span(state.tokens).subspan(begin, end - begin)},
        end - begin == block_tokens()};
}

block_place state_blocks::kept_place(const agent_state& state, const std::vector<block_hash>& names,
                                     std::size_t tokens) const {
    // The state belongs to the block that has its last token, cut after that token.
    const std::size_t index = (tokens - 1) / block_tokens();
    const std::size_t begin = index * block_tokens();
    block_place found = place(state, names, begin, tokens);
    found.name = state_name(found.identity);
    return found;
}

std::vector<block_hash> state_blocks::kept_names_of(const agent_state& state,
                                                    const std::vector<block_hash>& names) const {
    std::vector<block_hash> found;
    for (const kept_state& each : state.states)
        found.push_back(kept_place(state, names, each.tokens).name);
    return found;
}

std::size_t state_blocks::resumable_tokens(const agent_state& state) const {
    if (!layout_.has_states()) return state.tokens.size();
    return state.states.empty() ? 0 : state.states.back().tokens;
}

frame_counts frames_of(const agent_state& state) {
    frame_counts counts;
    const auto count = [&](const auto& held) {
        if (held == nullptr) return;
        const std::size_t frames = held->frame_count();
        counts.held += frames;
        if (held.use_count() > 1) counts.shared += frames;
    };
    for (const kv_block_parts& block : state.blocks)
        for (const kv_part part : kv_parts) count(block.at(part));
    for (const kept_state& each : state.states) {
        count(each.state);
        counts.states += each.state == nullptr ? 0 : 1;
    }
    return counts;
}

std::uint64_t frames_of(std::span<const state_ptr> states) {
    std::uint64_t frames = 0;
    std::unordered_set<const void*> seen;
    const auto count = [&](const auto& held) {
        if (held != nullptr && seen.insert(held.get()).second) frames += held->frame_count();
    };
    for (const state_ptr& state : states) {
        for (const kv_block_parts& block : state->blocks)
            for (const kv_part part : kv_parts) count(block.at(part));
        for (const kept_state& each : state->states) count(each.state);
    }
    return frames;
}

std::vector<blocks_stored> state_blocks::runs(
    const agent_state& state, const std::vector<block_hash>& names,
    const std::function<bool(std::size_t)>& is_stored) const {
    std::vector<blocks_stored> found;
    if (state.is_private()) return found;
    bool is_in_run = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const block_place at = place(state, names, i);
        const bool was_in_run = std::exchange(is_in_run, at.full && is_stored(i));
        if (!is_in_run) continue;
        if (!was_in_run)
            found.push_back({fingerprint_,
                             {},
                             state.id.tenant(),
                             at.identity.parent,
                             {},
                             {},
                             layout_.block_tokens()});
        blocks_stored& run = found.back();
        run.names.push_back(at.name);
        run.tokens.insert(run.tokens.end(), at.identity.tokens.begin(), at.identity.tokens.end());
    }
    return found;
}

std::size_t state_blocks::window_start(std::size_t tokens) const {
    // Without sliding layers no block needs sliding frames: the window begins after the last one.
    if (!layout_.slides()) return count_for(tokens);
    return as_size(layout_.first_sliding_block(static_cast<int>(tokens)));
}

std::vector<block_part> state_blocks::needed_for(int tokens) const {
    const std::size_t count = count_for(as_size(tokens));
    std::vector<block_part> needed;
    for (std::size_t i = count; i-- > window_start(as_size(tokens));)
        needed.push_back({i, kv_part::sliding});
    for (std::size_t i = 0; i < count; ++i) needed.push_back({i, kv_part::full});
    return needed;
}

bool state_blocks::any_hot(const agent_state& state) {
    return std::ranges::any_of(state.blocks,
                               [](const kv_block_parts& block) {
                                   return block.full != nullptr || block.sliding != nullptr;
                               }) ||
           std::ranges::any_of(state.states,
                               [](const kept_state& each) { return each.state != nullptr; });
}

bool state_blocks::all_hot(const agent_state& state) const {
    const std::size_t tokens = resumable_tokens(state);
    const std::size_t sliding_from = window_start(tokens);
    if (!state.states.empty() && state.states.back().state == nullptr) return false;
    for (std::size_t i = 0; i < count_for(tokens); ++i)
        if (state.blocks[i].full == nullptr ||
            (i >= sliding_from && state.blocks[i].sliding == nullptr))
            return false;
    return true;
}

std::string_view state_blocks::salt_of(const agent_id& id) const {
    return id.tenant().is_default() ? std::string_view(tenant_salt_) : view_of(id.tenant().salt);
}

std::string_view state_blocks::salt_of(const agent_state& state) const {
    return state.is_private() ? view_of(state.private_salt) : salt_of(state.id);
}

std::string state_blocks::manifest_of(const agent_id& id, const block_hash& fingerprint) const {
    return manifest_path(salt_of(id), id.str(), fingerprint);
}

}  // namespace semantic::storage
