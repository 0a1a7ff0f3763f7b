// SPDX-License-Identifier: Apache-2.0
#pragma once
// One HTTP request as handlers see it: plain strings, whatever library read them.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/wire/api_error.hpp"
#include "server/engines/engine_slot.hpp"
#include "server/runtime/logging.hpp"

namespace semantic::server {

class key_slot;
class spool_file;

struct request {
    std::string method;     // "GET"
    std::string target;     // as received
    std::string path;       // without the query, not decoded
    std::string parameter;  // the route's {id}, percent-decoded
    std::vector<std::pair<std::string, std::string>> fields;
    std::string body;
    std::function<void()> drop_body{};  // frees `body`: for handlers that have parsed it
    engine_lease engine{};              // where the route needs one; held until the reply is made
    std::shared_ptr<spool_file> file;   // in place of `body` where the route takes a file
    std::string id;                     // request id, echoed in every reply
    /// The origin of the page in a browser that may read the reply, or "*"; empty: no page.
    std::string allow_origin;
    /// What identifies the tenant (credential_of()); empty: no keys are configured. Nothing: the
    /// request has no valid key.
    std::optional<std::string> credential;
    /// Set when the client has left; read by other threads. Null: that is not known.
    std::shared_ptr<const std::atomic<bool>> gone{};
    std::shared_ptr<key_slot> slot;  // where the route is metered; held until the reply is sent
    std::vector<std::pair<std::string, std::string>> limit_fields;  // what is left to its key
    bool is_local = false;  // the client is on this machine, or a proxy there
    std::string trace_id;   // of a W3C traceparent; or empty
    protocol::dialect dialect = protocol::dialect::native;
    bool http_1_0 = false;
    bool keep_alive = true;  // what the client asks for

    /// The ids that its lines in the log begin with. Valid for as long as the request.
    log_id id_for_log() const { return {id, trace_id}; }
    /// The first field of that name, whatever the case of its letters.
    std::optional<std::string> field(std::string_view name) const;
    /// A query parameter, percent-decoded; a malformed escape is left as it is.
    std::optional<std::string> query(std::string_view name) const;
};

/// Decodes percent escapes: "%2F" -> "/". A malformed escape is left as it is.
std::string percent_decode(std::string_view text);
bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept;

/// The path of a target: "/a" of "/a?b" and of "http://host/a?b", which proxies may send.
std::string path_of(std::string_view target);

/// Returns: the client's x-request-id when it has 1 to 128 characters of [A-Za-z0-9._-], else a new
/// "req_…".
std::string request_id_of(const request& from);

/// A source of randomness for ids, safe on any thread.
std::uint64_t random_bits();

}  // namespace semantic::server
