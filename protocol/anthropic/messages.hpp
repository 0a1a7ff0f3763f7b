// SPDX-License-Identifier: Apache-2.0
#pragma once
// Anthropic Messages: request body to engine types, and count_tokens. Replies are built in
// message_stream.hpp. Pure. Source: the Messages API as the vendor's SDKs speak it
// (protocol/README.md).

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "engine/types/conversation.hpp"
#include "protocol/answer_request.hpp"
#include "protocol/anthropic/context_edits.hpp"
#include "protocol/anthropic/safeguards.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol::anthropic {

struct messages_limits : request_limits {
    std::size_t blocks_per_message_max = 10'000;
};

/// Reads threads of messages that the server keeps.
class thread_reader {
  public:
    /// Returns: the tools of the thread whose latest answer has this id. Errors: not_found with the
    /// vendor's code, also where that answer cannot be continued any more, saying why.
    virtual result<engine::tool_lists> read_tools(const std::string& message_id) = 0;

  protected:
    ~thread_reader() = default;
};

/// What a request says about its message thread.
struct thread_fields {
    bool is_kept = false;   // its answer can be gone on from
    std::string continues;  // the answer that its messages follow, or empty: they are all
};

struct messages_request : answer_request {
    thread_fields thread;
    bool shows_thinking = false;      // the reply has the reasoning in blocks of its own
    bool hides_thinking = false;      // these blocks have no text, only a signature
    bool diagnoses = false;           // the reply says why not more of the prompt was remembered
    std::string previous_message_id;  // diagnostics.previous_message_id, or empty
    std::string user_id;              // metadata.user_id, or empty
    context_edits edits;
    /// The answer is a summary of the conversation, in a block of type compaction.
    bool compacts = false;
    boost::json::array tool_changes;  // of such a block
    /// Where the edits may ask for a summary: the body without its messages and edits.
    std::string rest_of_body;
    std::optional<safeguard_request> safeguards;
};

/// The error for an answer that is unknown or cannot be continued any more.
failure thread_not_found(std::string_view message_id);

/// Parses the body of /v1/messages. `threads`: asked for the tools where the request continues a
/// thread; null where there are no threads. Errors: malformed_json, body_too_large, missing_field,
/// bad_value, unsupported, each naming the JSON path; those of `threads`.
result<messages_request> parse_messages(std::string_view body, const messages_limits& limits = {},
                                        thread_reader* threads = nullptr);

struct count_tokens_request {
    std::string model;
    engine::conversation chat;
    engine::thinking_params thinking;
    thread_fields thread;
    context_edits edits;
};
/// Parses the body of /v1/messages/count_tokens: the same fields and errors, but max_tokens is not
/// needed.
result<count_tokens_request> parse_count_tokens(std::string_view body,
                                                const messages_limits& limits = {},
                                                thread_reader* threads = nullptr);
/// {"input_tokens":n}, and in context_management `original_tokens`: the number before edits, 0
/// where the request has none.
std::string count_tokens_body(int input_tokens, int original_tokens = 0);

}  // namespace semantic::protocol::anthropic
