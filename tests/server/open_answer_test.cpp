// SPDX-License-Identifier: Apache-2.0
// Answers that a request begins: the reply has what follows, in every API, streamed or not.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::http_client;
using tests::http_reply;
using tests::post;

/// The engine answers `said` after what the prompt has of the answer.
auto going_on(std::string begun, std::vector<std::string> said) {
    return [=](tests::scripted_engine& engine, engine::request_id id) {
        engine::admitted start{*storage::agent_id::parse("agent_1"), {}};
        start.begun = begun;
        engine.push(id, start);
        for (const std::string& text : said) engine.say(id, text);
        engine.finish(id);
    };
}

std::string text_of(const std::string& body, const char* path) {
    const auto json = boost::json::parse(body);
    return std::string(json.at_pointer(path).as_string());
}

/// All `key` texts of a stream, joined.
std::string streamed(const std::string& events, const std::string& key) {
    std::string all;
    const std::string mark = "\"" + key + "\":\"";
    for (std::size_t at = events.find(mark); at != std::string::npos; at = events.find(mark, at)) {
        at += mark.size();
        all += events.substr(at, events.find('"', at) - at);
    }
    return all;
}

const std::string begun_messages =
    R"("messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"a <"}])";

TEST(open_answer, is_replied_to_without_its_beginning_in_every_api) {
    test_server server;
    server.ready();
    // The parser holds "<" back, which could begin a tool call.
    server.engine().on_submit = going_on("a <", {" b", " and c"});
    const std::string tools = R"("tools":[{"name":"f","input_schema":{"type":"object"}}],)";
    const std::string chat_tools =
        R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],)";
    struct row {
        const char* path;
        std::string fields;
        const char* text;
        const char* key;
    };
    const row rows[] = {
        {"/v1/messages", R"("model":"m","max_tokens":8,)" + tools, "/content/0/text", "text"},
        {"/v1/chat/completions", R"("model":"m","continue_final_message":true,)" + chat_tools,
         "/choices/0/message/content", "content"},
        {"/v1/agents/a/generate", tools, "/text", "text"},
    };
    std::size_t number = 0;
    for (const row& one : rows) {
        SCOPED_TRACE(one.path);
        http_client client(server.port());
        const std::string fields = one.fields + begun_messages;
        const http_reply whole = client.request(post(one.path, "{" + fields + "}"));
        ASSERT_EQ(whole.status, 200) << whole.body;
        EXPECT_EQ(text_of(whole.body, one.text), " b and c");
        EXPECT_EQ(server.engine().request_of(++number).chat.end, engine::prompt_end::inside_answer);
        const http_reply pieces =
            client.request(post(one.path, "{\"stream\":true," + fields + "}"));
        ++number;
        ASSERT_EQ(pieces.status, 200) << pieces.body;
        EXPECT_EQ(streamed(pieces.body, one.key), " b and c") << pieces.body;
    }
}

/// A request for an answer that goes on, with a tool that may be called.
std::string going_on_with_tools(bool streams) {
    return post("/v1/messages", std::string(R"({"model":"m","max_tokens":8,)") +
                                    (streams ? R"("stream":true,)" : "") +
                                    R"("tools":[{"name":"f","input_schema":{"type":"object"}}],)" +
                                    begun_messages + "}");
}

TEST(open_answer, what_the_parser_holds_back_of_its_beginning_is_not_shown) {
    struct row {
        const char* begun;
        std::vector<std::string> said;
        const char* shown;
    };
    const row rows[] = {
        {"l<tool", {" b", "ox>"}, " box>"},  // the shown text is part of what is held back
        {"{", {" a}"}, " a}"},               // no call after all
        {"a <to", {"ol_ca", "ll x"}, "ol_call x"},
        {"a\n", {"\nb"}, "\\nb"},
    };
    for (const bool streams : {false, true}) {
        for (const row& one : rows) {
            SCOPED_TRACE(one.begun);
            test_server server;
            server.ready();
            server.engine().on_submit = going_on(one.begun, one.said);
            http_client client(server.port());
            const http_reply reply = client.request(going_on_with_tools(streams));
            ASSERT_EQ(reply.status, 200) << reply.body;
            EXPECT_EQ(streamed(reply.body, "text"), one.shown) << reply.body;
        }
    }
}

TEST(open_answer, may_have_begun_a_call) {
    test_server server;
    server.ready();
    server.engine().on_submit = going_on("<tool_call>\n{\"name\": \"f\", ",
                                         {"\"arguments\": {\"k\": 1}}\n", "</tool_call>"});
    http_client client(server.port());
    const http_reply reply = client.request(post(
        "/v1/messages",
        R"({"model":"m","max_tokens":8,"tools":[{"name":"f","input_schema":{"type":"object"}}],)" +
            begun_messages + "}"));
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(text_of(reply.body, "/content/0/name"), "f") << reply.body;
    EXPECT_EQ(text_of(reply.body, "/stop_reason"), "tool_use");
}

}  // namespace
}  // namespace semantic::server
