#include "server/coordination/session_keeper.hpp"

#include <array>
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

// Of the names of records.
constexpr std::string_view record_head = "session:";
constexpr std::string_view run_head = "run:";
constexpr std::string_view part_head = "part:";

std::string record_name(const std::string& id) { return std::string(record_head) + id; }

std::string part_name(const std::string& id, const std::string& part) {
    return std::string(part_head) + id + ":" + part;
}

protocol::result<void> as_protocol(const storage::result<void>& done) {
    if (done) return {};
    if (!protocol::is_public(done.error()))
        log_event(log_level::warning, "a record of a session or a run: " + done.error().what);
    return protocol::from_storage(done.error());
}

/// Parts that no session names: the server ended between the writing of a part and of its session,
/// or while one was removed. Requires: all sessions are loaded.
void erase_orphans(const session_registry& sessions, engine::engine& engine,
                   const storage::kept_records& all) {
    for (const storage::kept_record& each : all.whole) {
        if (!each.name.starts_with(part_head)) continue;
        const std::size_t end = each.name.rfind(':');
        const std::string id = each.name.substr(part_head.size(), end - part_head.size());
        const auto keeping = sessions.keeping(each.tenant, id);
        if (keeping != nullptr) {
            std::lock_guard one_at_a_time(keeping->mutex);
            if (keeping->stored.contains(each.name.substr(end + 1))) continue;
        }
        // One that stays is tried again with the next start.
        (void)engine.erase_record(each.tenant, each.name);
    }
}

/// Erases the session's parts but for these. Requires: its mutex is held.
protocol::result<void> erase_parts(engine::engine& engine, const storage::tenant_id& tenant,
                                   const std::string& id, session_registry::kept_parts& keeping,
                                   const std::set<std::string>& but) {
    for (auto part = keeping.stored.begin(); part != keeping.stored.end();) {
        if (but.contains(*part)) {
            ++part;
            continue;
        }
        auto erased = as_protocol(engine.erase_record(tenant, part_name(id, *part)));
        if (!erased) return erased;
        part = keeping.stored.erase(part);
    }
    return {};
}

}  // namespace

protocol::result<void> keep_session(session_registry& sessions, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id) {
    const auto keeping = sessions.keeping(tenant, id);
    if (keeping == nullptr) return {};
    std::lock_guard one_at_a_time(keeping->mutex);
    auto record = sessions.record_of(tenant, id, keeping->stored);
    if (!record) return {};
    // The head names its parts, so that it comes behind those that are new, and in front of the end
    // of those that it no longer needs.
    for (auto& [part, bytes] : record->fresh) {
        auto kept =
            as_protocol(engine.keep_record({tenant, part_name(id, part), std::move(bytes)}));
        if (!kept) return kept;
        keeping->stored.insert(part);
    }
    auto kept = as_protocol(engine.keep_record({tenant, record_name(id), std::move(record->head)}));
    if (!kept) return kept;
    return erase_parts(engine, tenant, id, *keeping, record->parts);
}

protocol::result<void> drop_session(engine::engine& engine, const storage::tenant_id& tenant,
                                    const std::string& id, session_registry::kept_parts& keeping) {
    std::lock_guard one_at_a_time(keeping.mutex);
    auto dropped = as_protocol(engine.erase_record(tenant, record_name(id)));
    if (!dropped) return dropped;
    return erase_parts(engine, tenant, id, keeping, {});
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
    const storage::kept_records all = engine.records(heads);
    std::vector<std::string> faults;
    for (const storage::failure& each : all.damaged) faults.push_back(each.what);
    std::map<std::pair<storage::tenant_id, std::string>, const std::string*> parts;
    for (const storage::kept_record& each : all.whole)
        if (each.name.starts_with(part_head)) parts[{each.tenant, each.name}] = &each.bytes;
    for (const storage::kept_record& each : all.whole) {
        protocol::result<void> loaded;
        if (each.name.starts_with(record_head)) {
            const std::string id = each.name.substr(record_head.size());
            const auto part = [&](const std::string& name) -> std::optional<std::string> {
                const auto found = parts.find({each.tenant, part_name(id, name)});
                if (found == parts.end()) return std::nullopt;
                return *found->second;
            };
            loaded = sessions.load(each.tenant, each.bytes, part);
        }
        if (each.name.starts_with(run_head)) loaded = runs.load(each.tenant, each.bytes);
        if (!loaded) faults.push_back(each.name + ": " + loaded.error().what);
    }
    if (faults.empty()) erase_orphans(sessions, engine, all);
    return faults;
}

}  // namespace semantic::server
