// SPDX-License-Identifier: Apache-2.0
// What a reply says about what the server could not do for its request, in every dialect.

#include <gtest/gtest.h>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::http_client;
using tests::http_reply;
using tests::post;

// Goal: a client knows from the reply whether a restart would cost it its memory, and why.
TEST(notices, why_a_memory_is_not_saved_is_said_in_every_dialect_streamed_or_not) {
    test_server server;
    server.ready();
    engine::finished end;
    server.engine().on_submit = [&end](tests::scripted_engine& engine, engine::request_id id) {
        engine.push(id, engine::admitted{*storage::agent_id::parse("agent_1"), {}});
        engine.say(id, "a");
        engine.push(id, end);
    };
    const std::string messages = R"("messages":[{"role":"user","content":"Hi"}])";
    const std::pair<const char*, std::string> requests[] = {
        {"/v1/messages", R"("max_tokens":8,)" + messages},
        {"/v1/chat/completions", messages},
        {"/v1/completions", R"("prompt":"Hi")"},
        {"/v1/responses", R"("input":"Hi")"},
        {"/api/chat", messages},
        {"/v1/agents/a/generate", messages},
    };
    using enum engine::unsaved_reason;
    for (const auto& [path, fields] : requests)
        for (const char* stream : {"true", "false"})
            for (const engine::unsaved_reason reason : {none, late, failed, over_bound, dropped}) {
                SCOPED_TRACE(std::string(path) + " stream " + stream + " " + to_string(reason));
                end.saved = reason == none;
                end.unsaved = reason;
                end.written = engine::written_bytes{7, 77};
                http_client client(server.port());
                const http_reply reply = client.request(post(
                    path, R"({"model":"m","stream":)" + std::string(stream) + "," + fields + "}"));
                ASSERT_EQ(reply.status, 200) << reply.body;
                std::string words = R"("saved":true,)";
                if (reason != none)
                    words =
                        R"("saved":false,"not_saved":")" + std::string(to_string(reason)) + "\",";
                words += R"("bytes_written":{"turn":7,"total":77})";
                EXPECT_NE(reply.body.find(words), std::string::npos) << reply.body;
            }
}

// Goal: a client whose tools' calls are never recognised learns so from the reply.
TEST(notices, what_is_not_held_is_told_in_every_dialect_streamed_or_not) {
    test_server server;
    server.ready();
    server.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine::admitted start{*storage::agent_id::parse("agent_1"), {}};
        start.usage.not_held = {"tools: calls are not recognised"};
        engine.push(id, start);
        engine.say(id, "a");
        engine.finish(id);
    };
    const std::string chat_tools =
        R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],)";
    const std::string messages = R"("messages":[{"role":"user","content":"Hi"}])";
    const std::pair<const char*, std::string> requests[] = {
        {"/v1/messages",
         R"("max_tokens":8,"tools":[{"name":"f","input_schema":{"type":"object"}}],)" + messages},
        {"/v1/chat/completions", chat_tools + messages},
        {"/v1/responses",
         R"("input":"Hi","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}])"},
        {"/api/chat", chat_tools + messages},
        {"/v1/agents/a/generate",
         R"("tools":[{"name":"f","input_schema":{"type":"object"}}],)" + messages},
    };
    for (const auto& [path, fields] : requests)
        for (const char* stream : {"true", "false"}) {
            SCOPED_TRACE(std::string(path) + " stream " + stream);
            http_client client(server.port());
            const http_reply reply = client.request(
                post(path, R"({"model":"m","stream":)" + std::string(stream) + "," + fields + "}"));
            ASSERT_EQ(reply.status, 200) << reply.body;
            EXPECT_NE(reply.body.find(R"("not_held":["tools: calls are not recognised"])"),
                      std::string::npos)
                << reply.body;
        }
}

}  // namespace
}  // namespace semantic::server
