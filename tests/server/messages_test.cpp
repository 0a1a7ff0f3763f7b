// SPDX-License-Identifier: Apache-2.0
// Whole requests over real sockets: what a client of /v1/messages sees, and when.

#include <gtest/gtest.h>

#include <sstream>

#include "server/runtime/logging.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::answer_with;
using tests::get;
using tests::http_client;
using tests::http_reply;
using tests::post;

class messages : public ::testing::Test {
  protected:
    messages() { server_.ready(); }

    /// Starts a stream and reads its head and message_start.
    engine::request_id open_stream(http_client& client, std::size_t number = 1) {
        client.send(post("/v1/messages", message_body(true)));
        engine::request_id id = server_.engine().wait_for_request(number);
        server_.engine().admit(id);
        http_reply head = client.read_head();
        EXPECT_EQ(head.status, 200);
        EXPECT_NE(client.read_chunk().find("event: message_start"), std::string::npos);
        return id;
    }

    test_server server_;
};

TEST_F(messages, plain_answer_has_text_usage_and_request_id) {
    server_.engine().on_submit = answer_with({"Hel", "lo"});
    http_client client(server_.port());
    http_reply reply =
        client.request(post("/v1/messages", message_body(false), "x-request-id: my-1\r\n"));
    EXPECT_EQ(reply.status, 200);
    EXPECT_NE(reply.body.find(R"("text":"Hello")"), std::string::npos) << reply.body;
    EXPECT_NE(reply.body.find(R"("cache_read_input_tokens":4)"), std::string::npos) << reply.body;
    EXPECT_EQ(reply.fields["request-id"], "my-1");
    EXPECT_EQ(reply.fields["x-request-id"], "my-1");
    EXPECT_EQ(reply.fields["x-semantic-agent"], "agent_1");
    EXPECT_EQ(reply.fields["x-semantic-reused-tokens"], "4");
}

TEST_F(messages, stream_has_the_events_in_the_vendors_order) {
    server_.engine().on_submit = answer_with({"a", "b"});
    http_client client(server_.port());
    http_reply reply = client.request(post("/v1/messages?beta=true", message_body(true)));
    EXPECT_EQ(reply.fields["content-type"], "text/event-stream; charset=utf-8");
    EXPECT_EQ(reply.fields["cache-control"], "no-store");
    EXPECT_EQ(reply.fields["x-accel-buffering"], "no");
    std::size_t at = 0;
    for (const char* name :
         {"message_start", "content_block_start", "content_block_delta", "content_block_delta",
          "content_block_stop", "message_delta", "message_stop"}) {
        at = reply.body.find("event: " + std::string(name), at);
        ASSERT_NE(at, std::string::npos) << name << " in " << reply.body;
        ++at;
    }
}

// The next token is pushed only after the one before has arrived: nothing may be held back for
// company.
TEST_F(messages, each_token_arrives_before_the_next_is_made) {
    http_client client(server_.port());
    engine::request_id id = open_stream(client);
    for (int i = 0; i < 20; ++i) {
        std::string word = std::to_string(i).append("w");
        server_.engine().say(id, word);
        EXPECT_NE(client.read_chunk().find(word), std::string::npos);
    }
    server_.engine().finish(id, 20);
    EXPECT_NE(client.read_chunk().find("message_stop"), std::string::npos);
    EXPECT_EQ(client.read_chunk(), "");
}

TEST_F(messages, connection_serves_a_second_request_after_a_stream) {
    server_.engine().on_submit = answer_with({"x"});
    http_client client(server_.port());
    EXPECT_EQ(client.request(post("/v1/messages", message_body(true))).status, 200);
    EXPECT_EQ(client.request(post("/v1/messages", message_body(false))).status, 200);
    EXPECT_EQ(client.request(get("/health/live")).status, 200);
}

TEST_F(messages, disconnect_at_any_token_cancels_the_request) {
    for (int tokens = 0; tokens < 4; ++tokens) {
        http_client client(server_.port());
        engine::request_id id = open_stream(client, static_cast<std::size_t>(tokens) + 1);
        for (int i = 0; i < tokens; ++i) {
            server_.engine().say(id, "t");
            client.read_chunk();
        }
        client.close(tokens % 2 == 1);
        EXPECT_TRUE(server_.engine().wait_for_cancel(id)) << "after " << tokens << " tokens";
    }
}

