// SPDX-License-Identifier: Apache-2.0
#pragma once
// The replies to /api/chat and /api/generate: the engine's events as lines of JSON, or collected
// into one object. How they are fed: protocol/reply.hpp. Source: the API as the vendor's clients
// parse it (protocol/README.md): a line an event, `done` in the last, calls whole.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/generation.hpp"
#include "protocol/reply.hpp"
#include "protocol/wire/errc.hpp"
#include "protocol/wire/ids.hpp"

namespace semantic::protocol::ollama {

enum class reply_kind { chat, generate };

struct reply_options {
    reply_kind kind = reply_kind::chat;
    std::string model;  // echoed
    std::chrono::system_clock::time_point asked_at{};
    /// The time, for `created_at` and the durations.
    std::function<std::chrono::system_clock::time_point()> now;
    std::vector<std::string> left_out{};  // answer_request::left_out
};

/// The answer to a request without a prompt: the model is loaded.
std::string empty_reply(const reply_options& options);

/// Measures what the last line says about an answer: counts of tokens, and durations.
class answer_times {
  public:
    explicit answer_times(const reply_options& options) : options_(&options) {}
    void on_admitted(const engine::admitted& event);
    void on_output();  // call at each output; the first one ends the reading of the prompt
    /// Adds to the last line: done, done_reason, counts, durations in nanoseconds, and this
    /// server's own field.
    void add_end(boost::json::object& line, const engine::finished& event) const;

  private:
    const reply_options* options_;
    std::string agent_;
    engine::prompt_usage usage_;
    std::chrono::system_clock::time_point admitted_at_{};
    std::chrono::system_clock::time_point first_at_{};  // of the output; epoch: none yet
};

class answer_stream final : public reply_stream {
  public:
    /// `ids` names tool calls; it must outlive the stream.
    answer_stream(reply_options options, id_maker& ids);
    answer_stream(const answer_stream&) = delete;
    answer_stream& operator=(const answer_stream&) = delete;

    const char* content_type() const override { return "application/x-ndjson"; }
    /// Nothing: a line is sent when there is text.
    std::string on_admitted(const engine::admitted& event) override;
    std::string on_text(std::string_view text) override;
    std::string on_thinking(std::string_view text) override;
    /// One line with the whole call: these clients know no parts of one.
    std::string on_tool_call(std::string_view name, std::string_view arguments_json) override;
    std::string on_call_begun(std::string_view name) override;
    std::string on_call_arguments(std::string_view json) override;
    std::string on_call_ended(bool is_whole) override;
    std::string on_finished(const engine::finished& event) override;
    std::string on_failed(const failure& f) override;
    /// A line without text, since clients parse every line and would fail on a comment.
    std::string ping() const override;
    bool ended() const noexcept override { return ended_; }

  private:
    reply_options options_;
    id_maker* ids_;
    answer_times times_;
    // The index of the next call in the answer.
    std::size_t calls_ = 0;
    std::string call_name_;  // of the call that is being written
    std::string call_arguments_;
    bool ended_ = false;
};

class answer_collector final : public reply_collector {
  public:
    answer_collector(reply_options options, id_maker& ids);
    answer_collector(const answer_collector&) = delete;
    answer_collector& operator=(const answer_collector&) = delete;

    void on_admitted(const engine::admitted& event) override;
    void on_text(std::string_view text) override;
    void on_thinking(std::string_view text) override;
    void on_tool_call(std::string_view name, std::string_view arguments_json) override;
    result<std::string> on_finished(const engine::finished& event) override;

  private:
    reply_options options_;
    id_maker* ids_;
    answer_times times_;
    std::string text_;
    std::string thinking_;
    boost::json::array calls_;
};

}  // namespace semantic::protocol::ollama
