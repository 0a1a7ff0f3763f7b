// SPDX-License-Identifier: Apache-2.0
#pragma once
// What requests to a model may contain, according to its chat template. Plain values.

namespace semantic::engine {

struct template_abilities {
    bool system_text = true;
    bool later_system_text = true;  // after the first message
    bool users_in_a_row = true;     // several messages of the user without an answer between them
    bool tools = true;
    bool tool_calls = true;           // of earlier turns
    bool parallel_tool_calls = true;  // several in one message
    bool tool_results = true;
    bool open_answers = true;  // an answer that has begun can go on
    bool operator==(const template_abilities&) const = default;
};

}  // namespace semantic::engine
