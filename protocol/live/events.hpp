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

/// The events that a viewer sees: one tenant's, or all for an admin, but no texts.
struct viewpoint {
    std::optional<storage::tenant_id> tenant{};  // absent: an admin's
    bool sees(const storage::tenant_id& owner) const { return !tenant || *tenant == owner; }
};

/// The name of a tenant for an admin: the first digits of its salt; "default" for the one of
/// a server without keys.
std::string tenant_name(const storage::tenant_id& tenant);

using event_list = boost::json::array;
/// Events that are no steps, each an object with "event" and "at" (ms since 1970).
event_list events_of(std::span<const engine::activity> all, const viewpoint& from);
/// The last of the steps, and how many there were: {"steps","took_ms","decoding":[{"request",
/// "agent"}…],"chunk":{…,"tokens"}|null,"others"}; null where there was none. `others`: sequences
/// of other tenants.
boost::json::value step_of(std::span<const engine::activity> all, const viewpoint& from);
/// Whether what is shown of the tenant's agents may have changed by these.
bool touches(std::span<const engine::activity> all, const viewpoint& from);

}  // namespace semantic::protocol::live
