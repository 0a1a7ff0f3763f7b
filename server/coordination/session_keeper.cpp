#include "server/coordination/session_keeper.hpp"

#include <string_view>

#include "protocol/wire/api_error.hpp"

namespace semantic::server {

namespace {

// Of the names of records.
constexpr std::string_view record_head = "session:";
constexpr std::string_view run_head = "run:";

std::string record_name(const std::string& id) { return std::string(record_head) + id; }

protocol::result<void> as_protocol(const storage::result<void>& done) {
    if (done) return {};
    return protocol::from_storage(done.error());
}

}  // namespace

protocol::result<void> keep_session(const session_registry& sessions, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id) {
    const auto keeping = sessions.keeping(tenant, id);
    if (keeping == nullptr) return {};
    std::lock_guard one_at_a_time(*keeping);
    auto record = sessions.record_of(tenant, id);
    if (!record) return {};
    return as_protocol(engine.keep_record({tenant, record_name(id), std::move(*record)}));
}

protocol::result<void> drop_session(engine::engine& engine, const storage::tenant_id& tenant,
                                    const std::string& id, std::mutex& keeping) {
    std::lock_guard one_at_a_time(keeping);
    return as_protocol(engine.erase_record(tenant, record_name(id)));
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
    const storage::kept_records all = engine.records();
    std::vector<std::string> faults;
    for (const storage::failure& each : all.damaged) faults.push_back(each.what);
    for (const storage::kept_record& each : all.whole) {
        protocol::result<void> loaded;
        if (each.name.starts_with(record_head)) loaded = sessions.load(each.tenant, each.bytes);
        if (each.name.starts_with(run_head)) loaded = runs.load(each.tenant, each.bytes);
        if (!loaded) faults.push_back(each.name + ": " + loaded.error().what);
    }
    return faults;
}

}  // namespace semantic::server
