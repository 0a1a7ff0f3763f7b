// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records which of several nodes that share an object store works on an agent: a key in Redis that
// its node keeps while a request extends the agent or an upload of it is under way, and that goes
// when the node does. Leases keep two nodes from computing the same turn; they do not decide which
// turn counts. A node uploads only over the manifest that it has seen, so the manifest's version is
// the fencing token of a node whose lease ran out, and without an answer of Redis the nodes go on.
// A lease counts only where a node of this object store has signed it (redis_seal.hpp): a forged
// one, by Redis or by another writer there, sends no client anywhere. Owner: its opener; it
// outlives every lease. Thread: any.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "storage/objects/redis/redis_link.hpp"
#include "storage/objects/redis/redis_seal.hpp"
#include "storage/types/agent_leases_counts.hpp"

namespace semantic::storage {

/// Whether `text` is the URL of a node: http:// or https://, a host, and only characters that such
/// a URL has unescaped.
bool is_node_url(std::string_view text);

struct agent_leases_options {
    redis_address address;
    std::string url;  // where the other nodes' clients reach this one; empty: nowhere
    std::chrono::milliseconds lasts{10'000};  // without a sign of its node
    std::chrono::milliseconds patience{300};  // with Redis, for a connection or an answer
    /// How long take() waits for another node, which returns its lease after the answer.
    std::chrono::milliseconds wait{500};
    std::chrono::milliseconds pause{2'000};  // how long Redis counts as gone after it was silent
    /// Trouble worth a log line. Called from any thread; may be empty.
    std::function<void(std::string)> on_warning{};
};

class agent_leases {
  public:
    /// A holder of a lease. While at least one lives, the agent is this node's.
    using lease = std::shared_ptr<const void>;
    struct claim {
        lease mine;  // null: another node's, or Redis does not answer
        bool is_elsewhere = false;
        std::string url;  // of the node that has the agent; empty: unsaid
    };

    /// Connects to Redis at the first call.
    explicit agent_leases(agent_leases_options options);
    /// Gives all leases back, where Redis answers.
    ~agent_leases();
    agent_leases(const agent_leases&) = delete;
    agent_leases& operator=(const agent_leases&) = delete;

    /// Sets the secret that all nodes on the object store share, with which leases are signed.
    /// Without it this node takes no leases and ignores those of others.
    void set_secret(std::string_view secret) { seal_.set_secret(secret); }

    /// Blocks, for at most `wait` and twice the patience. Tries to get the lease of an agent, and
    /// waits for another node that is about to return it. `agent`: its name on all nodes
    /// (shared_name_of).
    claim take(const std::string& agent);
    /// Returns: one more holder of a lease that this node has; null where it has none. Does not
    /// block.
    lease share(const std::string& agent);
    agent_leases_counts counts() const;

  private:
    struct entry {
        enum class state {
            unsure,  // Redis was asked, and may give it yet
            held,
            lost,  // another node has it
        };
        int users = 0;  // 0: to be given back
        state is = state::unsure;
        std::chrono::steady_clock::time_point good_until{};  // no key of this node's lasts longer
    };
    claim try_take(const std::string& agent);
    std::optional<claim> take_known(const std::string& agent);
    lease use(const std::string& agent, entry& known);
    void leave(const std::string& agent);
    void work(std::stop_token stop);
    void renew(const std::string& agent);
    void give_back(const std::string& agent);
    void answered(const redis_result<redis_reply>& reply);
    std::optional<std::string> value_for(const std::string& agent) const;
    claim read_claim(const std::string& agent, std::string_view value);
    /// Counts a lease that no server here has signed as one that got no answer, since it is ignored
    /// alike; warns at the first.
    void count_unsigned_lease();
    std::string key_of(const std::string& agent) const { return "semantic:lease:" + agent; }

    const agent_leases_options options_;
    const std::string id_;  // a random name, with which the values of this node's keys begin
    redis_seal seal_;
    redis_link link_;
    std::mutex calls_;  // one call at a time, and what is noted of its answer; before mutex_
    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable_any changed_;
    std::map<std::string, entry> entries_;
    bool has_work_ = false;  // an entry is to be given back or renewed at once
    std::chrono::steady_clock::time_point silent_until_{};
    bool was_silent_ = false;  // when it was asked last
    bool has_warned_of_forgery_ = false;
    agent_leases_counts counts_;
    std::jthread worker_;  // the last: it ends first
};

}  // namespace semantic::storage
