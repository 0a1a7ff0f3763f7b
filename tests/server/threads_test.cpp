// SPDX-License-Identifier: Apache-2.0
// Message threads over real sockets: what the engine is asked, and each refusal's code.

#include <gtest/gtest.h>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::answer_with;
using tests::http_client;
using tests::http_reply;
using tests::post;

const std::string create = R"("thread":{"type":"create"},)";
const std::string go_on = R"("thread":{"type":"continue","previous_message_id":"msg_1"},)";

class threads : public ::testing::Test {
  protected:
    threads() {
        server_.ready().engine().threads["msg_1"] = {
            {.told = {{"look", "", R"({"type":"object"})", false}}}, "", false};
    }
    http_reply ask(const std::string& fields, const std::string& headers = "") {
        http_client client(server_.port());
        return client.request(post("/v1/messages", message_body(false).insert(1, fields), headers));
    }
    static void expect_refused(const http_reply& reply, int status, const std::string& code) {
        EXPECT_EQ(reply.status, status) << reply.body;
        EXPECT_NE(reply.body.find(R"("error_code":")" + code + "\""), std::string::npos)
            << reply.body;
    }
    test_server server_;
};

TEST_F(threads, created_thread_is_an_agent_named_by_its_first_answer) {
    server_.engine().on_submit = answer_with({"x"});
    http_reply reply = ask(create);
    EXPECT_EQ(reply.status, 200);
    auto asked = server_.engine().request_of(1);
    ASSERT_TRUE(asked.message_id);
    EXPECT_TRUE(asked.keeps_thread);
    EXPECT_FALSE(asked.continues);
    EXPECT_EQ(asked.agent->str(), "thread_" + *asked.message_id);
    EXPECT_NE(reply.body.find(R"("id":")" + *asked.message_id), std::string::npos) << reply.body;
    ask(create, "x-session-id: s\r\n");
    EXPECT_EQ(server_.engine().request_of(2).agent->str(), "sess_s");
}

TEST_F(threads, continued_thread_has_its_tools_and_only_what_is_new) {
    const std::string call = "<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n</tool_call>";
    server_.engine().on_submit = answer_with({call});
    http_reply reply = ask(go_on);
    EXPECT_NE(reply.body.find(R"("type":"tool_use")"), std::string::npos) << reply.body;
    auto asked = server_.engine().request_of(1);
    EXPECT_EQ(asked.continues, "msg_1");
    EXPECT_TRUE(asked.keeps_thread);
    EXPECT_TRUE(asked.message_id);
    EXPECT_EQ(asked.chat.messages.size(), 1u);
    ASSERT_EQ(asked.chat.tools.size(), 1u);
    EXPECT_EQ(asked.chat.tools[0].name, "look");
}

TEST_F(threads, each_refusal_has_the_code_that_clients_know) {
    expect_refused(ask(R"("thread":{"type":"continue","previous_message_id":"msg_2"},)"), 404,
                   "thread_not_found");
    server_.engine().threads["msg_1"].is_continued = true;
    expect_refused(ask(go_on), 400, "thread_already_continued");
    server_.engine().threads["msg_1"] = {{}, "high", false};
    expect_refused(ask(go_on), 400, "thread_fingerprint_mismatch");
    expect_refused(ask(go_on + R"("output_config":{"effort":"low"},)"), 400,
                   "thread_fingerprint_mismatch");
    EXPECT_EQ(server_.engine().request_count(), 0u);
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine.push(id, engine::failed{engine::failure_kind::thread_lost, "it is gone", {}});
    };
    expect_refused(ask(go_on + R"("output_config":{"effort":"high"},)"), 404, "thread_not_found");
    expect_refused(ask(go_on + R"("stream":true,"output_config":{"effort":"high"},)"), 404,
                   "thread_not_found");
}

TEST_F(threads, one_turn_of_an_answer_is_in_flight_at_a_time) {
    http_client first(server_.port());
    first.send(post("/v1/messages", message_body(false).insert(1, go_on)));
    engine::request_id id = server_.engine().wait_for_request(1);
    expect_refused(ask(go_on), 400, "thread_continue_in_flight");
    server_.engine().admit(id);
    server_.engine().finish(id);
    EXPECT_EQ(first.read_reply().status, 200);
    server_.engine().on_submit = answer_with({"x"});
    // The first one's place is given back just after its reply.
    http_reply next = ask(go_on);
    for (int i = 0; i < 500 && next.status != 200; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        next = ask(go_on);
    }
    EXPECT_EQ(next.status, 200);
}

TEST_F(threads, tokens_of_a_continued_thread_are_counted) {
    server_.engine().on_count = [](const engine::conversation& chat) {
        return storage::result<int>(static_cast<int>(chat.tools.size()) + 41);
    };
    http_client client(server_.port());
    http_reply reply =
        client.request(post("/v1/messages/count_tokens", message_body(false).insert(1, go_on)));
    EXPECT_EQ(reply.body, R"({"input_tokens":42})");
}

TEST(threads_of_keys, belong_to_the_key_that_made_them) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"one"};
    test_server server(std::move(options));
    server.ready().engine().threads["msg_1"] = {};  // the default tenant's, which nobody's key is
    http_client client(server.port());
    http_reply reply = client.request(
        post("/v1/messages", message_body(false).insert(1, go_on), "x-api-key: one\r\n"));
    EXPECT_EQ(reply.status, 404) << reply.body;
}

}  // namespace
}  // namespace semantic::server
