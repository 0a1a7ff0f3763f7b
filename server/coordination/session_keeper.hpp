// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps sessions, and runs of scenarios, on disk: a record in the cache directory has the state
// after the last acknowledged change.

#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "protocol/wire/errc.hpp"
#include "server/coordination/run_registry.hpp"
#include "server/coordination/session_registry.hpp"
#include "storage/types/ids.hpp"

namespace semantic::server {

/// Writes the session's present state, unless that is on disk. Later changes need another call.
/// Errors: those of keep_record(), then the earlier version stays; not_found; conflict, while the
/// session is removed.
protocol::result<void> keep_session(session_registry& sessions, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id);
/// Whether the session's present state is on disk.
bool is_kept(const session_registry& sessions, const storage::tenant_id& tenant,
             const std::string& id);
/// Erases the records of a session that is leaving (session_registry::leave), or was never added as
/// a whole. Errors: those of erase_record(): some records may be gone then, and keep_session()
/// writes them again.
protocol::result<void> drop_session(session_registry& sessions, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id);
/// Writes the record of a run. Errors: those of keep_record().
protocol::result<void> keep_run(engine::engine& engine, const storage::tenant_id& tenant,
                                const run_registry::kept_run& run);
/// Erases the record of a run. Errors: those of erase_record().
protocol::result<void> drop_run(engine::engine& engine, const storage::tenant_id& tenant,
                                const std::string& id);
/// Loads all sessions and runs of all tenants at the start. Returns: for the log, what was wrong
/// with those that are not loaded; their records stay.
std::vector<std::string> load_sessions(session_registry& sessions, run_registry& runs,
                                       engine::engine& engine);

}  // namespace semantic::server
