// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/memory_lists.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "storage/disk/manifest.hpp"

namespace semantic::storage {

namespace {

memory_tier tier_of(const store_parts& parts, const agent_state& state) {
    return parts.shape.all_hot(state) ? memory_tier::hot : memory_tier::warm;
}

/// The memory that a model which is not loaded has of an agent.
other_memory other_memory_of(const store_parts& parts, const agent_index::lock& locked,
                             const foreign_manifest& each) {
    return {*each.agent,
            each.fingerprint,
            parts.index.foreign(locked).label_of(each.fingerprint).name,
            static_cast<int>(each.tokens),
            parts.index.is_held(locked, *each.agent),
            each.bytes + parts.blocks.bytes_on_disk(each.names),
            each.created,
            each.last_used};
}

/// The memory that `other`, a store of another loaded model, has of an agent.
other_memory other_memory_of(const store_parts& parts, const agent_index::lock& locked,
                             const store_parts& other, const agent_record& agent) {
    const agent_state& state = *agent.state;
    return {state.id,
            other.options.fingerprint,
            other.options.model_name,
            static_cast<int>(state.tokens.size()),
            parts.index.is_held(locked, state.id) || other.index.is_held(locked, state.id),
            agent.manifest_bytes + parts.blocks.bytes_on_disk(agent.saved),
            state.created,
            agent.last_used,
            true,
            tier_of(other, state),
            frames_of(state).held * other.shape.layout().frame_bytes()};
}

}  // namespace

agent_summary summary_of(const store_parts& parts, const agent_index::lock& locked,
                         const agent_id& id, const agent_record& agent) {
    const agent_state& state = *agent.state;
    const frame_counts frames = frames_of(state);
    agent_summary summary{id,
                          tier_of(parts, state),
                          static_cast<int>(state.tokens.size()),
                          agent.dirty,
                          parts.index.is_held(locked, id),
                          frames.held,
                          frames.shared,
                          agent.manifest_bytes + parts.blocks.bytes_on_disk(agent.saved),
                          state.created,
                          agent.last_used};
    for (const kept_state& each : state.states)
        summary.state_places.push_back(static_cast<int>(each.tokens));
    summary.states_held = frames.states;
    summary.state_disk_bytes = parts.blocks.bytes_on_disk(agent.kept_names, kv_part::state);
    summary.policy = state.policy;
    summary.claim = agent.claim;
    summary.bytes_written = agent.bytes_written;
    summary.bytes_of_turn = agent.bytes_of_last_turn;
    summary.is_over_bound = agent.dirty && agent.is_over_bound;
    return summary;
}

std::vector<agent_summary> summaries_of(store_parts& parts, const tenant_id* tenant) {
    std::vector<agent_summary> summaries;
    const agent_index::lock locked(parts.index);
    parts.weigh_disk_claims(locked);
    for (const auto& [id, agent] : parts.index.agents(locked))
        if (tenant == nullptr || id.tenant() == *tenant)
            summaries.push_back(summary_of(parts, locked, id, agent));
    std::ranges::sort(summaries, {}, &agent_summary::id);
    return summaries;
}

std::vector<other_memory> other_memories_of(const store_parts& parts, const tenant_id* tenant) {
    std::vector<other_memory> found;
    const agent_index::lock locked(parts.index);
    for (const store_parts* other : parts.others(locked))
        for (const auto& [id, agent] : other->index.agents(locked))
            if (tenant == nullptr || id.tenant() == *tenant)
                found.push_back(other_memory_of(parts, locked, *other, agent));
    for (const auto& [path, each] : parts.index.foreign(locked).all())
        if (each.agent && (tenant == nullptr || each.agent->tenant() == *tenant))
            found.push_back(other_memory_of(parts, locked, each));
    std::ranges::sort(found, [](const other_memory& a, const other_memory& b) {
        return std::tie(a.id, a.fingerprint) < std::tie(b.id, b.fingerprint);
    });
    return found;
}

std::vector<other_memory> other_memories_of(const store_parts& parts, const agent_id& id) {
    const std::string own = parts.shape.manifest_of(id);
    std::vector<other_memory> found;
    const agent_index::lock locked(parts.index);
    for (const store_parts* other : parts.others(locked))
        if (const agent_record* agent = other->index.find(locked, id))
            found.push_back(other_memory_of(parts, locked, *other, *agent));
    for (const auto& each : parts.index.foreign(locked).beginning_with(agent_part(own)))
        if (each->second.agent == id) found.push_back(other_memory_of(parts, locked, each->second));
    return found;
}

tenant_usage usage_of(const store_parts& parts, const tenant_id& tenant) {
    tenant_usage sum;
    std::vector<state_ptr> states;                        // destroyed after the lock
    std::map<block_hash, std::vector<block_hash>> names;  // by model
    // Adds one memory; `bytes` are those of its manifest. Its blocks are only collected here, for
    // several memories may share one.
    const auto count = [&](const block_hash& fingerprint, std::size_t tokens, std::uint64_t bytes,
                           const std::vector<block_hash>& blocks) {
        model_usage& model = sum.models[fingerprint];
        ++model.memories;
        model.tokens += tokens;
        model.disk_bytes += bytes;
        std::vector<block_hash>& all = names[fingerprint];
        all.insert(all.end(), blocks.begin(), blocks.end());
    };
    {
        const agent_index::lock locked(parts.index);
        for (const auto& [id, agent] : parts.index.agents(locked)) {
            if (id.tenant() != tenant) continue;
            states.push_back(agent.state);
            count(parts.options.fingerprint, agent.state->tokens.size(), agent.manifest_bytes,
                  concatenated(agent.saved, agent.attempted));
        }
        for (const store_parts* other : parts.others(locked))
            for (const auto& [id, agent] : other->index.agents(locked))
                if (id.tenant() == tenant)
                    count(other->options.fingerprint, agent.state->tokens.size(),
                          agent.manifest_bytes, concatenated(agent.saved, agent.attempted));
        const foreign_manifests& foreign = parts.index.foreign(locked);
        for (const auto& [path, each] : foreign.all())
            if (each.agent && each.agent->tenant() == tenant)
                count(each.fingerprint, each.tokens, each.bytes, each.names);
        for (auto& [fingerprint, model] : sum.models)
            model.model_name = foreign.label_of(fingerprint).name;
    }
    for (auto& [fingerprint, model] : sum.models) {
        std::vector<block_hash>& each = names[fingerprint];
        std::ranges::sort(each);
        // Not ranges::unique: Clang 14, which may build the fuzz programs, cannot read its library.
        each.erase(std::unique(each.begin(), each.end()), each.end());
        model.disk_bytes += parts.blocks.bytes_on_disk(each);
        sum.disk_bytes += model.disk_bytes;
    }
    sum.frames_held = frames_of(states);
    return sum;
}

}  // namespace semantic::storage
