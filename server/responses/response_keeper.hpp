// SPDX-License-Identifier: Apache-2.0
#pragma once
// Responses and conversations last: each is a record in the cache directory before the last event
// of what made or extended it goes out.
// Thread: any. Everything blocks.

#include <functional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "protocol/responses/kept_response.hpp"
#include "server/responses/response_registry.hpp"
#include "storage/types/ids.hpp"

namespace semantic::server {

/// Writes its record and adds it; what is let go of for it leaves the disk too. `is_dropped`: asked
/// when nobody else changes it: whether it was deleted in the meantime, and nothing of it is to be
/// kept; empty: it was not. Errors: those of keep_record(): it is kept as long as this process
/// runs. bad_value: it is too large to be kept.
storage::result<void> keep_response(kept_responses& responses, engine::engine& engine,
                                    const storage::tenant_id& tenant,
                                    protocol::responses::kept_response made,
                                    const std::function<bool()>& is_dropped = {});
/// When this returns true, it is gone for good. Returns: whether there was one. Errors: io; it is
/// still there.
storage::result<bool> drop_response(kept_responses& responses, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id);

/// A new one. Errors: those of keep_record(), bad_value; there is none then.
storage::result<void> keep_conversation(kept_responses& conversations, engine::engine& engine,
                                        const storage::tenant_id& tenant,
                                        protocol::responses::kept_response made);
using conversation_change = std::function<protocol::result<protocol::responses::kept_response>(
    const protocol::responses::kept_response& now)>;
/// Puts what `change` makes of it in its place; changes and the deletion of one conversation are in
/// one order. Returns: how it is now. Errors: not_found, also when it was deleted in the meantime;
/// those of `change` and of keep_record(), bad_value: it is as it was.
protocol::result<kept_responses::kept> change_conversation(kept_responses& conversations,
                                                           engine::engine& engine,
                                                           const storage::tenant_id& tenant,
                                                           const std::string& id,
                                                           const conversation_change& change);
storage::result<bool> drop_conversation(kept_responses& conversations, engine::engine& engine,
                                        const storage::tenant_id& tenant, const std::string& id);
/// Adds all that there are records of. What was still being made when the server stopped has
/// failed. Returns: what was wrong with others, for the log.
std::vector<std::string> load_responses(response_registry& responses, engine::engine& engine);

}  // namespace semantic::server
