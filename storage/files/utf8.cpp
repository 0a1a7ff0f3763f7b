// SPDX-License-Identifier: Apache-2.0
#include "storage/files/utf8.hpp"

namespace semantic::storage::utf8 {

namespace {

// Source: Unicode 15, table 3-7.
struct lead_rule {
    std::size_t length;
    unsigned char second_low,
        second_high;  // what may follow; rules out overlong forms and surrogates
};

/// Returns: how many bytes a character has that begins with `lead`, and which second bytes it
/// allows; length 0 where no character begins so.
lead_rule rule_of(unsigned char lead) noexcept {
    if (lead < 0xC2) return {0, 0, 0};
    if (lead < 0xE0) return {2, 0x80, 0xBF};
    if (lead == 0xE0) return {3, 0xA0, 0xBF};
    if (lead == 0xED) return {3, 0x80, 0x9F};
    if (lead < 0xF0) return {3, 0x80, 0xBF};
    if (lead == 0xF0) return {4, 0x90, 0xBF};
    if (lead < 0xF4) return {4, 0x80, 0xBF};
    if (lead == 0xF4) return {4, 0x80, 0x8F};
    return {0, 0, 0};
}

}  // namespace

step next(std::string_view text) noexcept {
    const auto lead = static_cast<unsigned char>(text[0]);
    if (lead < 0x80) return {1, lead, false};
    const lead_rule rule = rule_of(lead);
    if (rule.length == 0) return {1, -1, false};
    std::int32_t code = lead & (0x7F >> rule.length);
    for (std::size_t i = 1; i < rule.length; ++i) {
        if (i == text.size()) return {i, -1, true};
        const auto byte = static_cast<unsigned char>(text[i]);
        const unsigned char low = i == 1 ? rule.second_low : 0x80;
        const unsigned char high = i == 1 ? rule.second_high : 0xBF;
        if (byte < low || byte > high) return {i, -1, false};
        code = (code << 6) | (byte & 0x3F);
    }
    return {rule.length, code, false};
}

std::size_t valid_prefix(std::string_view text) noexcept {
    std::size_t at = 0;
    while (at < text.size()) {
        if (static_cast<unsigned char>(text[at]) < 0x80) {
            ++at;
            continue;
        }
        const step s = next(text.substr(at));
        if (s.code < 0) break;
        at += s.length;
    }
    return at;
}

}  // namespace semantic::storage::utf8
