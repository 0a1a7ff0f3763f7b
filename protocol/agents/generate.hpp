// SPDX-License-Identifier: Apache-2.0
#pragma once
// POST /v1/agents/{id}/generate: its body, and its reply as a stream of events or in one piece.
// Pure; the replies are fed as protocol/reply.hpp says.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/answer_request.hpp"
#include "protocol/reply.hpp"
#include "protocol/wire/ids.hpp"

namespace semantic::protocol::agents {

struct generate_request : answer_request {
    /// The prompt verbatim, in place of `chat`: no chat template is rendered around it.
    std::optional<std::string> prompt;
    /// The prompt, or the messages, are only what is new after the agent's memory.
    bool append = false;
};

/// Parses {"prompt": "..."} or {"messages": [...], "system", "tools"} as in /v1/messages, with
/// "append", "stream", "max_tokens" (256), "stop", "thinking" (a flag) and the sampling parameters.
/// Errors: malformed_json, body_too_large, missing_field, bad_value, unsupported; each names the
/// JSON path.
result<generate_request> parse_generate(std::string_view body, const request_limits& limits = {});

/// The reply as events: start; then token, thinking and tool_call; then done. Or error, as the last
/// one. Between them ping. A call that is still being written has tool_call_start and
/// tool_call_delta before tool_call, and tool_call_dropped in place of it when it turns out to be
/// no call.
class generate_stream final : public reply_stream {
  public:
    /// `ids` names tool calls; it must outlive the stream.
    /// `message_id`: the answer's name, at which the agent can be forked; empty: it has none.
    generate_stream(std::string request_id, id_maker& ids, std::vector<std::string> left_out = {},
                    std::string message_id = {})
        : request_id_(std::move(request_id)),
          ids_(&ids),
          left_out_(std::move(left_out)),
          message_id_(std::move(message_id)) {}

    std::string on_admitted(const engine::admitted& event) override;
    std::string on_text(std::string_view text) override;
    std::string on_thinking(std::string_view text) override;
    std::string on_tool_call(std::string_view name, std::string_view arguments_json) override;
    std::string on_call_begun(std::string_view name) override;
    std::string on_call_arguments(std::string_view json) override;
    std::string on_call_ended(bool is_whole) override;
    std::string on_finished(const engine::finished& event) override;
    std::string on_failed(const failure& f) override;
    std::string ping() const override;
    bool ended() const noexcept override { return ended_; }

  private:
    std::string request_id_;
    id_maker* ids_;
    std::vector<std::string> left_out_;  // answer_request::left_out
    std::string message_id_;
    int prompt_tokens_ = 0;
    // Whether the answer has a whole call, which decides finish_reason.
    bool called_ = false;
    bool ended_ = false;
    // The call that is being written:
    std::string call_id_;
    std::string call_name_;
    std::string call_arguments_;
};

/// The reply in one piece.
class generate_collector final : public reply_collector {
  public:
    /// `message_id`: likewise.
    explicit generate_collector(id_maker& ids, std::vector<std::string> left_out = {},
                                std::string message_id = {})
        : ids_(&ids), left_out_(std::move(left_out)), message_id_(std::move(message_id)) {}

    void on_admitted(const engine::admitted& event) override;
    void on_text(std::string_view text) override { text_ += text; }
    void on_thinking(std::string_view text) override { thinking_ += text; }
    void on_tool_call(std::string_view name, std::string_view arguments_json) override;
    result<std::string> on_finished(const engine::finished& event) override;

  private:
    struct call {
        std::string id;
        std::string name;
        std::string arguments;
    };
    id_maker* ids_;
    std::vector<std::string> left_out_;  // answer_request::left_out
    std::string message_id_;
    std::string agent_;
    engine::prompt_usage usage_;
    std::string text_;
    std::string thinking_;
    std::vector<call> calls_;
};

}  // namespace semantic::protocol::agents
