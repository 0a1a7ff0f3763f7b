#pragma once
// Anthropic Messages: request body to engine types, and count_tokens. Replies are built in
// message_stream.hpp. Pure. Source: the Messages API as the vendor's SDKs speak it
// (protocol/README.md).

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/types/conversation.hpp"
#include "protocol/answer_request.hpp"
#include "protocol/errc.hpp"

namespace semantic::protocol::anthropic {

struct messages_limits : request_limits {
    std::size_t blocks_per_message_max = 10'000;
    std::size_t stop_sequences_max = 16;
};

struct messages_request : answer_request {
    bool shows_thinking = false;  // the reply has the reasoning in blocks of its own
    bool hides_thinking = false;  // these blocks have no text, only a signature
    bool diagnoses = false;       // the reply says why not more of the prompt was remembered
    std::string previous_message_id;  // diagnostics.previous_message_id, or empty
    std::string user_id;              // metadata.user_id, or empty
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
