// SPDX-License-Identifier: Apache-2.0
#pragma once
// How an answer that is held to tool calls writes them, for forms whose calls differ in their marks
// alone. Plain values.

#include <string_view>

#include "engine/text/output/answer_format.hpp"

namespace semantic::engine {

/// Texts of one form. Texts in angle or square brackets may be control tokens; '#' is a number.
struct held_call_row {
    enum class body {
        object,  // {"name": NAME, "arguments": {...}}
        named    // NAME, `name_end`, and the arguments
    };

    call_format format;
    body written_as;
    std::string_view open;      // begins calls amid text
    std::string_view before{};  // each call
    std::string_view name_end{};
    std::string_view end{};          // each call
    std::string_view separator{};    // between two calls
    std::string_view close{};        // after the last call
    bool each_is_a_section = false;  // text may follow one, and the next opens calls again
};

/// Null for forms that have rules of their own.
const held_call_row* find_held_call_row(call_format format) noexcept;

}  // namespace semantic::engine
