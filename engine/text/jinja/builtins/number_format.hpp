// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers at a width, with a precision, in a notation.

#include <cstdint>
#include <string>

#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

/// The text between the braces' colon and their end, or after a percent sign.
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

/// What widths and precisions may be; beyond it formatting fails.
constexpr std::int64_t format_width_max = 10'000;

/// Without fill; the sign first.
std::string integer_digits(std::int64_t number, const format_spec& spec);
/// Of types e, f, g, %, their capitals, and none.
std::string real_digits(double number, const format_spec& spec);
/// `text` brought to the spec's width. `is_number`: to the right, and '=' fills after the sign.
marked_text filled(const marked_text& text, const format_spec& spec, bool is_number, budget& left);

}  // namespace semantic::engine::jinja
