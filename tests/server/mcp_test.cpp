// SPDX-License-Identifier: Apache-2.0
// The Model Context Protocol over real sockets, with a scripted engine.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <string>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

namespace json = boost::json;
using tests::answer_with;
using tests::get;
using tests::http_client;
using tests::http_reply;
using tests::post;

const std::string meta = R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",)"
                         R"("io.modelcontextprotocol/clientCapabilities":{}})";

std::string call(const std::string& tool, const std::string& arguments,
                 const std::string& more = "") {
    return post("/mcp",
                R"({"jsonrpc":"2.0","id":5,"method":"tools/call","params":{)" + meta +
                    R"(,"name":")" + tool + R"(","arguments":)" + arguments + "}}",
                "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: " + tool +
                    "\r\n" + more);
}

engine::agent_info known(const std::string& name) {
    engine::agent_info info{*storage::agent_id::parse(name)};
    info.tokens = 40;
    return info;
}

class mcp_api : public ::testing::Test {
  protected:
    mcp_api() { server_.ready(); }

    http_reply send(const std::string& bytes) {
        http_client client(server_.port());
        return client.request(bytes);
    }
    json::value result_of(const http_reply& reply) {
        EXPECT_EQ(reply.status, 200) << reply.body;
        const json::value read = json::parse(reply.body);
        EXPECT_EQ(read.at("id"), 5);
        return read.at("result");
    }
    /// What a tool says, and whether it says that it failed.
    std::string text_of(const std::string& bytes, bool is_error = false) {
        const json::value result = result_of(send(bytes));
        EXPECT_EQ(result.at("isError"), is_error) << result;
        EXPECT_EQ(result.at("resultType"), "complete");
        return std::string(result.at("content").at(0).at("text").as_string());
    }

    test_server server_;
};

TEST_F(mcp_api, its_clients_list_inspect_and_fork_agents) {
    server_.engine().remember(known("ada"));
    EXPECT_EQ(json::parse(text_of(call("list_agents", "{}"))).at("total"), 1);
    EXPECT_EQ(json::parse(text_of(call("inspect_agent", R"({"agent_id":"ada"})")))
                  .at("cache_size_tokens"),
              40);
    text_of(call("fork_agent", R"({"agent_id":"ada","new_agent_id":"eve"})"));
    EXPECT_EQ(send(get("/v1/agents/eve")).status, 200);
    EXPECT_EQ(json::parse(text_of(call("list_agents", R"({"limit":1})"))).at("has_more"), true);
}

TEST_F(mcp_api, its_clients_fork_an_agent_at_an_answer_or_after_some_tokens) {
    server_.engine().remember(known("ada"));
    server_.engine().answer_names = {"msg_1"};
    const json::value made = json::parse(
        text_of(call("fork_agent", R"({"agent_id":"ada","new_agent_id":"eve","at":"msg_1"})")));
    EXPECT_EQ(made.at("parent_agent_id"), "ada");
    EXPECT_EQ(made.at("forked_at"), "msg_1");
    const json::value other = json::parse(
        text_of(call("fork_agent", R"({"agent_id":"ada","new_agent_id":"bob","at":16})")));
    EXPECT_EQ(other.at("forked_at"), 16);
    const std::string unknown =
        text_of(call("fork_agent", R"({"agent_id":"ada","at":"msg_2"})"), true);
    EXPECT_NE(unknown.find("has no answer"), std::string::npos) << unknown;
    const std::string beyond = text_of(call("fork_agent", R"({"agent_id":"ada","at":41})"), true);
    EXPECT_NE(beyond.find("the agent has 40 tokens"), std::string::npos) << beyond;
    const std::string wrong = text_of(call("fork_agent", R"({"agent_id":"ada","at":1.5})"), true);
    EXPECT_NE(wrong.find("at"), std::string::npos) << wrong;
}

TEST_F(mcp_api, text_is_appended_and_not_answered_unless_tokens_are_there_for_it) {
    server_.engine().remember(known("ada"));
    server_.engine().on_submit = answer_with({"Yes."});
    text_of(call("append_to_agent", R"({"agent_id":"ada","text":"My dog is Biscuit."})"));
    const auto read = server_.engine().request_of(1);
    EXPECT_TRUE(read.append);
    EXPECT_TRUE(read.only_reads);
    const std::string said =
        text_of(call("append_to_agent", R"({"agent_id":"ada","text":"Is it?","max_tokens":9})"));
    EXPECT_EQ(json::parse(said).at("text"), "Yes.");
    EXPECT_NE(
        text_of(call("append_to_agent", R"({"agent_id":"bob","text":"Hi"})"), true).find("bob"),
        std::string::npos);
    text_of(call("append_to_agent", R"({"agent_id":"bob","text":"Hi","create":true})"));
    EXPECT_FALSE(server_.engine().request_of(3).append);
}

