// SPDX-License-Identifier: Apache-2.0
#pragma once
// The items of a Responses request that become the prompt. Pure.

#include <functional>
#include <optional>

#include "engine/types/conversation.hpp"
#include "engine/types/generation.hpp"
#include "protocol/history/parts.hpp"
#include "protocol/history/tool_roster.hpp"
#include "protocol/responses/request.hpp"
#include "protocol/responses/tool_list.hpp"
#include "protocol/responses/tool_names.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::responses {

/// The items of an earlier response or conversation, which come between the instructions and the
/// request's own items.
struct earlier_items {
    std::optional<json_cursor> place{};  // the field that names it
    /// Calls `read` with each of them. Empty: there are none. Errors: not_found.
    std::function<result<void>(const item_reader& read)> hand_over{};
};

/// What the parser of a request's input needs. It views the objects that it names.
struct input_context {
    const earlier_items& earlier;  // between the instructions and the input
    const kept_sources& kept;      // where references lead, and who pays for what they bring
    const tool_names& names;       // of the request's tools
    left_out_names& left_out;
    tool_roster& roster;      // takes the tools that items bring
    tool_list_reader* tools;  // reads them; null: they are not read
    /// An answer is wanted, so there must be a message.
    bool is_asked = true;
};

struct read_input {
    engine::conversation chat;
    /// Set where the texts are too long for the model; that was complained of.
    std::optional<engine::prompt_excess> excess{};
};

/// `root` is the whole body: its `instructions` and `input`. Complains with missing_field,
/// bad_value, unsupported, prompt_too_long. Throws work_limit_exceeded.
///
/// - `instructions` and the system and developer messages that open the input become the system
///   text, in that order, with an empty line between them; later ones stay where they are, and so
///   do all after `earlier`.
/// - What a model said in several items (reasoning, text, calls) is one message again.
/// - Reasoning comes back by its text or by `encrypted_content` of this server; another server's is
///   left out, and so is its compaction.
/// - A summary that replaces all before it leaves the system text and the tools.
/// - Calls that the client ran itself, of whatever type, are calls with their outputs; what the
///   vendor's servers ran becomes a line; items of other types are left out.
/// - Tools of additional_tools and tool_search_output are written where these items are, and so is
///   a configuration_update.
/// - Pictures and the like become a line of text, except in the newest item (of outputs, in all
///   at the end), where they are refused.
read_input parse_input(const json_cursor& root, const input_context& context,
                       const response_limits& limits);

/// Complains of an item of `list` with which no response could be asked.
void check_items(const json_cursor& list, const response_limits& limits);

/// Returns: the arguments of a call of a tool whose input is a text: {"input": TEXT}.
std::string text_arguments(std::string_view text);

}  // namespace semantic::protocol::responses
