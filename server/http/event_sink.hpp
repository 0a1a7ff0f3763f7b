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
    /// Adds a field to the reply's head; only before the first write(). Does nothing where there is
    /// no head.
    virtual void add_field(std::string name, std::string value) = 0;
    /// Sends one or more whole events in the form of server-sent events. Returns: false when the
    /// reader is gone.
    virtual boost::asio::awaitable<bool> write(std::string_view events) = 0;
    /// Ends the stream. Requires: begun(). Returns: false when the reader is gone.
    virtual boost::asio::awaitable<bool> finish() = 0;
    /// Whether something was sent, so that an error can no longer be a plain reply.
    virtual bool begun() const noexcept = 0;
};

}  // namespace semantic::server
