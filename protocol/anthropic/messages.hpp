#pragma once
// Anthropic Messages: request body to engine types, and count_tokens. Replies are built in
// message_stream.hpp. Pure. Source: the Messages API as the vendor's SDKs speak it
// (protocol/README.md).

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/generation.hpp"
#include "protocol/errc.hpp"
#include "protocol/json.hpp"

namespace semantic::protocol::anthropic {

/// The vendor's own limits where it publishes them, else a bound that no honest client meets. Over
/// a limit: bad_value.
struct messages_limits {
    json_limits json;
    std::size_t messages_max = 100'000;
    std::size_t blocks_per_message_max = 10'000;
    std::size_t tools_max = 1'000;
    std::size_t name_bytes_max = 128;  // of a tool
    std::size_t id_bytes_max = 512;    // model, tool_use ids, metadata.user_id
    std::size_t stop_sequences_max = 16;
    std::size_t stop_sequence_bytes_max = 1'024;
    int max_tokens_max = 1'000'000;
};

struct messages_request {
    std::string model;  // as the client spelled it; echoed in the reply
    engine::conversation chat;
    int max_tokens = 0;  // 0 fills the cache and answers nothing
    std::vector<std::string> stop_sequences;
    engine::sampling_params sampling;
    engine::thinking_params thinking;
    bool shows_thinking = false;  // the reply has the reasoning in blocks of its own
    bool stream = false;
    std::string user_id;  // metadata.user_id, or empty
    std::optional<std::size_t>
        tool_calls_max;  // 0: tool_choice none; 1: disable_parallel_tool_use; absent: any number

    /// Leaves `model`, `stream`, `user_id` and `tool_calls_max` in place and moves the rest out.
    engine::generation_request take_generation(
        std::optional<storage::agent_id> agent,
        std::optional<std::chrono::steady_clock::time_point> deadline);
};

/// Errors: malformed_json, body_too_large, missing_field, bad_value, unsupported; each names the
/// JSON path.
result<messages_request> parse_messages(std::string_view body, const messages_limits& limits = {});

struct count_tokens_request {
    std::string model;
    engine::conversation chat;
    engine::thinking_params thinking;
};
/// The same fields and errors; max_tokens is not needed.
result<count_tokens_request> parse_count_tokens(std::string_view body,
                                                const messages_limits& limits = {});
/// {"input_tokens":n}
std::string count_tokens_body(int input_tokens);

}  // namespace semantic::protocol::anthropic
