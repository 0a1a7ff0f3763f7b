// SPDX-License-Identifier: Apache-2.0
#pragma once
// A run of a scenario: its phases one after the other, each a session of its own that stays.
// Owner: a handler's coroutine, on the client's strand. A run whose client leaves, or that is
// cancelled, stops where it is; what was taken stays, and another scenario_run goes on from there,
// after a restart of the server too.

#include <boost/asio/awaitable.hpp>

#include <optional>
#include <string>
#include <vector>

#include "protocol/coordination/api.hpp"
#include "protocol/scenarios/api.hpp"
#include "protocol/scenarios/run_record.hpp"
#include "protocol/scenarios/scenario.hpp"
#include "server/coordination/run_registry.hpp"
#include "server/coordination/session_driver.hpp"

namespace semantic::server {

/// Blocks. Those that come with the server, in the order of their ids; one that is not whole is
/// left out, and logged.
std::vector<protocol::scenarios::scenario> shipped_scenarios();

/// The session of a phase always has the same name, before and after a restart.
std::string phase_session_id(std::string_view run_id, std::string_view phase);
/// How far a run is, by the sessions that there are. Reads what came of it if that is not known,
/// which may take long.
protocol::scenarios::run_state state_of(const services& server, const storage::tenant_id& tenant,
                                        const protocol::scenarios::kept_run& run);
/// The same at once: without what came of it, if that is not known.
protocol::scenarios::run_state known_state_of(const services& server,
                                              const storage::tenant_id& tenant,
                                              const protocol::scenarios::kept_run& run);

class scenario_run {
  public:
    /// All that is referred to outlives the run.
    scenario_run(const session_client& client, run_registry::known_run run,
                 const protocol::scenarios::run_request& wanted,
                 protocol::coordination::answer_wish how, event_sender send);

    /// Takes what is left. Returns: the last event. Errors: those of turns, cancelled; conflict,
    /// when the session of a phase was deleted.
    net::awaitable<protocol::result<std::string>> run();

  private:
    using session = protocol::coordination::session;

    net::awaitable<protocol::result<void>> take(const protocol::scenarios::phase& phase);
    /// Blocks.
    protocol::result<session> opened(const protocol::scenarios::phase& phase);
    net::awaitable<protocol::result<void>> take_rounds(const protocol::scenarios::phase& phase,
                                                       const std::string& id);
    /// Erases the agents' memories in the engine.
    net::awaitable<protocol::result<void>> erase_memories(const session& begun);
    /// Without its lines.
    std::optional<session> session_of(const protocol::scenarios::phase& phase) const;

    const session_client& client_;
    const run_registry::known_run run_;
    const protocol::coordination::answer_wish how_;
    const event_sender send_;
    const bool rereads_;
    std::string prefix_{};  // of permanent agents' memories
};

}  // namespace semantic::server
