#include "server/coordination/session_registry.hpp"

#include <algorithm>
#include <set>

#include "server/coordination/session_driver.hpp"

namespace semantic::server {

namespace coordination = protocol::coordination;
using protocol::errc;

namespace {

protocol::failure is_busy(const std::string& id) {
    return fail(errc::conflict, "Session " + id + " is taking a turn");
}

}  // namespace

session_registry::session& session_registry::room::now() const { return live_.now; }

storage::agent_id session_registry::room::agent_id(int agent) const {
    return session_registry::agent_id(tenant_, live_.now, agent);
}

session_registry::memory& session_registry::room::memory_of(int agent) const {
    return of_.memories_[agent_id(agent)];
}

std::shared_ptr<std::atomic<int>> session_registry::room::read_ahead(int agent) const {
    return {live_.ahead, &(*live_.ahead)[static_cast<std::size_t>(agent)]};
}

void session_registry::room::add_run(engine_run what) const {
    std::erase_if(live_.runs, [](const engine_run& each) { return each.has_ended->load(); });
    live_.runs.push_back(std::move(what));
}

std::vector<engine_run> session_registry::room::runs() const {
    std::erase_if(live_.runs, [](const engine_run& each) { return each.has_ended->load(); });
    return live_.runs;
}

protocol::failure session_registry::no_session(const std::string& id) {
    return fail(errc::not_found, "Session " + id + " not found");
}

session_registry::live* session_registry::find(const storage::tenant_id& tenant,
                                               const std::string& id) {
    auto found = sessions_.find(key(tenant, id));
    return found == sessions_.end() ? nullptr : &found->second;
}

storage::agent_id session_registry::agent_id(const storage::tenant_id& tenant, const session& of,
                                             int agent) {
    const auto& who = of.agents[static_cast<std::size_t>(agent)];
    // Names were checked when the session was opened.
    return storage::agent_id::parse(coordination::memory_name(of, who)).value().of(tenant);
}

std::size_t session_registry::count_locked(const storage::tenant_id& tenant) const {
    std::size_t sessions = 0;
    for (auto each = sessions_.lower_bound(key(tenant, "")); each != sessions_.end(); ++each) {
        if (each->first.first != tenant) break;
        ++sessions;
    }
    return sessions;
}

std::size_t session_registry::count(const storage::tenant_id& tenant) const {
    std::lock_guard lock(mutex_);
    return count_locked(tenant);
}

protocol::result<void> session_registry::add(const storage::tenant_id& tenant, session made,
                                             const std::vector<int>& older) {
    std::lock_guard lock(mutex_);
    if (count_locked(tenant) >= sessions_max)
        return fail(errc::conflict, "there may be " + std::to_string(sessions_max) +
                                        " sessions; delete some that are over");
    make_room();
    for (int agent : older) {
        memory& of = memories_[agent_id(tenant, made, agent)];
        of.has_older = of.is_new();
    }
    std::string id = made.id;
    sessions_.emplace(key(tenant, std::move(id)), live(std::move(made)));
    return {};
}

bool session_registry::remembers(const storage::agent_id& agent) const {
    std::lock_guard lock(mutex_);
    auto found = memories_.find(agent);
    return found != memories_.end() && !found->second.is_new();
}

std::vector<std::string> session_registry::ids(const storage::tenant_id& tenant) const {
    std::lock_guard lock(mutex_);
    std::vector<std::string> found;
    for (auto each = sessions_.lower_bound(key(tenant, "")); each != sessions_.end(); ++each) {
        if (each->first.first != tenant) break;
        found.push_back(each->first.second);
    }
    return found;
}

protocol::result<session_registry::running> session_registry::begin(
    const storage::tenant_id& tenant, const std::string& id) {
    std::lock_guard lock(mutex_);
    live* found = find(tenant, id);
    if (found == nullptr) return no_session(id);
    if (found->is_running) return is_busy(id);
    found->is_running = true;
    return running(*this, key(tenant, id));
}

void session_registry::end(const key& which) {
    std::lock_guard lock(mutex_);
    if (live* found = find(which.first, which.second)) found->is_running = false;
}

const session_registry::live* session_registry::find(const storage::tenant_id& tenant,
                                                     const std::string& id) const {
    auto found = sessions_.find(key(tenant, id));
    return found == sessions_.end() ? nullptr : &found->second;
}

namespace {

/// Names the parts that are full and have no name yet.
void name_parts(std::size_t items, std::vector<std::string>& names) {
    while (items >= (names.size() + 1) * coordination::part_items) names.push_back(new_hex_id(""));
}

}  // namespace

std::optional<session_registry::record> session_registry::record_of(
    const storage::tenant_id& tenant, const std::string& id, const std::set<std::string>& stored) {
    std::lock_guard lock(mutex_);
    live* found = find(tenant, id);
    if (found == nullptr) return std::nullopt;
    record made;
    const auto add = [&](const std::vector<std::string>& names, auto bytes) {
        for (std::size_t i = 0; i < names.size(); ++i) {
            made.parts.insert(names[i]);
            if (!stored.contains(names[i])) made.fresh.emplace_back(names[i], bytes(i));
        }
    };
    const session& now = found->now;
    name_parts(now.lines.size(), found->line_parts);
    add(found->line_parts, [&](std::size_t i) { return coordination::lines_part(now, i); });
    std::vector<std::pair<std::string, const memory*>> memories;
    for (std::size_t i = 0; i < now.agents.size(); ++i) {
        const auto known = memories_.find(agent_id(tenant, now, static_cast<int>(i)));
        if (known == memories_.end()) continue;
        memory& of = known->second;
        name_parts(of.exchanges.size(), of.part_names);
        add(of.part_names,
            [&](std::size_t part) { return coordination::exchanges_part(of, part); });
        memories.emplace_back(known->first.str(), &of);
    }
    made.head = coordination::to_head(now, found->line_parts, memories,
                                      {found->replies.begin(), found->replies.end()});
    return made;
}

std::shared_ptr<session_registry::kept_parts> session_registry::keeping(
    const storage::tenant_id& tenant, const std::string& id) const {
    std::lock_guard lock(mutex_);
    const live* found = find(tenant, id);
    return found == nullptr ? nullptr : found->keeping;
}

protocol::result<void> session_registry::load(const storage::tenant_id& tenant,
                                              std::string_view head,
                                              const coordination::part_reader& part) {
    auto all = coordination::kept_session_of(head, part);
    if (!all) return all.error();
    std::lock_guard lock(mutex_);
    const std::string id = all->now.id;
    if (find(tenant, id) != nullptr) return fail(errc::conflict, "Session " + id + " is there");
    live made(std::move(all->now));
    made.line_parts = std::move(all->line_parts);
    made.keeping->stored.insert(made.line_parts.begin(), made.line_parts.end());
    for (auto& [name, kept] : all->memories)
        made.keeping->stored.insert(kept.part_names.begin(), kept.part_names.end());
    for (std::size_t i = 0; i < made.now.agents.size(); ++i) {
        const storage::agent_id agent = agent_id(tenant, made.now, static_cast<int>(i));
        for (auto& [name, kept] : all->memories) {
            if (name != agent.str()) continue;
            memory& known = memories_[agent];
            const bool is_longer = kept.exchanges.size() > known.exchanges.size();
            if (known.is_new() || is_longer) known = std::move(kept);
        }
    }
    made.replies.assign(all->replies.begin(), all->replies.end());
    sessions_.emplace(key(tenant, id), std::move(made));
    return {};
}

std::vector<storage::agent_id> session_registry::remove(running taken) {
    std::lock_guard lock(mutex_);
    std::vector<storage::agent_id> agents;
    const auto found = sessions_.find(taken.key_);
    const session& now = found->second.now;
    for (std::size_t i = 0; i < now.agents.size(); ++i) {
        if (coordination::outlives(now, now.agents[i])) continue;
        agents.push_back(agent_id(taken.key_.first, now, static_cast<int>(i)));
        memories_.erase(agents.back());
    }
    sessions_.erase(found);
    taken.of_ = nullptr;
    return agents;
}

std::vector<std::string> session_registry::forget(const storage::tenant_id& tenant,
                                                  const std::vector<storage::agent_id>& agents) {
    std::lock_guard lock(mutex_);
    for (const storage::agent_id& each : agents) memories_.erase(each);
    std::vector<std::string> sessions;
    for (auto each = sessions_.lower_bound(key(tenant, "")); each != sessions_.end(); ++each) {
        if (each->first.first != tenant) break;
        const session& now = each->second.now;
        for (std::size_t i = 0; i < now.agents.size(); ++i)
            if (std::ranges::find(agents, agent_id(tenant, now, static_cast<int>(i))) !=
                agents.end()) {
                sessions.push_back(now.id);
                break;
            }
    }
    return sessions;
}

void session_registry::forget_all() {
    std::lock_guard lock(mutex_);
    memories_.clear();
}

void session_registry::make_room() {
    if (memories_.size() < memories_max) return;
    std::set<storage::agent_id> used;
    for (const auto& [which, each] : sessions_)
        for (std::size_t i = 0; i < each.now.agents.size(); ++i)
            used.insert(agent_id(which.first, each.now, static_cast<int>(i)));
    // They are found in the engine when they come back.
    std::erase_if(memories_, [&](const auto& each) { return !used.contains(each.first); });
}

protocol::result<std::optional<std::string>> session_registry::reply_to(
    const storage::tenant_id& tenant, const std::string& id, const std::string& wanted,
    const std::string& what) {
    std::lock_guard lock(mutex_);
    live* found = find(tenant, id);
    if (found == nullptr) return no_session(id);
    auto kept = std::ranges::find(found->replies, wanted, &kept_reply::key);
    if (kept == found->replies.end()) return std::optional<std::string>();
    if (kept->what != what)
        return fail(errc::conflict, "idempotency-key: it came with another request before");
    return std::optional(kept->reply);
}

void session_registry::keep_reply(const storage::tenant_id& tenant, const std::string& id,
                                  std::string wanted, std::string what, std::string reply) {
    std::lock_guard lock(mutex_);
    live* found = find(tenant, id);
    if (found == nullptr) return;
    if (found->replies.size() >= kept_replies_max) found->replies.pop_front();
    found->replies.push_back({std::move(wanted), std::move(what), std::move(reply)});
}

}  // namespace semantic::server
