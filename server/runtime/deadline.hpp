// SPDX-License-Identifier: Apache-2.0
#pragma once
// A limit on how long a wait on a socket may take.
// Thread: the socket's strand; lives on the waiting coroutine's frame, and is gone before the
// socket is.

#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <memory>

namespace semantic::server {

/// While this object lives, every operation on the socket ends with operation_aborted once `limit`
/// has passed, and passed() is true. The socket stays open, so that the client can still get an
/// error.
class deadline {
  public:
    deadline(boost::asio::ip::tcp::socket& socket, std::chrono::steady_clock::duration limit);
    ~deadline();
    deadline(const deadline&) = delete;
    deadline& operator=(const deadline&) = delete;

    bool passed() const noexcept;

  private:
    struct state;
    /// Starts the timer for the next cancellation.
    static void arm(const std::shared_ptr<state>& shared, std::chrono::steady_clock::duration wait);
    std::shared_ptr<state> state_;
};

}  // namespace semantic::server
