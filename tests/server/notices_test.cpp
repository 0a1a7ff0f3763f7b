// What a reply says about what the server could not do for its request, in every dialect.

#include <gtest/gtest.h>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::http_client;
using tests::http_reply;
using tests::post;

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