TEST_F(messages, disconnect_before_admission_cancels_the_request) {
    http_client client(server_.port());
    client.send(post("/v1/messages", message_body(true)));
    engine::request_id id = server_.engine().wait_for_request(1);
    client.close();
    EXPECT_TRUE(server_.engine().wait_for_cancel(id));
}

TEST_F(messages, disconnect_cancels_a_plain_request_too) {
    http_client client(server_.port());
    client.send(post("/v1/messages", message_body(false)));
    engine::request_id id = server_.engine().wait_for_request(1);
    server_.engine().admit(id);
    client.close();
    EXPECT_TRUE(server_.engine().wait_for_cancel(id));
}

TEST_F(messages, full_queue_is_529_and_says_when_to_retry) {
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine.push(id, engine::failed{engine::failure_kind::overloaded, "the queue is full",
                                       std::chrono::seconds(40)});
    };
    for (bool stream : {false, true}) {
        http_client client(server_.port());
        http_reply reply = client.request(post("/v1/messages", message_body(stream)));
        EXPECT_EQ(reply.status, 529);
        EXPECT_EQ(reply.fields["retry-after"], "40");
        EXPECT_NE(reply.body.find("overloaded_error"), std::string::npos) << reply.body;
    }
}

TEST_F(messages, an_agent_that_is_elsewhere_is_307_with_the_whole_target) {
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine::failed why{engine::failure_kind::overloaded, "it is at work elsewhere",
                           std::chrono::seconds(1)};
        why.elsewhere = "http://node2:8001";
        engine.push(id, std::move(why));
    };
    for (bool stream : {false, true}) {
        http_client client(server_.port());
        http_reply reply = client.request(post("/v1/messages?beta=true", message_body(stream)));
        EXPECT_EQ(reply.status, 307);
        EXPECT_EQ(reply.fields["location"], "http://node2:8001/v1/messages?beta=true");
        EXPECT_EQ(reply.fields["retry-after"], "1");
        EXPECT_NE(reply.body.find("overloaded_error"), std::string::npos) << reply.body;
    }
}

TEST_F(messages, refusal_before_the_first_event_keeps_its_status) {
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine.push(id,
                    engine::failed{engine::failure_kind::too_large, "needs 9 blocks, there are 4"});
    };
    for (bool stream : {false, true}) {
        http_client client(server_.port());
        http_reply reply = client.request(post("/v1/messages", message_body(stream)));
        EXPECT_EQ(reply.status, 400);
        EXPECT_NE(reply.body.find("needs 9 blocks, there are 4"), std::string::npos) << reply.body;
    }
}

constexpr const char* call_text =
    "Let me see.\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"x\"}}\n</tool_call>";

std::string with_tools(std::string body) {
    return body.insert(1, R"("tools":[{"name":"look","input_schema":{"type":"object"}}],)");
}

TEST_F(messages, tool_call_becomes_a_block_of_its_own_streamed_and_plain) {
    // One byte at a time: a tag must be recognised however it is cut.
    std::vector<std::string> bytes;
    for (const char* at = call_text; *at != 0; ++at) bytes.emplace_back(1, *at);
    server_.engine().on_submit = answer_with(bytes);
    for (bool stream : {true, false}) {
        http_client client(server_.port());
        http_reply reply = client.request(post("/v1/messages", with_tools(message_body(stream))));
        EXPECT_EQ(reply.status, 200) << reply.body;
        EXPECT_NE(reply.body.find(R"("type":"tool_use")"), std::string::npos) << reply.body;
        EXPECT_NE(reply.body.find(R"("name":"look")"), std::string::npos) << reply.body;
        EXPECT_NE(reply.body.find(R"("stop_reason":"tool_use")"), std::string::npos) << reply.body;
        EXPECT_EQ(reply.body.find("<tool_call>"), std::string::npos) << reply.body;
    }
}

