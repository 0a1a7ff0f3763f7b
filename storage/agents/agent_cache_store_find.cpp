// agent_cache_store: who is remembered, by name, by text and by answer.

#include <algorithm>
#include <unordered_set>

#include "storage/agents/agent_cache_store_impl.hpp"
#include "storage/agents/tier_policy.hpp"
#include "storage/files/checksum.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

std::shared_ptr<const agent_state> agent_cache_store::find(const agent_id& id) const {
    std::lock_guard lock(impl_->mutex);
    const auto found = impl_->agents.find(id);
    return found == impl_->agents.end() ? nullptr : found->second.state;
}

tenant_id agent_cache_store::tenant(std::string_view credential) const {
    return {field_hasher().add(impl_->secret).add(credential).finish()};
}

std::vector<prefix_neighbour> agent_cache_store::closest(const tenant_id& tenant,
                                                         std::string_view text,
                                                         std::size_t count_max) const {
    std::lock_guard lock(impl_->mutex);
    return impl_->by_text.closest(tenant, text, count_max);
}

std::optional<message_place> agent_cache_store::find_message(const tenant_id& tenant,
                                                             const std::string& id) const {
    std::lock_guard lock(impl_->mutex);
    const auto found = impl_->by_message.find({tenant, id});
    if (found == impl_->by_message.end()) return std::nullopt;
    const agent_state& state = *impl_->agents.at(found->second).state;
    const auto end = std::ranges::find(state.messages, id, &message_end::id);
    ASSERT(end != state.messages.end());
    return message_place{state.id, static_cast<int>(end->tokens),
                         end->tokens == 0 ? 0 : state.token_ends[end->tokens - 1], end->rest,
                         end->tokens == state.tokens.size()};
}

shortfall agent_cache_store::why_absent(const agent_id& id) const {
    std::lock_guard lock(impl_->mutex);
    if (impl_->agents.contains(id)) return shortfall::none;
    const auto found = impl_->absent.find(impl_->path_of(id));
    return found == impl_->absent.end() ? shortfall::none : found->second;
}

/// Requires: the mutex is held.
agent_summary agent_cache_store::impl::summary_of(const agent_id& id, const record& agent) const {
    agent_summary summary{id,
                          all_hot(*agent.state) ? memory_tier::hot : memory_tier::warm,
                          static_cast<int>(agent.state->tokens.size()),
                          agent.dirty,
                          held.contains(id),
                          0,
                          0,
                          agent.manifest_bytes + blocks.bytes_on_disk(agent.saved),
                          agent.state->created,
                          agent.last_used};
    for (const kv_block_parts& block : agent.state->blocks)
        for (const kv_part part : kv_parts) {
            if (block.at(part) == nullptr) continue;
            const std::size_t frames = pool.layout().layers(part).size();
            summary.frames_held += frames;
            if (block.at(part).use_count() > 1) summary.frames_shared += frames;
        }
    return summary;
}

/// Keeps by_message in step with a change of an agent's state; null stands for none. Requires: the
/// mutex is held.
void agent_cache_store::impl::index_messages(const agent_id& id, const agent_state* former,
                                             const agent_state* now) {
    static const std::vector<message_end> none;
    const auto& gone = former == nullptr ? none : former->messages;
    const auto& come = now == nullptr ? none : now->messages;
    const auto [first_gone, first_come] = std::ranges::mismatch(gone, come);
    for (auto each = first_gone; each != gone.end(); ++each) {
        const auto found = by_message.find({id.tenant(), each->id});
        if (found != by_message.end() && found->second == id) by_message.erase(found);
    }
    for (auto each = first_come; each != come.end(); ++each)
        by_message.insert_or_assign({id.tenant(), each->id}, id);
}

std::vector<agent_summary> agent_cache_store::list() const {
    std::vector<agent_summary> summaries;
    std::lock_guard lock(impl_->mutex);
    for (const auto& [id, agent] : impl_->agents) summaries.push_back(impl_->summary_of(id, agent));
    std::ranges::sort(summaries, {}, &agent_summary::id);
    return summaries;
}

std::vector<agent_summary> agent_cache_store::list(const tenant_id& tenant) const {
    std::vector<agent_summary> summaries;
    std::lock_guard lock(impl_->mutex);
    for (const auto& [id, agent] : impl_->agents)
        if (id.tenant() == tenant) summaries.push_back(impl_->summary_of(id, agent));
    std::ranges::sort(summaries, {}, &agent_summary::id);
    return summaries;
}

tenant_usage agent_cache_store::usage(const tenant_id& tenant) const {
    tenant_usage sum;
    std::vector<state_ptr> states;  // these end after the mutex is released
    std::vector<block_hash> names;
    {
        std::lock_guard lock(impl_->mutex);
        for (const auto& [id, agent] : impl_->agents) {
            if (id.tenant() != tenant) continue;
            states.push_back(agent.state);
            names = concatenated(std::move(names), agent.saved);
            names = concatenated(std::move(names), agent.attempted);
            sum.disk_bytes += agent.manifest_bytes;
        }
    }
    std::ranges::sort(names);
    // Not ranges::unique: Clang 14, which may build the fuzz programs, cannot read its library.
    names.erase(std::unique(names.begin(), names.end()), names.end());
    sum.disk_bytes += impl_->blocks.bytes_on_disk(names);
    std::unordered_set<const kv_block*> seen;
    for (const state_ptr& state : states)
        for (const kv_block_parts& block : state->blocks)
            for (const kv_part part : kv_parts)
                if (block.at(part) != nullptr && seen.insert(block.at(part).get()).second)
                    sum.frames_held += impl_->pool.layout().layers(part).size();
    return sum;
}

std::optional<agent_summary> agent_cache_store::inspect(const agent_id& id) const {
    std::lock_guard lock(impl_->mutex);
    const auto found = impl_->agents.find(id);
    if (found == impl_->agents.end()) return std::nullopt;
    return impl_->summary_of(id, found->second);
}

std::vector<agent_id> agent_cache_store::dirty_agents() const {
    const auto now = std::chrono::system_clock::now();
    std::vector<std::pair<double, agent_id>> found;
    {
        std::lock_guard lock(impl_->mutex);
        for (const auto& [id, agent] : impl_->agents)
            if (agent.dirty)
                found.emplace_back(
                    dispensability(now - agent.last_used, agent.state->tokens.size()), id);
    }
    std::ranges::sort(found);
    std::vector<agent_id> ids;
    for (auto& [score, id] : found) ids.push_back(std::move(id));
    return ids;
}

}  // namespace semantic::storage
