// SPDX-License-Identifier: Apache-2.0
// How long agents are kept, and where they are forked, over real sockets.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::answer_with;
using tests::get;
using tests::http_client;
using tests::http_reply;
using tests::post;

engine::agent_info agent(const std::string& name) {
    engine::agent_info info{*storage::agent_id::parse(name)};
    info.hot = true;
    info.tokens = 40;
    return info;
}

class agents_policy_api : public ::testing::Test {
  protected:
    agents_policy_api() { server_.ready(); }

    http_reply ask(const std::string& bytes) {
        http_client client(server_.port());
        return client.request(bytes);
    }
    boost::json::value body_of(const http_reply& reply) { return boost::json::parse(reply.body); }

    test_server server_;
};

TEST_F(agents_policy_api, a_fork_goes_up_to_an_answer_or_a_number_of_tokens) {
    server_.engine().remember(agent("a"));
    server_.engine().answer_names = {"msg_1"};
    http_reply made = ask(post("/v1/agents/a/fork", R"({"agent_id":"b","at":"msg_1"})"));
    ASSERT_EQ(made.status, 201);
    EXPECT_EQ(body_of(made).at("forked_at").as_string(), "msg_1");
    http_reply unknown = ask(post("/v1/agents/a/fork", R"({"at":"msg_2"})"));
    EXPECT_EQ(unknown.status, 404);
    EXPECT_NE(unknown.body.find("agent a has no answer"), std::string::npos) << unknown.body;
    EXPECT_EQ(ask(post("/v1/agents/a/fork", R"({"agent_id":"c","at":40})")).status, 201);
    EXPECT_EQ(ask(post("/v1/agents/a/fork", R"({"at":41})")).status, 400);
    EXPECT_EQ(ask(post("/v1/agents/a/fork", R"({"at":[]})")).status, 400);
}

TEST_F(agents_policy_api, a_policy_is_changed_shown_and_dropped_with_the_memory) {
    server_.engine().remember(agent("a"));
    http_reply kept = ask(post("/v1/agents/a", R"({"keep":"1h","pin":true})"));
    ASSERT_EQ(kept.status, 200) << kept.body;
    EXPECT_EQ(body_of(kept).at("policy").at("keep_seconds").to_number<int>(), 3600);
    EXPECT_TRUE(body_of(kept).at("policy").at("holds").as_bool());
    ask(post("/v1/agents/a", R"({"pin":false})"));
    const auto shown = body_of(ask(get("/v1/agents/a")));
    EXPECT_FALSE(shown.at("policy").at("pinned").as_bool());
    EXPECT_EQ(shown.at("policy").at("keep_seconds").to_number<int>(), 3600);
    http_reply plain = ask(post("/v1/agents/a", R"({"keep":null})"));
    EXPECT_FALSE(body_of(plain).as_object().contains("policy"));
    EXPECT_EQ(ask(post("/v1/agents/a", "{}")).status, 400);
    EXPECT_EQ(ask(post("/v1/agents/a", R"({"keep":"soon"})")).status, 400);
    EXPECT_EQ(ask(post("/v1/agents/nobody", R"({"pin":true})")).status, 404);
    EXPECT_EQ(ask(post("/v1/agents/a", R"({"drop":true})")).status, 204);
    EXPECT_EQ(ask(get("/v1/agents/a")).status, 404);
    EXPECT_EQ(ask(post("/v1/agents/a", R"({"drop":true})")).status, 404);
}

TEST_F(agents_policy_api, a_memory_is_brought_into_ram) {
    engine::agent_info warm = agent("a");
    warm.hot = false;
    server_.engine().remember(warm);
    http_reply brought = ask(post("/v1/agents/a", R"({"prefetch":true})"));
    ASSERT_EQ(brought.status, 200) << brought.body;
    EXPECT_EQ(body_of(brought).at("tier").as_string(), "hot");
    EXPECT_EQ(body_of(brought).at("prefetched").at("tokens_read").to_number<int>(), 40);
}

TEST_F(agents_policy_api, an_answer_has_the_name_that_a_fork_can_be_made_at) {
    server_.engine().on_submit = answer_with({"x"});
    const auto said = body_of(ask(post("/v1/agents/a/generate", R"({"prompt":"x"})")));
    EXPECT_EQ(said.at("message_id").as_string(), *server_.engine().request_of(1).message_id);
}

TEST_F(agents_policy_api, the_name_of_each_dialects_answer_is_one_to_fork_at) {
    server_.engine().on_submit = answer_with({"x"});
    const std::string messages = R"("messages":[{"role":"user","content":"hi"}])";
    const std::vector<std::pair<const char*, std::string>> requests{
        {"/v1/chat/completions", "{" + messages + R"(,"model":"m"})"},
        {"/v1/completions", R"({"prompt":"hi","model":"m"})"},
        {"/v1/messages", "{" + messages + R"(,"model":"m","max_tokens":5})"},
        {"/v1/responses", R"({"input":"hi","model":"m"})"},
    };
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const http_reply said = ask(post(requests[i].first, requests[i].second));
        ASSERT_EQ(said.status, 200) << said.body;
        EXPECT_EQ(body_of(said).at("id").as_string(),
                  *server_.engine().request_of(static_cast<engine::request_id>(i + 1)).message_id);
    }
}

}  // namespace
}  // namespace semantic::server
