// SPDX-License-Identifier: Apache-2.0
// Whole requests over real sockets: what a client of /v1/chat/completions sees, and when. What both
// dialects share is tested with Messages.

#include <gtest/gtest.h>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::answer_with;
using tests::http_client;
using tests::http_reply;
using tests::post;

/// A chat completions request that the parser takes. `more` begins with a comma or is empty.
std::string chat_body(bool stream, const std::string& more = "") {
    return R"({"model":"scripted","stream":)" + std::string(stream ? "true" : "false") +
           R"(,"messages":[{"role":"user","content":"hi"}])" + more + "}";
}

class chat : public ::testing::Test {
  protected:
    chat() { server_.ready(); }

    http_reply ask(const std::string& body, const std::string& fields = "") {
        http_client client(server_.port());
        return client.request(post("/v1/chat/completions", body, fields));
    }
    /// Starts a stream and reads its head and the chunk with the role.
    engine::request_id open_stream(http_client& client) {
        client.send(post("/v1/chat/completions", chat_body(true)));
        engine::request_id id = server_.engine().wait_for_request(1);
        server_.engine().admit(id);
        EXPECT_EQ(client.read_head().status, 200);
        EXPECT_NE(client.read_chunk().find(R"("role":"assistant")"), std::string::npos);
        return id;
    }
    std::string agent_of_request(engine::request_id id) {
        auto agent = server_.engine().request_of(id).agent;
        return agent ? agent->str() : "";
    }

    test_server server_;
};

TEST_F(chat, plain_answer_has_text_usage_and_request_id) {
    server_.engine().on_submit = answer_with({"Hel", "lo"});
    http_reply reply = ask(chat_body(false), "x-request-id: my-1\r\n");
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.fields["content-type"], "application/json");
    EXPECT_NE(reply.body.find(R"("content":"Hello")"), std::string::npos) << reply.body;
    EXPECT_NE(reply.body.find(R"("prompt_tokens":10)"), std::string::npos) << reply.body;
    EXPECT_NE(reply.body.find(R"("cached_tokens":4)"), std::string::npos) << reply.body;
    EXPECT_NE(reply.body.find(R"("id":"chatcmpl-)"), std::string::npos) << reply.body;
    EXPECT_NE(reply.body.find(R"("system_fingerprint":"fp_)"), std::string::npos) << reply.body;
    EXPECT_EQ(reply.fields["x-request-id"], "my-1");
    EXPECT_EQ(reply.fields["x-semantic-reused-tokens"], "4");
}

TEST_F(chat, stream_is_data_lines_only_and_ends_with_done) {
    server_.engine().on_submit = answer_with({"a", "b"});
    http_reply reply = ask(chat_body(true, R"(,"stream_options":{"include_usage":true})"));
    EXPECT_EQ(reply.fields["content-type"], "text/event-stream; charset=utf-8");
    EXPECT_EQ(reply.body.find("event:"), std::string::npos) << reply.body;
    std::size_t at = 0;
    for (const char* mark : {R"("role":"assistant")", R"({"content":"a"})", R"({"content":"b"})",
                             R"("finish_reason":"stop")", R"("choices":[],"usage":{)"}) {
        at = reply.body.find(mark, at);
        ASSERT_NE(at, std::string::npos) << mark << " in " << reply.body;
    }
    EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n")) << reply.body;
}

TEST_F(chat, each_token_arrives_before_the_next_is_made) {
    http_client client(server_.port());
    engine::request_id id = open_stream(client);
    for (int i = 0; i < 20; ++i) {
        std::string word = std::to_string(i).append("w");
        server_.engine().say(id, word);
        EXPECT_NE(client.read_chunk().find(word), std::string::npos);
    }
    server_.engine().finish(id, 20);
    EXPECT_NE(client.read_chunk().find("[DONE]"), std::string::npos);
    EXPECT_EQ(client.read_chunk(), "");
}

TEST_F(chat, disconnect_cancels_the_request) {
    http_client client(server_.port());
    engine::request_id id = open_stream(client);
    client.close();
    EXPECT_TRUE(server_.engine().wait_for_cancel(id));
}

TEST_F(chat, failure_in_mid_stream_is_an_error_without_a_name) {
    http_client client(server_.port());
    engine::request_id id = open_stream(client);
    server_.engine().push(id, engine::failed{engine::failure_kind::internal, "out of luck"});
    EXPECT_TRUE(client.read_chunk().starts_with(R"(data: {"error":{"message":"out of luck")"));
    EXPECT_EQ(client.read_chunk(), "");
}

// As when its grammar turns out to be one that cannot be held to any further.
TEST_F(chat, fault_of_the_request_in_mid_answer_is_400_or_says_so_in_the_stream) {
    const engine::failed fault{engine::failure_kind::bad_request, "the grammar: it is too much"};
    http_client client(server_.port());
    const engine::request_id id = open_stream(client);
    server_.engine().say(id, "a");
    std::string streamed = client.read_chunk();
    server_.engine().push(id, fault);
    streamed += client.read_chunk();
    EXPECT_EQ(client.read_chunk(), "");
    EXPECT_EQ(streamed.find("[DONE]"), std::string::npos) << streamed;

    server_.engine().on_submit = [&](tests::scripted_engine& engine, engine::request_id next) {
        engine.admit(next);
        engine.say(next, "a");
        engine.push(next, fault);
    };
    const http_reply plain = ask(chat_body(false));
    EXPECT_EQ(plain.status, 400);
    for (const std::string& body : {streamed, plain.body}) {
        EXPECT_NE(body.find("the grammar: it is too much"), std::string::npos) << body;
        EXPECT_NE(body.find(R"("type":"invalid_request_error")"), std::string::npos) << body;
    }
}

TEST_F(chat, refusal_before_the_first_chunk_keeps_its_status) {
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine.push(id, engine::failed{engine::failure_kind::too_large, "needs 9, there are 4"});
    };
    for (bool stream : {false, true}) {
        http_reply reply = ask(chat_body(stream));
        EXPECT_EQ(reply.status, 400);
        EXPECT_NE(reply.body.find(R"("code":"context_length_exceeded")"), std::string::npos)
            << reply.body;
    }
}

