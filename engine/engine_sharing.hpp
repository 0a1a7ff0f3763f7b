// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connects an engine to the object store that it shares with engines on other machines ("nodes"):
// fetches and uploads agents, and exchanges news of them. Without an object store its methods do
// nothing. Owner: the engine. Thread: any.

#include <memory>
#include <optional>

#include "engine/engine.hpp"
#include "storage/agents/agent_cache_store.hpp"
#include "storage/objects/agents/shared_agents.hpp"
#include "storage/objects/redis/node_news.hpp"

namespace semantic::engine {

class engine_sharing {
  public:
    /// Blocks. Fetches the secret that all nodes on the object store have, by which they sign
    /// messages; makes it if there is none. Called before the store of agents is opened. Errors:
    /// io.
    static storage::result<void> agree(const engine_options& options);
    /// Blocks. `store` must outlive the returned object. Errors: io.
    static storage::result<std::unique_ptr<engine_sharing>> open(const engine_options& options,
                                                                 storage::agent_cache_store& store);

    /// Null without an object store.
    storage::shared_agents* agents() const { return agents_.get(); }
    std::optional<storage::shared_agents_counts> counts() const;
    node_counts counts_of_nodes() const;
    /// Blocks. Fetches the agent's newest memory from the object store, unless a request extends
    /// the agent on this node. Returns: whether the object store has the agent; false if it does
    /// not answer.
    bool bring(const storage::agent_id& agent);
    /// Queues the upload of the agent, which was just saved.
    void note_saved(const storage::agent_id& agent);
    /// Blocks. Erases the agent in the object store. `fingerprint`: only the memory of this model;
    /// nothing: of all models. Errors: io if the object store has not erased it; then the call can
    /// be repeated.
    storage::result<void> forget(const storage::agent_id& agent,
                                 const std::optional<storage::block_hash>& fingerprint = {});

  private:
    engine_sharing(std::optional<shared_memory> memory, storage::agent_cache_store& store)
        : memory_(std::move(memory)), store_(store) {}

    void hear(const storage::agent_news& news);
    const std::optional<shared_memory> memory_;  // the object stores that agents_ uses
    storage::agent_cache_store& store_;
    std::unique_ptr<storage::shared_agents> agents_;
    storage::node_news::subscription hearing_;  // last member, so that it is destroyed first
};

}  // namespace semantic::engine
