// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reports the server's state to the service manager, as systemd's sd_notify(3) does: a datagram to
// the socket that NOTIFY_SOCKET names. Without one all of this does nothing. Owner: app. Thread:
// any. Errors: none are reported; the manager has its own time limits.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace semantic::server {

class service_manager {
  public:
    /// `socket`: a path, or @NAME of an abstract one; empty: nobody listens.
    explicit service_manager(std::string socket) : socket_(std::move(socket)) {}
    /// Reads NOTIFY_SOCKET from the environment, and removes it there: child processes do not get
    /// it.
    static service_manager of_environment();

    /// Sends one or more lines NAME=VALUE: "READY=1", "STATUS=loading", "WATCHDOG=1".
    void tell(std::string_view state) const noexcept;

    /// How often WATCHDOG=1 must be sent: half of the time that WATCHDOG_USEC allows; nothing where
    /// this process has no watchdog. Parameters: the values of WATCHDOG_USEC and WATCHDOG_PID, or
    /// null.
    static std::optional<std::chrono::microseconds> watchdog_every(const char* microseconds,
                                                                   const char* process) noexcept;

  private:
    std::string socket_;
};

}  // namespace semantic::server
