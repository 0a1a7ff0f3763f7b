// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/tool_names.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <string>

#include "protocol/responses/request.hpp"
#include "protocol/responses/response_stream.hpp"
#include "tests/protocol/outline.hpp"

namespace semantic::protocol::responses {
namespace {

namespace json = boost::json;
using strings = std::vector<std::string>;

std::string space(const std::string& name, const std::string& functions) {
    return R"({"type":"namespace","name":")" + name + R"(","description":"d","tools":[)" +
           functions + "]}";
}
std::string function(const std::string& name) {
    return R"({"type":"function","name":")" + name + R"(","parameters":{"type":"object"}})";
}
result<response_request> asked(const std::string& tools, const std::string& more = "",
                               const std::string& input = R"("Hi")") {
    return parse_response(R"({"model":"m","input":)" + input + R"(,"tools":[)" + tools + "]" +
                          more + "}");
}
strings shown(const std::string& tools) {
    strings shown_names;
    const auto request = asked(tools);
    EXPECT_TRUE(request) << (request ? "" : request.error().message);
    if (request)
        for (const auto& tool : request->chat.tools) shown_names.push_back(tool.name);
    return shown_names;
}

TEST(tool_names, a_namespaces_tools_are_shown_under_names_that_no_other_has) {
    EXPECT_EQ(shown(space("mcp__a__", function("find")) + "," + space("b", function("find")) + "," +
                    function("find")),
              (strings{"mcp__a__find", "b__find", "find"}));
    EXPECT_EQ(shown(space("a", function("b__c")) + "," + space("a__b", function("c")) + "," +
                    function("a__b__c")),
              (strings{"a__b__c_2", "a__b__c_3", "a__b__c"}))
        << "a function keeps its own name wherever it stands";
    EXPECT_EQ(shown(space("a b.c", function("d"))), strings{"a_b_c__d"});
    const strings cut = shown(space(std::string(100, 's'), function(std::string(60, 'f')) + "," +
                                                               function(std::string(61, 'f'))));
    ASSERT_EQ(cut.size(), 2u);
    EXPECT_EQ(cut[0].size(), tool_names::flat_bytes_max);
    EXPECT_EQ(cut[1].size(), tool_names::flat_bytes_max);
    EXPECT_NE(cut[0], cut[1]);
}

TEST(tool_names, names_that_all_collide_are_numbered_in_time_that_grows_with_their_number) {
    tool_names names;
    constexpr int count = 20'000;
    for (int i = 0; i < count; ++i) {
        // The same flat name of each: what no name may have is "_" in it.
        std::string marks;
        for (int bit = 0; bit < 15; ++bit) marks += (i >> bit) % 2 == 0 ? '!' : '?';
        ASSERT_TRUE(names.add(marks, "f"));
    }
    EXPECT_EQ(names.flat_of(std::string(15, '!'), "f"), std::string(17, '_') + "f");
    EXPECT_FALSE(names.add(std::string(15, '!'), "f"));
}

TEST(tool_names, what_is_wrong_in_a_namespace_is_named_by_its_place) {
    EXPECT_EQ(asked(space("a", function("f") + "," + function("f"))).error().path,
              "tools.0.tools.1.name");
    EXPECT_EQ(asked(R"({"type":"namespace","tools":[]})").error().path, "tools.0.name");
    const auto other = asked(space("a", R"({"type":"of_tomorrow"})"));
    ASSERT_TRUE(other);
    EXPECT_EQ(other->left_out, strings{"of_tomorrow"});
}

TEST(tool_names, tools_in_namespaces_count_as_tools) {
    response_limits limits;
    limits.tools_max = 2;
    const auto with_tools = [&](int count) {
        std::string functions;
        for (int i = 0; i < count; ++i)
            functions += (i == 0 ? "" : ",") + function("f" + std::to_string(i));
        return parse_response(R"({"model":"m","input":"Hi","tools":[)" + function("own") + "," +
                                  space("a", functions) + "]}",
                              limits);
    };
    EXPECT_TRUE(with_tools(1));
    EXPECT_EQ(with_tools(2).error().path, "tools.1.tools.1");
}

TEST(tool_names, a_choice_names_a_tool_with_its_namespace_or_where_it_is_the_only_one) {
    const std::string tools =
        space("a", function("f") + "," + function("g")) + "," + space("b", function("g"));
    const auto chosen = [&](const std::string& choice) {
        const auto request = asked(tools, R"(,"tool_choice":)" + choice);
        return request ? request->form.tools : strings{request.error().message};
    };
    EXPECT_EQ(chosen(R"({"type":"function","namespace":"b","name":"g"})"), strings{"b__g"});
    EXPECT_EQ(chosen(R"({"type":"function","name":"f"})"), strings{"a__f"});
    EXPECT_EQ(chosen(R"({"type":"function","name":"g"})"),
              strings{"tool_choice: there is no tool 'g'"});
    EXPECT_EQ(chosen(R"({"type":"function","name":"a__g"})"), strings{"a__g"});
    EXPECT_EQ(chosen(R"({"type":"namespace","name":"a"})"), (strings{"a__f", "a__g"}));
    EXPECT_EQ(chosen(R"({"type":"namespace","name":"c"})"),
              strings{"tool_choice.name: there is no tool in \"c\""});
    EXPECT_EQ(chosen(R"({"type":"allowed_tools","mode":"required","tools":)"
                     R"([{"type":"function","namespace":"a","name":"f"},)"
                     R"({"type":"namespace","name":"b"}]})"),
              (strings{"a__f", "b__g"}));
}

TEST(tool_names, earlier_calls_are_known_by_the_names_of_now) {
    const auto request = asked(
        function("a__f") + "," + space("a", function("f")), "",
        R"([{"type":"function_call","call_id":"c","namespace":"a","name":"f","arguments":"{}"},)"
        R"({"type":"function_call","call_id":"d","namespace":"gone","name":"f",)"
        R"("arguments":"{}"},{"role":"user","content":"Hi"}])");
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(outline(request->chat),
              "assistant: [call c a__f_2 {}] [call d gone__f {}]\nuser: [Hi]\n");
}

TEST(tool_names, a_call_comes_back_with_both_names_in_every_event) {
    auto request = asked(space("mcp__notes__", function("add")));
    ASSERT_TRUE(request);
    id_maker ids([draws = std::uint64_t{0}]() mutable { return ++draws; });
    reply_options options;
    options.names = request->names;
    response_stream stream(options, ids);
    stream.on_admitted(engine::admitted{*storage::agent_id::parse("a"), {}});
    std::string bytes = stream.on_call_begun("mcp__notes__add");
    bytes += stream.on_call_arguments("{}");
    bytes += stream.on_call_ended(true);
    const std::string names = R"("name":"add","namespace":"mcp__notes__")";
    std::size_t told = 0;
    for (std::size_t at = bytes.find(names); at != std::string::npos;
         at = bytes.find(names, at + 1))
        ++told;
    EXPECT_EQ(told, 3u) << bytes;
    EXPECT_EQ(bytes.find("mcp__notes__add"), std::string::npos) << bytes;
}

}  // namespace
}  // namespace semantic::protocol::responses
