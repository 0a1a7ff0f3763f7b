#pragma once
// A run of a scenario: its phases one after the other, each a session of its own that stays.
// Owner: a handler's coroutine, on the client's strand. A run whose client leaves ends there; what
// was taken stays.

#include <boost/asio/awaitable.hpp>

#include <string>
#include <vector>

#include "protocol/coordination/api.hpp"
#include "protocol/scenarios/api.hpp"
#include "protocol/scenarios/scenario.hpp"
#include "server/coordination/session_driver.hpp"

namespace semantic::server {

/// Blocks. Those that come with the server, in the order of their ids; one that is not whole is
/// left out, and logged.
std::vector<protocol::scenarios::scenario> shipped_scenarios();

class scenario_run {
  public:
    /// All that is referred to outlives the run.
    scenario_run(const session_client& of, protocol::scenarios::scenario what,
                 const protocol::scenarios::run_request& wanted,
                 protocol::coordination::answer_wish how, event_sender send);

    /// Returns: the last event. Errors: those of turns, cancelled.
    net::awaitable<protocol::result<std::string>> run();

  private:
    net::awaitable<protocol::result<void>> take(const protocol::scenarios::phase& which);

    const session_client& of_;
    const protocol::scenarios::scenario what_;
    const std::string id_;
    const protocol::coordination::answer_wish how_;
    const event_sender send_;
    std::string prefix_{};  // of permanent agents' memories
    protocol::scenarios::phases_done done_{};
};

}  // namespace semantic::server
