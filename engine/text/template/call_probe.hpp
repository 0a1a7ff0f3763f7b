// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the format of tool calls of a chat template: renders known calls with it, and tries which
// parser reads them back. Pure.

#include <optional>
#include <string_view>

#include "engine/text/output/answer_format.hpp"
#include "engine/types/conversation.hpp"

namespace semantic::engine {

/// A template's rendering of a conversation with one or several calls and their results.
struct rendered_calls {
    const conversation& chat;     // as probe::with_typed_calls() makes it
    std::string_view text;        // empty: the template fails
    std::string_view turn_begin;  // of an assistant's turn; empty: not known
};

/// Whether the template has written each of the calls.
bool writes_calls(const rendered_calls& made);

/// Whether the parser of a format reads back just the given calls.
bool reads_back(call_format format, const rendered_calls& made);

/// `one` and `two`: renderings with one and with two calls. Returns: the format that reads them
/// back and leaves the least text; call_format::none if no format does; nothing if the template
/// writes no calls, so that its source may decide.
std::optional<call_format> form_of_calls(const rendered_calls& one, const rendered_calls& two);

}  // namespace semantic::engine
