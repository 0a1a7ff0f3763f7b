// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/ids.hpp"

namespace semantic::protocol {

std::string id_maker::make(std::string_view prefix) {
    constexpr char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    constexpr int characters = 24;
    // Eight characters from each draw: 62^8 is so far below 2^64 that no character is noticeably
    // likelier.
    constexpr int characters_per_draw = 8;
    std::string id(prefix);
    std::uint64_t bits = 0;
    for (int i = 0; i < characters; ++i) {
        if (i % characters_per_draw == 0) bits = random_();
        id += digits[bits % 62];
        bits /= 62;
    }
    return id;
}

}  // namespace semantic::protocol
