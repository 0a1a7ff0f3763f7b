// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sessions last: each is kept in the cache directory as it was after what was acknowledged last.
// Runs of scenarios do, too.
// Thread: any. Everything blocks.

#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "protocol/wire/errc.hpp"
#include "server/coordination/run_registry.hpp"
#include "server/coordination/session_registry.hpp"
#include "storage/types/ids.hpp"

namespace semantic::server {

/// Writes the session as it is now, unless that was done. What is done afterwards lasts with a
/// later call. Errors: those of keep_record(): the earlier version stays; not_found; conflict,
/// while the session is removed.
protocol::result<void> keep_session(session_registry& sessions, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id);
/// Whether the session is written as it is now.
bool is_kept(const session_registry& sessions, const storage::tenant_id& tenant,
             const std::string& id);
/// Removes the record of a session that is leaving (session_registry::leave), or was never whole.
/// Errors: those of erase_record(): some of it may be gone, and keep_session() writes it again.
protocol::result<void> drop_session(session_registry& sessions, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id);
/// Errors: those of keep_record().
protocol::result<void> keep_run(engine::engine& engine, const storage::tenant_id& tenant,
                                const run_registry::kept_run& run);
protocol::result<void> drop_run(engine::engine& engine, const storage::tenant_id& tenant,
                                const std::string& id);
/// Returns: what was wrong with those that are not loaded, for the log. Their records stay.
std::vector<std::string> load_sessions(session_registry& sessions, run_registry& runs,
                                       engine::engine& engine);

}  // namespace semantic::server
