// SPDX-License-Identifier: Apache-2.0
#pragma once
// Takes the turns of a session on the engine: protocol/coordination decides, this class asks the
// engine and sends the events. Owner: a handler's coroutine, on the client's strand. Requires: the
// session is taken (session_registry::begin), so that nobody else takes its turns; whispers and
// votes may come in meanwhile. A turn that fails, or whose client leaves, has not been: the next
// one asks again.

#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "protocol/coordination/api.hpp"
#include "server/coordination/agent_answer.hpp"
#include "server/coordination/session_registry.hpp"

namespace semantic::server {

/// Sends events to the client. Returns: false when it is gone.
using event_sender = std::function<net::awaitable<bool>(std::string)>;

/// The result of a request: the turns that were taken, or the question that was decided.
struct taken_turns {
    std::vector<protocol::coordination::turn_report> reports{};
    std::vector<protocol::coordination::streamed_turn> streamed{};  // if they are to be kept
    std::size_t question = 0;
};
/// Called once, under the lock under which the last of what was asked for is applied: what it keeps
/// is written together with that, or not at all.
using end_listener = std::function<void(const session_registry::locked_session&, taken_turns&)>;

class session_driver {
  public:
    using turn_report = protocol::coordination::turn_report;

    /// `send`: empty when nothing is streamed. `at_end` may be empty. All that is referred to
    /// outlives the driver.
    session_driver(const session_client& client, std::string session_id,
                   protocol::coordination::answer_wish how, event_sender send,
                   end_listener at_end = {});
    /// Also collects the streamed events for `at_end`.
    void gather_streams() { gathers_ = true; }

    /// Errors: those of next_turn(), of the engine, cancelled, timeout.
    net::awaitable<protocol::result<void>> turn(protocol::coordination::turn_wish wish);
    /// Takes the remaining turns of the round; in broadcast concurrently. Errors: as turn(); turns
    /// that were taken before stay.
    net::awaitable<protocol::result<void>> round();
    /// Asks all agents whose votes are missing, concurrently, until the question is closed. Errors:
    /// those of put_question(), of the engine.
    net::awaitable<protocol::result<void>> decide(protocol::coordination::decision_request wanted);
    /// Has the next speaker read the new lines while the reply goes out.
    void read_ahead();
    /// No round follows the present one: no agent reads ahead for it.
    void ends_with_round() { ends_with_round_ = true; }

  private:
    /// A turn that was submitted and has no answer yet.
    struct open_turn {
        protocol::coordination::turn_plan plan;
        int turn = 0;
        std::string reading;
        storage::agent_id memory;
        std::unique_ptr<agent_answer> answer;
    };
    /// An agent that is asked a question outside of the conversation, and its request.
    struct aside {
        int agent = 0;
        std::size_t reads = 0;
        bool stays = false;  // in the agent's memory
        std::unique_ptr<agent_answer> answer;
    };
    using locked_session = session_registry::locked_session;

    engine::generation_request request_for(const locked_session& locked, int agent,
                                           protocol::coordination::prompt asked) const;
    /// Submits the request that reads ahead for this turn.
    void read_for(const locked_session& locked, const protocol::coordination::turn_plan& plan,
                  bool is_followed);
    /// Whether the turn that was applied last is the last of the requested ones.
    using last_check = std::function<bool(const protocol::coordination::session&)>;

    /// Whether an agent may read so much, and the session grow by it. Errors: prompt_too_long,
    /// those of check_space().
    protocol::result<void> check_reading(const locked_session& locked, int agent,
                                         std::size_t reads) const;
    protocol::result<open_turn> begin(const locked_session& locked,
                                      const protocol::coordination::turn_plan& plan, int turn);
    protocol::result<std::vector<open_turn>> begin_side_by_side(const locked_session& locked);
    net::awaitable<protocol::result<void>> finish(open_turn& open, last_check is_last);
    net::awaitable<protocol::result<void>> take_turn(protocol::coordination::turn_wish wish,
                                                     last_check is_last);
    /// Counts the votes of `voters`. Returns: whether the question is closed.
    protocol::result<bool> count_votes(const locked_session& locked, std::size_t question,
                                       const std::vector<int>& voters,
                                       const std::vector<std::string>& answers);
    protocol::result<std::vector<aside>> ask_aside(
        const locked_session& locked, const std::vector<int>& agents,
        const protocol::coordination::held_question& question);
    /// Their answers, in order.
    net::awaitable<protocol::result<std::vector<std::string>>> hear(std::vector<aside> asked);
    net::awaitable<protocol::result<protocol::coordination::urgencies>> urgencies();
    /// `gathered`: null, or where the tokens are kept, too.
    text_listener sends_tokens_of(protocol::coordination::shown_agent speaker,
                                  protocol::coordination::streamed_turn* gathered);
    text_listener sends_pings();
    template <class Work>
    auto run_locked(Work work) {
        return sessions_.run_locked(client_.tenant, id_, std::move(work));
    }

    const session_client& client_;
    session_registry& sessions_;
    std::string id_;
    protocol::coordination::answer_wish how_;
    event_sender send_;
    end_listener at_end_;
    taken_turns taken_{};
    bool gathers_ = false;
    client_streams streams_;
    bool ends_with_round_ = false;
};

/// A new id: PREFIX and 12 hexadecimal digits.
std::string new_hex_id(std::string_view prefix);

}  // namespace semantic::server