// Goal: what a client gets of a call that the token limit cut in two is nothing, in either dialect:
// half a call is no text, and one that seems whole would be run.
TEST_F(messages, call_that_the_token_limit_cuts_is_not_shown) {
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine.admit(id);
        engine.say(id, std::string(call_text).substr(0, 50));
        engine.push(id, engine::finished{engine::stop_reason::max_tokens, {}, 9, true});
    };
    const std::string openai_tools =
        R"("tools":[{"type":"function","function":{"name":"look","parameters":{}}}],)";
    for (bool stream : {true, false}) {
        http_client client(server_.port());
        http_reply reply = client.request(post("/v1/messages", with_tools(message_body(stream))));
        EXPECT_NE(reply.body.find("Let me see."), std::string::npos) << reply.body;
        EXPECT_EQ(reply.body.find("tool_"), std::string::npos) << reply.body;
        EXPECT_NE(reply.body.find(R"("stop_reason":"max_tokens")"), std::string::npos);
        std::string body = message_body(stream).insert(1, openai_tools);
        reply = client.request(post("/v1/chat/completions", body));
        EXPECT_NE(reply.body.find("Let me see."), std::string::npos) << reply.body;
        EXPECT_EQ(reply.body.find("tool_"), std::string::npos) << reply.body;
        EXPECT_NE(reply.body.find(R"("finish_reason":"length")"), std::string::npos);
    }
}

const std::string openai_look =
    R"("tools":[{"type":"function","function":{"name":"look","parameters":{}}}],)";

std::string streamed_from(std::uint16_t port, const std::string& path, const std::string& body) {
    http_client client(port);
    return client.request(post(path, body)).body;
}

TEST_F(messages, a_call_streams_its_arguments_as_they_are_written) {
    server_.engine().on_submit =
        answer_with({"<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"x", "y z",
                     "\", \"n\": 5", "}}\n</tool_call>"});
    const std::string anthropic =
        streamed_from(server_.port(), "/v1/messages", with_tools(message_body(true)));
    for (const char* piece : {R"("partial_json":"{\"at\":\"x"})", R"("partial_json":"y z"})",
                              R"("partial_json":"\",\"n\":"})", R"("partial_json":"5}"})"})
        EXPECT_NE(anthropic.find(piece), std::string::npos) << piece << "\n" << anthropic;
    EXPECT_NE(anthropic.find(R"("stop_reason":"tool_use")"), std::string::npos);
    const std::string openai = streamed_from(server_.port(), "/v1/chat/completions",
                                             message_body(true).insert(1, openai_look));
    for (const char* piece : {R"("arguments":""}})", R"("arguments":"{\"at\":\"x"}})",
                              R"("arguments":"y z"}})", R"("arguments":"5}"}})"})
        EXPECT_NE(openai.find(piece), std::string::npos) << piece << "\n" << openai;
    EXPECT_NE(openai.find(R"("finish_reason":"tool_calls")"), std::string::npos);
}

