// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/session_registry.hpp"

#include <algorithm>

#include "protocol/coordination/api.hpp"
#include "server/coordination/session_driver.hpp"

namespace semantic::server {

namespace coordination = protocol::coordination;
using coordination::stored_part;
using protocol::errc;

namespace {

// The first lines of a long session go to parts of their own, which are written once. The rest is
// in the head, which is written with each change. These are the most bytes of lines, and of one
// agent's exchanges, in the head.
constexpr std::size_t lines_rest_bytes_max = std::size_t{256} << 10;
constexpr std::size_t exchanges_rest_bytes_max = std::size_t{64} << 10;

protocol::failure session_is_busy(const std::string& id) {
    return fail(errc::conflict, "Session " + id + " is taking a turn");
}

std::size_t items_in(const std::vector<stored_part>& parts) {
    std::size_t items = 0;
    for (const stored_part& each : parts) items += each.items;
    return items;
}

/// Appends new parts to `parts` for items that are in none yet, as long as the rest would be too
/// much for the head.
template <class T>
void name_parts(const std::vector<T>& items, std::size_t rest_bytes_max,
                std::vector<stored_part>& parts) {
    for (std::size_t begin = items_in(parts);;) {
        std::size_t bytes = 0;
        std::size_t end = begin;
        while (end < items.size() && bytes < session_registry::part_bytes_max)
            bytes += bytes_of(items[end++]);
        const bool is_long = end - begin >= coordination::part_items || bytes >= rest_bytes_max;
        if (!is_long) return;
        parts.push_back({new_hex_id(""), end - begin});
        begin = end;
    }
}

/// Copies at most `count` items from index `begin` on.
template <class T>
std::vector<T> items_from(const std::vector<T>& items, std::size_t begin, std::size_t count) {
    const auto first = items.begin() + static_cast<std::ptrdiff_t>(std::min(begin, items.size()));
    const auto left = static_cast<std::size_t>(items.end() - first);
    return {first, first + static_cast<std::ptrdiff_t>(std::min(count, left))};
}

/// The items that are in no part.
template <class T>
std::vector<T> rest_of(const std::vector<T>& items, const std::vector<stored_part>& parts) {
    return items_from(items, items_in(parts), items.size());
}

/// Calls `found(part, index of its first item)` for the first part that is not stored. Returns:
/// whether there is one.
template <class Found>
bool find_unstored(const std::vector<stored_part>& parts, const std::set<std::string>& stored,
                   Found found) {
    std::size_t begin = 0;
    for (const stored_part& each : parts) {
        if (!stored.contains(each.name)) {
            found(each, begin);
            return true;
        }
        begin += each.items;
    }
    return false;
}

std::string in_mib(std::size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

session_registry::session& session_registry::locked_session::now() const { return live_.now; }

const storage::agent_id& session_registry::locked_session::agent_id(int agent) const {
    return live_.agents[static_cast<std::size_t>(agent)];
}

session_registry::memory& session_registry::locked_session::memory_of(int agent) const {
    return tenant_.memories[agent_id(agent)].content;
}

std::shared_ptr<std::atomic<int>> session_registry::locked_session::read_ahead(int agent) const {
    return {live_.ahead, &(*live_.ahead)[static_cast<std::size_t>(agent)]};
}

void session_registry::locked_session::add_run(engine_run run) const {
    std::erase_if(live_.runs, [](const engine_run& each) { return each.has_ended->load(); });
    live_.runs.push_back(std::move(run));
}

std::vector<engine_run> session_registry::locked_session::runs() const {
    std::erase_if(live_.runs, [](const engine_run& each) { return each.has_ended->load(); });
    return live_.runs;
}

protocol::result<void> session_registry::locked_session::check_space(std::size_t bytes) const {
    return registry_.check_space(tenant_, bytes);
}

protocol::result<session_registry::known_reply> session_registry::locked_session::find_reply(
    const keyed_request& wanted) const {
    return session_registry::find_reply(live_, wanted);
}

void session_registry::locked_session::keep_reply(kept_reply made) const {
    const std::size_t bytes = bytes_of(made);
    live_.replies.push_back(
        {std::make_shared<const kept_reply>(std::move(made)), bytes, ++registry_.replies_});
    live_.reply_bytes += bytes;
    tenant_.reply_bytes += bytes;
    registry_.drop_replies(tenant_, live_);
}

protocol::failure session_registry::no_session(const std::string& id) {
    return fail(errc::not_found, "Session " + id + " not found");
}

protocol::failure session_registry::is_leaving(const std::string& id) {
    return fail(errc::conflict, "Session " + id + " is being deleted");
}

/// The session and its tenant, as far as they are there. Requires: the mutex is held.
session_registry::found_session session_registry::find(const storage::tenant_id& tenant,
                                                       const std::string& id) {
    const auto owner = tenants_.find(tenant);
    if (owner == tenants_.end()) return {};
    const auto found = owner->second.sessions.find(id);
    return {&owner->second, found == owner->second.sessions.end() ? nullptr : &found->second};
}

/// The session; null where there is none. Requires: the mutex is held.
const session_registry::live* session_registry::find_live(const storage::tenant_id& tenant,
                                                          const std::string& id) const {
    const auto owner = tenants_.find(tenant);
    if (owner == tenants_.end()) return nullptr;
    const auto found = owner->second.sessions.find(id);
    return found == owner->second.sessions.end() ? nullptr : &found->second;
}

void session_registry::add_bytes(tenant_state& owner, std::size_t more, std::size_t less) noexcept {
    owner.bytes = owner.bytes + more - less;
    bytes_ = bytes_ + more - less;
}

void session_registry::count_memory(tenant_state& owner, known_memory& one) noexcept {
    const std::size_t before = one.bytes;
    // Only new exchanges are counted, since old ones never change; fewer than before means that all
    // were forgotten.
    if (one.counted > one.content.exchanges.size()) one.counted = one.bytes = 0;
    if (one.counted == 0) one.bytes = one.content.system.size();
    for (; one.counted < one.content.exchanges.size(); ++one.counted)
        one.bytes += bytes_of(one.content.exchanges[one.counted]);
    add_bytes(owner, one.bytes, before);
}

void session_registry::count_changes(const found_session& at) noexcept {
    ++at.one->changes;
    at.one->status = nullptr;
    const std::size_t before = at.one->bytes;
    at.one->bytes = bytes_of(at.one->now) + at.one->reply_bytes;
    add_bytes(*at.owner, at.one->bytes, before);
    for (const storage::agent_id& each : at.one->agents) {
        const auto known = at.owner->memories.find(each);
        if (known != at.owner->memories.end()) count_memory(*at.owner, known->second);
    }
}

void session_registry::drop_unused_memories(tenant_state& owner) {
    for (auto each = owner.memories.begin(); each != owner.memories.end();) {
        if (each->second.sessions > 0) {
            ++each;
            continue;
        }
        add_bytes(owner, 0, each->second.bytes);
        each = owner.memories.erase(each);
        --memories_;
    }
}

protocol::result<void> session_registry::check_space(tenant_state& owner, std::size_t bytes,
                                                     std::size_t slack) {
    if (owner.bytes + bytes > bounds_.tenant_bytes + slack) drop_unused_memories(owner);
    if (owner.bytes + bytes > bounds_.tenant_bytes + slack)
        return fail(errc::conflict, "sessions and what their agents remember may take " +
                                        in_mib(bounds_.tenant_bytes) +
                                        " together; delete some that are over");
    if (bytes_ + bytes > bounds_.all_bytes + slack)
        for (auto& [tenant, each] : tenants_) drop_unused_memories(each);
    if (bytes_ + bytes > bounds_.all_bytes + slack)
        return fail(errc::overloaded, "the sessions of all clients take the " +
                                          in_mib(bounds_.all_bytes) +
                                          " that this server has for them");
    return {};
}

void session_registry::name_agents(const storage::tenant_id& tenant, tenant_state& owner,
                                   live& one) {
    for (const coordination::agent& each : one.now.agents) {
        // Names were checked when the session was opened.
        const std::string name = coordination::memory_name(one.now, each);
        one.agents.push_back(storage::agent_id::parse(name).value().owned_by(tenant));
        const auto [known, is_new] = owner.memories.try_emplace(one.agents.back());
        ++known->second.sessions;
        if (is_new) ++memories_;
    }
}

std::size_t session_registry::count(const storage::tenant_id& tenant) const {
    std::lock_guard lock(mutex_);
    const auto owner = tenants_.find(tenant);
    return owner == tenants_.end() ? 0 : owner->second.sessions.size();
}

std::size_t session_registry::bytes(const storage::tenant_id& tenant) const {
    std::lock_guard lock(mutex_);
    const auto owner = tenants_.find(tenant);
    return owner == tenants_.end() ? 0 : owner->second.bytes;
}

protocol::result<void> session_registry::add(const storage::tenant_id& tenant, session made,
                                             const std::vector<int>& older) {
    std::lock_guard lock(mutex_);
    tenant_state& owner = tenants_[tenant];
    if (owner.sessions.size() >= sessions_max)
        return fail(errc::conflict, "there may be " + std::to_string(sessions_max) +
                                        " sessions; delete some that are over");
    if (owner.sessions.contains(made.id))
        return fail(errc::conflict, "Session " + made.id + " is there");
    if (auto ok = check_space(owner, bytes_of(made)); !ok) return ok;
    if (memories_ >= memories_max)
        for (auto& [other, each] : tenants_) drop_unused_memories(each);
    std::string id = made.id;
    live& one = owner.sessions.emplace(std::move(id), live(std::move(made))).first->second;
    name_agents(tenant, owner, one);
    for (int agent : older) {
        memory& known = owner.memories[one.agents[static_cast<std::size_t>(agent)]].content;
        known.has_older = known.is_new();
    }
    count_changes({&owner, &one});
    return {};
}

bool session_registry::remembers(const storage::agent_id& agent) const {
    std::lock_guard lock(mutex_);
    const auto owner = tenants_.find(agent.tenant());
    if (owner == tenants_.end()) return false;
    const auto found = owner->second.memories.find(agent);
    return found != owner->second.memories.end() && !found->second.content.is_new();
}

std::vector<std::string> session_registry::ids(const storage::tenant_id& tenant) const {
    std::lock_guard lock(mutex_);
    std::vector<std::string> found;
    const auto owner = tenants_.find(tenant);
    if (owner == tenants_.end()) return found;
    for (const auto& [id, each] : owner->second.sessions) found.push_back(id);
    return found;
}

protocol::result<std::shared_ptr<const std::string>> session_registry::status(
    const storage::tenant_id& tenant, const std::string& id) const {
    std::lock_guard lock(mutex_);
    const live* found = find_live(tenant, id);
    if (found == nullptr) return no_session(id);
    if (found->status == nullptr)
        found->status = std::make_shared<const std::string>(coordination::status_body(found->now));
    return found->status;
}

protocol::result<std::vector<coordination::line>> session_registry::lines(
    const storage::tenant_id& tenant, const std::string& id, std::size_t from) const {
    std::lock_guard lock(mutex_);
    const live* found = find_live(tenant, id);
    if (found == nullptr) return no_session(id);
    std::vector<coordination::line> some;
    std::size_t bytes = 0;
    for (std::size_t i = from; i < found->now.lines.size() && bytes < part_bytes_max; ++i) {
        some.push_back(found->now.lines[i]);
        bytes += bytes_of(some.back());
    }
    return some;
}

protocol::result<session_registry::running> session_registry::begin(
    const storage::tenant_id& tenant, const std::string& id) {
    auto made = begin_once(tenant, id, std::nullopt);
    if (!made) return made.error();
    return std::move(*made->turn);
}

protocol::result<session_registry::begun> session_registry::begin_once(
    const storage::tenant_id& tenant, const std::string& id,
    const std::optional<keyed_request>& wanted) {
    std::lock_guard lock(mutex_);
    live* found = find(tenant, id).one;
    if (found == nullptr) return no_session(id);
    begun made;
    if (wanted) {
        auto before = find_reply(*found, *wanted);
        if (!before) return before.error();
        made.reply = std::move(*before);
    }
    if (made.reply != nullptr) return made;
    if (found->is_running) return session_is_busy(id);
    found->is_running = true;
    made.turn.emplace(running(*this, key(tenant, id)));
    return made;
}

void session_registry::end(const key& session_key) {
    std::lock_guard lock(mutex_);
    live* found = find(session_key.first, session_key.second).one;
    if (found != nullptr) found->is_running = found->is_leaving = false;
}

protocol::result<session_registry::known_reply> session_registry::find_reply(
    const live& session, const keyed_request& wanted) {
    for (const reply_entry& each : session.replies) {
        if (each.reply->key != wanted.key) continue;
        if (each.reply->digest != wanted.digest)
            return fail(errc::conflict, "idempotency-key: it came with another request before");
        return each.reply;
    }
    return known_reply();
}

void session_registry::drop_oldest_reply(tenant_state& owner, live& one) {
    const std::size_t bytes = one.replies.front().bytes;
    one.replies.pop_front();
    one.reply_bytes -= bytes;
    owner.reply_bytes -= bytes;
    const std::size_t before = one.bytes;
    one.bytes = bytes_of(one.now) + one.reply_bytes;
    add_bytes(owner, one.bytes, before);
}

void session_registry::drop_replies(tenant_state& owner, live& latest) {
    const auto is_over = [&] {
        return latest.replies.size() > kept_replies_max ||
               latest.reply_bytes > session_replies_bytes_max;
    };
    while (is_over() && latest.replies.size() > 1) drop_oldest_reply(owner, latest);
    while (owner.reply_bytes > tenant_replies_bytes_max) {
        live* oldest = nullptr;
        for (auto& [id, each] : owner.sessions) {
            const bool may_go = each.replies.size() > (&each == &latest ? 1u : 0u);
            if (may_go &&
                (oldest == nullptr || each.replies.front().number < oldest->replies.front().number))
                oldest = &each;
        }
        if (oldest == nullptr) return;
        drop_oldest_reply(owner, *oldest);
    }
}

session_registry::keeping_state session_registry::keeping(const storage::tenant_id& tenant,
                                                          const std::string& id) const {
    std::lock_guard lock(mutex_);
    const live* found = find_live(tenant, id);
    if (found == nullptr) return {};
    return {found->keeping, found->changes};
}

protocol::result<session_registry::next_write> session_registry::next_to_write(
    const storage::tenant_id& tenant, const std::string& id, const std::set<std::string>& stored) {
    std::lock_guard lock(mutex_);
    const found_session at = find(tenant, id);
    if (at.one == nullptr) return no_session(id);
    if (at.one->is_leaving) return is_leaving(id);
    live& one = *at.one;
    next_write next;
    name_parts(one.now.lines, lines_rest_bytes_max, one.line_parts);
    const auto lines = [&](const stored_part& part, std::size_t begin) {
        next.part = {part.name, items_from(one.now.lines, begin, part.items), {}};
    };
    if (find_unstored(one.line_parts, stored, lines)) return next;
    std::vector<known_memory*> memories;
    for (const storage::agent_id& each : one.agents) {
        known_memory& known = at.owner->memories[each];
        const auto exchanges = [&](const stored_part& part, std::size_t begin) {
            next.part = {part.name, {}, items_from(known.content.exchanges, begin, part.items)};
        };
        name_parts(known.content.exchanges, exchanges_rest_bytes_max, known.content.parts);
        if (find_unstored(known.content.parts, stored, exchanges)) return next;
        memories.push_back(&known);
    }
    head_to_write& made = next.head.emplace();
    made.changes = one.changes;
    made.head.now = coordination::without_lines(one.now);
    made.head.now.lines = rest_of(one.now.lines, one.line_parts);
    made.head.line_parts = one.line_parts;
    for (std::size_t i = 0; i < memories.size(); ++i) {
        const memory& known = memories[i]->content;
        if (known.is_new() && known.system.empty()) continue;
        made.head.memories.emplace_back(one.agents[i].str(),
                                        memory{known.system, rest_of(known.exchanges, known.parts),
                                               known.has_older, known.parts});
    }
    for (const reply_entry& each : one.replies) made.head.replies.push_back(each.reply);
    return next;
}

protocol::result<void> session_registry::load(const storage::tenant_id& tenant,
                                              std::string_view head,
                                              const coordination::part_reader& part) {
    auto all = coordination::kept_session_of(head, part);
    if (!all) return all.error();
    const std::string id = all->now.id;
    std::size_t bytes = bytes_of(all->now);
    for (const auto& [name, kept] : all->memories)
        for (const coordination::exchange& each : kept.exchanges) bytes += bytes_of(each);
    std::lock_guard lock(mutex_);
    tenant_state& owner = tenants_[tenant];
    if (owner.sessions.contains(id)) return fail(errc::conflict, "Session " + id + " is there");
    if (owner.sessions.size() >= sessions_max)
        return fail(errc::conflict,
                    "there are " + std::to_string(sessions_max) + " sessions of this client");
    // An answer may take a session over its bounds. It was acknowledged, so it is loaded with some
    // slack.
    if (auto ok = check_space(owner, bytes, bounds_.tenant_bytes / 4); !ok) return ok;
    live& one = owner.sessions.emplace(id, live(std::move(all->now))).first->second;
    name_agents(tenant, owner, one);
    one.line_parts = std::move(all->line_parts);
    for (const stored_part& each : one.line_parts) one.keeping->stored.insert(each.name);
    for (auto& [name, kept] : all->memories) {
        for (const stored_part& each : kept.parts) one.keeping->stored.insert(each.name);
        const auto agent = std::ranges::find(one.agents, name, &storage::agent_id::str);
        if (agent == one.agents.end()) continue;
        known_memory& known = owner.memories[*agent];
        const bool is_longer = kept.exchanges.size() > known.content.exchanges.size();
        if (!known.content.is_new() && !is_longer) continue;
        add_bytes(owner, 0, std::exchange(known.bytes, 0));
        known.counted = 0;
        known.content = std::move(kept);
    }
    for (kept_reply& each : all->replies)
        locked_session(*this, owner, one).keep_reply(std::move(each));
    count_changes({&owner, &one});
    one.keeping->written = one.changes;
    return {};
}

std::vector<storage::agent_id> session_registry::leave(const running& taken) {
    std::lock_guard lock(mutex_);
    live& one = *find(taken.key_.first, taken.key_.second).one;
    one.is_leaving = true;
    std::vector<storage::agent_id> agents;
    for (std::size_t i = 0; i < one.agents.size(); ++i)
        if (!coordination::outlives(one.now, one.now.agents[i])) agents.push_back(one.agents[i]);
    return agents;
}

std::shared_ptr<const void> session_registry::remove(running taken) {
    struct removed {
        std::map<std::string, live>::node_type one;
        std::vector<memory> memories{};
    };
    auto gone = std::make_shared<removed>();
    std::lock_guard lock(mutex_);
    taken.registry_ = nullptr;
    tenant_state& owner = tenants_.at(taken.key_.first);
    gone->one = owner.sessions.extract(taken.key_.second);
    live& one = gone->one.mapped();
    add_bytes(owner, 0, one.bytes);
    owner.reply_bytes -= one.reply_bytes;
    for (std::size_t i = 0; i < one.agents.size(); ++i) {
        const auto known = owner.memories.find(one.agents[i]);
        --known->second.sessions;
        if (coordination::outlives(one.now, one.now.agents[i])) continue;
        add_bytes(owner, 0, known->second.bytes);
        gone->memories.push_back(std::move(known->second.content));
        owner.memories.erase(known);
        --memories_;
    }
    return gone;
}

std::vector<std::string> session_registry::forget(const storage::tenant_id& tenant,
                                                  const std::vector<storage::agent_id>& agents) {
    const std::set<storage::agent_id> gone(agents.begin(), agents.end());
    std::lock_guard lock(mutex_);
    const auto owner = tenants_.find(tenant);
    if (owner == tenants_.end()) return {};
    std::vector<std::string> sessions;
    for (const storage::agent_id& each : agents) {
        const auto known = owner->second.memories.find(each);
        if (known == owner->second.memories.end()) continue;
        known->second.content = {};
        count_memory(owner->second, known->second);
        if (known->second.sessions > 0) continue;
        owner->second.memories.erase(known);
        --memories_;
    }
    for (auto& [id, each] : owner->second.sessions) {
        const auto is_gone = [&](const storage::agent_id& one) { return gone.contains(one); };
        if (std::ranges::none_of(each.agents, is_gone)) continue;
        sessions.push_back(id);
        ++each.changes;
    }
    return sessions;
}

void session_registry::forget_all() {
    std::lock_guard lock(mutex_);
    for (auto& [tenant, owner] : tenants_) {
        for (auto& [agent, known] : owner.memories) {
            known.content = {};
            count_memory(owner, known);
        }
        drop_unused_memories(owner);
    }
}

}  // namespace semantic::server
