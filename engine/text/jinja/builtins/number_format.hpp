// SPDX-License-Identifier: Apache-2.0
#pragma once
// Formats numbers with a width, a precision and a notation, as Python does.

#include <cstdint>
#include <string>

#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

/// A parsed format: the text after the colon in braces, or after a percent sign.
struct format_spec {
    marked_text fill{" ", false};
    char align = 0;  // '<', '>', '^', '='; 0: as the type has it
    char sign = '-';
    bool alternate = false;
    char group = 0;  // ',' or '_'
    std::int64_t width = 0;
    std::int64_t precision = -1;  // -1: not given
    char type = 0;                // 0: not given
};

/// The greatest width and precision; beyond it formatting fails.
constexpr std::int64_t format_width_max = 10'000;

/// An integer with its sign, without padding.
std::string integer_digits(std::int64_t number, const format_spec& spec);
/// A float in the notations e, f, g, %, their capitals, and none.
std::string real_digits(double number, const format_spec& spec);
/// Pads `text` to the spec's width. `is_number`: aligned to the right, and '=' pads after the sign.
marked_text filled(const marked_text& text, const format_spec& spec, bool is_number, budget& left);

}  // namespace semantic::engine::jinja
