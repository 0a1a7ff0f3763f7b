#include "storage/agents/state_blocks.hpp"

#include <algorithm>
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
    const std::size_t count = std::min(block_tokens(), state.tokens.size() - begin);
    const block_hash parent = index == 0 ? block_hash{} : names[index - 1];
    return {names[index],
            {fingerprint_, salt_of(state), parent, std::span(state.tokens).subspan(begin, count)},
            count == block_tokens()};
}

std::vector<blocks_stored> state_blocks::runs(
    const agent_state& state, const std::vector<block_hash>& names,
    const std::function<bool(std::size_t)>& is_told) const {
    std::vector<blocks_stored> found;
    if (state.is_private()) return found;
    bool goes_on = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const block_place at = place(state, names, i);
        const bool was_told = std::exchange(goes_on, at.full && is_told(i));
        if (!goes_on) continue;
        if (!was_told)
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
    return std::ranges::any_of(state.blocks, [](const kv_block_parts& block) {
        return block.full != nullptr || block.sliding != nullptr;
    });
}

bool state_blocks::all_hot(const agent_state& state) const {
    const std::size_t sliding_from = window_start(state.tokens.size());
    for (std::size_t i = 0; i < state.blocks.size(); ++i)
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
