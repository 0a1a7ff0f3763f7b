// SPDX-License-Identifier: Apache-2.0
// Pages in browsers: which may ask, what they may read, and that nobody else notices.

#include "server/http/cors.hpp"

#include <gtest/gtest.h>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::answer_with;
using tests::get;
using tests::http_client;
using tests::http_reply;
using tests::post;

TEST(cors, origins_are_allowed_as_configured) {
    struct row {
        std::vector<std::string> allowed;
        const char* origin;
        const char* answer;
    };
    const row rows[]{
        {{}, "http://localhost", ""},
        {{"*"}, "https://a.example", "*"},
        {{"*"}, "", ""},
        {{"https://a.example"}, "https://a.example", "https://a.example"},
        {{"https://a.example"}, "https://a.example:8443", ""},
        {{"https://a.example"}, "http://a.example", ""},
        {{"https://a.example"}, "http://localhost", ""},
        {{"loopback"}, "http://localhost:3000", "http://localhost:3000"},
        {{"loopback"}, "https://127.0.0.1", "https://127.0.0.1"},
        {{"loopback"}, "http://[::1]:5173", "http://[::1]:5173"},
        {{"loopback"}, "http://localhost.a.example", ""},
        {{"loopback"}, "http://127.0.0.1.a.example:80", ""},
        {{"loopback"}, "http://a.example:80", ""},
        {{"loopback"}, "null", ""},
        {{"loopback"}, "file://localhost", ""},
        {{"loopback", "https://a.example"}, "https://a.example", "https://a.example"},
    };
    for (const row& one : rows)
        EXPECT_EQ(allowed_origin(one.allowed, one.origin), one.answer) << one.origin;
}

std::string options(const char* target, const std::string& fields) {
    return "OPTIONS " + std::string(target) + " HTTP/1.1\r\nhost: localhost\r\n" + fields + "\r\n";
}

TEST(cors, preflight_is_answered_without_a_key_and_before_the_model_is_there) {
    app_options with_key = test_server::default_options();
    with_key.settings.api_keys = {"k1"};
    test_server server(std::move(with_key));
    http_client client(server.port());
    http_reply reply = client.request(
        options("/v1/messages",
                "origin: http://localhost:3000\r\naccess-control-request-method: POST\r\n"
                "access-control-request-headers: authorization,x-stainless-os\r\n"));
    EXPECT_EQ(reply.status, 204);
    EXPECT_EQ(reply.fields["access-control-allow-origin"], "http://localhost:3000");
    EXPECT_EQ(reply.fields["vary"], "origin");
    EXPECT_EQ(reply.fields["access-control-allow-methods"], "POST, OPTIONS");
    EXPECT_EQ(reply.fields["access-control-allow-headers"], "authorization,x-stainless-os");
    EXPECT_TRUE(reply.fields.contains("access-control-max-age"));
    EXPECT_TRUE(reply.fields.contains("request-id"));
    EXPECT_FALSE(reply.fields.contains("content-length"));
    EXPECT_EQ(client.request(get("/health/live")).status, 200);
}

TEST(cors, preflight_of_another_page_allows_nothing) {
    test_server server;
    http_client client(server.port());
    http_reply reply = client.request(options(
        "/v1/messages", "origin: https://a.example\r\naccess-control-request-method: POST\r\n"));
    EXPECT_EQ(reply.status, 204);
    EXPECT_EQ(reply.fields["allow"], "POST, OPTIONS");
    for (const auto& [name, value] : reply.fields)
        EXPECT_FALSE(name.starts_with("access-control")) << name;
    EXPECT_EQ(client.request(options("*", "")).status, 204);
    EXPECT_EQ(client.request(options("/nowhere", "")).status, 404);
}

TEST(cors, every_reply_to_an_allowed_page_can_be_read_by_it) {
    test_server server;
    server.ready().engine().on_submit = answer_with({"x"});
    const std::string origin = "origin: http://localhost:3000\r\n";
    for (const std::string& request :
         {get("/v1/models", origin), get("/nowhere", origin), get("/v1/messages", origin),
          post("/v1/messages", "{", origin), post("/v1/messages", message_body(true), origin),
          post("/v1/chat/completions", message_body(false), origin)}) {
        http_client client(server.port());
        http_reply reply = client.request(request);
        EXPECT_EQ(reply.fields["access-control-allow-origin"], "http://localhost:3000") << request;
        EXPECT_EQ(reply.fields["access-control-expose-headers"], "*") << request;
    }
    http_client program(server.port());
    EXPECT_FALSE(program.request(get("/v1/models")).fields.contains("access-control-allow-origin"));
}

// A form of any page may send a text/plain body without asking first.
TEST(cors, request_of_a_foreign_page_changes_nothing) {
    test_server server;
    server.ready().engine().on_submit = answer_with({"x"});
    auto status = [&](const char* origin) {
        http_client client(server.port());
        return client.request(post("/v1/messages", message_body(false), origin)).status;
    };
    EXPECT_EQ(status("origin: https://a.example\r\n"), 403);
    EXPECT_EQ(status("origin: null\r\n"), 403);
    EXPECT_EQ(server.engine().request_count(), 0u);
    EXPECT_EQ(status("origin: http://localhost\r\n"), 200);
    EXPECT_EQ(status("origin: http://127.0.0.1:5173\r\n"), 200);
    EXPECT_EQ(status(""), 200);
}

// A browser lets every page open a WebSocket, and asks nobody first.
TEST(cors, socket_of_a_foreign_page_is_refused_with_keys_or_without) {
    const auto status = [](bool has_keys, const std::string& origin, const std::string& host) {
        config settings;
        settings.cors_origins = {"https://a.example"};
        if (has_keys) settings.api_keys = {"k1"};
        request incoming;
        incoming.method = "GET";
        incoming.fields = {{"host", host}};
        if (!origin.empty()) incoming.fields.emplace_back("origin", origin);
        incoming.allow_origin = allowed_origin(settings.cors_origins, origin);
        const auto refused = refuse_foreign_socket(settings, incoming);
        return refused ? refused->status : 101;
    };
    for (const bool has_keys : {false, true}) {
        EXPECT_EQ(status(has_keys, "https://evil.example", "localhost:8001"), 403);
        EXPECT_EQ(status(has_keys, "null", "localhost:8001"), 403);
        EXPECT_EQ(status(has_keys, "http://localhost:8002", "localhost:8001"), 403);
        EXPECT_EQ(status(has_keys, "http://localhost:8001", "localhost:8001"), 101);
        EXPECT_EQ(status(has_keys, "https://a.example", "localhost:8001"), 101);
        EXPECT_EQ(status(has_keys, "", "localhost:8001"), 101);
    }
    // A name that was made to resolve to this machine; through a proxy with keys, any name.
    EXPECT_EQ(status(false, "http://rebound.example", "rebound.example"), 403);
    EXPECT_EQ(status(true, "https://proxy.example", "proxy.example"), 101);
}

TEST(cors, page_with_a_key_may_ask_but_reads_nothing_unless_it_is_allowed) {
    app_options with_key = test_server::default_options();
    with_key.settings.api_keys = {"k1"};
    test_server server(std::move(with_key));
    server.ready().engine().on_submit = answer_with({"x"});
    http_client client(server.port());
    http_reply reply = client.request(post("/v1/messages", message_body(false),
                                           "origin: https://a.example\r\nx-api-key: k1\r\n"));
    EXPECT_EQ(reply.status, 200);
    EXPECT_FALSE(reply.fields.contains("access-control-allow-origin"));
}

}  // namespace
}  // namespace semantic::server
