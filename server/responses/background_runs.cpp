#include "server/responses/background_runs.hpp"

#include <algorithm>
#include <chrono>

namespace semantic::server {

namespace {

using protocol::errc;

constexpr std::chrono::seconds busy_wait{5};

protocol::failure too_many(errc code, std::size_t most) {
    protocol::failure f =
        protocol::fail(code, std::to_string(most) + " responses are being made in the background");
    f.retry_after = busy_wait;
    return f;
}

}  // namespace

void background_run::tell() {
    std::vector<std::function<void()>> told;
    {
        std::lock_guard lock(mutex_);
        for (const auto& [id, changed] : watchers_) told.push_back(changed);
    }
    for (const auto& changed : told) changed();
}

void background_run::add(std::string_view events) {
    constexpr std::string_view end_of_event = "\n\n";
    {
        std::lock_guard lock(mutex_);
        while (!events.empty()) {
            const std::size_t end = events.find(end_of_event);
            const std::size_t count =
                end == std::string_view::npos ? events.size() : end + end_of_event.size();
            events_.emplace_back(events.substr(0, count));
            bytes_ += count;
            events.remove_prefix(count);
        }
        while (bytes_ > bytes_max_ && !events_.empty()) {
            bytes_ -= events_.front().size();
            events_.pop_front();
            ++first_;
        }
    }
    tell();
}

void background_run::say(std::string body) {
    std::lock_guard lock(mutex_);
    body_ = std::move(body);
}

std::string background_run::body() const {
    std::lock_guard lock(mutex_);
    return body_;
}

void background_run::end() {
    {
        std::lock_guard lock(mutex_);
        has_ended_ = true;
        stop_ = nullptr;
    }
    tell();
}

bool background_run::has_ended() const {
    std::lock_guard lock(mutex_);
    return has_ended_;
}

protocol::result<background_run::said> background_run::after(std::int64_t number) const {
    std::lock_guard lock(mutex_);
    const std::int64_t next = number + 1;
    if (next < first_)
        return protocol::fail(errc::bad_value,
                              "starting_after: the events in front of number " +
                                  std::to_string(first_) +
                                  " are not kept any more; read the response without stream",
                              "starting_after");
    said found{"", number, has_ended_};
    const auto count = static_cast<std::int64_t>(events_.size());
    for (std::int64_t i = next - first_; i < count; ++i) {
        found.events += events_[static_cast<std::size_t>(i)];
        found.last = first_ + i;
    }
    return found;
}

std::size_t background_run::bytes() const {
    std::lock_guard lock(mutex_);
    return bytes_ + body_.size();
}

std::uint64_t background_run::watch(std::function<void()> changed) {
    std::lock_guard lock(mutex_);
    watchers_.emplace(++watchers_made_, std::move(changed));
    return watchers_made_;
}

void background_run::unwatch(std::uint64_t watcher) {
    std::lock_guard lock(mutex_);
    watchers_.erase(watcher);
}

void background_run::when_stopped(std::function<void()> stop) {
    {
        std::lock_guard lock(mutex_);
        if (!is_stopped_) {
            stop_ = std::move(stop);
            return;
        }
    }
    stop();
}

void background_run::stop(bool is_dropped) {
    std::function<void()> stop;
    {
        std::lock_guard lock(mutex_);
        is_stopped_ = true;
        is_dropped_ = is_dropped_ || is_dropped;
        stop = std::exchange(stop_, nullptr);
    }
    if (stop) stop();
}

bool background_run::is_dropped() const {
    std::lock_guard lock(mutex_);
    return is_dropped_;
}

protocol::result<background_runs::handle> background_runs::begin(const storage::tenant_id& tenant,
                                                                 const std::string& id) {
    std::lock_guard lock(mutex_);
    if (at_once_ >= limits_.at_once) return too_many(errc::overloaded, limits_.at_once);
    std::size_t& own = unfinished_[tenant];
    if (own >= limits_.at_once_of_tenant)
        return too_many(errc::rate_limited, limits_.at_once_of_tenant);
    ++own;
    ++at_once_;
    auto made = std::make_shared<background_run>(id, limits_.event_bytes_of_one);
    all_[key(tenant, id)] = made;
    return made;
}

void background_runs::ended(const storage::tenant_id& tenant, const std::string& id) {
    std::lock_guard lock(mutex_);
    --at_once_;
    const auto own = unfinished_.find(tenant);
    if (--own->second == 0) unfinished_.erase(own);
    if (all_.contains(key(tenant, id))) ended_.emplace_back(tenant, id);
    make_room();
}

void background_runs::make_room() {
    std::size_t bytes = 0;
    for (const auto& [which, run] : all_) bytes += run->bytes();
    while (bytes > limits_.event_bytes && !ended_.empty()) {
        const auto first = all_.find(ended_.front());
        ended_.pop_front();
        if (first == all_.end()) continue;
        bytes -= first->second->bytes();
        all_.erase(first);
    }
}

background_runs::handle background_runs::find(const storage::tenant_id& tenant,
                                              const std::string& id) const {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(key(tenant, id));
    return found == all_.end() ? nullptr : found->second;
}

void background_runs::remove(const storage::tenant_id& tenant, const std::string& id) {
    std::lock_guard lock(mutex_);
    const key which(tenant, id);
    all_.erase(which);
    std::erase(ended_, which);
}

}  // namespace semantic::server
