#pragma once
// Responses and conversations last: each is a record in the cache directory before the last event
// of what made or extended it goes out.
// Thread: any. Everything blocks.

#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "protocol/responses/kept_response.hpp"
#include "server/responses/response_registry.hpp"
#include "storage/types/ids.hpp"

namespace semantic::server {

/// Writes its record and adds it; what is let go of for it leaves the disk too. Errors: those of
/// keep_record(): it is kept as long as this process runs. bad_value: it is too large to be kept.
storage::result<void> keep_response(kept_responses& responses, engine::engine& engine,
                                    const storage::tenant_id& tenant,
                                    protocol::responses::kept_response made);
/// Returns: whether there was one. Errors: io; it is gone from RAM, and comes back with a restart.
storage::result<bool> drop_response(kept_responses& responses, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id);
/// The same of conversations, which are kept alike.
storage::result<void> keep_conversation(kept_responses& conversations, engine::engine& engine,
                                        const storage::tenant_id& tenant,
                                        protocol::responses::kept_response made);
storage::result<bool> drop_conversation(kept_responses& conversations, engine::engine& engine,
                                        const storage::tenant_id& tenant, const std::string& id);
/// Adds all that there are records of. What was still being made when the server stopped has
/// failed. Returns: what was wrong with others, for the log.
std::vector<std::string> load_responses(response_registry& responses, engine::engine& engine);

}  // namespace semantic::server
