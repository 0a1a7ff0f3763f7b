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
/// Called once, when the last of the requested turns or votes is applied, while the session is
/// locked. What it adds to the session is written to disk together with that, or not at all.
using end_listener = std::function<void(const session_registry::locked_session&, taken_turns&)>;

class session_driver {
  public:
    using turn_report = protocol::coordination::turn_report;

    /// `how`: what the client wishes of each answer. `send`: empty when nothing is streamed.
    /// `at_end` may be empty. All that is referred to outlives the driver.
    session_driver(const session_client& client, std::string session_id,
                   protocol::coordination::answer_wish how, event_sender send,
                   end_listener at_end = {});
    /// Also collects the streamed events for `at_end`.
    void gather_streams() { gathers_ = true; }

    /// Takes one turn. `wish`: who speaks. Errors: those of next_turn(), of the engine, cancelled,
    /// timeout.
    net::awaitable<protocol::result<void>> turn(protocol::coordination::turn_wish wish);
    /// Takes the remaining turns of the round, in broadcast all at the same time. Errors: as
    /// turn(); turns that were taken before the error stay.
    net::awaitable<protocol::result<void>> round();
    /// Puts a question and asks all agents whose votes are missing, all at the same time, until it
    /// is closed. Errors: those of put_question(), of the engine.
    net::awaitable<protocol::result<void>> decide(protocol::coordination::decision_request wanted);
    /// Has the next speaker's prompt computed while the reply goes out, so that its turn begins
    /// sooner. A failure has no effect.
    void read_ahead();
    /// Says that no round follows the present one, so that nobody reads ahead for it.
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
    /// A question to an agent that is no part of the conversation (a vote, an urgency), and its
    /// request.
    struct aside {
        int agent = 0;
        std::size_t reads = 0;  // how many of the session's lines the agent has read for it
        bool stays = false;     // whether what it read stays in the agent's memory
        std::unique_ptr<agent_answer> answer;
    };
    using locked_session = session_registry::locked_session;

    /// The engine's request for the prompt `asked` of agent number `agent`.
    engine::generation_request request_for(const locked_session& locked, int agent,
                                           protocol::coordination::prompt asked) const;
    /// Submits a request that computes the prompt of this turn and no answer. `is_followed`:
    /// another turn comes before it.
    void read_for(const locked_session& locked, const protocol::coordination::turn_plan& plan,
                  bool is_followed);
    /// Whether the turn that was applied last is the last of the requested ones.
    using last_check = std::function<bool(const protocol::coordination::session&)>;

    /// Checks that the agent's unread lines up to `reads` can fit the context, and the session can
    /// grow by them. Errors: prompt_too_long, those of check_space().
    protocol::result<void> check_reading(const locked_session& locked, int agent,
                                         std::size_t reads) const;
    /// Submits the request for a turn. `turn`: its number, for the event at its start.
    protocol::result<open_turn> begin(const locked_session& locked,
                                      const protocol::coordination::turn_plan& plan, int turn);
    /// Submits all turns left of a round of broadcast; none in other topologies.
    protocol::result<std::vector<open_turn>> begin_side_by_side(const locked_session& locked);
    /// Waits for the answer of an open turn, applies it to the session, and has the session
    /// written. `is_last`: whether that was the last requested turn.
    net::awaitable<protocol::result<void>> finish(open_turn& open, last_check is_last);
    /// Begins and finishes one turn. `is_last`: as in finish().
    net::awaitable<protocol::result<void>> take_turn(protocol::coordination::turn_wish wish,
                                                     last_check is_last);
    /// Counts the votes that `voters` gave with `answers`. Returns: whether the question is closed.
    protocol::result<bool> count_votes(const locked_session& locked, std::size_t question,
                                       const std::vector<int>& voters,
                                       const std::vector<std::string>& answers);
    /// Submits a question to each of these agents. Its answer is JSON of the question's schema.
    protocol::result<std::vector<aside>> ask_aside(
        const locked_session& locked, const std::vector<int>& agents,
        const protocol::coordination::held_question& question);
    /// Waits for all answers, and notes what the agents have read. Returns: the texts, in the order
    /// of `asked`.
    net::awaitable<protocol::result<std::vector<std::string>>> hear(std::vector<aside> asked);
    /// Asks every candidate how urgently it wants to speak, where the topology is interrupt; else
    /// empty.
    net::awaitable<protocol::result<protocol::coordination::urgencies>> urgencies();
    /// A listener that sends the text as events of `speaker`. `gathered`: null, or what collects
    /// the tokens, too.
    text_listener sends_tokens_of(protocol::coordination::shown_agent speaker,
                                  protocol::coordination::streamed_turn* gathered);
    /// A listener that sends a ping in place of any text.
    text_listener sends_pings();
    /// session_registry::run_locked() for this driver's session.
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
    // The events of the turns are collected too, for a retry (gather_streams()).
    bool gathers_ = false;
    client_streams streams_;
    // No turn follows the present round, so none is read ahead (ends_with_round()).
    bool ends_with_round_ = false;
};

/// A new id: PREFIX and 12 hexadecimal digits.
std::string new_hex_id(std::string_view prefix);

}  // namespace semantic::server
