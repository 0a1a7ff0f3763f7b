#pragma once
// OpenAI Responses: request body to engine types. The reply is built in response_stream.hpp. Pure.
// Source: the Responses API as the vendor's SDKs speak it (protocol/README.md).

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/answer_request.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol::responses {

struct response_limits : request_limits {
    std::size_t items_max = 100'000;
    std::size_t parts_per_item_max = 10'000;
    int top_logprobs_max = 20;
};

/// `max_tokens` is the limit of the limits when the client names none: the context ends the answer
/// then.
struct response_request : answer_request {
    /// The fields that the response repeats, as the client wrote them or with their defaults.
    boost::json::object repeated;
    /// Tools whose input is a text: the model calls them with one argument, `input`.
    std::set<std::string> text_tools;
    /// Tools that only the vendor's own servers run, by type; the model is not told of them.
    std::vector<std::string> left_out;
    /// The response that its input follows, or empty: it is all.
    std::string previous;
    /// The response can be continued, and read again, by its id. `input`: what is kept of the
    /// request, as the client wrote it.
    bool is_kept = false;
    boost::json::value input;
    /// It goes on when the client has left, and is asked for by its id.
    bool in_background = false;
    /// False: the prompt is read and remembered, and nothing is answered.
    bool generates = true;
    /// The conversation that its input follows, and that it is added to; or empty.
    std::string conversation;
    /// Reasoning comes with what brings it back in the next request (include:
    /// reasoning.encrypted_content).
    bool seals_reasoning = false;
};

/// Asks for the conversation up to the end of the response with this id, as items. Errors:
/// not_found, with the vendor's code.
using previous_items = std::function<result<boost::json::array>(const std::string& id)>;

/// Asks for the item that an item reference names; null where there is none.
using referenced_item = std::function<boost::json::value(const std::string& id)>;

/// `before`: asked when the request continues a response; without it there are none.
/// `item_of`: likewise of items. `in_conversation`: as `before`, of a conversation.
/// Errors: malformed_json, body_too_large, missing_field, bad_value, unsupported; each names the
/// JSON path; those of `before`.
result<response_request> parse_response(std::string_view body, const response_limits& limits = {},
                                        const previous_items& before = {},
                                        const referenced_item& item_of = {},
                                        const previous_items& in_conversation = {});

}  // namespace semantic::protocol::responses
