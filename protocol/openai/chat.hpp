#pragma once
// OpenAI chat completions: request body to engine types. Replies are built in chat_stream.hpp.
// Pure. Source: the Chat Completions API as the vendor's SDKs speak it (protocol/README.md).

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/generation.hpp"
#include "protocol/errc.hpp"
#include "protocol/json.hpp"

namespace semantic::protocol::openai {

/// The vendor's own limits where it publishes them, else a bound that no honest client meets. Over
/// a limit: bad_value.
struct chat_limits {
    json_limits json;
    std::size_t messages_max = 100'000;
    std::size_t parts_per_message_max = 10'000;
    std::size_t tool_calls_per_message_max = 1'000;
    std::size_t tools_max = 1'000;
    std::size_t name_bytes_max = 128;  // of a tool
    std::size_t id_bytes_max = 512;    // model, tool call ids
    std::size_t stops_max = 4;
    std::size_t stop_bytes_max = 1'024;
    int max_tokens_max = 1'000'000;
};

struct chat_request {
    std::string model;  // as the client spelled it; echoed in the reply
    /// From the body: `session_id`, else `prompt_cache_key`. Wins over every header.
    std::optional<storage::agent_id> agent;
    engine::conversation chat;
    /// The limit of the limits when the client names none: the context ends the answer then.
    /// 0 fills the cache and answers nothing.
    int max_tokens = 0;
    std::vector<std::string> stops;
    engine::sampling_params sampling;
    engine::thinking_params thinking;
    bool stream = false;
    bool include_usage = false;  // a stream ends with a chunk that carries usage
    std::optional<std::size_t>
        tool_calls_max;  // 0: tool_choice none; 1: parallel_tool_calls false; absent: any number

    /// Leaves what the reply needs in place and moves the rest out.
    engine::generation_request take_generation(
        std::optional<storage::agent_id> whose,
        std::optional<std::chrono::steady_clock::time_point> deadline);
};

/// Errors: malformed_json, body_too_large, missing_field, bad_value, unsupported; each names the
/// JSON path.
result<chat_request> parse_chat(std::string_view body, const chat_limits& limits = {});

/// "fp_" and ten hex digits that stay the same as long as `what` does: everything that changes what
/// the same seed gives.
std::string system_fingerprint(std::string_view what);

}  // namespace semantic::protocol::openai
