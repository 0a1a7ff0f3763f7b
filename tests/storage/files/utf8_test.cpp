// SPDX-License-Identifier: Apache-2.0
#include "storage/files/utf8.hpp"

#include <gtest/gtest.h>

namespace semantic::storage {
namespace {

TEST(utf8, well_formed_text_is_valid_and_nothing_else) {
    for (std::string_view text : {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                  "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"})
        EXPECT_TRUE(utf8::is_valid(text)) << text;
    for (std::string_view text :
         {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80",
          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "a\xff"})
        EXPECT_FALSE(utf8::is_valid(text));
}

TEST(utf8, a_character_that_is_cut_off_may_still_come) {
    EXPECT_TRUE(utf8::next("\xe2\x82").unfinished);
    EXPECT_FALSE(utf8::next("\xe2\x28").unfinished);
    EXPECT_EQ(utf8::next("\xe2\x82\xac").code, 0x20ac);
    EXPECT_EQ(utf8::valid_prefix("a\xc3\xa9\xe2"), 3u);
}

}  // namespace
}  // namespace semantic::storage
