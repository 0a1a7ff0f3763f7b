// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which handler answers which request: what a row of the route table says, and how a request finds
// its row. The table itself: handlers/routes.cpp.

#include <boost/asio/awaitable.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "protocol/wire/api_error.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"

namespace semantic::server {

struct services;
class client_link;

/// Answers at once, without waiting for anything.
using plain_handler = response (*)(const services&, const request&);
/// Waits for the engine. Returns: the reply, or nothing when it was streamed or the client has
/// left.
using async_handler = boost::asio::awaitable<std::optional<response>> (*)(const services&,
                                                                          const request&,
                                                                          client_link&);

enum class auth_class { open, key, admin, reader };  // see refuse_admin(), refuse_reader()
/// json: up to the configured body limit, in memory; file: up to what a memory can take, on disk.
enum class body_class { none, json, file };
/// loaded: refused while no model is there, or waits for one where requests may; named: its body
/// says for which.
enum class engine_need { none, loaded, named };

struct route {
    std::string_view method;
    /// "{id}" matches one path segment that is not empty, "{id...}" all that are left.
    std::string_view pattern;
    plain_handler plain;  // exactly one of the two is set
    async_handler async;
    auth_class auth;
    body_class body;
    engine_need engine;
    /// Counts for the limits of its key: it makes the model work, or writes what a client sends.
    bool is_metered = false;
};

struct route_match {
    const route* found = nullptr;  // null: see `allow`
    std::string parameter;         // the matched segments, percent-decoded
    std::string allow;             // methods of this path when only the method is wrong; else empty
};

/// Finds the first row for a request. HEAD takes the row of GET.
route_match match_route(std::span<const route> table, std::string_view method,
                        std::string_view path);

/// The vendor whose clients use this path; /v1/models is shared, and decided by a header that
/// only one vendor sends.
protocol::dialect dialect_of(std::string_view path, bool has_anthropic_version);

}  // namespace semantic::server