// What was shown of a call cannot be unsaid: its arguments stay without an end, which no client
// takes for a whole call, and the reason says so. A reply in one piece has the same, unless its
// dialect has objects for arguments.
TEST_F(messages, a_call_that_is_cut_stays_open_in_streams_and_where_arguments_are_a_text) {
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine.admit(id);
        engine.say(id, "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"x");
        engine.push(id, engine::finished{engine::stop_reason::max_tokens, {}, 9, true});
    };
    const std::string anthropic =
        streamed_from(server_.port(), "/v1/messages", with_tools(message_body(true)));
    EXPECT_NE(anthropic.find(R"("partial_json":"{\"at\":\"x"})"), std::string::npos) << anthropic;
    EXPECT_NE(anthropic.find("content_block_stop"), std::string::npos);
    EXPECT_NE(anthropic.find(R"("stop_reason":"max_tokens")"), std::string::npos);
    const std::string openai = streamed_from(server_.port(), "/v1/chat/completions",
                                             message_body(true).insert(1, openai_look));
    EXPECT_NE(openai.find(R"("arguments":"{\"at\":\"x"}})"), std::string::npos) << openai;
    EXPECT_NE(openai.find(R"("finish_reason":"length")"), std::string::npos);
    const std::string plain =
        streamed_from(server_.port(), "/v1/messages", with_tools(message_body(false)));
    EXPECT_EQ(plain.find("tool_use"), std::string::npos) << plain;
    const std::string whole = streamed_from(server_.port(), "/v1/chat/completions",
                                            message_body(false).insert(1, openai_look));
    EXPECT_NE(whole.find(R"("arguments":"{\"at\":\"x"}})"), std::string::npos) << whole;
    EXPECT_NE(whole.find(R"("finish_reason":"length")"), std::string::npos) << whole;
}

TEST_F(messages, a_call_that_a_stop_string_breaks_off_is_left_out_of_a_plain_stop) {
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine.admit(id);
        engine.say(id, "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"x");
        engine.push(id, engine::finished{engine::stop_reason::stop_sequence, {}, 9, true});
    };
    const std::string whole = streamed_from(server_.port(), "/v1/chat/completions",
                                            message_body(false).insert(1, openai_look));
    EXPECT_EQ(whole.find("tool_calls"), std::string::npos) << whole;
    EXPECT_NE(whole.find(R"("finish_reason":"stop")"), std::string::npos) << whole;
}

TEST_F(messages, json_alone_is_a_call_where_it_names_a_tool_of_the_request) {
    server_.engine().on_submit =
        answer_with({"```json\n{\"name\": \"look\", \"arguments\": {\"at\": 1}}\n```"});
    for (bool stream : {true, false}) {
        const std::string reply =
            streamed_from(server_.port(), "/v1/messages", with_tools(message_body(stream)));
        EXPECT_NE(reply.find(R"("name":"look")"), std::string::npos) << reply;
        EXPECT_NE(reply.find(R"("stop_reason":"tool_use")"), std::string::npos) << reply;
        EXPECT_EQ(reply.find("```"), std::string::npos) << reply;
    }
}

TEST_F(messages, text_that_looks_like_a_call_stays_text_without_tools) {
    server_.engine().on_submit = answer_with({call_text});
    http_client client(server_.port());
    http_reply reply = client.request(post("/v1/messages", message_body(false)));
    EXPECT_NE(reply.body.find("<tool_call>"), std::string::npos) << reply.body;
}

TEST_F(messages, failure_in_mid_stream_is_an_error_event) {
    http_client client(server_.port());
    engine::request_id id = open_stream(client);
    server_.engine().push(id, engine::failed{engine::failure_kind::internal, "out of luck"});
    EXPECT_NE(client.read_chunk().find("event: error"), std::string::npos);
    EXPECT_EQ(client.read_chunk(), "");
}

// As when a tool's schema turns out to be one that cannot be held to any further.
TEST_F(messages, fault_of_the_request_in_mid_answer_is_400_or_an_error_event_that_says_so) {
    const engine::failed fault{engine::failure_kind::bad_request, "the tools: it is too much"};
    http_client client(server_.port());
    const engine::request_id id = open_stream(client);
    server_.engine().push(id, fault);
    const std::string streamed = client.read_chunk();
    EXPECT_EQ(client.read_chunk(), "");
    EXPECT_NE(streamed.find("event: error"), std::string::npos) << streamed;

    server_.engine().on_submit = [&](tests::scripted_engine& engine, engine::request_id next) {
        engine.admit(next);
        engine.say(next, "a");
        engine.push(next, fault);
    };
    http_client other(server_.port());
    const http_reply plain = other.request(post("/v1/messages", message_body(false)));
    EXPECT_EQ(plain.status, 400);
    for (const std::string& body : {streamed, plain.body}) {
        EXPECT_NE(body.find("the tools: it is too much"), std::string::npos) << body;
        EXPECT_NE(body.find(R"("type":"invalid_request_error")"), std::string::npos) << body;
    }
}

TEST_F(messages, bad_identity_header_is_refused_before_any_work) {
    http_client client(server_.port());
    http_reply reply =
        client.request(post("/v1/messages", message_body(true), "x-session-id: a b\r\n"));
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(server_.engine().request_count(), 0u);
}

TEST_F(messages, session_header_names_the_agent) {
    server_.engine().on_submit = answer_with({});
    http_client client(server_.port());
    client.request(post("/v1/messages", message_body(false), "X-Session-ID: s1\r\n"));
    EXPECT_EQ(server_.engine().request_of(1).agent->str(), "sess_s1");
}

TEST_F(messages, malformed_json_is_a_400_in_the_vendors_shape) {
    http_client client(server_.port());
    http_reply reply = client.request(post("/v1/messages", "{"));
    EXPECT_EQ(reply.status, 400);
    EXPECT_NE(reply.body.find(R"("type":"invalid_request_error")"), std::string::npos)
        << reply.body;
    EXPECT_NE(reply.body.find(reply.fields["request-id"]), std::string::npos) << reply.body;
}

TEST_F(messages, two_connections_stream_at_once) {
    http_client first(server_.port());
    http_client second(server_.port());
    engine::request_id one = open_stream(first, 1);
    engine::request_id two = open_stream(second, 2);
    server_.engine().say(two, "second");
    EXPECT_NE(second.read_chunk().find("second"), std::string::npos);
    server_.engine().say(one, "first");
    EXPECT_NE(first.read_chunk().find("first"), std::string::npos);
    server_.engine().finish(one);
    server_.engine().finish(two);
    first.read_chunk();
    second.read_chunk();
}

TEST_F(messages, tokens_are_counted) {
    server_.engine().on_count = [](const engine::conversation& chat) {
        return storage::result<int>(static_cast<int>(chat.messages.size()) + 41);
    };
    http_client client(server_.port());
    http_reply reply = client.request(post("/v1/messages/count_tokens", message_body(false)));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, R"({"input_tokens":42})");
}

