// SPDX-License-Identifier: Apache-2.0
#pragma once
// A conversation that has become long is put into fewer words by its model, in every dialect that
// asks for it. Pure.

#include <string>
#include <string_view>

#include "protocol/answer_request.hpp"
#include "protocol/reply.hpp"

namespace semantic::protocol {

/// The most tokens of a summary, where the request names no smaller limit.
inline constexpr int summary_tokens_max = 1024;

/// The question to the model after the conversation.
std::string_view summary_question();

/// Changes the request into one for a summary of its conversation; `question` is what the model is
/// asked. The tools stay in the prompt, so that the memory of the conversation matches, but are not
/// called.
void ask_for_summary(answer_request& request, std::string_view question);

/// Collects the text of a summary that is not sent to the client.
class summary_collector final : public reply_collector {
  public:
    void on_admitted(const engine::admitted&) override {}
    void on_text(std::string_view text) override { summary_ += text; }
    void on_tool_call(std::string_view, std::string_view) override {}
    result<std::string> on_finished(const engine::finished& event) override;
    const std::string& summary() const noexcept { return summary_; }

  private:
    std::string summary_;
};

}  // namespace semantic::protocol
