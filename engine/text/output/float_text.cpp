// SPDX-License-Identifier: Apache-2.0
#include "engine/text/output/float_text.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace semantic::engine {

std::string float_text(double number) {
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
    std::array<char, 512> buffer{};
    const double size = std::abs(number);
    const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                   plain ? std::chars_format::fixed : std::chars_format::scientific)
                         .ptr;
    std::string text(buffer.data(), end);
    if (plain && text.find('.') == std::string::npos) text += ".0";
    return text;
}

}  // namespace semantic::engine
