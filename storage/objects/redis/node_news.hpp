// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages between nodes that share an object store, published through Redis and not kept: each
// node's status, for the dashboards; and the agents that a node has just saved or erased, so that
// the others drop their copies before a client asks. All of it is a convenience: a node that misses
// a message finds the change when it next asks the object store. A message that no node of this
// object store has signed (redis_seal.hpp) is ignored. Owner: its opener; it outlives every
// subscription. Thread: any.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "storage/objects/redis/redis_link.hpp"
#include "storage/objects/redis/redis_seal.hpp"
#include "storage/types/node_news_counts.hpp"
#include "storage/types/subscription.hpp"

namespace semantic::storage {

struct node_news_options {
    redis_address address;
    std::string url;                                // where clients reach this node; empty: unsaid
    std::chrono::milliseconds patience{300};        // with Redis, for a connection or an answer
    std::chrono::milliseconds interval{2'000};      // between two signs of this node
    std::chrono::milliseconds forget_after{7'000};  // of a node that gives no sign
    std::chrono::milliseconds pause{1'000};         // before Redis is tried again
    /// Trouble worth a log line. Called from any thread; may be empty.
    std::function<void(std::string)> on_warning{};
};

struct agent_news {
    enum class kind { saved, erased };
    kind action = kind::saved;
    std::string agent;  // a name that no other agent of any node has (shared_name_of)
};

/// A node as it was when it was last heard.
struct known_node {
    std::string id;    // of the process: another one after every start
    std::string url;   // where clients reach it; empty: unsaid
    std::string says;  // what describe_by()'s function returned there
    std::chrono::milliseconds silent_for{0};
    bool is_self = false;
};

class node_news {
  public:
    static constexpr std::size_t says_bytes_max = 4096;
    static constexpr std::size_t waiting_max = 1024;  // news that wait for Redis; more are dropped
    static constexpr std::size_t nodes_max = 1024;    // that are remembered
    static constexpr std::size_t heard_max = 10'000;  // news that wait for receivers, likewise

    /// Called from a thread of its own, one news at a time; may block.
    using receiver = std::function<void(const agent_news&)>;

    /// Ends with this; the receiver is not running any more then.
    using subscription = storage::subscription<node_news>;

    /// Connects in the background, as often as it takes.
    explicit node_news(node_news_options options);
    /// Publishes that this node is gone, where Redis answers.
    ~node_news();
    node_news(const node_news&) = delete;
    node_news& operator=(const node_news&) = delete;

    /// Sets the secret that all nodes on the object store share. Without it nothing is published,
    /// and nothing received.
    void set_secret(std::string_view secret);
    /// Sets the function that gives the text which this node publishes with each sign: one line,
    /// says_bytes_max at most. It is called from a thread of its own, and not any more once another
    /// call of describe_by() has returned.
    void describe_by(std::function<std::string()> describe);
    /// Publishes news about an agent of this node, in the background.
    void tell(agent_news news);
    /// Subscribes to what other nodes publish about agents.
    subscription follow(receiver to);
    /// Returns: this node, then the others that have given a sign lately, by their URLs.
    std::vector<known_node> nodes() const;
    node_news_counts counts() const;

  private:
    friend storage::subscription<node_news>;
    using clock = std::chrono::steady_clock;
    struct heard_node {
        std::string url, says;
        clock::time_point at;
    };
    void speak(std::stop_token stop);
    void hear(std::stop_token stop);
    void tell_receivers(std::stop_token stop);
    void take(const redis_listener::message& message);
    void take_node(std::string_view text);
    void take_agent(std::string_view text);
    bool publish(const std::string& channel, const std::string& text);
    std::string describe();
    void warn(bool& worked, bool works, const std::string& why);
    void leave(std::uint64_t id);

    const node_news_options options_;
    const std::string id_;
    const std::string node_channel_, agent_channel_;  // of the database: SELECT divides no channels
    redis_link link_;
    redis_seal seal_;
    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable_any changed_;
    std::deque<std::string> waiting_;  // texts about agents
    std::map<std::string, heard_node> heard_;
    node_news_counts counts_;
    std::deque<agent_news> heard_news_;
    bool speaks_ = true, hears_ = true;  // Redis answered the last time
    bool is_due_ = false;                // a sign of this node, at once
    std::string self_;                   // what this node said last
    std::mutex describing_;              // held while describe_ runs
    std::function<std::string()> describe_;
    std::mutex receiving_;                         // held while receivers run
    std::map<std::uint64_t, receiver> receivers_;  // guarded by receiving_
    std::uint64_t next_id_ = 1;
    std::jthread speaker_, hearer_, receiver_;  // the last: they end first
};

}  // namespace semantic::storage
