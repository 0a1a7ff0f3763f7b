// SPDX-License-Identifier: Apache-2.0
// Goal: tools that items bring are written where these items are, and can be called from there on.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/responses/request.hpp"
#include "protocol/responses/response_stream.hpp"
#include "tests/protocol/outline.hpp"

namespace semantic::protocol::responses {
namespace {

namespace json = boost::json;
using list = std::vector<std::string>;

const std::string hi = R"({"role":"user","content":"Hi"})";
const std::string search =
    R"({"type":"tool_search","execution":"client","description":"Finds tools",)"
    R"("parameters":{"type":"object","properties":{"q":{"type":"string"}}}})";

std::string function(const std::string& name, const std::string& more = "") {
    return R"({"type":"function","name":")" + name + R"(","parameters":{"type":"object"})" + more +
           "}";
}

response_request parsed(const std::string& input, const std::string& tools,
                        const std::string& more = "") {
    const std::string body =
        R"({"model":"m","input":[)" + input + R"(],"tools":[)" + tools + "]" + more + "}";
    auto request = parse_response(body);
    EXPECT_TRUE(request) << body << ": " << (request ? "" : request.error().message);
    return request ? std::move(*request) : response_request{};
}

list names(const std::vector<engine::tool_definition>& tools) {
    list all;
    for (const engine::tool_definition& each : tools) all.push_back(each.name);
    return all;
}

TEST(late_tools_of_items, stand_where_the_item_does) {
    const std::string more = R"({"type":"additional_tools","role":"developer","tools":[)" +
                             function("b") + R"(,{"type":"namespace","name":"mcp__w","tools":[)" +
                             function("c") + "]}]}";
    const auto request = parsed(hi + "," + more + "," + hi, function("a"));
    EXPECT_EQ(names(request.chat.tools), list{"a"});
    EXPECT_EQ(names(request.chat.callable_tools()), (list{"a", "b", "mcp__w__c"}));
    ASSERT_EQ(request.chat.placed_tools.size(), 2u);
    EXPECT_EQ(request.chat.placed_tools[0].message, 1u);
    EXPECT_EQ(outline(request.chat), "user: [Hi]\nsystem: [\n]\nuser: [Hi]\n");
    EXPECT_TRUE(request.left_out.empty());
    ASSERT_NE(request.names.find("mcp__w__c"), nullptr);
    EXPECT_EQ(request.names.find("mcp__w__c")->name, "c");
}

TEST(late_tools_of_items, may_be_all_tools_that_there_are) {
    const std::string more =
        R"({"type":"additional_tools","role":"developer","tools":[)" + function("b") + "]}";
    const auto request = parsed(more + "," + hi, "", R"(,"tool_choice":"required")");
    EXPECT_TRUE(request.chat.tools.empty());
    EXPECT_EQ(names(request.chat.callable_tools()), list{"b"});
    EXPECT_EQ(request.form.what, engine::output_form::kind::calls);
}

TEST(late_tools_of_items, deferred_ones_wait_for_the_clients_search) {
    const std::string deferred = function("b", R"(,"defer_loading":true)");
    const auto before = parsed(hi, search + "," + deferred);
    EXPECT_EQ(names(before.chat.tools), list{"tool_search"});
    EXPECT_EQ(names(before.chat.callable_tools()), list{"tool_search"});
    EXPECT_TRUE(before.searches_tools);
    const auto found =
        parsed(hi +
                   R"(,{"type":"tool_search_call","call_id":"c1","execution":"client",)"
                   R"("arguments":{"q":"b"}},)"
                   R"({"type":"tool_search_output","call_id":"c1","execution":"client","tools":[)" +
                   deferred + "]}",
               search + "," + deferred);
    EXPECT_EQ(names(found.chat.tools), list{"tool_search"});
    EXPECT_EQ(names(found.chat.callable_tools()), (list{"tool_search", "b"}));
    ASSERT_EQ(found.chat.placed_tools.size(), 1u);
    EXPECT_EQ(outline(found.chat),
              "user: [Hi]\nassistant: [call c1 tool_search {\"q\":\"b\"}]\ntool: [result c1 ]\n");
    // Nobody would search for them here.
    EXPECT_EQ(names(parsed(hi, deferred).chat.tools), list{"b"});
    const auto hosted = parsed(hi, R"({"type":"tool_search"},)" + deferred);
    EXPECT_EQ(names(hosted.chat.tools), list{"b"});
    EXPECT_EQ(hosted.left_out, list{"tool_search"});
}

TEST(late_tools_of_items, a_search_is_called_in_an_item_of_its_own_type) {
    id_maker ids([] { return std::uint64_t{7}; });
    reply_options options;
    options.response_id = "resp_1";
    options.searches_tools = true;
    response_stream stream(std::move(options), ids);
    stream.on_admitted({*storage::agent_id::parse("a"), {}});
    const std::string bytes = stream.on_tool_call("tool_search", R"({"q":"weather"})");
    EXPECT_EQ(bytes.find("function_call"), std::string::npos) << bytes;
    stream.on_finished({});
    const json::object call = stream.response().at("output").at(0).as_object();
    EXPECT_EQ(call.at("type"), "tool_search_call");
    EXPECT_EQ(call.at("execution"), "client");
    EXPECT_EQ(call.at("arguments"), (json::object{{"q", "weather"}}));
    EXPECT_EQ(call.at("status"), "completed");
    EXPECT_TRUE(call.contains("call_id"));
}

TEST(late_tools_of_items, a_new_effort_is_told_where_it_stands) {
    const auto request =
        parsed(R"({"type":"configuration_update","reasoning":{"effort":"low"}},)" + hi, "");
    EXPECT_EQ(outline(request.chat), "system: [Reasoning effort from here on: low]\nuser: [Hi]\n");
}

TEST(late_tools_of_items, no_more_than_their_limit_are_taken) {
    std::string items;
    for (int part = 0; part < 2; ++part) {
        std::string tools;
        for (int i = 0; i < 501; ++i)
            tools += (i == 0 ? "" : ",") + function("f" + std::to_string(part * 501 + i));
        items += R"({"type":"additional_tools","role":"developer","tools":[)" + tools + "]},";
    }
    const auto refused = parse_response(R"({"model":"m","input":[)" + items + hi + "]}");
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("1000 tools"), std::string::npos)
        << refused.error().message;
}

}  // namespace
}  // namespace semantic::protocol::responses