// A body of more than 64 KiB is parsed on another thread; what comes back must be the same.
TEST_F(messages, large_body_is_answered_like_a_small_one) {
    server_.engine().on_submit = answer_with({"ok"});
    http_client client(server_.port());
    http_reply reply =
        client.request(post("/v1/messages", message_body(false, std::string(300'000, 'x'))));
    EXPECT_EQ(reply.status, 200);
    const auto asked = server_.engine().request_of(1);
    const auto& part = asked.chat.messages.at(0).parts.at(0);
    EXPECT_EQ(std::get<engine::text_part>(part).text.size(), 300'000u);
}

TEST_F(messages, http_1_0_client_gets_the_stream_until_the_close) {
    server_.engine().on_submit = answer_with({"x"});
    http_client client(server_.port());
    std::string body = message_body(true);
    client.send("POST /v1/messages HTTP/1.0\r\ncontent-length: " + std::to_string(body.size()) +
                "\r\n\r\n" + body);
    http_reply head = client.read_head();
    EXPECT_FALSE(head.fields.contains("transfer-encoding"));
    client.read_until("event: message_stop\n");
    client.read_until("\n\n");
    EXPECT_TRUE(client.is_closed_by_server());
}

TEST(messages_timing, silence_is_broken_by_pings_even_before_admission) {
    app_options options = test_server::default_options();
    options.limits.ping_every = std::chrono::milliseconds(50);
    test_server server(std::move(options));
    server.ready();
    http_client client(server.port());
    client.send(post("/v1/messages", message_body(true)));
    engine::request_id id = server.engine().wait_for_request(1);
    EXPECT_EQ(client.read_head().status, 200);
    EXPECT_EQ(client.read_chunk(), "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    EXPECT_EQ(client.read_chunk(), "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    server.engine().admit(id);
    std::string next = client.read_chunk();
    while (next.find("message_start") == std::string::npos) next = client.read_chunk();
    server.engine().push(id, engine::failed{engine::failure_kind::internal, "x"});
    while (next.find("event: error") == std::string::npos) next = client.read_chunk();
}

TEST(messages_timing, client_that_does_not_read_is_cut_off) {
    app_options options = test_server::default_options();
    options.limits.write = std::chrono::milliseconds(200);
    test_server server(std::move(options));
    server.ready();
    http_client client(server.port(), 4096);
    client.send(post("/v1/messages", message_body(true)));
    engine::request_id id = server.engine().wait_for_request(1);
    server.engine().admit(id);
    for (int i = 0; i < 200; ++i) server.engine().say(id, std::string(100'000, 'x'));
    EXPECT_TRUE(server.engine().wait_for_cancel(id));
}

TEST(messages_timing, slow_reader_gets_everything) {
    test_server server;
    server.ready();
    http_client client(server.port(), 4096);
    client.send(post("/v1/messages", message_body(true)));
    engine::request_id id = server.engine().wait_for_request(1);
    server.engine().admit(id);
    for (int i = 0; i < 100; ++i) server.engine().say(id, std::string(20'000, 'x'));
    server.engine().finish(id, 100);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    http_reply reply = client.read_reply();
    EXPECT_EQ(static_cast<int>(std::count(reply.body.begin(), reply.body.end(), 'x')) / 20'000,
              100);
}

// The wait is the engine's, whether or not the client sees the tokens one by one.
TEST(messages_timing, log_says_after_what_time_the_first_token_came) {
    for (bool stream : {true, false}) {
        std::ostringstream log;
        start_logging(log_level::info, log);
        {
            test_server server;
            server.ready();
            http_client client(server.port());
            client.send(post("/v1/messages", message_body(stream)));
            engine::request_id id = server.engine().wait_for_request(1);
            std::this_thread::sleep_for(std::chrono::milliseconds(60));
            server.engine().admit(id);
            server.engine().say(id, "a");
            std::this_thread::sleep_for(std::chrono::milliseconds(600));
            server.engine().say(id, "b");
            server.engine().finish(id);
            EXPECT_EQ(client.read_reply().status, 200);
        }
        stop_logging();
        std::string text = log.str();
        std::size_t at = text.find("first token after ");
        ASSERT_NE(at, std::string::npos) << text;
        double waited = std::stod(text.substr(at + 18));
        EXPECT_GE(waited, 55.0) << text;
        EXPECT_LT(waited, 600.0) << text;  // "b" came later than that
    }
}

TEST_F(messages, side_requests_of_claude_code_leave_the_main_agent_alone) {
    server_.engine().on_submit = answer_with({"x"});
    http_client client(server_.port());
    const std::string session = "x-claude-code-session-id: s\r\n";
    const std::string turn =
        R"({"model":"m","max_tokens":4,"messages":[{"role":"user","content":"hi"}],)"
        R"("tools":[{"name":"ls","input_schema":{"type":"object"}}]})";
    ASSERT_EQ(client.request(post("/v1/messages?beta=true", turn, session)).status, 200);
    ASSERT_EQ(client.request(post("/v1/messages?beta=true", message_body(false), session)).status,
              200);
    EXPECT_EQ(server_.engine().request_of(1).agent->str(), "cc_s");
    EXPECT_FALSE(server_.engine().request_of(2).agent) << "found by content";
}

TEST_F(messages, claude_codes_probe_and_its_event_log_are_answered) {
    http_client client(server_.port());
    client.send("HEAD / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    EXPECT_EQ(client.read_reply(false).status, 200);
    http_reply logged = client.request(post("/api/event_logging/batch", R"({"events":[]})"));
    EXPECT_EQ(logged.status, 200);
    EXPECT_EQ(logged.body, R"({"status":"ok"})");
}

TEST(messages_log, texts_are_logged_for_who_asks_for_that_alone_and_traces_go_along) {
    const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    for (bool wanted : {false, true}) {
        std::ostringstream log;
        start_logging(log_level::info, log);
        {
            app_options options = test_server::default_options();
            options.settings.log_prompts = wanted;
            test_server server(std::move(options));
            server.ready().engine().on_submit = tests::answer_with({"Bis", "cuit"});
            http_client client(server.port());
            for (bool stream : {true, false})
                client.request(post("/v1/messages", message_body(stream, "my dog"),
                                    "traceparent: 00-" + trace + "-00f067aa0ba902b7-01\r\n"));
        }
        stop_logging();
        const std::string text = log.str();
        EXPECT_EQ(text.find("asked: my dog") != std::string::npos, wanted) << text;
        EXPECT_EQ(text.find("answered: Biscuit") != std::string::npos, wanted) << text;
        EXPECT_EQ(text.find("dog") != std::string::npos, wanted) << text;
        EXPECT_NE(text.find("POST /v1/messages 200 "), std::string::npos) << text;
        EXPECT_NE(text.find(" trace " + trace), std::string::npos) << text;
    }
}

}  // namespace
}  // namespace semantic::server
