// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two APIs seen from the client: a request to a body, stream events to what was generated.
// Pure; the caller brings the times.

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
    double first_byte_s = 0;         // first byte of the body: the server has taken the request
    double first_s = 0;              // first content, or the end when no content came
    double last_s = 0;               // last content, or the end when none came
    double end_s = 0;                // the stream's end
    std::vector<double> content_s;   // each delta that carried content
    std::int64_t prompt_tokens = 0;  // whole prompt, reused part included
    std::int64_t cached_tokens = 0;  // reused, by the server's own account
    bool cached_reported = false;    // the server said so, be it 0
    std::int64_t output_tokens = 0;
    std::string stop_reason;
    std::string text;

    std::int64_t computed_tokens() const { return prompt_tokens - cached_tokens; }
    /// Tokens a second between first and last content; 0 for less than two tokens.
    double decode_speed() const;
    /// Times between neighbouring deltas.
    std::vector<double> gaps() const;
};

/// The streamed chat request's path below the base path.
std::string_view chat_path(api dialect);
/// `extra`: fields that replace or join those of the body.
std::string chat_body(api dialect, const std::string& model, const generation_request& request,
                      const boost::json::object& extra);
std::string count_tokens_body(const std::string& model, const std::vector<message>& messages);
/// The id under which a Semantic server files the agent of `session`.
std::string agent_of(api dialect, const std::string& session);

/// Gathers one streamed answer.
class stream_reader {
  public:
    explicit stream_reader(api dialect) : api_(dialect) {}

    /// Errors: server_error when the event is an error or is malformed.
    void on_event(const sse_event& event, double seconds);
    /// Returns: the answer. Errors: server_error when the stream ended early or had no usage.
    generation finish(double seconds);

  private:
    void on_anthropic(const boost::json::object& event, double seconds);
    void on_openai(const boost::json::object& chunk, double seconds);
    void on_content(std::string_view text, double seconds);
    void read_anthropic_usage(const boost::json::object& usage);
    void read_openai_usage(const boost::json::object& usage);

    api api_;
    generation result_;
    // Anthropic counts the parts of a prompt apart.
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

/// The sum of the samples of `metric` in Prometheus text, those only whose labels contain `label`.
std::optional<double> read_metric(std::string_view text, std::string_view metric,
                                  std::string_view label = "");

}  // namespace semantic::bench
