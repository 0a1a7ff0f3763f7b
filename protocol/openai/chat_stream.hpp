// SPDX-License-Identifier: Apache-2.0
#pragma once
// The reply to /v1/chat/completions: the engine's events as SSE chunks, or collected into one body.
// How they are fed: protocol/reply.hpp. Source: the vendor's streaming reference as its SDKs parse
// it (protocol/README.md): no `event:` line ever, role in the first chunk, an index of its own for
// every tool call.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/generation.hpp"
#include "protocol/reply.hpp"
#include "protocol/shown_space.hpp"
#include "protocol/wire/errc.hpp"
#include "protocol/wire/ids.hpp"

namespace semantic::protocol::openai {

struct reply_options {
    std::string completion_id;  // chatcmpl-…
    std::string model;          // echoed
    std::string system_fingerprint;
    std::int64_t created_unix = 0;
    bool include_usage = false;  // streams only
    /// Calls after this many are left out of the reply, as the request asked.
    std::optional<std::size_t> tool_calls_max;
    int choices = 1;
    std::vector<std::string> left_out{};  // answer_request::left_out
    std::set<std::string> text_tools{};   // chat_request::text_tools
};

/// Decides what of a model's text and calls a reply shows; the same for streams and bodies.
class shown_parts {
  public:
    shown_parts(std::optional<std::size_t> tool_calls_max, id_maker& ids)
        : tool_calls_max_(tool_calls_max), ids_(&ids) {}

    struct call {
        std::size_t index = 0;
        std::string id;
    };
    /// Returns: the text to show now. White space after a tool call waits until text follows.
    std::string text(std::string_view piece);
    /// Returns: nothing for a call that the request does not allow.
    std::optional<call> begin_call();
    /// Ends a call. One that turned out to be none keeps its index, since the client has seen it.
    void end_call(bool is_whole) { calls_ += is_whole ? 1 : 0; }
    std::size_t call_count() const noexcept { return calls_; }

  private:
    std::optional<std::size_t> tool_calls_max_;
    id_maker* ids_;
    std::size_t calls_ = 0;  // whole ones
    // The index of the next call: also one that is cut off has used its index.
    std::size_t begun_ = 0;
    bool is_behind_call_ = false;
    shown_space space_;
};

class chat_stream final : public reply_stream {
  public:
    /// `ids` names tool calls; it must outlive the stream.
    chat_stream(reply_options options, id_maker& ids);

    /// A chunk with the role for each choice.
    std::string on_admitted(const engine::admitted& event) override;
    void on_choice(int choice) override;
    void on_scores(std::span<const engine::token_scores> scores) override;
    /// One chunk for every non-empty piece.
    std::string on_text(std::string_view text) override;
    /// In `reasoning_content`, as other servers of open models send it.
    std::string on_thinking(std::string_view text) override;
    /// A chunk with id and name, and one with the arguments, or with the text that the tool takes.
    std::string on_tool_call(std::string_view name, std::string_view arguments_json) override;
    /// A chunk with id and name, and one for each piece of the arguments; the input of a tool that
    /// takes a text comes whole, when its JSON string has ended.
    std::string on_call_begun(std::string_view name) override;
    std::string on_call_arguments(std::string_view json) override;
    std::string on_call_ended(bool is_whole) override;
    /// finish_reason of a choice; that of the first one comes last, in on_finished().
    std::string on_choice_finished(const engine::choice_finished& event) override;
    /// finish_reason of the first choice, usage if it was asked for, [DONE].
    std::string on_finished(const engine::finished& event) override;
    std::string on_failed(const failure& f) override;
    /// A comment: any event, even an empty one, breaks the vendor's SDK.
    std::string ping() const override;
    bool ended() const noexcept override { return state_ == state::ended; }

  private:
    enum class state { fresh, open, ended };
    struct one_choice {
        shown_parts parts;
        boost::json::array scores;               // not yet shown
        std::optional<std::size_t> open_call{};  // its index
        std::optional<std::string> input{};      // arguments of an open call that takes a text
    };
    one_choice& current() { return choices_[current_]; }
    std::string call_chunk(boost::json::object call) const;

    reply_options options_;
    std::vector<one_choice> choices_;
    std::size_t current_ = 0;
    engine::prompt_usage usage_;
    std::string agent_;
    state state_ = state::fresh;
    int thinking_tokens_ = 0;
};

class chat_collector final : public reply_collector {
  public:
    chat_collector(reply_options options, id_maker& ids);

    void on_admitted(const engine::admitted& event) override;
    void on_choice(int choice) override;
    void on_scores(std::span<const engine::token_scores> scores) override;
    void on_text(std::string_view text) override;
    void on_thinking(std::string_view text) override;
    void on_tool_call(std::string_view name, std::string_view arguments_json) override;
    void on_cut_call(std::string_view name, std::string_view arguments) override;
    void on_choice_finished(const engine::choice_finished& event) override;
    result<std::string> on_finished(const engine::finished& event) override;

  private:
    struct call {
        std::string id;
        std::string name;
        std::string arguments;
    };
    struct one_choice {
        shown_parts parts;
        std::string text;
        std::string thinking;
        std::vector<call> calls;
        std::optional<boost::json::array> scores;
        engine::stop_reason why = engine::stop_reason::end_turn;
    };
    one_choice& current() { return choices_[current_]; }
    boost::json::object call_object(const call& made) const;

    reply_options options_;
    std::vector<one_choice> choices_;
    std::size_t current_ = 0;
    engine::prompt_usage usage_;
    std::string agent_;
    int thinking_tokens_ = 0;
};

}  // namespace semantic::protocol::openai