TEST_F(chat, full_queue_is_503_and_says_when_to_retry) {
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine.push(id, engine::failed{engine::failure_kind::overloaded, "the queue is full",
                                       std::chrono::seconds(40)});
    };
    http_reply reply = ask(chat_body(true));
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.fields["retry-after"], "40");
    EXPECT_NE(reply.body.find(R"("type":"server_error")"), std::string::npos) << reply.body;
}

TEST_F(chat, a_request_that_waited_is_told_so_in_header_fields) {
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine.push(id, engine::queued{3, std::chrono::seconds(12)});
        tests::answer_with({"Hi"})(engine, id);
    };
    for (bool stream : {false, true}) {
        http_reply reply = ask(chat_body(stream));
        EXPECT_EQ(reply.status, 200);
        EXPECT_EQ(reply.fields["x-semantic-queued-behind"], "3");
        EXPECT_EQ(reply.fields["x-semantic-queue-estimate-s"], "12");
        EXPECT_FALSE(reply.fields["x-semantic-agent"].empty());
    }
}

TEST_F(chat, choices_and_log_probabilities_of_each_reach_the_client) {
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        auto score = [](const char* text) {
            return engine::token_scores{{1, -0.5f, text, text}, {}};
        };
        engine.admit(id);
        engine.push(id, engine::token_text{"ze", 1, 0, score("ze")});
        engine.push(id, engine::token_text{"", 1, 1, score("o")});  // held back
        engine.push(id, engine::token_text{"one", 1, 1, score("ne")});
        engine.push(id, engine::choice_finished{1, engine::stop_reason::max_tokens, "", 2});
        engine.push(id, engine::token_text{"ro", 1, 0, score("ro")});
        engine.push(id, engine::choice_finished{0, engine::stop_reason::end_turn, "", 2});
        engine.finish(id, 4);
    };
    http_reply reply = ask(chat_body(false, R"(,"n":2,"logprobs":true)"));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(server_.engine().request_of(1).choices, 2);
    EXPECT_EQ(server_.engine().request_of(1).top_scores, 0);
    auto contains = [&](const std::string& part) {
        EXPECT_NE(reply.body.find(part), std::string::npos) << part << "\n" << reply.body;
    };
    contains(R"("index":0,"message":{"role":"assistant","content":"zero")");
    contains(R"("index":1,"message":{"role":"assistant","content":"one")");
    contains(R"("content":[{"token":"o","logprob":-0.5)");
    contains(R"("finish_reason":"length")");
    std::size_t entries = 0;
    for (std::size_t at = 0; (at = reply.body.find("\"logprob\":", at)) != std::string::npos; ++at)
        ++entries;
    EXPECT_EQ(entries, 4u);
}

