// SPDX-License-Identifier: Apache-2.0
#include "engine/text/output/written_arguments.hpp"

#include <gtest/gtest.h>

#include <string>

#include "engine/text/output/calls/json_stream.hpp"

namespace semantic::engine {
namespace {

TEST(completed_object, the_beginning_of_an_object_is_ended_where_it_is_sure) {
    struct row {
        const char* text;
        const char* object;
    };
    for (const row& one :
         {row{"{", "{}"},
          row{"  {\n", "{}"},
          row{"{\"a", "{}"},
          row{"{\"a\"", "{}"},
          row{"{\"a\":", "{}"},
          row{"{\"a\": \"", R"({"a":""})"},
          row{"{\"a\": \"Once upon a ti", R"({"a":"Once upon a ti"})"},
          row{"{\"a\": \"x\\", R"({"a":"x"})"},
          row{"{\"a\": \"x\\\\", R"({"a":"x\\"})"},
          row{"{\"a\": \"x\\u12", R"({"a":"x"})"},
          row{"{\"a\": \"x\\u0041", R"({"a":"x\u0041"})"},
          row{"{\"a\": \"x\\ud83d", R"({"a":"x"})"},
          row{"{\"a\": \"x\\ud83d\\ude", R"({"a":"x"})"},
          row{"{\"a\": \"x\"", R"({"a":"x"})"},
          row{"{\"a\": \"x\",", R"({"a":"x"})"},
          row{"{\"a\": 1", R"({"a":1})"},
          row{"{\"a\": 1.", "{}"},
          row{"{\"a\": tr", "{}"},
          row{"{\"a\": true", R"({"a":true})"},
          row{"{\"a\": [1, {\"b\": \"c", R"({"a":[1,{"b":"c"}]})"},
          row{"{\"a\": 1, \"b", R"({"a":1})"},
          row{"{\"a\": [1, ", R"({"a":[1]})"},
          row{"{\"a\": \"b\nc\"}", R"({"a":"b\nc"})"},
          row{"{\"a\": \"b\nc", R"({"a":"b\nc"})"},
          row{"{\"a\": 12345678901234567890123", R"({"a":12345678901234567890123})"}}) {
        EXPECT_EQ(completed_object(one.text), one.object) << one.text;
        EXPECT_TRUE(is_json_object(*completed_object(one.text))) << one.text;
    }
    for (const char* none : {"", " ", "x", "[1", "\"a\"", "null", "{a", "{\"a\" 1", "{} {}",
                             R"({"a": "He said "hi" and left"})"})
        EXPECT_FALSE(completed_object(none)) << none;
}

TEST(completed_object, every_beginning_of_an_object_is_one_and_begins_alike) {
    const std::string whole = R"({"path":"a\n\u00e9\ud83d\ude00.txt","more":[1,-2.5e3,true,null,)"
                              R"({"k":"v\\"}],"last":"é"})";
    for (std::size_t end = 1; end <= whole.size(); ++end) {
        const auto object = completed_object(std::string_view(whole).substr(0, end));
        ASSERT_TRUE(object || end + 1 == whole.size() - 1) << end;
        if (!object) continue;
        std::size_t same = 0;
        while (same < object->size() && same < end && (*object)[same] == whole[same]) ++same;
        EXPECT_GE(object->size(), same);
        EXPECT_EQ(object->substr(same).find_first_not_of("\"}]"), std::string::npos)
            << *object << " of " << whole.substr(0, end);
    }
}

TEST(completed_object, no_depth_is_too_deep_to_be_refused) {
    std::string deep = "{\"a\":";
    for (std::size_t i = 0; i + 1 < call_depth_max; ++i) deep += '[';
    EXPECT_TRUE(completed_object(deep));
    EXPECT_FALSE(completed_object(deep + '['));
    EXPECT_FALSE(completed_object("{\"a\":" + std::string(1'000'000, '[')));
}

TEST(object_of_arguments, is_an_object_whatever_was_written) {
    EXPECT_EQ(object_of_arguments(R"({"b": 1.0, "a": []})"), R"({"b":1.0,"a":[]})");
    EXPECT_EQ(object_of_arguments("{\"a\": \"x"), R"({"a":"x"})");
    for (const char* nothing : {"", "  \n", "null", " null "})
        EXPECT_EQ(object_of_arguments(nothing), "{}") << nothing;
    EXPECT_EQ(object_of_arguments("path=\"a\"\n"), R"({"raw_arguments":"path=\"a\"\n"})");
    EXPECT_EQ(object_of_arguments("[1]"), R"({"raw_arguments":"[1]"})");
    EXPECT_EQ(object_of_arguments("nullify"), R"({"raw_arguments":"nullify"})");
}

}  // namespace
}  // namespace semantic::engine
