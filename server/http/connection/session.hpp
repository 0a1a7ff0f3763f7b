// SPDX-License-Identifier: Apache-2.0
#pragma once
// One client connection, from its first byte to its last.
// Thread: everything runs on the socket's own strand.
// Cancelled (by the task group): the connection is closed at once, and the engine request
// of the moment is cancelled.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <memory>

#include "server/http/connection/connection_slots.hpp"
#include "server/http/services.hpp"
#include "server/runtime/task_group.hpp"

namespace semantic::server {

/// Reads requests one after the other, answers each, until the client leaves, breaks HTTP, idles
/// too long, has to make room before it has asked, or the server stops. `server` and `tasks`
/// outlive the coroutine.
boost::asio::awaitable<void> run_session(boost::asio::ip::tcp::socket socket,
                                         const services* server, task_group* tasks,
                                         std::unique_ptr<connection_slots::holder> slot);

}  // namespace semantic::server
