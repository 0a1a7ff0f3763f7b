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

/// Writes the session as it is now; of one that is no more, nothing. What is done afterwards lasts
/// with a later call. Errors: those of keep_record(); the earlier version stays.
protocol::result<void> keep_session(session_registry& sessions, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id);
/// Removes a session that the registry has let go of. `keeping`: its, from before that.
protocol::result<void> drop_session(engine::engine& engine, const storage::tenant_id& tenant,
                                    const std::string& id, session_registry::kept_parts& keeping);
/// Errors: those of keep_record().
protocol::result<void> keep_run(engine::engine& engine, const storage::tenant_id& tenant,
                                const run_registry::kept_run& run);
protocol::result<void> drop_run(engine::engine& engine, const storage::tenant_id& tenant,
                                const std::string& id);
/// Returns: what was wrong with those that are not loaded, for the log. Their records stay.
std::vector<std::string> load_sessions(session_registry& sessions, run_registry& runs,
                                       engine::engine& engine);

}  // namespace semantic::server
