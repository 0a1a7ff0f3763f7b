// SPDX-License-Identifier: Apache-2.0
#pragma once
// A table of how constrained tool calls are written, for the forms of calls that differ only in
// their marks. Plain values.

#include <string_view>

#include "engine/text/output/answer_format.hpp"

namespace semantic::engine {

/// The texts of one form. Texts in angle or square brackets may be control tokens; '#' is a number.
struct held_call_row {
    enum class body {
        object,  // {"name": NAME, "arguments": {...}}
        named    // NAME, `name_end`, and the arguments
    };

    call_format format;
    body written_as;
    std::string_view open;           // begins calls amid text
    std::string_view before{};       // before each call
    std::string_view name_end{};     // between name and arguments
    std::string_view end{};          // after each call
    std::string_view separator{};    // between two calls
    std::string_view close{};        // after the last call
    bool each_is_a_section = false;  // text may follow a call, and the next one begins with `open`
};

/// The row of a form; null for forms that have code of their own.
const held_call_row* find_held_call_row(call_format format) noexcept;

}  // namespace semantic::engine
