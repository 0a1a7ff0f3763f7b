// SPDX-License-Identifier: Apache-2.0
#pragma once
// An engine whose events and timing the test decides.
// Thread: any. A test pushes events from its own thread, as an engine thread would.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "storage/types/kv_event_feed.hpp"

namespace semantic::tests {

class scripted_engine final : public engine::engine {
  public:
    using request_id = semantic::engine::request_id;
    using request = semantic::engine::generation_request;
    using event = semantic::engine::generation_event;

    explicit scripted_engine(std::string id = "scripted");

    /// Called by submit(), without a lock, after the request was recorded; may be empty.
    std::function<void(scripted_engine&, request_id)> on_submit;
    /// What count_tokens() returns.
    std::function<storage::result<int>(const semantic::engine::conversation&)> on_count;
    /// What export_agent() and import_agent() do, and what is called before erase().
    std::function<storage::result<std::uint64_t>(const semantic::engine::memory_sink&)> on_export;
    std::function<storage::result<int>(const semantic::engine::memory_source&)> on_import;
    std::function<storage::result<void>(const storage::agent_id&)> on_erase;
    std::optional<storage::shared_agents_counts> shared;
    semantic::engine::node_counts nodes;
    semantic::engine::pool_usage usage{100, 0, 0, 4096, 0, 0, 0};

    /// What remembered() and stored_blocks() return.
    std::map<storage::agent_id, std::vector<storage::blocks_stored>> blocks;

    /// Adds an agent for agents(), inspect(), fork(), evict() and erase().
    void remember(semantic::engine::agent_info agent);
    /// Adds a message for find_message().
    void remember_message(const std::string& id, storage::message_place place);
    /// What memory_of() returns.
    std::map<storage::tenant_id, semantic::engine::memory_usage> memory;
    /// What find_thread() returns for answers of the default tenant.
    std::map<std::string, semantic::engine::thread_turn> threads;

    request_id submit(request wanted,
                      std::shared_ptr<semantic::engine::generation_sink> sink) override;
    /// A hash of the credential.
    storage::tenant_id tenant(std::string_view credential) const override;
    std::vector<semantic::engine::agent_info> agents(
        const storage::tenant_id& tenant) const override;
    std::vector<semantic::engine::agent_info> agents_of_all() const override;
    semantic::engine::memory_usage memory_of(const storage::tenant_id& tenant) const override {
        auto found = memory.find(tenant);
        return found == memory.end() ? semantic::engine::memory_usage() : found->second;
    }
    std::optional<semantic::engine::agent_info> inspect(
        const storage::agent_id& agent) const override;
    storage::result<void> create(const storage::agent_id& agent) override;
    /// A fork at an answer fails unless `answer_names` has its name.
    storage::result<void> fork(const storage::agent_id& from, const storage::agent_id& to,
                               const semantic::engine::fork_point& at) override;
    /// The names of answers at which agents can be forked.
    std::set<std::string> answer_names;
    storage::result<void> set_policy(const storage::agent_id& agent,
                                     const storage::memory_policy& policy) override;
    storage::result<semantic::engine::prefetched_memory> prefetch(
        const storage::agent_id& agent) override;
    storage::result<void> evict(const storage::agent_id& agent) override;
    storage::result<void> erase(const storage::agent_id& agent) override;
    /// What branches() returns, by agent.
    std::map<storage::agent_id, std::vector<storage::agent_id>> branch_names;
    std::vector<storage::agent_id> branches(const storage::agent_id& agent) const override {
        auto found = branch_names.find(agent);
        return found == branch_names.end() ? std::vector<storage::agent_id>() : found->second;
    }
    storage::result<void> erase_memory(const storage::agent_id& agent,
                                       const storage::block_hash& fingerprint) override;
    std::optional<storage::message_place> find_message(const storage::tenant_id& tenant,
                                                       const std::string& id) const override;
    std::optional<semantic::engine::thread_turn> find_thread(
        const storage::tenant_id& tenant, const std::string& message_id) const override {
        auto found = threads.find(message_id);
        if (found == threads.end() || tenant != storage::tenant_id()) return std::nullopt;
        return found->second;
    }
    /// As count_tokens() for the conversation.
    storage::result<int> count_continued(const request& wanted) const override {
        return count_tokens(wanted.chat, wanted.thinking);
    }
    /// Ends the request with finished{cancelled}, once.
    void cancel(request_id id) override;
    storage::result<int> count_tokens(
        const semantic::engine::conversation& chat,
        const semantic::engine::thinking_params& thinking) const override;
    /// Waits until no request runs, and cancels what still runs at the deadline.
    void drain(std::chrono::steady_clock::time_point deadline) override;
    void resume() override { ++resumed; }
    std::atomic<int> resumed{0};
    const semantic::engine::model_info& info() const noexcept override { return info_; }
    const semantic::engine::engine_probe& probe() const noexcept override { return probe_; }
    const storage::store_probe& store_probe() const noexcept override { return store_probe_; }
    std::vector<storage::agent_id> remembered() const override {
        std::vector<storage::agent_id> found;
        for (const auto& each : blocks) found.push_back(each.first);
        return found;
    }
    std::vector<storage::blocks_stored> stored_blocks(
        const storage::agent_id& agent) const override {
        auto found = blocks.find(agent);
        return found == blocks.end() ? std::vector<storage::blocks_stored>() : found->second;
    }
    std::optional<storage::shared_agents_counts> shared_counts() const override { return shared; }
    semantic::engine::node_counts counts_of_nodes() const override { return nodes; }
    semantic::engine::pool_usage pool() const override { return usage; }
    storage::result<std::uint64_t> export_agent(
        const storage::agent_id& agent, const semantic::engine::memory_sink& sink) override {
        if (on_export) return on_export(sink);
        return storage::failure{storage::errc::not_found, "no agent " + agent.str()};
    }
    storage::result<int> import_agent(const storage::agent_id&,
                                      const semantic::engine::memory_source& source) override {
        if (on_import) return on_import(source);
        return storage::failure{storage::errc::corrupt, "scripted engines remember nothing"};
    }

