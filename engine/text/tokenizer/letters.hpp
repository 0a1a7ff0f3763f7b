// SPDX-License-Identifier: Apache-2.0
#pragma once
// Properties of letters and their case, as Python's str methods define them. Pure.

#include <cstdint>
#include <string>

namespace semantic::engine::letters {

// Properties of one code point; false for -1.
bool is_alpha(std::int32_t code) noexcept;
bool is_decimal(std::int32_t code) noexcept;  // 0 to 9 in any script
bool is_digit(std::int32_t code) noexcept;    // decimals, and superscripts and the like
bool is_numeric(std::int32_t code) noexcept;  // digits, fractions and number letters
bool is_lower(std::int32_t code) noexcept;
bool is_upper(std::int32_t code) noexcept;
bool is_title(std::int32_t code) noexcept;      // letters such as U+01C5
bool is_cased(std::int32_t code) noexcept;      // has an upper and a lower form
bool is_ignorable(std::int32_t code) noexcept;  // apostrophes and marks, within words
bool is_printable(std::int32_t code) noexcept;

// Append the full mapping of a code point, which may be several characters. Neighbours are not
// considered: the caller handles the final sigma.
void append_upper(std::string& out, std::int32_t code);
void append_lower(std::string& out, std::int32_t code);
void append_title(std::string& out, std::int32_t code);

}  // namespace semantic::engine::letters
