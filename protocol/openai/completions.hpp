// SPDX-License-Identifier: Apache-2.0
#pragma once
// OpenAI completions, the older API: a text goes in verbatim, and what follows it comes out, as
// a stream of chunks or in one body. Pure; the replies are fed as protocol/reply.hpp says.
// Source: the Completions API as the vendor's SDKs speak it (protocol/README.md).

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "protocol/openai/chat.hpp"
#include "protocol/openai/chat_stream.hpp"
#include "protocol/reply.hpp"

namespace semantic::protocol::openai {

struct completion_request : chat_request {
    std::string prompt;  // not empty

    /// As answer_request has it, with the prompt in place of a chat.
    engine::generation_request take_generation(
        std::optional<storage::agent_id> named,
        std::optional<std::chrono::steady_clock::time_point> deadline);
};

/// Parses the body of /v1/completions: one prompt, as a string or a list of one. Without max_tokens
/// the limit is 16, as with the vendor. Errors: malformed_json, body_too_large, missing_field,
/// bad_value, unsupported (suffix, echo, best_of, several prompts, token ids); each names the JSON
/// path.
result<completion_request> parse_completion(std::string_view body, const chat_limits& limits = {});

/// Collects log probabilities in the four parallel lists of the older API until they are shown.
class older_scores {
  public:
    void add(std::span<const engine::token_scores> scores);
    /// Returns: what was added since the last take(), null where nothing was.
    boost::json::value take();

  private:
    boost::json::array tokens_, chosen_, top_, offsets_;
    std::size_t offset_ = 0;  // of the answer's text, in bytes
};

class completion_stream final : public reply_stream {
  public:
    explicit completion_stream(reply_options options);

    std::string on_admitted(const engine::admitted& event) override;
    void on_choice(int choice) override;
    void on_scores(std::span<const engine::token_scores> scores) override;
    std::string on_text(std::string_view text) override;
    /// A raw text has no calls.
    std::string on_tool_call(std::string_view, std::string_view) override { return {}; }
    std::string on_call_begun(std::string_view) override { return {}; }
    std::string on_call_arguments(std::string_view) override { return {}; }
    std::string on_call_ended(bool) override { return {}; }
    std::string on_choice_finished(const engine::choice_finished& event) override;
    /// finish_reason of the first choice, usage if it was asked for, [DONE].
    std::string on_finished(const engine::finished& event) override;
    std::string on_failed(const failure& f) override;
    std::string ping() const override;
    bool ended() const noexcept override { return ended_; }

  private:
    reply_options options_;
    std::vector<older_scores> scores_;  // of each choice
    std::size_t current_ = 0;
    engine::prompt_usage usage_;
    std::string agent_;
    bool ended_ = false;
};

class completion_collector final : public reply_collector {
  public:
    explicit completion_collector(reply_options options);

    void on_admitted(const engine::admitted& event) override;
    void on_choice(int choice) override { current_ = static_cast<std::size_t>(choice); }
    void on_scores(std::span<const engine::token_scores> scores) override;
    void on_text(std::string_view text) override { choices_[current_].text += text; }
    void on_tool_call(std::string_view, std::string_view) override {}
    void on_choice_finished(const engine::choice_finished& event) override;
    result<std::string> on_finished(const engine::finished& event) override;

  private:
    struct one_choice {
        std::string text;
        older_scores scores;
        engine::stop_reason why = engine::stop_reason::end_turn;
    };
    reply_options options_;
    std::vector<one_choice> choices_;
    std::size_t current_ = 0;
    engine::prompt_usage usage_;
    std::string agent_;
};

}  // namespace semantic::protocol::openai
