// SPDX-License-Identifier: Apache-2.0
// Names that this server answers to, so that no page can have its own name resolved to it.

#include "server/http/hosts.hpp"

#include <gtest/gtest.h>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::answer_with;
using tests::get;
using tests::http_client;
using tests::http_reply;

TEST(hosts, a_server_answers_to_loopback_names_its_own_and_those_of_its_origins) {
    struct row {
        const char* host;
        std::vector<std::string> origins;
        const char* asked;
        bool is_known;
    };
    const row rows[]{
        {"127.0.0.1", {}, "localhost", true},
        {"127.0.0.1", {}, "LocalHost:8001", true},
        {"127.0.0.1", {}, "127.0.0.1:1", true},
        {"127.0.0.1", {}, "127.8.9.10", true},
        {"127.0.0.1", {}, "[::1]:8001", true},
        {"127.0.0.1", {}, "[::ffff:127.0.0.1]", true},
        {"127.0.0.1", {}, "", false},
        {"127.0.0.1", {}, "a.example", false},
        {"127.0.0.1", {}, "localhost.a.example", false},
        {"127.0.0.1", {}, "127.0.0.1.a.example:8001", false},
        {"127.0.0.1", {}, "localhost@a.example", false},
        {"127.0.0.1", {}, "localhost:80:80", false},
        {"127.0.0.1", {}, "localhost:x", false},
        {"127.0.0.1", {}, "[::1]x", false},
        {"127.0.0.1", {}, "[::1", false},
        {"127.0.0.1", {}, "10.0.0.1", false},
        {"127.0.0.1", {"loopback"}, "a.example", false},
        {"127.0.0.1", {"https://a.example"}, "a.example", true},
        {"127.0.0.1", {"https://a.example:8443"}, "A.example:1", true},
        {"127.0.0.1", {"https://a.example"}, "b.a.example", false},
        {"127.0.0.1", {"*"}, "a.example", true},
        {"box.local", {}, "box.local:8001", true},
        {"10.0.0.1", {}, "10.0.0.1:8001", true},
        {"::", {}, "10.0.0.1:8001", true},
        {"0.0.0.0", {}, "[2001:db8::1]:8001", true},
        {"0.0.0.0", {}, "a.example", false},
    };
    for (const row& one : rows) {
        config settings;
        settings.host = one.host;
        settings.cors_origins = one.origins;
        EXPECT_EQ(names_this_server(settings, one.asked), one.is_known)
            << one.host << " " << one.asked;
    }
}

std::string asking(const std::string& line, const std::string& fields,
                   const std::string& body = "") {
    return line + " HTTP/1.1\r\n" + fields + "content-length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
}

http_reply reply_of(test_server& server, const std::string& bytes) {
    http_client client(server.port());
    return client.request(bytes);
}

// With the page's name resolved to this machine a browser takes its requests for the page's own:
// reads need no `origin`, and what changes something has one that equals `host`.
TEST(hosts, what_a_rebound_page_asks_is_421_in_each_dialect_and_done_by_nobody) {
    test_server server;
    server.ready().engine().on_submit = answer_with({"x"});
    const engine::agent_info ada{*storage::agent_id::parse("ada")};
    server.engine().remember(ada);
    const std::string page = "host: a.example:8001\r\norigin: http://a.example:8001\r\n";
    const std::string body = message_body(false);
    struct row {
        std::string bytes;
        const char* shape;
    };
    for (const row& one :
         {row{asking("POST /v1/messages", page, body), R"({"type":"error","error":{"type":"perm)"},
          row{asking("POST /v1/chat/completions", page, body), R"("param":"host")"},
          row{asking("DELETE /v1/agents/ada", page), R"({"error":{"type":"permission_error")"},
          row{asking("DELETE /admin/caches", "host: a.example\r\n"), "--cors-origins"},
          row{asking("GET /v1/agents", "host: a.example\r\n"), "--cors-origins"},
          row{asking("GET /v1/agents/ada/cache", "host: a.example\r\n"), "--api-key"},
          row{asking("OPTIONS /v1/messages", page), "--cors-origins"},
          row{asking("GET http://a.example/v1/agents", "host: localhost\r\n"), "a.example"}}) {
        http_reply refused = reply_of(server, one.bytes);
        EXPECT_EQ(refused.status, 421) << one.bytes;
        EXPECT_NE(refused.body.find(one.shape), std::string::npos) << refused.body;
    }
    EXPECT_EQ(server.engine().request_count(), 0u);
    EXPECT_EQ(reply_of(server, get("/v1/agents/ada")).status, 200);
}

TEST(hosts, a_name_of_cors_origins_is_answered_and_its_page_too) {
    app_options options = test_server::default_options();
    options.settings.cors_origins = {"https://a.example"};
    test_server server(std::move(options));
    server.ready().engine().on_submit = answer_with({"x"});
    auto status = [&](const std::string& fields) {
        return reply_of(server, asking("POST /v1/messages", fields, message_body(false))).status;
    };
    EXPECT_EQ(status("host: a.example\r\n"), 200);
    EXPECT_EQ(status("host: a.example\r\norigin: https://a.example\r\n"), 200);
    EXPECT_EQ(status("host: localhost\r\norigin: http://localhost\r\n"), 200) << "its own page";
    EXPECT_EQ(status("host: localhost\r\norigin: http://localhost:3000\r\n"), 403);
    EXPECT_EQ(status("host: b.example\r\n"), 421);
}

TEST(hosts, with_keys_every_name_is_answered) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"k1"};
    test_server server(std::move(options));
    server.ready().engine().on_submit = answer_with({"x"});
    auto status = [&](const std::string& fields) {
        return reply_of(server, asking("POST /v1/messages", fields, message_body(false))).status;
    };
    EXPECT_EQ(status("host: a.example\r\nx-api-key: k1\r\n"), 200);
    EXPECT_EQ(status("host: a.example\r\n"), 401);
}

// Any client that reaches such a server may use it, but a page in a browser there may not.
TEST(hosts, an_open_server_takes_no_foreign_name_for_its_own_page) {
    app_options options = test_server::default_options();
    options.settings.host = "0.0.0.0";
    test_server server(std::move(options));
    server.ready().engine().on_submit = answer_with({"x"});
    auto status = [&](const std::string& fields) {
        return reply_of(server, asking("POST /v1/messages", fields, message_body(false))).status;
    };
    EXPECT_EQ(status("host: semantic:8001\r\n"), 200);
    EXPECT_EQ(status("host: 10.0.0.1:8001\r\norigin: http://10.0.0.1:8001\r\n"), 200);
    EXPECT_EQ(status("host: a.example\r\norigin: http://a.example\r\n"), 403);
}

}  // namespace
}  // namespace semantic::server
