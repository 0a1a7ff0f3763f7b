#include "engine/text/tokenizer/utf8.hpp"

#include <unicode/uchar.h>

namespace semantic::engine::utf8 {

namespace {

struct lead_rule {
    std::size_t length;
    unsigned char second_low,
        second_high;  // what may follow; rules out overlong forms and surrogates
};

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

void append_lossy(std::string& out, std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t good = valid_prefix(bytes);
        out.append(bytes.substr(0, good));
        bytes.remove_prefix(good);
        if (bytes.empty()) return;
        out.append(replacement);
        bytes.remove_prefix(next(bytes).length);
    }
}

std::size_t start_of_last(std::string_view text, std::size_t end) noexcept {
    std::size_t at = end - 1;
    while (at > 0 && end - at < 4 && is_continuation(text[at])) --at;
    const step s = next(text.substr(at, end - at));
    return s.code >= 0 && s.length == end - at ? at : end - 1;
}

bool is_space(std::int32_t code) noexcept { return code >= 0 && u_isUWhiteSpace(code) != 0; }

bool is_word(std::int32_t code) noexcept {
    if (code < 0) return false;
    if (u_hasBinaryProperty(code, UCHAR_ALPHABETIC) != 0) return true;
    constexpr std::uint32_t others = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
    return (U_MASK(u_charType(code)) & others) != 0 ||
           u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL) != 0;
}

}  // namespace semantic::engine::utf8
