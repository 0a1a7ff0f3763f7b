// SPDX-License-Identifier: Apache-2.0
#pragma once
// How an answer becomes a reply, whatever the dialect: one interface for a stream of events, one
// for a reply in one piece.
// Owner: the coroutine that answers one request. Thread: one at a time. Nothing here can fail on
// what a model says.
//
// Feed, in this order: on_admitted once; on_text, on_thinking and on_tool_call (or on_call_begun,
// on_call_arguments and on_call_ended in its place) as the output parser separates them; then
// exactly one on_finished or on_failed (on_failed may also come first and alone). Where a request
// has several choices, on_choice says whose text comes next, and on_choice_finished comes once for
// each of them before on_finished. A dialect without choices or scores ignores them.

#include <span>
#include <string>
#include <string_view>

#include "engine/types/generation.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol {

/// A reply as a stream of events. A state machine: every method returns the bytes to send now,
/// possibly none.
class reply_stream {
  public:
    virtual ~reply_stream() = default;

    /// Returns: the Content-Type of the reply.
    virtual const char* content_type() const { return "text/event-stream; charset=utf-8"; }
    virtual std::string on_admitted(const engine::admitted& event) = 0;
    /// The following calls, up to the next on_choice(), belong to this choice; without one to 0.
    virtual void on_choice(int /*choice*/) {}
    /// Log probabilities of the tokens whose text the next on_text() has.
    virtual void on_scores(std::span<const engine::token_scores> /*scores*/) {}
    virtual std::string on_text(std::string_view text) = 0;
    /// Reasoning, a token's worth at a time. A dialect without a place for it leaves it out.
    virtual std::string on_thinking(std::string_view) { return {}; }
    /// A whole call. Arguments that are no JSON object are shown as text, since a client would fail
    /// on them.
    virtual std::string on_tool_call(std::string_view name, std::string_view arguments_json) = 0;
    /// A call while the model writes it: its name, then its arguments as compact JSON in pieces,
    /// then whether it became a whole call. One that was cut off or turned out to be no call gets
    /// no end of its arguments and does not count as a call.
    virtual std::string on_call_begun(std::string_view name) = 0;
    virtual std::string on_call_arguments(std::string_view json) = 0;
    virtual std::string on_call_ended(bool is_whole) = 0;
    virtual std::string on_choice_finished(const engine::choice_finished& /*event*/) { return {}; }
    /// The end of the stream; an error event when the generation was cancelled or ran out of time.
    virtual std::string on_finished(const engine::finished& event) = 0;
    virtual std::string on_failed(const failure& f) = 0;
    /// Returns: bytes that keep the connection alive; allowed at any time, empty once the stream
    /// has ended.
    virtual std::string ping() const = 0;
    virtual bool ended() const noexcept = 0;
};

/// A reply in one piece.
class reply_collector {
  public:
    virtual ~reply_collector() = default;

    virtual void on_admitted(const engine::admitted& event) = 0;
    /// The following calls, up to the next on_choice(), belong to this choice; without one to 0.
    virtual void on_choice(int /*choice*/) {}
    /// Log probabilities of the tokens whose text the next on_text() has.
    virtual void on_scores(std::span<const engine::token_scores> /*scores*/) {}
    virtual void on_text(std::string_view text) = 0;
    virtual void on_thinking(std::string_view) {}
    virtual void on_tool_call(std::string_view name, std::string_view arguments_json) = 0;
    /// A call that a limit cut off: its name and the beginning of its arguments, as a stream would
    /// have shown them. A dialect in which arguments are objects leaves it out.
    virtual void on_cut_call(std::string_view /*name*/, std::string_view /*arguments*/) {}
    virtual void on_choice_finished(const engine::choice_finished& /*event*/) {}
    /// Returns: the body of the 200 reply. Errors: cancelled, timeout.
    virtual result<std::string> on_finished(const engine::finished& event) = 0;
};

}  // namespace semantic::protocol
