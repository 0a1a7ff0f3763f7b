// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/session_keeper.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/public_text.hpp"
#include "server/runtime/logging.hpp"

namespace semantic::server {

namespace {

// Prefixes of the names of records.
constexpr std::string_view record_head = "session:";
constexpr std::string_view run_head = "run:";
constexpr std::string_view part_head = "part:";

std::string record_name(const std::string& id) { return std::string(record_head) + id; }

std::string part_name(const std::string& id, const std::string& part) {
    return std::string(part_head) + id + ":" + part;
}

/// Requires: the name is one that part_name() has made.
std::string session_of_part(const std::string& name) {
    return name.substr(part_head.size(), name.rfind(':') - part_head.size());
}

/// The failure in the protocol's terms. One that clients are not shown in full is logged.
protocol::result<void> as_protocol(const storage::result<void>& done) {
    if (done) return {};
    if (!protocol::is_public(done.error()))
        log_event(log_level::warning, "a record of a session or a run: " + done.error().what);
    return protocol::from_storage(done.error());
}

/// Erases parts that no session names: the server ended after writing a part and before its
/// session, or while one was removed. Requires: all sessions are loaded.
void erase_orphans(const session_registry& sessions, engine::engine& engine,
                   const storage::record_names& all) {
    for (const storage::record_name& each : all.whole) {
        if (!each.name.starts_with(part_head)) continue;
        const auto keeping = sessions.keeping(each.tenant, session_of_part(each.name)).parts;
        if (keeping != nullptr) {
            std::lock_guard one_at_a_time(keeping->mutex);
            if (keeping->stored.contains(each.name.substr(each.name.rfind(':') + 1))) continue;
        }
        // A failure is ignored: the next start tries again.
        (void)engine.erase_record(each.tenant, each.name);
    }
}

/// Erases all parts of a session that are not in `except`. Requires: the mutex of `keeping` is
/// held.
protocol::result<void> erase_parts(engine::engine& engine, const storage::tenant_id& tenant,
                                   const std::string& id, session_registry::kept_parts& keeping,
                                   const std::set<std::string>& except) {
    for (auto part = keeping.stored.begin(); part != keeping.stored.end();) {
        if (except.contains(*part)) {
            ++part;
            continue;
        }
        auto erased = as_protocol(engine.erase_record(tenant, part_name(id, *part)));
        if (!erased) return erased;
        part = keeping.stored.erase(part);
    }
    return {};
}

/// The record's text of a part.
std::string text_of(const session_registry::part_to_write& part) {
    return part.lines.empty() ? protocol::coordination::exchanges_part(part.exchanges)
                              : protocol::coordination::lines_part(part.lines);
}

/// The names of all parts that a session's head refers to.
std::set<std::string> parts_of(const protocol::coordination::kept_head& head) {
    std::set<std::string> names;
    for (const auto& each : head.line_parts) names.insert(each.name);
    for (const auto& [agent, memory] : head.memories)
        for (const auto& each : memory.parts) names.insert(each.name);
    return names;
}

/// The records of sessions and runs in the order in which they are loaded: by size, the smallest
/// first. A session counts with its parts.
std::vector<const storage::record_name*> loaded_in_order(const storage::record_names& all) {
    std::map<std::pair<storage::tenant_id, std::string>, std::uint64_t> part_bytes;
    for (const storage::record_name& each : all.whole)
        if (each.name.starts_with(part_head))
            part_bytes[{each.tenant, session_of_part(each.name)}] += each.file_bytes;
    std::vector<std::pair<std::uint64_t, const storage::record_name*>> sized;
    for (const storage::record_name& each : all.whole) {
        const bool is_session = each.name.starts_with(record_head);
        if (!is_session && !each.name.starts_with(run_head)) continue;
        std::uint64_t bytes = each.file_bytes;
        if (is_session) {
            const auto parts = part_bytes.find({each.tenant, each.name.substr(record_head.size())});
            if (parts != part_bytes.end()) bytes += parts->second;
        }
        sized.emplace_back(bytes, &each);
    }
    std::ranges::stable_sort(sized, {},
                             &std::pair<std::uint64_t, const storage::record_name*>::first);
    std::vector<const storage::record_name*> ordered;
    for (const auto& [bytes, each] : sized) ordered.push_back(each);
    return ordered;
}

/// Reads one session or run from its record into its registry.
protocol::result<void> load_one(session_registry& sessions, run_registry& runs,
                                engine::engine& engine, const storage::record_name& name) {
    const bool is_session = name.name.starts_with(record_head);
    const auto record = engine.read_record(name.tenant, name.name);
    if (!record) return protocol::from_storage(record.error());
    if (!is_session) return runs.load(name.tenant, record->bytes);
    const std::string id = name.name.substr(record_head.size());
    const auto part = [&](const std::string& wanted) -> std::optional<std::string> {
        auto found = engine.read_record(name.tenant, part_name(id, wanted));
        if (!found) return std::nullopt;
        return std::move(found->bytes);
    };
    return sessions.load(name.tenant, record->bytes, part);
}

}  // namespace

protocol::result<void> keep_session(session_registry& sessions, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id) {
    const auto [keeping, wanted] = sessions.keeping(tenant, id);
    if (keeping == nullptr) return session_registry::no_session(id);
    std::lock_guard one_at_a_time(keeping->mutex);
    // Another thread may have written this change while this one waited for the mutex.
    while (keeping->written.load() < wanted) {
        const auto next = sessions.next_to_write(tenant, id, keeping->stored);
        if (!next) return next.error();
        if (next->part) {
            auto kept = as_protocol(engine.keep_record(
                {tenant, part_name(id, next->part->name), text_of(*next->part)}));
            if (!kept) return kept;
            keeping->stored.insert(next->part->name);
            continue;
        }
        // Order matters: a head is written after the parts that it names, and before parts that it
        // no longer names are erased. So the records on disk are whole at any moment.
        auto kept = as_protocol(engine.keep_record(
            {tenant, record_name(id), protocol::coordination::to_record(next->head->head)}));
        if (!kept) return kept;
        keeping->written.store(next->head->changes);
        // A failure is ignored: such a part only takes space, and the session itself is written.
        (void)erase_parts(engine, tenant, id, *keeping, parts_of(next->head->head));
    }
    return {};
}

bool is_kept(const session_registry& sessions, const storage::tenant_id& tenant,
             const std::string& id) {
    const auto [keeping, changes] = sessions.keeping(tenant, id);
    return keeping != nullptr && keeping->written.load() >= changes;
}

protocol::result<void> drop_session(session_registry& sessions, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id) {
    const auto keeping = sessions.keeping(tenant, id).parts;
    if (keeping == nullptr) return {};
    std::lock_guard one_at_a_time(keeping->mutex);
    // Even a failed erasure may have removed something, so a session that stays must be written
    // again.
    keeping->written.store(0);
    auto dropped = as_protocol(engine.erase_record(tenant, record_name(id)));
    if (!dropped) return dropped;
    return erase_parts(engine, tenant, id, *keeping, {});
}

protocol::result<void> keep_run(engine::engine& engine, const storage::tenant_id& tenant,
                                const run_registry::kept_run& run) {
    const std::string name = std::string(run_head) + run.id;
    return as_protocol(engine.keep_record({tenant, name, protocol::scenarios::to_record(run)}));
}

protocol::result<void> drop_run(engine::engine& engine, const storage::tenant_id& tenant,
                                const std::string& id) {
    return as_protocol(engine.erase_record(tenant, std::string(run_head) + id));
}

std::vector<std::string> load_sessions(session_registry& sessions, run_registry& runs,
                                       engine::engine& engine) {
    constexpr std::array heads{record_head, run_head, part_head};
    const storage::record_names all = engine.record_names(heads);
    std::vector<std::string> faults;
    for (const storage::failure& each : all.damaged) faults.push_back(each.what);
    std::set<storage::tenant_id> full;  // whose sessions take as much as they may
    // One after the other, so that only one record's bytes are in memory; the short ones first, so
    // that as many as possible come before the bounds are reached.
    for (const storage::record_name* each : loaded_in_order(all)) {
        const bool is_session = each->name.starts_with(record_head);
        if (is_session && full.contains(each->tenant)) {
            faults.push_back(each->name + ": there is no place for it");
            continue;
        }
        auto loaded = load_one(sessions, runs, engine, *each);
        if (loaded) continue;
        faults.push_back(each->name + ": " + loaded.error().message);
        const protocol::errc code = loaded.error().code;
        const bool is_full = code == protocol::errc::conflict || code == protocol::errc::overloaded;
        if (is_session && is_full) full.insert(each->tenant);
    }
    if (faults.empty()) erase_orphans(sessions, engine, all);
    return faults;
}

}  // namespace semantic::server
