#pragma once
// OpenAI Responses: request body to engine types. The reply is built in response_stream.hpp. Pure.
// Source: the Responses API as the vendor's SDKs speak it (protocol/README.md).

#include <boost/json/object.hpp>

#include <cstddef>
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
    /// Reasoning comes with what brings it back in the next request (include:
    /// reasoning.encrypted_content).
    bool seals_reasoning = false;
};

/// Errors: malformed_json, body_too_large, missing_field, bad_value, unsupported; not_found with
/// the vendor's code for a previous response, of which this server keeps none. Each names the JSON
/// path.
result<response_request> parse_response(std::string_view body, const response_limits& limits = {});

}  // namespace semantic::protocol::responses
