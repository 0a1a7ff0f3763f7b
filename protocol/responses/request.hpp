// SPDX-License-Identifier: Apache-2.0
#pragma once
// OpenAI Responses: request body to engine types. The reply is built in response_stream.hpp. Pure.
// Source: the Responses API as the vendor's SDKs speak it (protocol/README.md).

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/answer_request.hpp"
#include "protocol/responses/cache_diagnostics.hpp"
#include "protocol/responses/kept_response.hpp"
#include "protocol/responses/tool_names.hpp"
#include "protocol/wire/errc.hpp"
#include "protocol/wire/ids.hpp"
#include "storage/types/work_budget.hpp"

namespace semantic::protocol::responses {

struct response_limits : request_limits {
    std::size_t items_max = 100'000;
    std::size_t parts_per_item_max = 10'000;
    int top_logprobs_max = 20;
    /// The most bytes of the fields that the response repeats: each of its events has them.
    std::size_t repeated_bytes_max = std::size_t{4} << 20;
    /// The model's context: a conversation whose texts alone are too long is refused while it is
    /// put together. 0: not known.
    std::size_t bytes_per_token_max = 0;
    int context_tokens_max = 0;
};

/// A request. `max_tokens` is max_tokens_max when the client sets no limit: the context ends the
/// answer then.
struct response_request : answer_request {
    /// The fields that the response repeats, as the client wrote them or with their defaults.
    boost::json::object repeated;
    /// Tools whose input is a text: the model calls them with one argument, `input`.
    std::set<std::string> text_tools;
    /// The client searches for tools: calls of that search come in items of their own type.
    bool searches_tools = false;
    /// The names under which the model knows tools in namespaces.
    tool_names names;
    /// The response that its input follows, or empty: it is all.
    std::string previous;
    /// The response can be continued, and read again, by its id.
    bool is_kept = false;
    /// What is kept of the request: its own items, as named_items_text() writes them; empty where
    /// there was nobody to name them.
    std::string input;
    /// It goes on when the client has left, and is asked for by its id.
    bool in_background = false;
    /// False: the prompt is read and remembered, and nothing is answered.
    bool generates = true;
    /// The conversation that its input follows, and that it is added to; or empty.
    std::string conversation;
    /// Its last item is a compaction_trigger: the answer is a summary, in an item of type
    /// compaction.
    bool compacts = false;
    /// The least prompt, in tokens, that is summarised before it is answered (context_management).
    std::optional<int> compacts_above{};
    /// Reasoning comes with what brings it back in the next request (include:
    /// reasoning.encrypted_content).
    bool seals_reasoning = false;
    /// The reply says how much of the prompt was remembered since an earlier response.
    std::optional<cache_comparison> compared{};
};

/// Calls `read` with each item of the conversation up to the end of the response `id`. Errors:
/// not_found, with the vendor's code.
using previous_items = std::function<result<void>(const std::string& id, const item_reader& read)>;

/// Returns the response `id` as it was replied; nothing where it is unknown.
using earlier_response = std::function<std::optional<boost::json::object>(const std::string& id)>;

/// Where a request may refer to kept responses and items, and the budget for that.
struct kept_sources {
    previous_items before{};           // of a response; without it there are none
    previous_items in_conversation{};  // likewise of a conversation
    referenced_item item_of{};         // likewise of items
    earlier_response response_of{};    // to compare with; without it none is known
    /// Charged for every text that is not in the body. Null: nobody counts.
    storage::work_budget* budget = nullptr;
    /// Names the items that are kept. Null: none are.
    id_maker* ids = nullptr;
    /// A summary that replaces the whole conversation, input included, where it was summarised.
    std::optional<std::string> summary{};
};

/// Parses the body of /v1/responses. Errors: malformed_json, body_too_large, missing_field,
/// bad_value, unsupported, each naming the JSON path; prompt_too_long; those of `kept`; bad_value
/// where the budget is exceeded.
result<response_request> parse_response(std::string_view body, const response_limits& limits = {},
                                        const kept_sources& kept = {});

/// {"object": "response.input_tokens", "input_tokens": n}
std::string input_tokens_body(int input_tokens);

}  // namespace semantic::protocol::responses
