// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/named_model.hpp"

#include <gtest/gtest.h>

namespace semantic::protocol {
namespace {

TEST(named_model, is_the_objects_own_wherever_it_stands) {
    EXPECT_EQ(named_model(R"({"model":"a"})"), "a");
    EXPECT_EQ(named_model(R"( { "max_tokens" : 3 , "model" : "a" , "x" : 1 } )"), "a");
    EXPECT_EQ(named_model(R"({"messages":[{"model":"inner"}],"model":"outer"})"), "outer");
    EXPECT_EQ(named_model(R"({"x":"model","y":"model","model":"a"})"), "a");
    EXPECT_EQ(named_model(R"({"x":"\"model\":\"no\" \\","model":"a\u0062\"\n"})"), "ab\"\n");
    EXPECT_EQ(named_model("{\"x\":\"}]\",\"model\":\"a\"}"), "a");
}

TEST(named_model, is_not_there_in_anything_else) {
    for (const char* body :
         {"", "{", "{}", "[]", "null", "\"model\"", R"(["model","a"])", R"({"model":)",
          R"({"model":3})", R"({"model":"a)", R"({"model" "a"})", R"({"a":{"model":"b"}})",
          R"({"x":"model)", R"({"Model":"a"})", R"({"model":"\ud"})", R"({"x":"\)"})
        EXPECT_EQ(named_model(body), std::nullopt) << body;
}

}  // namespace
}  // namespace semantic::protocol
