// SPDX-License-Identifier: Apache-2.0
#pragma once
// The form of tool calls that a chat template has, found by reading back what it writes for calls
// that are known. Pure.

#include <optional>
#include <string_view>

#include "engine/text/output/answer_format.hpp"
#include "engine/types/conversation.hpp"

namespace semantic::engine {

/// A template's rendering of a conversation that has one call or several and their results.
struct rendered_calls {
    const conversation& chat;     // as probe::with_typed_calls() makes it
    std::string_view text;        // empty: the template fails
    std::string_view turn_begin;  // of an assistant's turn; empty: not known
};

/// Whether the template wrote the calls at all, each of them.
bool writes_calls(const rendered_calls& made);

/// Whether the calls are read back as they were given, each of them and nothing else as a call.
bool reads_back(call_format format, const rendered_calls& made);

/// `one` and `two`: conversations with so many calls. Returns: of the forms that read them back the
/// one that leaves the least as text; none, where no form does; nothing, where the template writes
/// no calls, so that its source may decide.
std::optional<call_format> form_of_calls(const rendered_calls& one, const rendered_calls& two);

}  // namespace semantic::engine
