// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stores responses and conversations: each is a record in the cache directory before the last event
// of the request that made or extended it is sent.

#include <functional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "protocol/responses/kept_response.hpp"
#include "server/responses/response_registry.hpp"
#include "storage/types/ids.hpp"

namespace semantic::server {

/// Writes the response's record and adds it; those that it pushes out of the bounds are erased from
/// disk, too. `is_dropped`: called when nobody else can change the response; true: it was deleted
/// meanwhile and is not to be stored. Errors: those of keep_record(), then it is kept in RAM as
/// long as this process runs; bad_value: it is too large to be kept.
storage::result<void> keep_response(kept_responses& responses, engine::engine& engine,
                                    const storage::tenant_id& tenant,
                                    protocol::responses::kept_response made,
                                    const std::function<bool()>& is_dropped = {});
/// Erases the response for good. Returns: whether there was one. Errors: io; it is still there.
storage::result<bool> drop_response(kept_responses& responses, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id);

/// Writes a new conversation. Errors: those of keep_record(), bad_value; it does not exist then.
storage::result<void> keep_conversation(kept_responses& conversations, engine::engine& engine,
                                        const storage::tenant_id& tenant,
                                        protocol::responses::kept_response made);
/// Makes the new state of a conversation from its present one.
using conversation_change = std::function<protocol::result<protocol::responses::kept_response>(
    const protocol::responses::kept_response& now)>;
/// Replaces the conversation by what `change` makes of it. Changes and deletion of one conversation
/// happen one after the other. Returns: the new state. Errors: not_found, also when it was deleted
/// meanwhile; those of `change` and of keep_record(), bad_value: it is unchanged.
protocol::result<kept_responses::kept> change_conversation(kept_responses& conversations,
                                                           engine::engine& engine,
                                                           const storage::tenant_id& tenant,
                                                           const std::string& id,
                                                           const conversation_change& change);
/// Erases the conversation for good. Returns: whether there was one. Errors: io; it is still there.
storage::result<bool> drop_conversation(kept_responses& conversations, engine::engine& engine,
                                        const storage::tenant_id& tenant, const std::string& id);
/// Loads all stored responses and conversations at the start. Those that were still being made
/// count as failed. Returns: for the log, what was wrong with those that are not loaded.
std::vector<std::string> load_responses(response_registry& responses, engine::engine& engine);

}  // namespace semantic::server