TEST_F(mcp_api, an_agent_recalls_on_a_branch_that_is_gone_when_it_has_answered) {
    server_.engine().remember(known("ada"));
    server_.engine().on_submit = answer_with({"Biscuit."});
    const std::string said =
        text_of(call("recall_from_agent", R"({"agent_id":"ada","question":"Which dog?"})"));
    EXPECT_EQ(json::parse(said).at("text"), "Biscuit.");
    EXPECT_TRUE(server_.engine().request_of(1).agent->str().starts_with("recall_"));
    EXPECT_EQ(json::parse(send(get("/v1/agents")).body).at("total"), 1);
    EXPECT_NE(text_of(call("recall_from_agent", R"({"agent_id":"bob","question":"Who?"})"), true)
                  .find("bob"),
              std::string::npos);
}

TEST_F(mcp_api, scenarios_are_listed_and_run_to_their_end) {
    server_.engine().on_submit = answer_with({"I stay silent."});
    const json::value all = json::parse(text_of(call("list_scenarios", "{}")));
    const std::string id(all.at("scenarios").at(0).at("id").as_string());
    const json::value run = json::parse(
        text_of(call("run_scenario", R"({"scenario_id":")" + id + R"(","max_tokens":8})")));
    EXPECT_TRUE(run.at("run_id").as_string().starts_with("run_")) << run;
    EXPECT_EQ(run.at("scenario").as_string(), id);
    text_of(call("run_scenario", R"({"scenario_id":"nothing"})"), true);
}

TEST_F(mcp_api, what_no_tool_is_and_takes_is_told) {
    const http_reply none = send(call("nothing", "{}"));
    EXPECT_EQ(none.status, 200);
    EXPECT_EQ(json::parse(none.body).at("error").at("code"), -32602);
    EXPECT_EQ(json::parse(send(call("list_agents", "[]")).body).at("error").at("code"), -32602);
    text_of(call("inspect_agent", R"({"agent_id":"no/body?"})"), true);
    text_of(call("inspect_agent", "{}"), true);
    EXPECT_EQ(send(get("/mcp")).status, 405);
}

TEST_F(mcp_api, an_earlier_client_needs_no_session) {
    const std::string hello = R"({"jsonrpc":"2.0","id":5,"method":"initialize","params":)"
                              R"({"protocolVersion":"2025-06-18","capabilities":{}}})";
    EXPECT_EQ(result_of(send(post("/mcp", hello))).at("protocolVersion"), "2025-06-18");
    const http_reply told =
        send(post("/mcp", R"({"jsonrpc":"2.0","method":"notifications/initialized"})"));
    EXPECT_EQ(told.status, 202);
    EXPECT_EQ(told.body, "");
    const std::string list = R"({"jsonrpc":"2.0","id":5,"method":"tools/call",)"
                             R"("params":{"name":"list_agents"}})";
    EXPECT_EQ(result_of(send(post("/mcp", list, "mcp-protocol-version: 2025-06-18\r\n")))
                  .as_object()
                  .if_contains("resultType"),
              nullptr);
}

TEST(mcp_keys, a_key_sees_its_own_agents_and_pays_for_its_calls) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"one", "two"};
    test_server server(std::move(options));
    server.ready().engine().on_submit = answer_with({"Yes."});
    const auto send = [&](const std::string& bytes) {
        http_client client(server.port());
        return client.request(bytes);
    };
    const std::string one = "x-api-key: one\r\n", two = "x-api-key: two\r\n";
    ASSERT_EQ(send(post("/v1/agents", R"({"agent_id":"a"})", one)).status, 201);
    EXPECT_EQ(send(call("list_agents", "{}")).status, 401);
    EXPECT_NE(send(call("list_agents", "{}", one)).body.find(R"(\"total\":1)"), std::string::npos);
    EXPECT_NE(send(call("list_agents", "{}", two)).body.find(R"(\"total\":0)"), std::string::npos);
    const std::string say = R"({"agent_id":"b","text":"Hi","create":true,"max_tokens":5})";
    EXPECT_EQ(send(call("append_to_agent", say, two)).status, 200);
    EXPECT_EQ(send(call("append_to_agent", say, one)).status, 200);
    EXPECT_NE(server.engine().request_of(1).tenant, server.engine().request_of(2).tenant);
    const json::value usage = json::parse(send(get("/v1/usage", two)).body);
    EXPECT_NE(json::serialize(usage).find("request"), std::string::npos);
}

}  // namespace
}  // namespace semantic::server
