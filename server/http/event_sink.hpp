// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the events of an answer go while it is made.
// Owner: the coroutine that answers. Thread: its strand.

#include <boost/asio/awaitable.hpp>

#include <string>
#include <string_view>

namespace semantic::server {

class event_sink {
  public:
    virtual ~event_sink() = default;
    /// A further field of the reply's head; only before the first write(). Where there is no head,
    /// nothing.
    virtual void add_field(std::string name, std::string value) = 0;
    /// Whole events, one or more, as server-sent events are written. Returns: false when nobody
    /// takes them any more.
    virtual boost::asio::awaitable<bool> write(std::string_view events) = 0;
    /// Requires: begun. Nothing follows.
    virtual boost::asio::awaitable<bool> finish() = 0;
    /// Whether a refusal would come too late to be a plain error reply.
    virtual bool begun() const noexcept = 0;
};

}  // namespace semantic::server
