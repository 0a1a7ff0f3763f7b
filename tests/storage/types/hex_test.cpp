// SPDX-License-Identifier: Apache-2.0
#include "storage/types/hex.hpp"

#include <gtest/gtest.h>

#include "storage/types/ids.hpp"

namespace semantic::storage {
namespace {

TEST(hex, every_byte_is_read_as_it_was_written_in_either_case) {
    for (int byte = 0; byte < 256; ++byte) {
        std::string text;
        append_hex(text, static_cast<char>(byte));
        EXPECT_EQ(number_of_hex(text), static_cast<std::uint64_t>(byte)) << text;
        for (char& digit : text)
            if (digit >= 'a') digit = static_cast<char>(digit - 'a' + 'A');
        EXPECT_EQ(number_of_hex(text), static_cast<std::uint64_t>(byte)) << text;
    }
}

TEST(hex, a_number_has_one_to_sixteen_digits) {
    EXPECT_EQ(number_of_hex(""), std::nullopt);
    EXPECT_EQ(number_of_hex("F"), 15u);
    EXPECT_EQ(number_of_hex("ffffFFFFffffFFFF"), ~std::uint64_t{0});
    EXPECT_EQ(number_of_hex("00000000000000001"), std::nullopt);
    EXPECT_EQ(number_of_hex(hex_of(0x0123456789abcdef)), 0x0123456789abcdefu);
}

// The neighbours of the digits in ASCII, and what other readers of numbers pass over.
TEST(hex, what_is_no_digit_is_no_number) {
    for (char neighbour : {'/', ':', '@', 'G', '`', 'g', ' ', '-', '+', 'x', '\0', '\x80'})
        for (std::string text : {"00", "11"}) {
            text[0] = neighbour;
            EXPECT_EQ(number_of_hex(text), std::nullopt) << text;
            std::swap(text[0], text[1]);
            EXPECT_EQ(number_of_hex(text), std::nullopt) << text;
        }
}

TEST(hex, bytes_come_whole_or_not_at_all) {
    EXPECT_EQ(bytes_of_hex(""), "");
    EXPECT_EQ(bytes_of_hex("00fFc3"), (std::string{'\0', '\xff', '\xc3'}));
    for (const char* bad : {"0", "00f", "0g", "g0", "00 0"})
        EXPECT_EQ(bytes_of_hex(bad), std::nullopt) << bad;
}

TEST(block_hash, is_read_from_32_lower_case_digits_and_nothing_else) {
    const std::string text = "00ff10a5b2c3d4e5f60718293a4b5c6d";
    EXPECT_EQ(block_hash::from_hex(text)->hex(), text);
    for (const std::string& bad : {text.substr(1), text + "0", text.substr(1) + "D",
                                   text.substr(1) + "g", text.substr(1) + "-"})
        EXPECT_EQ(block_hash::from_hex(bad).error().code, errc::bad_value) << bad;
}

}  // namespace
}  // namespace semantic::storage
