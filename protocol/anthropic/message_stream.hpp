// SPDX-License-Identifier: Apache-2.0
#pragma once
// The reply to /v1/messages: the engine's events as SSE, or collected into one body. How they are
// fed: protocol/reply.hpp.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/generation.hpp"
#include "protocol/anthropic/safeguards.hpp"
#include "protocol/reply.hpp"
#include "protocol/shown_space.hpp"
#include "protocol/wire/errc.hpp"
#include "protocol/wire/ids.hpp"

namespace semantic::protocol::anthropic {

struct reply_options {
    std::string message_id;  // msg_…
    std::string request_id;  // req_…, part of error events; may be empty
    std::string model;       // echoed
    /// Calls after this many are left out of the reply, as the request asked.
    std::optional<std::size_t> tool_calls_max;
    bool shows_thinking = false;        // off: reasoning is left out
    bool hides_thinking = false;        // its blocks have no text, and a signature that carries it
    bool diagnoses = false;             // `diagnostics` says why not more was remembered
    std::string previous_message_id{};  // what the client compares with, or empty
    std::vector<std::string> left_out{};  // answer_request::left_out
    /// What context_management has changed. Absent: it was not asked for.
    std::optional<boost::json::array> applied_edits{};
    /// The answer is a summary, which comes in one block of type compaction.
    bool compacts = false;
    boost::json::array tool_changes{};  // of that block
    /// A block of that type that comes before the answer, or empty.
    boost::json::object summary_block{};
    /// The calls are kept for a judge. The reply has safeguard_results in any case.
    bool is_judged = false;
    /// Else these, where there are any.
    boost::json::array safeguard_results{};
};

class message_stream final : public reply_stream {
  public:
    /// `ids` names tool calls; it must outlive the stream.
    message_stream(reply_options options, id_maker& ids);

    std::string on_admitted(const engine::admitted& event) override;
    /// One content_block_delta for every non-empty piece.
    std::string on_text(std::string_view text) override;
    /// Deltas of a thinking block, which ends with its signature.
    std::string on_thinking(std::string_view text) override;
    /// A whole tool_use block.
    std::string on_tool_call(std::string_view name, std::string_view arguments_json) override;
    /// A tool_use block, whose input comes in input_json_delta pieces.
    std::string on_call_begun(std::string_view name) override;
    std::string on_call_arguments(std::string_view json) override;
    std::string on_call_ended(bool is_whole) override;
    /// message_delta and message_stop.
    std::string on_finished(const engine::finished& event) override;
    std::string on_failed(const failure& f) override;
    std::string ping() const override;
    bool ended() const noexcept override { return state_ == state::ended; }

    /// The complete calls of an answer that is_judged.
    const std::vector<judged_call>& calls() const noexcept { return judged_; }
    /// Puts the verdicts of the judge into the end of the stream. `bytes`: bytes that end with
    /// those of on_finished(). Returns: the same bytes with `results`.
    std::string with_verdicts(std::string bytes, boost::json::array results);

  private:
    enum class state { fresh, between_blocks, in_text, in_thinking, in_call, ended };
    /// Ends the open block, and counts it; empty where none is open.
    std::string close_block();
    /// Returns: all events of one block of type compaction.
    std::string whole_summary(const boost::json::object& block);
    /// Returns: message_delta and message_stop, from `delta_` and `finished_`.
    std::string ending() const;

    reply_options options_;
    id_maker* ids_;
    engine::prompt_usage usage_;
    state state_ = state::fresh;
    // Of the open block, else of the one that opens next.
    std::size_t next_index_ = 0;
    std::size_t tool_calls_ = 0;  // whole ones
    shown_space space_;           // no block for it until something else follows
    std::string thinking_;        // of the open block
    // All text so far, where the answer is to be a compaction block.
    std::string summary_;
    // The call that is being written, and the whole ones, which are judged at the end.
    judged_call open_call_;
    std::vector<judged_call> judged_;
    boost::json::object delta_;  // of message_delta
    engine::finished finished_;
    std::size_t ending_bytes_ = 0;  // of message_delta and message_stop
};

class message_collector final : public reply_collector {
  public:
    message_collector(reply_options options, id_maker& ids);

    void on_admitted(const engine::admitted& event) override;
    void on_text(std::string_view text) override;
    void on_thinking(std::string_view text) override;
    void on_tool_call(std::string_view name, std::string_view arguments_json) override;
    result<std::string> on_finished(const engine::finished& event) override;

    /// As message_stream has it.
    const std::vector<judged_call>& calls() const noexcept { return judged_; }
    /// Returns: the body with the verdicts of the judge.
    std::string with_verdicts(boost::json::array results);

  private:
    boost::json::array content() const;
    enum class kind { text, thinking, tool_use };
    struct block {
        kind is = kind::text;
        std::string text;  // or the reasoning, or the arguments
        std::string id;
        std::string name;
    };
    reply_options options_;
    id_maker* ids_;
    engine::prompt_usage usage_;
    std::string agent_;
    std::vector<block> blocks_;
    std::size_t tool_calls_ = 0;
    shown_space space_;
    std::string summary_;
    std::vector<judged_call> judged_;
    boost::json::object message_;
};

}  // namespace semantic::protocol::anthropic
