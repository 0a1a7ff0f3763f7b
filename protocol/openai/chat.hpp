// SPDX-License-Identifier: Apache-2.0
#pragma once
// OpenAI chat completions: request body to engine types. Replies are built in chat_stream.hpp.
// Pure. Source: the Chat Completions API as the vendor's SDKs speak it (protocol/README.md).

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "protocol/answer_request.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol::openai {

struct chat_limits : request_limits {
    std::size_t parts_per_message_max = 10'000;
    std::size_t tool_calls_per_message_max = 1'000;
    int choices_max = 128;
    int top_logprobs_max = 20;
};

/// A request. `max_tokens` is max_tokens_max when the client sets no limit: the context ends the
/// answer then.
struct chat_request : answer_request {
    /// From the body's `session_id`. Wins over every header.
    std::optional<storage::agent_id> agent;
    bool include_usage = false;  // a stream ends with a chunk that carries usage
    /// Tools whose input is a text: the model calls them with one argument, `input`.
    std::set<std::string> text_tools;
};

/// Parses the body of /v1/chat/completions. Errors: malformed_json, body_too_large, missing_field,
/// bad_value, unsupported; each names the JSON path.
result<chat_request> parse_chat(std::string_view body, const chat_limits& limits = {});

/// Returns: "fp_" and ten hex digits that depend on `state` only. `state`: a text of everything
/// that changes what the same seed gives.
std::string system_fingerprint(std::string_view state);

}  // namespace semantic::protocol::openai
