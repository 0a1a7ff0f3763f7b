// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two APIs as a client uses them: bodies of requests, and answers from stream events. Pure; the
// caller passes the times.

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "perf/bench/client/sse_parser.hpp"

namespace semantic::bench {

enum class api { anthropic, openai };
std::string_view name_of(api dialect);

struct message {
    std::string role;  // "user" or "assistant"
    std::string text;
};

struct generation_request {
    std::vector<message> messages;
    std::int64_t max_tokens = 1;
    std::string session;
};

/// One answer as the client saw it. Times are seconds since the request was sent.
struct generation {
    double sent_at = 0;              // seconds since the run began, to set streams side by side
    double first_byte_s = 0;         // first byte of the body: the server has accepted the request
    double first_s = 0;              // first content, or the end when no content came
    double last_s = 0;               // last content, or the end when none came
    double end_s = 0;                // the stream's end
    std::vector<double> content_s;   // each delta that carried content
    std::int64_t prompt_tokens = 0;  // whole prompt, reused part included
    std::int64_t cached_tokens = 0;  // reused, by the server's own account
    bool cached_reported = false;    // whether the server reported cached_tokens, even as 0
    std::int64_t output_tokens = 0;
    std::string stop_reason;
    std::string text;

    std::int64_t computed_tokens() const { return prompt_tokens - cached_tokens; }
    /// Tokens a second between the first and the last content; 0 for less than two tokens.
    double decode_speed() const;
    /// The times between neighbouring deltas, in seconds.
    std::vector<double> gaps() const;
};

/// The path of a chat request, below the base path.
std::string_view chat_path(api dialect);
/// The body of a streamed chat request. `extra`: fields that replace those of the body or are
/// added.
std::string chat_body(api dialect, const std::string& model, const generation_request& request,
                      const boost::json::object& extra);
std::string count_tokens_body(const std::string& model, const std::vector<message>& messages);
/// The id of the agent that a Semantic server makes for `session`.
std::string agent_of(api dialect, const std::string& session);

/// Puts one streamed answer together.
class stream_reader {
  public:
    explicit stream_reader(api dialect) : api_(dialect) {}

    /// Reads one event, which came `seconds` after the start. Errors: server_error when it is an
    /// error or is malformed.
    void on_event(const sse_event& event, double seconds);
    /// Returns: the answer, whose stream ended at `seconds`. Errors: server_error when the stream
    /// ended early or reported no usage.
    generation finish(double seconds);

  private:
    void on_anthropic(const boost::json::object& event, double seconds);
    void on_openai(const boost::json::object& chunk, double seconds);
    /// Notes text that came at this time.
    void on_content(std::string_view text, double seconds);
    void read_anthropic_usage(const boost::json::object& usage);
    void read_openai_usage(const boost::json::object& usage);

    api api_;
    generation result_;
    // Anthropic's usage counts these parts of a prompt separately.
    std::int64_t input_ = 0;
    std::int64_t created_ = 0;
    bool has_usage_ = false;
    bool ended_ = false;
};

struct model_info {
    std::string id;
    std::optional<std::int64_t> context_max;
};
/// Reads /v1/models in either dialect, and the fields by which peers state their context.
/// Returns: the model named `wanted`, or the first when `wanted` is empty or not listed.
std::optional<model_info> read_models(std::string_view body, const std::string& wanted);

/// The sum of the samples of `metric` in Prometheus text whose labels contain `label`; nothing
/// where there are none.
std::optional<double> read_metric(std::string_view text, std::string_view metric,
                                  std::string_view label = "");

}  // namespace semantic::bench
