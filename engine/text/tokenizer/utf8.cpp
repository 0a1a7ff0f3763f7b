// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer/utf8.hpp"

#include <unicode/uchar.h>

namespace semantic::engine::utf8 {

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
