// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an engine does with an object store that it shares with engines on other machines; without
// one it does nothing. Owner: the engine. Thread: any.

#include <memory>
#include <optional>

#include "engine/engine.hpp"
#include "storage/agents/agent_cache_store.hpp"
#include "storage/objects/agents/shared_agents.hpp"
#include "storage/objects/redis/node_news.hpp"

namespace semantic::engine {

class engine_sharing {
  public:
    /// Blocks. Before the store of agents is opened. Errors: io, what agree_on_secret says.
    static storage::result<void> agree(const engine_options& options);
    /// Blocks. `store` outlives what is returned. Errors: io.
    static storage::result<std::unique_ptr<engine_sharing>> open(const engine_options& options,
                                                                 storage::agent_cache_store& store);

    /// Null where nothing is shared.
    storage::shared_agents* agents() const { return agents_.get(); }
    std::optional<storage::shared_agents_counts> counts() const;
    node_counts counts_of_nodes() const;
    /// Blocks. Has what the object store has of an agent that no request extends here too, where
    /// the object store answers. Returns: whether it has any.
    bool bring(const storage::agent_id& agent);
    void note_saved(const storage::agent_id& agent);
    /// Blocks. `fingerprint`: of the model whose memory is meant; nothing: of all. Errors: io,
    /// where the object store has not forgotten it; it can be asked again.
    storage::result<void> forget(const storage::agent_id& agent,
                                 const std::optional<storage::block_hash>& fingerprint = {});

  private:
    engine_sharing(std::optional<shared_memory> memory, storage::agent_cache_store& store)
        : memory_(std::move(memory)), store_(store) {}

    void hear(const storage::agent_news& news);

    const std::optional<shared_memory> memory_;  // what agents_ works on
    storage::agent_cache_store& store_;
    std::unique_ptr<storage::shared_agents> agents_;
    storage::node_news::subscription hearing_;  // the last: it ends first
};

}  // namespace semantic::engine
