// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer/letters.hpp"

#include <unicode/uchar.h>
#include <unicode/ustring.h>

#include <array>

namespace semantic::engine::letters {

namespace {

using mapping = std::int32_t (*)(UChar*, std::int32_t, const UChar*, std::int32_t, UErrorCode*);

std::int32_t to_upper(UChar* to, std::int32_t room, const UChar* from, std::int32_t count,
                      UErrorCode* error) {
    return u_strToUpper(to, room, from, count, "", error);
}
std::int32_t to_lower(UChar* to, std::int32_t room, const UChar* from, std::int32_t count,
                      UErrorCode* error) {
    return u_strToLower(to, room, from, count, "", error);
}
std::int32_t to_title(UChar* to, std::int32_t room, const UChar* from, std::int32_t count,
                      UErrorCode* error) {
    return u_strToTitle(to, room, from, count, nullptr, "", error);
}

/// Appends the character as ICU's `map` changes it, which may give several characters.
void append_mapped(std::string& out, std::int32_t code, mapping map) {
    std::array<UChar, 2> from{};
    std::int32_t count = 0;
    if (code < 0x10000) {
        from[0] = static_cast<UChar>(code);
        count = 1;
    } else {
        from[0] = static_cast<UChar>(0xd7c0 + (code >> 10));
        from[1] = static_cast<UChar>(0xdc00 + (code & 0x3ff));
        count = 2;
    }
    // Unicode maps a character to three at most, so that neither buffer can be too small.
    std::array<UChar, 16> to{};
    UErrorCode error = U_ZERO_ERROR;
    const std::int32_t units =
        map(to.data(), static_cast<std::int32_t>(to.size()), from.data(), count, &error);
    std::array<char, 64> bytes{};
    std::int32_t size = 0;
    u_strToUTF8(bytes.data(), static_cast<std::int32_t>(bytes.size()), &size, to.data(), units,
                &error);
    out.append(bytes.data(), static_cast<std::size_t>(size));
}

bool has(std::int32_t code, UProperty property) noexcept {
    return code >= 0 && u_hasBinaryProperty(code, property) != 0;
}

bool has_numeric_type(std::int32_t code, std::int32_t least, std::int32_t most) noexcept {
    if (code < 0) return false;
    const std::int32_t type = u_getIntPropertyValue(code, UCHAR_NUMERIC_TYPE);
    return type >= least && type <= most;
}

}  // namespace

bool is_alpha(std::int32_t code) noexcept {
    return code >= 0 && (U_MASK(u_charType(code)) & U_GC_L_MASK) != 0;
}
bool is_decimal(std::int32_t code) noexcept {
    return has_numeric_type(code, U_NT_DECIMAL, U_NT_DECIMAL);
}
bool is_digit(std::int32_t code) noexcept {
    return has_numeric_type(code, U_NT_DECIMAL, U_NT_DIGIT);
}
bool is_numeric(std::int32_t code) noexcept {
    return has_numeric_type(code, U_NT_DECIMAL, U_NT_NUMERIC);
}
bool is_lower(std::int32_t code) noexcept { return has(code, UCHAR_LOWERCASE); }
bool is_upper(std::int32_t code) noexcept { return has(code, UCHAR_UPPERCASE); }
bool is_title(std::int32_t code) noexcept {
    return code >= 0 && u_charType(code) == U_TITLECASE_LETTER;
}
bool is_cased(std::int32_t code) noexcept { return has(code, UCHAR_CASED); }
bool is_ignorable(std::int32_t code) noexcept { return has(code, UCHAR_CASE_IGNORABLE); }

bool is_printable(std::int32_t code) noexcept {
    if (code >= 0x20 && code < 0x7f) return true;
    constexpr std::uint32_t hidden = U_GC_C_MASK | U_GC_Z_MASK;
    return code >= 0 && (U_MASK(u_charType(code)) & hidden) == 0;
}

void append_upper(std::string& out, std::int32_t code) { append_mapped(out, code, to_upper); }
void append_lower(std::string& out, std::int32_t code) { append_mapped(out, code, to_lower); }
void append_title(std::string& out, std::int32_t code) { append_mapped(out, code, to_title); }

}  // namespace semantic::engine::letters
