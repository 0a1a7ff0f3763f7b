// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Ollama API's /api/chat and /api/generate: request body to engine types. Replies are built in
// reply.hpp. Pure. Source: the API as the vendor's clients speak it (protocol/README.md).

#include <optional>
#include <string>
#include <string_view>

#include "protocol/answer_request.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol::ollama {

struct ollama_limits : request_limits {
    std::size_t tool_calls_per_message_max = 1'000;
};

/// A request of either kind. It streams unless the client says otherwise.
struct ollama_request : answer_request {
    /// /api/generate with `raw`: the prompt verbatim, in place of `chat`.
    std::optional<std::string> text;
    /// There is no prompt: clients send such a request to have a model loaded or unloaded.
    bool is_empty = false;

    /// As answer_request has it, with `text`.
    engine::generation_request take_generation(
        std::optional<storage::agent_id> agent,
        std::optional<std::chrono::steady_clock::time_point> deadline);
};

/// Parse the two bodies. Options that say how a model is run and not what it answers (num_ctx,
/// num_thread, keep_alive, ...) are ignored, since the server decides them. Errors: malformed_json,
/// body_too_large, missing_field, bad_value, unsupported; each names the JSON path.
result<ollama_request> parse_chat(std::string_view body, const ollama_limits& limits = {});
result<ollama_request> parse_generate(std::string_view body, const ollama_limits& limits = {});

/// Returns: the model that a request names by `model`, or by `name`, which older clients send.
/// Errors: malformed_json, body_too_large, missing_field, bad_value.
result<std::string> parse_model_name(std::string_view body, const ollama_limits& limits = {});

/// Returns: the name without ":latest", which these clients append to a name without a tag.
std::string_view without_latest(std::string_view model) noexcept;

}  // namespace semantic::protocol::ollama
