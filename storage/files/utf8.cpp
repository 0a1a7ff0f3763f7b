#include "storage/files/utf8.hpp"

namespace semantic::storage {

namespace {

/// Length of the UTF-8 sequence at the start of `text`, or 0. Source: Unicode 15, table 3-7.
std::size_t utf8_sequence(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const auto in = [&](std::size_t i, int low, int high) {
        return i < text.size() && byte(i) >= low && byte(i) <= high;
    };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return 1;
    if (lead >= 0xc2 && lead <= 0xdf) return in(1, 0x80, 0xbf) ? 2 : 0;
    if (lead >= 0xe0 && lead <= 0xef) {
        const int low = lead == 0xe0 ? 0xa0 : 0x80;
        const int high = lead == 0xed ? 0x9f : 0xbf;
        return in(1, low, high) && in(2, 0x80, 0xbf) ? 3 : 0;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        const int low = lead == 0xf0 ? 0x90 : 0x80;
        const int high = lead == 0xf4 ? 0x8f : 0xbf;
        return in(1, low, high) && in(2, 0x80, 0xbf) && in(3, 0x80, 0xbf) ? 4 : 0;
    }
    return 0;
}

}  // namespace

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t count = utf8_sequence(text);
        if (count == 0) return false;
        text.remove_prefix(count);
    }
    return true;
}

}  // namespace semantic::storage
