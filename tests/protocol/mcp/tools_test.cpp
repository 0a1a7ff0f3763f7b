// SPDX-License-Identifier: Apache-2.0
#include "protocol/mcp/tools.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "protocol/wire/fields.hpp"

namespace semantic::protocol::mcp {
namespace {

namespace json = boost::json;

result<planned_call> planned(std::string_view tool, const std::string& arguments) {
    return plan_call(tool, json::parse(arguments).as_object());
}

TEST(mcp_tools, each_has_a_name_a_text_and_a_schema_that_holds) {
    std::set<std::string> names;
    for (const json::value& each : tool_list()) {
        const std::string name(each.at("name").as_string());
        EXPECT_TRUE(is_tool_name(name)) << name;
        EXPECT_TRUE(names.insert(name).second) << name;
        EXPECT_FALSE(each.at("description").as_string().empty());
        EXPECT_EQ(each.at("inputSchema").at("type"), "object");
        EXPECT_EQ(each.at("inputSchema").at("additionalProperties"), false);
        // What is required is there, and a call without it is refused by its name.
        const json::value* required = each.at("inputSchema").as_object().if_contains("required");
        if (required == nullptr) {
            EXPECT_TRUE(planned(name, "{}")) << name;
            continue;
        }
        const auto refused = planned(name, "{}");
        ASSERT_FALSE(refused) << name;
        EXPECT_EQ(refused.error().path, required->at(0).as_string()) << name;
    }
    EXPECT_EQ(names.size(), 7u);
}

TEST(mcp_tools, what_a_tool_does_not_take_is_refused_by_its_name) {
    EXPECT_EQ(planned("nothing", "{}").error().code, errc::not_found);
    EXPECT_EQ(planned("inspect_agent", R"({"agent_id":"a","model":"m"})").error().path, "model");
    EXPECT_EQ(planned("inspect_agent", R"({"agent_id":7})").error().path, "agent_id");
    EXPECT_EQ(planned("inspect_agent", R"({"agent_id":""})").error().path, "agent_id");
    EXPECT_TRUE(planned("inspect_agent", R"({"agent_id":")" + std::string(256, 'a') + "\"}"));
    EXPECT_FALSE(planned("inspect_agent", R"({"agent_id":")" + std::string(257, 'a') + "\"}"));
    EXPECT_EQ(planned("recall_from_agent", R"({"agent_id":"a","question":"b","max_tokens":0})")
                  .error()
                  .path,
              "max_tokens");
    EXPECT_EQ(planned("append_to_agent", R"({"agent_id":"a","text":"b","create":1})").error().path,
              "create");
}

TEST(mcp_tools, a_fork_parts_at_an_answer_or_a_number_of_tokens_and_nowhere_else) {
    const auto refused_at = [](const std::string& at) {
        const auto call = planned("fork_agent", R"({"agent_id":"a","at":)" + at + "}");
        return call ? std::string() : call.error().path;
    };
    EXPECT_EQ(refused_at("\"" + std::string(128, 'm') + "\""), "");
    EXPECT_EQ(refused_at("\"" + std::string(129, 'm') + "\""), "at");
    EXPECT_EQ(refused_at("0"), "");
    EXPECT_EQ(refused_at("16777216"), "");
    EXPECT_EQ(refused_at("16777217"), "at");
    for (const char* at : {"-1", "1.5", "true", "[]", "{}", "\"\""})
        EXPECT_EQ(refused_at(at), "at");
}

TEST(mcp_tools, calls_become_what_clients_of_the_routes_send) {
    EXPECT_EQ(planned("list_agents", "{}")->query, "?limit=100");
    EXPECT_EQ(planned("list_agents", R"({"limit":3,"after":"a/b c"})")->query,
              "?limit=3&after=a%2fb%20c");
    EXPECT_EQ(planned("fork_agent", R"({"agent_id":"a"})")->body, "");
    EXPECT_EQ(planned("fork_agent", R"({"agent_id":"a","new_agent_id":"b"})")->body,
              R"({"agent_id":"b"})");
    EXPECT_EQ(planned("fork_agent", R"({"agent_id":"a","at":"msg_1"})")->body, R"({"at":"msg_1"})");
    EXPECT_EQ(planned("fork_agent", R"({"agent_id":"a","new_agent_id":"b","at":512})")->body,
              R"({"agent_id":"b","at":512})");
    EXPECT_EQ(planned("append_to_agent", R"({"agent_id":"a","text":"Hi"})")->body,
              R"({"append":true,"max_tokens":0,"messages":[{"role":"user","content":"Hi"}]})");
    EXPECT_EQ(
        planned("append_to_agent", R"({"agent_id":"a","text":"Hi","create":true,"max_tokens":5})")
            ->body,
        R"({"append":false,"max_tokens":5,"messages":[{"role":"user","content":"Hi"}]})");
    const auto recall = planned("recall_from_agent", R"({"agent_id":"a","question":"Who?"})");
    EXPECT_EQ(recall->subject, "a");
    EXPECT_EQ(recall->body,
              R"({"append":true,"max_tokens":256,"messages":[{"role":"user","content":"Who?"}]})");
    EXPECT_EQ(planned("run_scenario", R"({"scenario_id":"gossip"})")->subject, "gossip");
    EXPECT_EQ(planned("run_scenario", R"({"scenario_id":"gossip","max_tokens":9})")->body,
              R"({"max_tokens":9})");
}

}  // namespace
}  // namespace semantic::protocol::mcp
