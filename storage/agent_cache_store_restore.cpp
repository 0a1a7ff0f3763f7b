// agent_cache_store: bringing back what is only on disk.

#include <algorithm>
#include <chrono>

#include "storage/agent_cache_store_impl.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

std::size_t as_size(int value) { return static_cast<std::size_t>(value); }

shortfall shortfall_of(errc code) {
    if (code == errc::not_found) return shortfall::evicted;
    return code == errc::incompatible ? shortfall::incompatible : shortfall::corrupt;
}

}  // namespace

/// What a sequence needs to go on behind `tokens` tokens. The window comes first, from its end:
/// what is lost there makes the prefix shorter, and then fewer full layers are needed.
std::vector<std::pair<std::size_t, kv_part>> agent_cache_store::impl::needed_for(int tokens) const {
    const std::size_t count = (as_size(tokens) + as_size(block_tokens) - 1) / as_size(block_tokens);
    std::vector<std::pair<std::size_t, kv_part>> needed;
    for (std::size_t i = count; i-- > window_start(as_size(tokens));)
        needed.emplace_back(i, kv_part::sliding);
    for (std::size_t i = 0; i < count; ++i) needed.emplace_back(i, kv_part::full);
    return needed;
}

void agent_cache_store::impl::count_damage(const block_place& at, kv_part part, errc code) {
    if (code == errc::not_found)
        ++probe.blocks_missing;
    else
        ++probe.blocks_corrupt;
    blocks.distrust(at.name, part);
    // Whoever still has the block in the pool can mend the file.
    std::lock_guard lock(mutex);
    for (auto& [id, agent] : agents)
        for (std::size_t i = 0; i < agent.names.size(); ++i)
            if (agent.names[i] == at.name && agent.state->blocks[i].at(part) != nullptr) {
                agent.dirty = true;
                ++agent.version;
            }
}

/// Blocks. Reads parts of a state's blocks, several at a time, straight into frames. Makes room by
/// evicting clean agents, never this one.
std::vector<result<block_read>> agent_cache_store::impl::read_missing(
    const agent_state& state, const std::vector<block_hash>& names,
    const std::vector<missing_part>& missing) {
    const kv_layout& layout = pool.layout();
    std::size_t frames = 0;
    for (const missing_part& each : missing) frames += layout.layers(each.part).size();
    std::vector<result<block_read>> reads(missing.size(), failure{errc::not_found, {}});
    make_room(frames, &state.id);
    workers.run(missing.size(), [&](std::size_t i) {
        const kv_part part = missing[i].part;
        const auto at = place(state, names, missing[i].index);
        reads[i] = blocks.read(at.name, part, at.identity, pool);
        // Somebody else may have taken the room.
        while (!reads[i] && reads[i].error().code == errc::pool_exhausted &&
               make_room(layout.layers(part).size(), &state.id))
            reads[i] = blocks.read(at.name, part, at.identity, pool);
    });
    return reads;
}

/// Puts what is needed into `restored`, from the pool or from disk. Returns: the first block, in
/// the order given, that is lost, if any; then `restored` says why. Errors: pool_exhausted.
result<std::optional<std::size_t>> agent_cache_store::impl::bring(
    const agent_state& state, const std::vector<block_hash>& names,
    const std::vector<std::pair<std::size_t, kv_part>>& needed, restored_prefix& restored,
    std::vector<bool>& was_read) {
    std::vector<missing_part> missing;
    for (const auto& [i, part] : needed) {
        block_ptr& block = restored.blocks[i].at(part);
        if (block == nullptr) block = find_hot(state, i, part, place(state, names, i));
        if (block == nullptr) missing.push_back({i, part});
    }
    std::vector<result<block_read>> reads = read_missing(state, names, missing);
    std::optional<std::size_t> lost;
    for (std::size_t k = 0; k < missing.size(); ++k) {
        const auto [i, part] = missing[k];
        const auto at = place(state, names, i);
        if (reads[k]) {
            restored.bytes_read += reads[k]->bytes;
            was_read[i] = true;
            std::lock_guard lock(mutex);
            restored.blocks[i].at(part) = adopt(at, std::move(reads[k]->block));
            continue;
        }
        if (lost) continue;
        const failure& why = reads[k].error();
        if (why.code == errc::pool_exhausted) return why;
        lost = i;
        // A sibling that was never written is no damage.
        if (part == kv_part::full || blocks.is_known(at.name, part))
            count_damage(at, part, why.code);
        restored.why = shortfall_of(why.code);
        restored.detail = why.what;
    }
    return lost;
}

