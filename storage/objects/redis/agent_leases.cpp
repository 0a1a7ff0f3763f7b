// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/redis/agent_leases.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "storage/objects/random_id.hpp"

namespace semantic::storage {

namespace {

using lease_clock = std::chrono::steady_clock;

constexpr std::size_t node_url_bytes_max = 512;
constexpr std::chrono::milliseconds poll_interval{20};
constexpr int renewals_a_lease = 3;  // while it lasts

// Prolongs a lease if it is this node's, or if there is none: after a restart Redis has forgotten
// all. KEYS: the agent's key. ARGV: this node's id, the value, milliseconds.
constexpr const char* renew_script =
    "local v = redis.call('GET', KEYS[1]) "
    "if v and string.sub(v, 1, 32) ~= ARGV[1] then return 0 end "
    "redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1";
// Deletes a lease if it is this node's.
constexpr const char* give_back_script =
    "local v = redis.call('GET', KEYS[1]) "
    "if v and string.sub(v, 1, 32) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
constexpr std::size_t id_bytes = 32;  // as the scripts have it
constexpr std::string_view no_url = "-";

}  // namespace

bool is_node_url(std::string_view text) {
    const bool is_tls = text.starts_with("https://");
    if (!is_tls && !text.starts_with("http://")) return false;
    text.remove_prefix(is_tls ? 8 : 7);
    if (text.empty() || text.front() == '/' || text.size() > node_url_bytes_max) return false;
    return std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view(".-_~:/[]").find(c) != std::string_view::npos;
    });
}

agent_leases::agent_leases(agent_leases_options options)
    : options_(std::move(options)),
      id_(random_id()),
      link_(options_.address, options_.patience),
      worker_([this](std::stop_token stop) { work(std::move(stop)); }) {}

agent_leases::~agent_leases() {
    worker_.request_stop();
    worker_.join();
    std::vector<std::string> held;
    {
        std::lock_guard lock(mutex_);
        // Redis does not answer. The leases end by themselves.
        if (lease_clock::now() < silent_until_) return;
        for (const auto& [agent, known] : entries_) held.push_back(agent);
    }
    for (const std::string& agent : held)
        if (!link_.call({"EVAL", give_back_script, "1", key_of(agent), id_})) return;
}

/// Returns: a new holder of a lease that this node has. When it is destroyed it calls leave().
/// Requires: the mutex.
agent_leases::lease agent_leases::use(const std::string& agent, entry& known) {
    ++known.users;
    // The pointer is never followed; only its deleter matters.
    return {static_cast<const void*>(this), [this, agent](const void*) { leave(agent); }};
}

/// Counts one holder less; without holders the worker gives the lease back.
void agent_leases::leave(const std::string& agent) {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(agent);
    if (--found->second.users > 0) return;
    has_work_ = true;
    changed_.notify_all();
}

agent_leases::lease agent_leases::share(const std::string& agent) {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(agent);
    if (found == entries_.end() || found->second.users == 0) return nullptr;
    return use(agent, found->second);
}

/// Returns: a claim that can be made without asking Redis: this node has the lease already, or
/// Redis did not answer a moment ago. Nothing where Redis must be asked.
std::optional<agent_leases::claim> agent_leases::take_known(const std::string& agent) {
    const auto now = lease_clock::now();
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(agent);
    if (found != entries_.end() && found->second.is == entry::state::held &&
        now < found->second.good_until)
        return claim{use(agent, found->second), false, {}};
    if (now >= silent_until_) return std::nullopt;
    ++counts_.unanswered;
    return claim{};
}

agent_leases::claim agent_leases::take(const std::string& agent) {
    const auto until = lease_clock::now() + options_.wait;
    claim got = try_take(agent);
    while (got.is_elsewhere && lease_clock::now() < until) {
        std::this_thread::sleep_for(poll_interval);
        got = try_take(agent);
    }
    if (got.is_elsewhere) {
        std::lock_guard lock(mutex_);
        ++counts_.elsewhere;
    }
    return got;
}

/// Returns: the value of the agent's key, "ID SEALED": this node's id and its URL, signed for this
/// node and this agent only. Nothing without a secret.
std::optional<std::string> agent_leases::value_for(const std::string& agent) const {
    const auto sealed =
        seal_.seal("lease " + id_ + " " + agent, options_.url.empty() ? no_url : options_.url);
    if (!sealed) return std::nullopt;
    return id_ + " " + *sealed;
}

/// Returns: the claim that another node's value means: the agent is at that node's URL. A value
/// that is not signed counts as no lease.
agent_leases::claim agent_leases::read_claim(const std::string& agent, std::string_view value) {
    const std::string id(value.substr(0, id_bytes));
    value.remove_prefix(std::min(value.size(), id_bytes + 1));
    const auto url = seal_.open("lease " + id + " " + agent, value);
    if (!url) {
        count_unsigned_lease();
        return {};
    }
    // A lease with this node's own URL is from before its restart: it leads to no other node.
    const bool leads_on = is_node_url(*url) && *url != options_.url;
    return {nullptr, true, leads_on ? *url : std::string()};
}

void agent_leases::count_unsigned_lease() {
    {
        std::lock_guard lock(mutex_);
        ++counts_.unanswered;
        if (std::exchange(has_warned_of_forgery_, true)) return;
    }
    if (options_.on_warning)
        options_.on_warning(
            "Redis has a lease that no server on this object store has signed, or whose clock is "
            "a quarter of an hour away; it counts for nothing");
}

