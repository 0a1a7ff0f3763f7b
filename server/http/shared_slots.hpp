// SPDX-License-Identifier: Apache-2.0
#pragma once
// Resources that clients share and of which no tenant may have all, each kind with its slots.
// Owner: app. Thread: any.

#include "server/http/limits.hpp"
#include "server/usage/tenant_slots.hpp"

namespace semantic::server {

struct shared_slots {
    /// `has_keys`: tenants are distinguished. Without keys everybody is one.
    shared_slots(const http_limits& limits, bool has_keys)
        : watchers(limits.watchers_max, share(limits.watchers_max, has_keys)),
          uploads(limits.uploads_max, share(limits.uploads_max, has_keys)) {}

    /// How many of `all` one tenant may have.
    static std::size_t share(std::size_t all, bool has_keys) {
        return has_keys ? tenant_share(all) : all;
    }

    tenant_slots watchers;  // WebSockets of /ws
    tenant_slots uploads;   // files of agents on their way in
};

}  // namespace semantic::server
