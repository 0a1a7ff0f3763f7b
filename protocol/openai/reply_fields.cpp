// SPDX-License-Identifier: Apache-2.0
#include "protocol/openai/reply_fields.hpp"

#include <boost/json.hpp>

namespace semantic::protocol::openai {

namespace json = boost::json;

json::object usage_object(const engine::prompt_usage& usage, int output_tokens,
                          int thinking_tokens) {
    return {{"prompt_tokens", usage.prompt_tokens},
            {"completion_tokens", output_tokens},
            {"total_tokens", usage.prompt_tokens + output_tokens},
            {"prompt_tokens_details", json::object{{"cached_tokens", usage.reused_tokens},
                                                   {"cache_write_tokens", usage.created_tokens}}},
            {"completion_tokens_details", json::object{{"reasoning_tokens", thinking_tokens}}}};
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
        case engine::stop_reason::cancelled:
        case engine::stop_reason::deadline:
            break;
    }
    return "stop";
}

}  // namespace semantic::protocol::openai
