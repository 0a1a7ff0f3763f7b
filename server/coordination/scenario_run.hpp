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

/// The scenarios that come with the server, in the order of their ids. One that cannot be parsed is
/// left out and logged. Blocks.
std::vector<protocol::scenarios::scenario> shipped_scenarios();

/// The id of the session of a phase. It is computed from run and phase, so that it is the same
/// after a restart.
std::string phase_session_id(std::string_view run_id, std::string_view phase);
/// How far a run is, as its phases' sessions show. Once it is over, also computes its result if
/// that is not remembered, which may take long.
protocol::scenarios::run_state state_of(const services& server, const storage::tenant_id& tenant,
                                        const protocol::scenarios::kept_run& run);
/// As state_of(), but at once: without a result that is not remembered.
protocol::scenarios::run_state known_state_of(const services& server,
                                              const storage::tenant_id& tenant,
                                              const protocol::scenarios::kept_run& run);

class scenario_run {
  public:
    /// All that is referred to outlives the run.
    scenario_run(const session_client& client, run_registry::known_run run,
                 const protocol::scenarios::run_request& wanted,
                 protocol::coordination::answer_wish how, event_sender send);

    /// Takes the turns of all phases that are not over. Returns: the last event for the client.
    /// Errors: those of turns, cancelled; conflict, when the session of a phase was deleted.
    net::awaitable<protocol::result<std::string>> run();

  private:
    using session = protocol::coordination::session;

    /// Takes one phase: opens its session where there is none, and takes its rounds.
    net::awaitable<protocol::result<void>> take(const protocol::scenarios::phase& phase);
    /// Opens the session of a phase. Returns: the session without its lines. Blocks.
    protocol::result<session> opened(const protocol::scenarios::phase& phase);
    /// Takes the rounds that are left of a phase. `id`: its session.
    net::awaitable<protocol::result<void>> take_rounds(const protocol::scenarios::phase& phase,
                                                       const std::string& id);
    /// Erases what the engine remembers of the session's agents, so that all is read again (a
    /// request's `rereads`). Waits until they are idle. Errors: conflict, when one stays busy.
    net::awaitable<protocol::result<void>> erase_memories(const session& begun);
    /// The session of a phase, without its lines; nothing where there is none.
    std::optional<session> session_of(const protocol::scenarios::phase& phase) const;

    const session_client& client_;
    const run_registry::known_run run_;
    const protocol::coordination::answer_wish how_;
    const event_sender send_;
    const bool rereads_;
    std::string prefix_{};  // of the agents' memories where they outlive the run; else empty
};

}  // namespace semantic::server