TEST_F(chat, bad_body_is_a_400_that_names_the_field) {
    http_reply reply = ask(chat_body(false, R"(,"n":0)"));
    EXPECT_EQ(reply.status, 400);
    EXPECT_NE(reply.body.find(R"("param":"n")"), std::string::npos) << reply.body;
    EXPECT_EQ(ask("{").status, 400);
    EXPECT_EQ(server_.engine().request_count(), 0u);
}

TEST_F(chat, any_model_name_means_the_loaded_one) {
    server_.engine().on_submit = answer_with({});
    http_reply reply = ask(R"({"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]})");
    EXPECT_EQ(reply.status, 200);
    EXPECT_NE(reply.body.find(R"("model":"gpt-4o")"), std::string::npos) << reply.body;
}

TEST(strict_model_names, another_model_is_a_404_before_any_work_in_both_dialects) {
    app_options options = test_server::default_options();
    options.settings.strict_model_names = true;
    test_server server(std::move(options));
    server.ready();
    const std::string rest = R"("max_tokens":5,"messages":[{"role":"user","content":"hi"}]})";
    for (const char* path : {"/v1/chat/completions", "/v1/messages"}) {
        http_client client(server.port());
        http_reply reply = client.request(post(path, R"({"model":"gpt-4o",)" + rest));
        EXPECT_EQ(reply.status, 404) << path;
        EXPECT_NE(reply.body.find(R"(\"scripted\")"), std::string::npos) << reply.body;
    }
    EXPECT_EQ(server.engine().request_count(), 0u);
}

TEST_F(chat, session_id_of_the_body_wins_over_the_header) {
    server_.engine().on_submit = answer_with({});
    ask(chat_body(false, R"(,"session_id":"a")"), "x-session-id: b\r\n");
    ask(chat_body(false, R"(,"prompt_cache_key":"k")"), "x-session-id: b\r\n");
    ask(chat_body(false), "x-session-id: b\r\n");
    ask(chat_body(false));
    EXPECT_EQ(agent_of_request(1), "oai_a");
    EXPECT_EQ(agent_of_request(2), "sess_b");
    EXPECT_EQ(agent_of_request(3), "sess_b");
    EXPECT_EQ(agent_of_request(4), "");
}

TEST_F(chat, tool_calls_are_told_from_text_streamed_and_plain) {
    server_.engine().on_submit = answer_with(
        {"Let me see.\n<tool_", "call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"x\"}}\n",
         "</tool_call>\n<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n</tool_call>"});
    const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"look"}}])";
    for (bool stream : {false, true}) {
        http_reply reply = ask(chat_body(stream, tools));
        EXPECT_NE(reply.body.find(R"("content":"Let me see.")"), std::string::npos) << reply.body;
        EXPECT_NE(reply.body.find(R"("arguments":"{\"at\":\"x\"}")"), std::string::npos)
            << reply.body;
        EXPECT_NE(reply.body.find(R"("finish_reason":"tool_calls")"), std::string::npos)
            << reply.body;
        EXPECT_EQ(reply.body.find("<tool_call>"), std::string::npos) << reply.body;
        EXPECT_EQ(reply.body.find(R"("index":1,"id":"call_)") != std::string::npos, stream)
            << reply.body;
    }
}

TEST(chat_timing, silence_is_broken_by_comments_even_before_admission) {
    app_options options = test_server::default_options();
    options.limits.ping_every = std::chrono::milliseconds(50);
    test_server server(std::move(options));
    server.ready();
    http_client client(server.port());
    client.send(post("/v1/chat/completions", chat_body(true)));
    server.engine().wait_for_request(1);
    EXPECT_EQ(client.read_head().status, 200);
    EXPECT_EQ(client.read_chunk(), ": ping\n\n");
    EXPECT_EQ(client.read_chunk(), ": ping\n\n");
}

}  // namespace
}  // namespace semantic::server
