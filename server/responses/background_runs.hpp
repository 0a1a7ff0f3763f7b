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
    /// Bytes that unfinished runs hold: their requests, and the responses that they follow.
    std::size_t request_bytes_of_tenant = std::size_t{32} << 20;
    std::size_t request_bytes = std::size_t{64} << 20;
    std::size_t event_bytes_of_one = std::size_t{8} << 20;  // the latest are kept
    /// Bytes of events of all unfinished runs together: each has an equal share, and keeps its
    /// latest events.
    std::size_t open_event_bytes = std::size_t{32} << 20;
    /// Bytes of events of all finished runs together: beyond it the tenant with most of them loses
    /// those of the runs that ended first.
    std::size_t event_bytes = std::size_t{32} << 20;
};

/// One response that is made in the background, from its request on; it is kept for a while when it
/// has ended.
class background_run {
  public:
    background_run(std::string id, std::size_t bytes_max)
        : id_(std::move(id)), bytes_max_(bytes_max) {}
    background_run(const background_run&) = delete;
    background_run& operator=(const background_run&) = delete;

    const std::string& id() const noexcept { return id_; }
    /// Appends whole server-sent events; the first has number 0.
    void add(std::string_view events);
    /// Sets body(): the response in its present state.
    void say(std::string body);
    std::string body() const;
    /// Notes that the response has ended; nothing is added after it.
    void end();
    bool has_ended() const;

    /// One event. Readers share it, since there may be many slow ones.
    using event = std::shared_ptr<const std::string>;
    struct said {
        std::vector<event> events;
        std::int64_t last = -1;  // the number of the last of them
        bool has_ended = false;  // whether these are the last of all
    };
    /// Some of the events after number `number`; -1: from the first on. Errors: bad_value, when
    /// some of them are no longer kept.
    protocol::result<said> after(std::int64_t number) const;
    /// What events and body take, in bytes.
    std::size_t bytes() const;
    /// Sets how many bytes of events are kept from now on.
    void keep_events(std::size_t bytes_max);

    /// Has `changed` called, on any thread, when there are new events or the run has ended, until
    /// unwatch(). It must not block. Returns: the number for unwatch().
    std::uint64_t watch(std::function<void()> changed);
    void unwatch(std::uint64_t watcher);

    /// Has `stop` called by stop(); at once where stop() was called already. It must not block.
    void when_stopped(std::function<void()> stop);
    /// Stops the run. `is_dropped`: its response was deleted and is not to be stored.
    void stop(bool is_dropped);
    bool is_dropped() const;

  private:
    /// Calls all watchers. Requires: mutex_ is not held.
    void notify_watchers();
    void let_go_of_events();  // drops the oldest beyond bytes_max_; requires: mutex_ is held

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

    /// Begins a run. `request_bytes`: what it holds until it ends. Errors: rate_limited, when the
    /// tenant has too many or too large ones; overloaded, when all tenants together have.
    protocol::result<handle> begin(const storage::tenant_id& tenant, const std::string& id,
                                   std::size_t request_bytes = 0);
    /// Ends a run, after background_run::end(): another may begin, and events of the oldest
    /// finished runs are dropped where there are too many.
    void ended(const storage::tenant_id& tenant, const std::string& id);
    /// The run; null where there is none, or it is no longer kept.
    handle find(const storage::tenant_id& tenant, const std::string& id) const;
    /// Forgets the run.
    void remove(const storage::tenant_id& tenant, const std::string& id);

  private:
    using key = std::pair<storage::tenant_id, std::string>;

    struct load {
        std::size_t count = 0;
        std::size_t bytes = 0;  // of their requests
    };

    // Why a tenant that has `own` cannot begin another run; nothing: it can.
    std::optional<protocol::failure> refusal(const load& own, std::size_t request_bytes) const;
    /// Gives each unfinished run its share of open_event_bytes.
    void share_events();
    /// Drops finished runs until event_bytes holds.
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