    storage::result<void> keep_record(const storage::kept_record& record) override {
        std::lock_guard lock(records_mutex);
        if (on_keep_record)
            if (auto refused = on_keep_record(record); !refused) return refused;
        kept[{record.tenant, record.name}] = record;
        return {};
    }
    storage::result<void> erase_record(const storage::tenant_id& tenant,
                                       const std::string& name) override {
        if (on_erase_record)
            if (auto refused = on_erase_record(name); !refused) return refused;
        std::lock_guard lock(records_mutex);
        kept.erase({tenant, name});
        return {};
    }
    storage::record_names record_names(std::span<const std::string_view> heads) override {
        std::lock_guard lock(records_mutex);
        storage::record_names all;
        const auto is_wanted = [&](const std::string& name) {
            for (const std::string_view each : heads)
                if (name.starts_with(each)) return true;
            return heads.empty();
        };
        for (const auto& [name, record] : kept)
            if (is_wanted(record.name))
                all.whole.push_back({record.tenant, record.name, record.bytes.size()});
        return all;
    }
    storage::result<storage::kept_record> read_record(const storage::tenant_id& tenant,
                                                      const std::string& name) override {
        std::lock_guard lock(records_mutex);
        const auto found = kept.find({tenant, name});
        if (found != kept.end()) return found->second;
        return storage::failure{storage::errc::not_found, "no record " + name};
    }
    std::mutex records_mutex;
    std::map<std::pair<storage::tenant_id, std::string>, storage::kept_record> kept;
    std::function<storage::result<void>(const storage::kept_record&)> on_keep_record;
    /// Called without a lock.
    std::function<storage::result<void>(const std::string& name)> on_erase_record;

    /// Room that counts in `disk_reserved`, and is refused beyond `disk_free`.
    std::unique_ptr<semantic::engine::disk_room> reserve_disk(const storage::tenant_id&) override {
        struct room final : semantic::engine::disk_room {
            explicit room(scripted_engine& engine) : owner(engine) {}
            ~room() override { owner.disk_reserved -= taken; }
            storage::result<void> grow(std::uint64_t bytes) override {
                if (owner.disk_reserved + bytes > owner.disk_free)
                    return storage::failure{storage::errc::out_of_space, "the budget is full"};
                taken += bytes;
                owner.disk_reserved += bytes;
                return {};
            }
            scripted_engine& owner;
            std::uint64_t taken = 0;
        };
        return std::make_unique<room>(*this);
    }
    std::atomic<std::uint64_t> disk_reserved{0};
    std::atomic<std::uint64_t> disk_free{UINT64_MAX / 2};

    /// Delivers one event. After finished or failed the request is over, and later events are
    /// dropped.
    void push(request_id id, event next);
    /// Delivers `admitted`.
    void admit(request_id id, int prompt_tokens = 10, int reused_tokens = 4);
    /// Delivers a token with this text.
    void say(request_id id, const std::string& text);
    /// Delivers `finished`.
    void finish(request_id id, int output_tokens = 1);

    /// Waits up to 5 s. Returns: the id of the `number`-th request (from 1), or 0.
    request_id wait_for_request(std::size_t number);
    /// Waits up to 5 s. Returns: whether the request was cancelled.
    bool wait_for_cancel(request_id id);
    bool is_cancelled(request_id id) const;
    std::size_t request_count() const;
    request request_of(request_id id) const;
    bool was_drained() const;
    semantic::engine::engine_probe& counters() { return probe_; }
    /// What info() returns; to be changed before anybody asks.
    semantic::engine::model_info& description() { return info_; }

  private:
    struct entry {
        request wanted;
        std::shared_ptr<semantic::engine::generation_sink> sink;  // null once over
        bool cancelled = false;
    };
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::map<request_id, entry> requests_;
    std::map<storage::agent_id, semantic::engine::agent_info> agents_;
    std::map<std::string, storage::message_place> messages_;
    bool drained_ = false;
    semantic::engine::model_info info_;
    semantic::engine::engine_probe probe_;
    storage::store_probe store_probe_;
};

/// A function for on_submit that delivers a whole answer at once: `admitted`, the words,
/// `finished`.
std::function<void(scripted_engine&, scripted_engine::request_id)> answer_with(
    std::vector<std::string> words);

}  // namespace semantic::tests
