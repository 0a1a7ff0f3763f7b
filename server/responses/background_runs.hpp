// SPDX-License-Identifier: Apache-2.0
#pragma once
// Responses that are made in the background: what each has said so far, for later readers, and
// which may still be stopped. What they were asked and how they end is the response_registry's.
// Owner: app. Thread: any; nothing waits under a lock.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/wire/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::server {

struct background_limits {
    std::size_t at_once_of_tenant = 16;
    std::size_t at_once = 64;
    /// Bytes that unfinished runs hold: their texts, and the responses they follow.
    std::size_t request_bytes_of_tenant = std::size_t{32} << 20;
    std::size_t request_bytes = std::size_t{64} << 20;
    std::size_t event_bytes_of_one = std::size_t{8} << 20;  // the latest are kept
    /// Event bytes of all unfinished runs together: each has an equal share, and keeps its latest.
    std::size_t open_event_bytes = std::size_t{32} << 20;
    /// Event bytes of all finished runs together: of the tenant with most of them, those that ended
    /// first are dropped.
    std::size_t event_bytes = std::size_t{32} << 20;
};

/// One of them, from the request on; it stays a while when it has ended.
class background_run {
  public:
    background_run(std::string id, std::size_t bytes_max)
        : id_(std::move(id)), bytes_max_(bytes_max) {}
    background_run(const background_run&) = delete;
    background_run& operator=(const background_run&) = delete;

    const std::string& id() const noexcept { return id_; }
    /// Appends whole server-sent events; the first has number 0.
    void add(std::string_view events);
    /// The response in its present state.
    void say(std::string body);
    std::string body() const;
    /// Nothing follows.
    void end();
    bool has_ended() const;

    /// Shared with its readers: there may be many, each as slow as it likes.
    using event = std::shared_ptr<const std::string>;
    struct said {
        std::vector<event> events;
        std::int64_t last = -1;  // the number of the last of them
        bool has_ended = false;  // and these are the last of all
    };
    /// The events after the one of this number, some of them at a time; -1: the first. Errors:
    /// bad_value, when some of them are not kept any more.
    protocol::result<said> after(std::int64_t number) const;
    /// What it takes.
    std::size_t bytes() const;
    /// How many bytes of events are kept, from now on.
    void keep_events(std::size_t bytes_max);

    /// `changed` is called from any thread when something has been said or it has ended, until
    /// unwatch(). It must not block.
    std::uint64_t watch(std::function<void()> changed);
    void unwatch(std::uint64_t watcher);

    /// `stop` is called by stop(), at once when that has been called. It must not block.
    void when_stopped(std::function<void()> stop);
    /// `is_dropped`: nothing of it is to be kept.
    void stop(bool is_dropped);
    bool is_dropped() const;

  private:
    void tell();
    void let_go_of_events();  // requires: mutex_ is held

    const std::string id_;
    mutable std::mutex mutex_;  // guards all below
    std::size_t bytes_max_;
    std::deque<event> events_;
    std::int64_t first_ = 0;  // the number of the first that is kept
    std::size_t bytes_ = 0;
    std::string body_;
    bool has_ended_ = false;
    bool is_stopped_ = false;
    bool is_dropped_ = false;
    std::function<void()> stop_;
    std::map<std::uint64_t, std::function<void()>> watchers_;
    std::uint64_t watchers_made_ = 0;
};

class background_runs {
  public:
    using handle = std::shared_ptr<background_run>;

    explicit background_runs(background_limits limits = {}) : limits_(limits) {}

    /// `request_bytes`: what it holds until it ends. Errors: rate_limited, when the tenant has as
    /// many as it may, or so large ones; overloaded, when all have.
    protocol::result<handle> begin(const storage::tenant_id& tenant, const std::string& id,
                                   std::size_t request_bytes = 0);
    /// To be called after background_run::end(): another may begin, and the oldest events are
    /// dropped where there are too many.
    void ended(const storage::tenant_id& tenant, const std::string& id);
    /// Null where there is none, or none any more.
    handle find(const storage::tenant_id& tenant, const std::string& id) const;
    void remove(const storage::tenant_id& tenant, const std::string& id);

  private:
    using key = std::pair<storage::tenant_id, std::string>;

    struct load {
        std::size_t count = 0;
        std::size_t bytes = 0;  // of their requests
    };

    // These require that mutex_ is held.
    std::optional<protocol::failure> refusal(const load& own, std::size_t request_bytes) const;
    void share_events();
    void let_go_of_ended();

    const background_limits limits_;
    mutable std::mutex mutex_;
    std::map<key, handle> all_;                      // guarded by mutex_
    std::map<key, std::size_t> open_;                // bytes of their requests; guarded by mutex_
    std::map<storage::tenant_id, load> unfinished_;  // guarded by mutex_
    load total_;                                     // guarded by mutex_
    std::deque<key> ended_;  // in the order in which they did; guarded by mutex_
};

}  // namespace semantic::server
