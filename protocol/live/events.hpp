// SPDX-License-Identifier: Apache-2.0
#pragma once
// What happened in the engine, as watchers see it. Pure.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <optional>
#include <span>
#include <string>

#include "engine/types/activity.hpp"
#include "storage/types/ids.hpp"

namespace semantic::protocol::live {

/// Which events a viewer sees: those of one tenant, or all for an admin, but then without texts.
struct viewpoint {
    std::optional<storage::tenant_id> tenant{};  // absent: an admin's
    bool sees(const storage::tenant_id& owner) const { return !tenant || *tenant == owner; }
};

/// Returns: the name under which an admin sees a tenant: the first 8 hex digits of its salt;
/// "default" for the tenant of a server without keys.
std::string tenant_name(const storage::tenant_id& tenant);

using event_list = boost::json::array;
/// Returns: the events that the viewer sees, but for steps, each an object with "event" and "at"
/// (ms since 1970).
event_list events_of(std::span<const engine::activity> all, const viewpoint& from);
/// Returns: the last step and how many there were: {"steps","took_ms","decoding":[{"request",
/// "agent"}…],"chunk":{…,"tokens"}|null,"others"}; null where there was none. `others`: how many
/// sequences of other tenants were in it.
boost::json::value step_of(std::span<const engine::activity> all, const viewpoint& from);
/// Whether any of these events may change what the viewer sees of its agents.
bool touches(std::span<const engine::activity> all, const viewpoint& from);

}  // namespace semantic::protocol::live
