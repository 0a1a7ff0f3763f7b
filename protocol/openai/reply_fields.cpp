// SPDX-License-Identifier: Apache-2.0
#include "protocol/openai/reply_fields.hpp"

#include <boost/json.hpp>

#include <utility>

namespace semantic::protocol::openai {

namespace json = boost::json;

json::object usage_object(const engine::prompt_usage& usage, const engine::finished& end,
                          int thinking_tokens) {
    json::object details{{"reasoning_tokens", thinking_tokens}};
    const int taken = end.drafts.sum().taken;
    if (taken > 0) details["accepted_prediction_tokens"] = taken;
    return {{"prompt_tokens", usage.prompt_tokens},
            {"completion_tokens", end.output_tokens},
            {"total_tokens", usage.prompt_tokens + end.output_tokens},
            {"prompt_tokens_details", json::object{{"cached_tokens", usage.reused_tokens},
                                                   {"cache_write_tokens", usage.created_tokens}}},
            {"completion_tokens_details", std::move(details)}};
}

const char* finish_reason(engine::stop_reason why, bool has_tool_calls) {
    switch (why) {
        case engine::stop_reason::end_turn:
            return has_tool_calls ? "tool_calls" : "stop";
        case engine::stop_reason::stop_sequence:
            return "stop";
        case engine::stop_reason::max_tokens:
        case engine::stop_reason::context_full:
            return "length";
        // The answer as a whole is a failure then, as unfinished() says.
        case engine::stop_reason::cancelled:
        case engine::stop_reason::deadline:
            break;
    }
    return "stop";
}

}  // namespace semantic::protocol::openai