/// Makes the restored blocks part of the agent's newest state, where that has the same ones.
void agent_cache_store::impl::publish(const agent_state& from, const std::vector<block_hash>& names,
                                      const std::vector<kv_block_parts>& restored) {
    state_ptr former;  // destroyed after the mutex is released
    std::lock_guard lock(mutex);
    const auto found = agents.find(from.id);
    if (found == agents.end()) return;
    record& agent = found->second;
    agent.last_used = std::chrono::system_clock::now();
    std::vector<kv_block_parts> merged = agent.state->blocks;
    const std::size_t sliding_from = window_start(agent.state->tokens.size());
    for (std::size_t i = 0; i < restored.size() && has(agent, i, place(from, names, i)); ++i) {
        if (merged[i].full == nullptr) merged[i].full = restored[i].full;
        // The window of an earlier place is the running sequence's affair.
        if (i >= sliding_from && merged[i].sliding == nullptr)
            merged[i].sliding = restored[i].sliding;
    }
    if (merged == agent.state->blocks) return;
    auto state = std::make_shared<agent_state>(*agent.state);
    state->blocks = std::move(merged);
    former = std::exchange(agent.state, std::move(state));
}

/// While a prompt waited, the agent that it starts from may have gone on, and the file of what then
/// was the end of its memory is gone. Returns: the newest state where that is to be read and its
/// first `tokens` tokens are the same, else null.
state_ptr agent_cache_store::impl::gone_on_from(const agent_state& state, std::size_t tokens) {
    if (tokens == 0 || state.blocks[(tokens - 1) / as_size(block_tokens)].full != nullptr)
        return nullptr;
    std::lock_guard lock(mutex);
    const auto found = agents.find(state.id);
    if (found == agents.end()) return nullptr;
    const std::vector<token_id>& now = found->second.state->tokens;
    const bool same = now.size() >= tokens &&
                      std::equal(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(tokens),
                                 state.tokens.begin());
    return same ? found->second.state : nullptr;
}

std::optional<restored_prefix> agent_cache_store::restore_hot(const agent_state& state,
                                                              int tokens) {
    ASSERT(tokens >= 0 && as_size(tokens) <= state.tokens.size());
    restored_prefix restored;
    restored.tokens = tokens;
    restored.blocks.resize((as_size(tokens) + as_size(impl_->block_tokens) - 1) /
                           as_size(impl_->block_tokens));
    for (const auto& [i, part] : impl_->needed_for(tokens)) {
        if (state.blocks[i].at(part) == nullptr) return std::nullopt;
        restored.blocks[i].at(part) = state.blocks[i].at(part);
    }
    std::lock_guard lock(impl_->mutex);
    const auto found = impl_->agents.find(state.id);
    if (found != impl_->agents.end()) found->second.last_used = std::chrono::system_clock::now();
    return restored;
}

result<restored_prefix> agent_cache_store::restore(const agent_state& wanted, int tokens) {
    ASSERT(tokens >= 0 && as_size(tokens) <= wanted.tokens.size());
    const auto start = std::chrono::steady_clock::now();
    const state_ptr newest = impl_->gone_on_from(wanted, as_size(tokens));
    const agent_state& state = newest ? *newest : wanted;
    const std::size_t per_block = as_size(impl_->block_tokens);
    const auto names = impl_->names_of(state);
    ASSERT(state.blocks.size() == names.size());
    restored_prefix restored;
    restored.tokens = tokens;
    restored.blocks.resize((as_size(tokens) + per_block - 1) / per_block);
    // All but the block that has gone on.
    const std::size_t same = restored.blocks.size() - (newest ? 1 : 0);
    std::copy_n(wanted.blocks.begin(), same, restored.blocks.begin());
    std::vector<bool> was_read(restored.blocks.size());
    for (bool whole = false; !whole;) {
        const auto needed = impl_->needed_for(restored.tokens);
        const auto lost = impl_->bring(state, names, needed, restored, was_read);
        if (!lost) return lost.error();
        whole = !*lost;
        if (whole) continue;
        // The prefix ends before what is lost, and another window is needed there.
        restored.blocks.resize(**lost);
        restored.tokens = static_cast<int>(**lost * per_block);
    }
    for (std::size_t i = 0; i < restored.blocks.size(); ++i)
        if (was_read[i])
            restored.tokens_read += static_cast<int>(
                std::min(as_size(restored.tokens), (i + 1) * per_block) - i * per_block);
    impl_->publish(state, names, restored.blocks);
    if (restored.bytes_read > 0) {
        const auto took = std::chrono::steady_clock::now() - start;
        impl_->probe.restore_us += static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::microseconds>(took).count());
    }
    return restored;
}

}  // namespace semantic::storage
