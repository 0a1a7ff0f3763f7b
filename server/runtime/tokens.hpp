// SPDX-License-Identifier: Apache-2.0
#pragma once
// The completion tokens that the server uses, and nothing else.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace semantic::server {

namespace net = boost::asio;

/// co_await with this gives (error_code, ...) and never throws for an I/O error: every code is the
/// caller's to handle.
inline constexpr auto use_tuple = net::as_tuple(net::use_awaitable);

}  // namespace semantic::server
