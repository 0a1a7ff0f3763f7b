// SPDX-License-Identifier: Apache-2.0
#pragma once
// A conversation, independent of the API dialect that it came in. Plain values.

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/types/text_range.hpp"

namespace semantic::engine {

enum class role { system, user, assistant, tool };

struct text_part {
    std::string text;
};
struct thinking_part {
    std::string text;
};
struct tool_call_part {
    std::string id;
    std::string name;
    std::string arguments_json;  // a JSON object; else as the model wrote it, cut off or misspelled
};
struct tool_result_part {
    std::string tool_call_id;
    std::string text;
    bool is_error = false;
};
using content_part = std::variant<text_part, thinking_part, tool_call_part, tool_result_part>;

struct message {
    role from = role::user;
    std::vector<content_part> parts;
    /// The whole turn as the model wrote it, from the start of the assistant's turn on. Set by the
    /// engine if a memory has it and `parts` say the same in other words; then this is rendered in
    /// place of the parts. Empty: the parts are rendered.
    std::string as_sampled{};
    /// The parts of as_sampled that are content, that is all but control tokens; ascending.
    std::vector<text_range> as_sampled_content{};
};

struct tool_definition {
    std::string name;
    std::string description;
    std::string parameters_json;  // JSON schema of the arguments, an object
    bool strict = false;          // its calls must satisfy that schema
};

/// The tools of a conversation. Some may be defined late, by a later message.
struct tool_lists {
    /// The tools that are defined at the head of the prompt.
    std::vector<tool_definition> told;
    /// All others: later messages may define them.
    std::vector<tool_definition> deferred{};
    /// The tools that the answer may call. Absent: those at the head of the prompt.
    std::optional<std::vector<tool_definition>> callable{};
};

/// The definition of a tool that appears in the middle of a conversation.
struct placed_tool {
    tool_definition tool;
    std::size_t message = 0;  // index of a message
    std::size_t part = 0;     // index of one of its parts, a text or a tool result
    std::size_t at = 0;       // byte of that text before which the definition is written
};

/// Where a prompt ends, which decides what the model writes next.
enum class prompt_end {
    answer_begins,   // after the beginning of an assistant's turn: a new answer
    messages,        // after the last message: the beginning of the next turn
    inside_answer,   // in the last message, an assistant's, after its text: its continuation
    inside_message,  // in the last message, a user's, after its text: nothing, it may go on
};

struct conversation {
    std::string system;  // empty when there is none
    std::vector<message> messages;
    std::vector<tool_definition> tools;  // defined at the head of the prompt
    prompt_end end = prompt_end::answer_begins;
    /// Variables for the model's template in addition to its usual ones: a JSON object, or empty.
    std::string template_values{};
    /// Tools that are defined later, in the order of their places (engine/text/placed_tools.hpp).
    std::vector<placed_tool> placed_tools{};
    /// The tools that are not defined at the head of the prompt, and those that the answer may
    /// call, as in tool_lists.
    std::vector<tool_definition> deferred_tools{};
    std::optional<std::vector<tool_definition>> callable{};

    /// The tools that the answer may call.
    const std::vector<tool_definition>& callable_tools() const noexcept {
        return callable ? *callable : tools;
    }
};

}  // namespace semantic::engine