/// Blocks. Asks Redis once for the lease.
agent_leases::claim agent_leases::try_take(const std::string& agent) {
    if (auto known = take_known(agent)) return *known;
    std::lock_guard turn(calls_);
    // Again: another thread may have got it while this one waited.
    if (auto known = take_known(agent)) return *known;
    const auto value = value_for(agent);
    if (!value) return {};
    const auto asked = lease_clock::now();
    const auto reply = link_.call(
        {"SET", key_of(agent), *value, "NX", "GET", "PX", std::to_string(options_.lasts.count())});
    answered(reply);
    if (reply && reply->is != redis_reply::kind::nothing && !reply->text.starts_with(id_ + ' '))
        return read_claim(agent, reply->text);
    std::lock_guard lock(mutex_);
    if (!reply) {
        ++counts_.unanswered;
        // Redis may have read the command and grant the lease later. So the agent is entered as
        // unsure, and the worker gives such a lease back. These are few, since Redis is asked only
        // once in each pause.
        entries_.try_emplace(agent, entry{0, entry::state::unsure, asked + options_.lasts});
        return {};
    }
    const bool is_new = reply->is == redis_reply::kind::nothing;
    if (is_new) ++counts_.taken;
    // SET with NX and GET replies with nothing where the key is new, else with the value that is
    // there, which begins with this node's id (any other was dealt with above).
    entry& known = entries_[agent];
    known.is = entry::state::held;
    known.good_until = asked + (is_new ? options_.lasts : std::chrono::milliseconds(0));
    if (!is_new) {  // it was this node's and may end soon: the worker renews it at once
        has_work_ = true;
        changed_.notify_all();
    }
    return {use(agent, known), false, {}};
}

agent_leases_counts agent_leases::counts() const {
    std::lock_guard lock(mutex_);
    agent_leases_counts now = counts_;
    now.held = static_cast<std::uint64_t>(std::ranges::count_if(
        entries_, [](const auto& each) { return each.second.is == entry::state::held; }));
    return now;
}

/// Notes whether Redis answered: after a silence it is left alone for a pause; warns at the first
/// one.
void agent_leases::answered(const redis_result<redis_reply>& reply) {
    bool warns = false;
    {
        std::lock_guard lock(mutex_);
        if (!reply) silent_until_ = lease_clock::now() + options_.pause;
        warns = !reply && !was_silent_;
        if (reply && was_silent_) {
            has_work_ = true;  // leases may have to be given back or renewed since the silence
            changed_.notify_all();
        }
        was_silent_ = !reply;
    }
    if (warns && options_.on_warning)
        options_.on_warning(reply.error() + "; agents go on without leases");
}

/// The worker thread: renews leases that have holders before they end, and gives back those
/// without.
void agent_leases::work(std::stop_token stop) {
    const auto interval = options_.lasts / renewals_a_lease;
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
        changed_.wait_for(lock, stop, interval, [this] { return has_work_; });
        has_work_ = false;
        const auto now = lease_clock::now();
        std::erase_if(entries_, [now](const auto& each) {
            return each.second.users == 0 &&
                   (each.second.is == entry::state::lost || each.second.good_until < now);
        });
        if (stop.stop_requested() || now < silent_until_) continue;
        std::vector<std::string> left, due;
        for (const auto& [agent, of] : entries_) {
            if (of.users == 0)
                left.push_back(agent);
            else if (of.is == entry::state::held &&
                     of.good_until < now + options_.lasts - interval / 2)
                due.push_back(agent);
        }
        lock.unlock();
        for (const std::string& agent : left) give_back(agent);
        for (const std::string& agent : due) renew(agent);
        lock.lock();
    }
}

/// Blocks. Prolongs a lease; notes it as lost where another node has it.
void agent_leases::renew(const std::string& agent) {
    std::lock_guard turn(calls_);
    const auto value = value_for(agent);
    if (!value) return;
    const auto asked = lease_clock::now();
    const auto reply = link_.call({"EVAL", renew_script, "1", key_of(agent), id_, *value,
                                   std::to_string(options_.lasts.count())});
    answered(reply);
    if (!reply) return;
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(agent);
    if (found == entries_.end()) return;
    if (reply->number == 1) {
        found->second.good_until = asked + options_.lasts;
    } else {
        found->second.is = entry::state::lost;
        ++counts_.lost;
    }
}

/// Blocks. Deletes a lease in Redis that has no holder. One that was taken again meanwhile stays,
/// and so does one for which Redis does not answer.
void agent_leases::give_back(const std::string& agent) {
    std::lock_guard turn(calls_);
    const auto is_left = [&] {
        const auto found = entries_.find(agent);
        return found != entries_.end() && found->second.users == 0;
    };
    {
        std::lock_guard lock(mutex_);
        if (!is_left() || lease_clock::now() < silent_until_) return;
        // The next one to take it asks Redis, after this call.
        entries_[agent].is = entry::state::unsure;
    }
    const auto reply = link_.call({"EVAL", give_back_script, "1", key_of(agent), id_});
    answered(reply);
    std::lock_guard lock(mutex_);
    if (reply && is_left()) entries_.erase(agent);
}

}  // namespace semantic::storage
