// SPDX-License-Identifier: Apache-2.0
#include "server/responses/background_runs.hpp"

#include <algorithm>
#include <chrono>

namespace semantic::server {

namespace {

using protocol::errc;

constexpr std::chrono::seconds busy_wait{5};
// What a reader gets in one call.
constexpr std::size_t events_at_a_time = 64;

protocol::failure busy(errc code, const std::string& reached) {
    protocol::failure f =
        protocol::fail(code, reached + " are being made in the background, which is the limit");
    f.retry_after = busy_wait;
    return f;
}

protocol::failure too_many(errc code, std::size_t most) {
    return busy(code, std::to_string(most) + " responses");
}

protocol::failure too_large(errc code, std::size_t most) {
    return busy(code, "responses whose requests have " + std::to_string(most) + " bytes");
}

}  // namespace

void background_run::notify_watchers() {
    std::vector<std::function<void()>> callbacks;
    {
        std::lock_guard lock(mutex_);
        for (const auto& [id, changed] : watchers_) callbacks.push_back(changed);
    }
    for (const auto& changed : callbacks) changed();
}

void background_run::add(std::string_view events) {
    constexpr std::string_view end_of_event = "\n\n";
    {
        std::lock_guard lock(mutex_);
        while (!events.empty()) {
            const std::size_t end = events.find(end_of_event);
            const std::size_t count =
                end == std::string_view::npos ? events.size() : end + end_of_event.size();
            events_.push_back(std::make_shared<const std::string>(events.substr(0, count)));
            bytes_ += count;
            events.remove_prefix(count);
        }
        let_go_of_events();
    }
    notify_watchers();
}

void background_run::let_go_of_events() {
    while (bytes_ > bytes_max_ && !events_.empty()) {
        bytes_ -= events_.front()->size();
        events_.pop_front();
        ++first_;
    }
}

void background_run::keep_events(std::size_t bytes_max) {
    std::lock_guard lock(mutex_);
    bytes_max_ = bytes_max;
    let_go_of_events();
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
    notify_watchers();
}

bool background_run::has_ended() const {
    std::lock_guard lock(mutex_);
    return has_ended_;
}

protocol::result<background_run::said> background_run::after(std::int64_t number) const {
    std::lock_guard lock(mutex_);
    const auto count = static_cast<std::int64_t>(events_.size());
    // The client may have named a number beyond the last event.
    const std::int64_t next = std::min(number, first_ + count) + 1;
    if (next < first_)
        return protocol::fail(errc::bad_value,
                              "starting_after: the events in front of number " +
                                  std::to_string(first_) +
                                  " are not kept any more; read the response without stream",
                              "starting_after");
    said found{{}, number, false};
    std::int64_t i = next - first_;
    for (; i < count && found.events.size() < events_at_a_time; ++i) {
        found.events.push_back(events_[static_cast<std::size_t>(i)]);
        found.last = first_ + i;
    }
    found.has_ended = has_ended_ && i >= count;
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

std::optional<protocol::failure> background_runs::refusal(const load& own,
                                                          std::size_t request_bytes) const {
    if (total_.count >= limits_.at_once) return too_many(errc::overloaded, limits_.at_once);
    if (own.count >= limits_.at_once_of_tenant)
        return too_many(errc::rate_limited, limits_.at_once_of_tenant);
    // A tenant's only run may be of any size that a request may have.
    if (own.count > 0 && own.bytes + request_bytes > limits_.request_bytes_of_tenant)
        return too_large(errc::rate_limited, limits_.request_bytes_of_tenant);
    if (total_.count > 0 && total_.bytes + request_bytes > limits_.request_bytes)
        return too_large(errc::overloaded, limits_.request_bytes);
    return std::nullopt;
}

protocol::result<background_runs::handle> background_runs::begin(const storage::tenant_id& tenant,
                                                                 const std::string& id,
                                                                 std::size_t request_bytes) {
    std::lock_guard lock(mutex_);
    const auto known = unfinished_.find(tenant);
    const load own = known == unfinished_.end() ? load() : known->second;
    if (auto refused = refusal(own, request_bytes)) return *refused;
    for (load* each : {&unfinished_[tenant], &total_}) {
        ++each->count;
        each->bytes += request_bytes;
    }
    auto made = std::make_shared<background_run>(id, limits_.event_bytes_of_one);
    all_[key(tenant, id)] = made;
    open_[key(tenant, id)] = request_bytes;
    share_events();
    return made;
}

void background_runs::ended(const storage::tenant_id& tenant, const std::string& id) {
    std::lock_guard lock(mutex_);
    const key name(tenant, id);
    const auto one = open_.find(name);
    const auto own = unfinished_.find(tenant);
    for (load* each : {&own->second, &total_}) {
        --each->count;
        each->bytes -= one->second;
    }
    open_.erase(one);
    if (own->second.count == 0) unfinished_.erase(own);
    if (all_.contains(name)) ended_.push_back(name);
    let_go_of_ended();
    share_events();
}

void background_runs::share_events() {
    if (open_.empty()) return;
    const std::size_t part =
        std::min(limits_.event_bytes_of_one, limits_.open_event_bytes / open_.size());
    for (const auto& [name, bytes] : open_) {
        const auto run = all_.find(name);
        if (run != all_.end()) run->second->keep_events(part);
    }
}

void background_runs::let_go_of_ended() {
    std::size_t bytes = 0;
    std::map<storage::tenant_id, std::size_t> of_tenants;
    for (const key& each : ended_) {
        const std::size_t own = all_.at(each)->bytes();
        of_tenants[each.first] += own;
        bytes += own;
    }
    while (bytes > limits_.event_bytes && !ended_.empty()) {
        const auto most =
            std::max_element(of_tenants.begin(), of_tenants.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; });
        const auto first = std::find_if(ended_.begin(), ended_.end(),
                                        [&](const key& each) { return each.first == most->first; });
        const std::size_t own = all_.at(*first)->bytes();
        most->second -= own;
        bytes -= own;
        all_.erase(*first);
        ended_.erase(first);
        if (most->second == 0) of_tenants.erase(most);
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
    const key run_key(tenant, id);
    all_.erase(run_key);
    std::erase(ended_, run_key);
}

}  // namespace semantic::server
