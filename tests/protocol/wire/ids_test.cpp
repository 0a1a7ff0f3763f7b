// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/ids.hpp"

#include <gtest/gtest.h>

#include <cctype>

namespace semantic::protocol {
namespace {

TEST(id_maker, ids_are_a_prefix_and_24_letters_or_digits) {
    std::uint64_t next = 0x9e3779b97f4a7c15;
    id_maker ids([&] { return next *= 6364136223846793005u; });
    for (auto [id, prefix] : {std::pair(ids.message_id(), std::string("msg_")),
                              std::pair(ids.tool_use_id(), std::string("toolu_")),
                              std::pair(ids.completion_id(), std::string("chatcmpl-")),
                              std::pair(ids.call_id(), std::string("call_")),
                              std::pair(ids.request_id(), std::string("req_"))}) {
        EXPECT_TRUE(id.starts_with(prefix)) << id;
        EXPECT_EQ(id.size(), prefix.size() + 24);
        for (char c : id.substr(prefix.size())) EXPECT_TRUE(std::isalnum(c)) << id;
    }
}

TEST(id_maker, same_random_bits_give_the_same_id_and_others_another) {
    id_maker zeros([] { return std::uint64_t{0}; });
    EXPECT_EQ(zeros.message_id(), "msg_000000000000000000000000");
    std::uint64_t count = 0;
    id_maker counting([&] { return ++count; });
    EXPECT_EQ(counting.make("x_"), "x_100000002000000030000000");
    EXPECT_NE(counting.make("x_"), counting.make("x_"));
}

}  // namespace
}  // namespace semantic::protocol
