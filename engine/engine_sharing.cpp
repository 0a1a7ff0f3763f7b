// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_sharing.hpp"

#include "engine/prompt/source_search.hpp"
#include "storage/objects/agents/common_secret.hpp"
#include "storage/objects/redis/agent_leases.hpp"

namespace semantic::engine {

namespace {

storage::failure not_shared(const storage::object_failure& why) {
    return {storage::errc::io, "object-store: " + why.what};
}

}  // namespace

storage::result<void> engine_sharing::agree(const engine_options& options) {
    if (!options.shared) return {};
    const auto agreed = storage::agree_on_secret(
        *options.shared->lookups, storage::posix_file_system(), options.cache_directory);
    if (!agreed) return not_shared(agreed.error());
    if (options.shared->leases != nullptr) options.shared->leases->set_secret(*agreed);
    if (options.shared->news != nullptr) options.shared->news->set_secret(*agreed);
    return {};
}

storage::result<std::unique_ptr<engine_sharing>> engine_sharing::open(
    const engine_options& options, storage::agent_cache_store& store) {
    std::unique_ptr<engine_sharing> sharing(new engine_sharing(options.shared, store));
    if (!options.shared) return sharing;
    storage::shared_agents_options how;
    how.directory = options.cache_directory;
    how.lookups = options.shared->lookups.get();
    how.name_fork = [](const storage::agent_id& source) {
        return new_anonymous_id().owned_by(source.tenant());
    };
    how.blocks = options.shared->blocks.get();
    if (const auto& news = options.shared->news) {
        // Makes a callback that sends other nodes the news `action` of an agent.
        const auto telling = [&news](storage::agent_news::kind action) {
            return [news, action](const std::string& agent) { news->tell({action, agent}); };
        };
        how.on_uploaded = telling(storage::agent_news::kind::saved);
        how.on_forgotten = telling(storage::agent_news::kind::erased);
    }
    how.on_warning = options.on_warning;
    auto opened = storage::shared_agents::open(store, *options.shared->uploads, how);
    if (!opened) return not_shared(opened.error());
    sharing->agents_ = std::move(*opened);
    if (options.shared->news != nullptr)
        sharing->hearing_ = options.shared->news->follow(
            [self = sharing.get()](const storage::agent_news& news) { self->hear(news); });
    return sharing;
}

/// Takes in what another node has done to an agent, so that the next request for the agent need not
/// ask the object store. Called on a thread of node_news.
void engine_sharing::hear(const storage::agent_news& news) {
    if (news.action == storage::agent_news::kind::saved) return agents_->heard_saved(news.agent);
    agents_->heard_erased(news.agent);
}

std::optional<storage::shared_agents_counts> engine_sharing::counts() const {
    if (agents_ == nullptr) return std::nullopt;
    return agents_->counts();
}

node_counts engine_sharing::counts_of_nodes() const {
    node_counts found;
    if (!memory_) return found;
    if (memory_->leases != nullptr) found.leases = memory_->leases->counts();
    if (memory_->news != nullptr) found.news = memory_->news->counts();
    return found;
}

bool engine_sharing::bring(const storage::agent_id& agent) {
    if (agents_ == nullptr) return false;
    const auto here = store_.inspect(agent);
    if (here && here->in_use) return true;
    const auto found = agents_->refresh(agent);
    return found && *found != storage::freshness::absent;
}

void engine_sharing::note_saved(const storage::agent_id& agent) {
    if (agents_ != nullptr) agents_->note_saved(agent);
}

storage::result<void> engine_sharing::forget(
    const storage::agent_id& agent, const std::optional<storage::block_hash>& fingerprint) {
    if (agents_ == nullptr) return {};
    const auto done = fingerprint ? agents_->forget(agent, *fingerprint) : agents_->forget(agent);
    if (done) return {};
    return storage::failure{storage::errc::io, "the object store has not erased " + agent.str() +
                                                   ": " + done.error().what};
}

}  // namespace semantic::engine
