// SPDX-License-Identifier: Apache-2.0
// HTTP as strangers speak it: limits, halves, silence, and the order of things.

#include <gtest/gtest.h>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::answer_with;
using tests::get;
using tests::http_client;
using tests::http_reply;
using tests::post;

app_options small_limits() {
    app_options options = test_server::default_options();
    options.settings.body_limit_mb = 1;
    options.limits.header_bytes_max = 4096;
    return options;
}

constexpr std::size_t one_mib = 1 << 20;

TEST(session, body_one_byte_over_the_limit_is_413_from_every_endpoint) {
    test_server server(small_limits());
    server.ready();
    for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"}) {
        http_client over(server.port());
        http_reply refused = over.request(post(path, std::string(one_mib + 1, ' ')));
        EXPECT_EQ(refused.status, 413) << path;
        EXPECT_NE(refused.body.find("request_too_large"), std::string::npos) << refused.body;
        http_client exact(server.port());
        EXPECT_EQ(exact.request(post(path, std::string(one_mib, ' '))).status, 400) << path;
    }
    EXPECT_EQ(server.engine().request_count(), 0u);
}

TEST(session, chunked_body_over_the_limit_is_413) {
    test_server server(small_limits());
    server.ready();
    http_client client(server.port());
    client.send(
        "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n");
    std::string chunk = "40000\r\n" + std::string(0x40000, ' ') + "\r\n";
    for (int i = 0; i < 5; ++i) client.send(chunk);
    EXPECT_EQ(client.read_reply().status, 413);
}

TEST(session, chunked_upload_is_read) {
    test_server server;
    server.ready().engine().on_submit = answer_with({"x"});
    http_client client(server.port());
    std::string body = message_body(false);
    char size[16];
    std::snprintf(size, sizeof size, "%zx\r\n", body.size());
    client.send(
        "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n" +
        std::string(size) + body + "\r\n0\r\n\r\n");
    EXPECT_EQ(client.read_reply().status, 200);
}

TEST(session, header_over_the_limit_is_431) {
    test_server server(small_limits());
    server.ready();
    http_client client(server.port());
    EXPECT_EQ(client.request(get("/health/live", "x: " + std::string(5000, 'a') + "\r\n")).status,
              431);
    http_client below(server.port());
    EXPECT_EQ(below.request(get("/health/live", "x: " + std::string(3000, 'a') + "\r\n")).status,
              200);
}

TEST(session, what_is_not_http_is_400) {
    test_server server;
    server.ready();
    for (const char* bytes :
         {"hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n",
          "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n",
          "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n"
          "transfer-encoding: chunked\r\n\r\n",
          "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
          "zz\r\n"}) {
        http_client client(server.port());
        http_reply reply = client.request(bytes);
        EXPECT_EQ(reply.status, 400) << bytes;
        EXPECT_TRUE(reply.fields.contains("request-id"));
        EXPECT_TRUE(client.is_closed_by_server()) << bytes;
    }
}

TEST(session, unknown_route_and_wrong_method_speak_the_dialect) {
    test_server server;
    server.ready();
    http_client client(server.port());
    http_reply missing = client.request(get("/v1/messages/nowhere"));
    EXPECT_EQ(missing.status, 404);
    EXPECT_NE(missing.body.find(R"("type":"error")"), std::string::npos) << missing.body;
    http_reply wrong = client.request(get("/v1/messages"));
    EXPECT_EQ(wrong.status, 405);
    EXPECT_EQ(wrong.fields["allow"], "POST");
    EXPECT_EQ(client.request(get("/nowhere")).status, 404);
}

TEST(session, a_path_with_a_slash_too_much_is_told_which_was_meant) {
    test_server server;
    server.ready();
    http_reply reply = http_client(server.port()).request(post("/v1/messages/", "{}"));
    EXPECT_EQ(reply.status, 404);
    EXPECT_NE(reply.body.find(R"("type":"not_found_error")"), std::string::npos) << reply.body;
    EXPECT_NE(reply.body.find("without the slash at its end, /v1/messages is"), std::string::npos)
        << reply.body;
    reply = http_client(server.port()).request(get("/v1/nowhere/"));
    EXPECT_EQ(reply.body.find("slash"), std::string::npos) << reply.body;
}

TEST(session, keys_are_asked_for_when_configured) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"k1", "k2"};
    test_server server(std::move(options));
    server.ready().engine().on_submit = answer_with({"x"});
    auto status = [&](const char* fields) {
        http_client client(server.port());
        return client.request(post("/v1/messages", message_body(false), fields)).status;
    };
    EXPECT_EQ(status(""), 401);
    EXPECT_EQ(status("x-api-key: k3\r\n"), 401);
    EXPECT_EQ(status("x-api-key: k\r\n"), 401);
    EXPECT_EQ(status("authorization: Basic k1\r\n"), 401);
    EXPECT_EQ(status("x-api-key: k2\r\n"), 200);
    EXPECT_EQ(status("Authorization: Bearer k1\r\n"), 200);
    http_client probe(server.port());
    EXPECT_EQ(probe.request(get("/health")).status, 200);
}

TEST(session, a_missing_key_is_401_in_each_dialect) {
    app_options options = test_server::default_options();
    options.settings.file_keys = {{"k1", ""}};
    test_server server(std::move(options));
    server.ready();
    auto refused = [&](const char* path) {
        http_client client(server.port());
        http_reply reply = client.request(post(path, message_body(false), "x-api-key: no\r\n"));
        EXPECT_EQ(reply.status, 401) << path;
        return reply.body;
    };
    EXPECT_NE(refused("/v1/messages").find("authentication_error"), std::string::npos);
    EXPECT_NE(refused("/v1/messages/count_tokens").find("authentication_error"), std::string::npos);
    EXPECT_NE(refused("/v1/chat/completions").find("invalid_api_key"), std::string::npos);
    EXPECT_EQ(server.engine().request_count(), 0u);
}

TEST(session, each_key_is_a_tenant_and_keys_of_one_name_are_the_same) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"alone", "team"};
    options.settings.file_keys = {{"old", "team"}, {"new", "team"}, {"unnamed", ""}};
    test_server server(std::move(options));
    server.ready().engine().on_submit = answer_with({"x"});
    std::size_t asked = 0;
    auto tenant_of = [&](const std::string& key) {
        http_client client(server.port());
        std::string fields = "x-session-id: s\r\nx-api-key: " + key + "\r\n";
        EXPECT_EQ(client.request(post("/v1/messages", message_body(false), fields.c_str())).status,
                  200);
        return server.engine().request_of(server.engine().wait_for_request(++asked)).tenant;
    };
    auto alone = tenant_of("alone"), team = tenant_of("team"), older = tenant_of("old"),
         unnamed = tenant_of("unnamed");
    EXPECT_EQ(older, tenant_of("new"));
    EXPECT_NE(older, team) << "a key is not the name that it looks like";
    EXPECT_NE(alone, team);
    EXPECT_NE(alone, unnamed);
    for (const auto& each : {alone, team, older, unnamed}) EXPECT_FALSE(each.is_default());
}

TEST(session, without_keys_everybody_is_the_default_tenant) {
    test_server server;
    server.ready().engine().on_submit = answer_with({"x"});
    http_client client(server.port());
    auto asked = post("/v1/messages", message_body(false), "x-api-key: any\r\n");
    EXPECT_EQ(client.request(asked).status, 200);
    auto id = server.engine().wait_for_request(1);
    EXPECT_TRUE(server.engine().request_of(id).tenant.is_default());
}

TEST(session, expect_100_continue_is_answered_before_the_body) {
    test_server server(small_limits());
    server.ready().engine().on_submit = answer_with({"x"});
    http_client client(server.port());
    std::string body = message_body(false);
    std::string head =
        "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: ";
    client.send(head + std::to_string(body.size()) + "\r\n\r\n");
    EXPECT_EQ(client.read_head().status, 100);
    client.send(body);
    EXPECT_EQ(client.read_reply().status, 200);
    http_client large(server.port());
    large.send(head + std::to_string(one_mib + 1) + "\r\n\r\n");
    EXPECT_EQ(large.read_reply().status, 413);  // without having sent the body
}

TEST(session, unknown_codings_and_other_expectations_are_refused_clearly) {
    test_server server;
    server.ready();
    http_client zipped(server.port());
    EXPECT_EQ(zipped.request(post("/v1/messages", "x", "content-encoding: br\r\n")).status, 415);
    // In the dialect of the path, and the connection goes on: what follows is of known length.
    http_reply reply = http_client(server.port())
                           .request(post("/v1/chat/completions", "", "content-encoding: br\r\n"));
    EXPECT_EQ(reply.status, 415);
    EXPECT_EQ(reply.fields["accept-encoding"], "gzip, zstd, identity");
    EXPECT_NE(reply.body.find(R"("code":"unsupported_value")"), std::string::npos) << reply.body;
    // The end of a body in another transfer coding cannot be found.
    for (const char* coding : {"gzip, chunked", "gzip"}) {
        http_client coded(server.port());
        coded.send("POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: " +
                   std::string(coding) + "\r\n\r\n1\r\nx\r\n0\r\n\r\n");
        EXPECT_GE(coded.read_reply().status, 400) << coding;
        EXPECT_TRUE(coded.is_closed_by_server()) << coding;
    }
    http_client hopeful(server.port());
    EXPECT_EQ(hopeful.request(post("/v1/messages", "x", "expect: miracles\r\n")).status, 417);
}

// By hand and by each way out: nothing leaves without the id that the log has.
TEST(session, every_reply_has_a_request_id_under_both_names) {
    app_options options = small_limits();
    options.settings.api_keys = {"k1"};
    test_server server(std::move(options));
    server.ready().engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine.push(id, engine::failed{engine::failure_kind::overloaded, "full", {}});
    };
    const std::string key = "x-api-key: k1\r\n";
    const std::string id = "x-request-id: mine-1\r\n";
    const std::pair<int, std::string> cases[]{
        {204, "OPTIONS /v1/messages HTTP/1.1\r\nhost: localhost\r\n" + id + "\r\n"},
        {400, post("/v1/messages", "{", key + id)},
        {401, post("/v1/messages", "{}", id)},
        {404, get("/v1/messages/nowhere", id)},
        {405, get("/v1/messages", id)},
        {413, post("/v1/messages", std::string(one_mib + 1, ' '), key + id)},
        {415, post("/v1/messages", "x", key + id + "content-encoding: br\r\n")},
        {417, post("/v1/messages", "x", key + id + "expect: miracles\r\n")},
        {431, get("/health", id + "x: " + std::string(5000, 'a') + "\r\n")},
        {529, post("/v1/messages", message_body(true), key + id)},
        {503, post("/v1/chat/completions", message_body(false), key + id)},
    };
    for (const auto& [status, bytes] : cases) {
        http_client client(server.port());
        http_reply reply = client.request(bytes);
        EXPECT_EQ(reply.status, status);
        EXPECT_EQ(reply.fields["request-id"], "mine-1") << status;
        EXPECT_EQ(reply.fields["x-request-id"], "mine-1") << status;
        bool come_back = status == 529 || status == 503;
        EXPECT_EQ(reply.fields.contains("retry-after"), come_back) << status;
        EXPECT_EQ(reply.fields["x-should-retry"], come_back ? "true" : "") << status;
    }
}

TEST(session, every_reply_tells_browsers_not_to_guess_frame_or_run_it) {
    test_server server;
    server.ready().engine().on_submit = tests::answer_with({"x"});
    for (const std::string& asked :
         {tests::get("/health"), tests::get("/nowhere"), tests::post("/v1/messages", "{"),
          tests::post("/v1/messages", message_body(true)),
          tests::post("/v1/messages", message_body(false)), std::string("nonsense\r\n\r\n")}) {
        tests::http_client client(server.port());
        auto fields = client.request(asked).fields;
        EXPECT_EQ(fields["x-content-type-options"], "nosniff") << asked;
        EXPECT_EQ(fields["x-frame-options"], "DENY") << asked;
        EXPECT_EQ(fields["referrer-policy"], "no-referrer") << asked;
        EXPECT_EQ(fields["content-security-policy"], "default-src 'none'; frame-ancestors 'none'");
    }
    response page;
    page.fields.emplace_back("content-security-policy", "default-src 'self'");
    const std::string head = response_head(request{}, page, {}, true);
    EXPECT_EQ(head.find("default-src 'none'"), std::string::npos) << "the page's own counts";
}

TEST(session, target_with_a_host_in_front_finds_its_route) {
    test_server server;
    server.ready();
    http_client client(server.port());
    EXPECT_EQ(client.request(get("http://localhost:80/health/live?x")).status, 200);
    EXPECT_EQ(client.request(get("http://localhost")).status, 200);
    EXPECT_EQ(client.request(get("http://localhost/nowhere")).status, 404);
}

TEST(session, head_has_the_length_but_no_body) {
    test_server server;
    server.ready();
    http_client client(server.port());
    client.send("HEAD /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n");
    http_reply head = client.read_reply(false);
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.fields["content-length"], "18");
    EXPECT_EQ(client.request(get("/health/live")).body, R"({"status":"alive"})");
}

TEST(session, pipelined_requests_are_answered_in_order) {
    test_server server;
    server.ready().engine().on_submit = answer_with({"x"});
    http_client client(server.port());
    client.send(get("/health/live") + post("/v1/messages", message_body(false)) + get("/nowhere") +
                post("/v1/messages", message_body(true)) + get("/health/live"));
    for (int status : {200, 200, 404, 200, 200}) EXPECT_EQ(client.read_reply().status, status);
}

// Sent while the answer is being made, so the eye on the client reads it and must not lose it.
TEST(session, request_sent_during_an_answer_is_answered_after_it) {
    test_server server;
    server.ready();
    http_client client(server.port());
    client.send(post("/v1/messages", message_body(false)));
    engine::request_id id = server.engine().wait_for_request(1);
    client.send(get("/nowhere"));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server.engine().admit(id);
    server.engine().finish(id);
    EXPECT_EQ(client.read_reply().status, 200);
    EXPECT_EQ(client.read_reply().status, 404);
}

TEST(session, connection_close_is_honoured) {
    test_server server;
    server.ready();
    http_client client(server.port());
    http_reply reply = client.request(get("/health/live", "connection: close\r\n"));
    EXPECT_EQ(reply.fields["connection"], "close");
    EXPECT_TRUE(client.is_closed_by_server());
}

TEST(session, half_a_request_and_a_goodbye_leave_no_trace) {
    test_server server;
    server.ready();
    std::string whole = post("/v1/messages", message_body(true));
    for (std::size_t length : {std::size_t{1}, whole.size() / 2, whole.size() - 1}) {
        http_client client(server.port());
        client.send(whole.substr(0, length));
        client.close(length == 1);
    }
    http_client after(server.port());
    EXPECT_EQ(after.request(get("/health/live")).status, 200);
    EXPECT_EQ(server.engine().request_count(), 0u);
}

TEST(session, half_a_request_and_silence_is_408) {
    app_options options = test_server::default_options();
    options.limits.header = std::chrono::milliseconds(100);
    options.limits.body = std::chrono::milliseconds(100);
    test_server server(std::move(options));
    server.ready();
    std::string whole = post("/v1/messages", message_body(true));
    for (std::size_t length : {std::size_t{10}, whole.size() - 1}) {
        http_client client(server.port());
        client.send(whole.substr(0, length));
        EXPECT_EQ(client.read_reply().status, 408) << length;
        EXPECT_TRUE(client.is_closed_by_server());
    }
}

TEST(session, idle_connection_is_closed) {
    app_options options = test_server::default_options();
    options.limits.idle = std::chrono::milliseconds(100);
    test_server server(std::move(options));
    server.ready();
    http_client client(server.port());
    EXPECT_EQ(client.request(get("/health/live")).status, 200);
    EXPECT_TRUE(client.is_closed_by_server());
}

TEST(session, connections_beyond_the_limit_wait_until_one_leaves) {
    app_options options = test_server::default_options();
    options.settings.max_connections = 2;
    test_server server(std::move(options));
    server.ready();
    auto first = std::make_unique<http_client>(server.port());
    http_client second(server.port());
    EXPECT_EQ(first->request(get("/health/live")).status, 200);
    EXPECT_EQ(second.request(get("/health/live")).status, 200);
    http_client third(server.port());
    third.send(get("/health/live"));
    EXPECT_FALSE(third.has_input(150));
    first.reset();
    EXPECT_EQ(third.read_reply().status, 200);
}

TEST(session, request_deadline_reaches_the_engine) {
    app_options options = test_server::default_options();
    options.settings.request_timeout = std::chrono::seconds(7);
    test_server server(std::move(options));
    server.ready().engine().on_submit = answer_with({});
    http_client client(server.port());
    auto before = std::chrono::steady_clock::now();
    client.request(post("/v1/messages", message_body(false)));
    auto left = *server.engine().request_of(1).deadline - before;
    EXPECT_GE(left, std::chrono::seconds(7));
    EXPECT_LT(left, std::chrono::seconds(9));
}

TEST(session, models_are_listed_in_a_shape_for_both_vendors) {
    test_server server;
    server.ready();
    http_client client(server.port());
    http_reply list = client.request(get("/v1/models?limit=1000"));
    EXPECT_EQ(list.status, 200);
    EXPECT_NE(list.body.find(R"("id":"scripted")"), std::string::npos) << list.body;
    EXPECT_EQ(client.request(get("/v1/models/scripted")).status, 200);
    EXPECT_EQ(client.request(get("/v1/models/other")).status, 404);
    EXPECT_EQ(client.request(get("/v1/models?limit=x")).status, 400);
}

}  // namespace
}  // namespace semantic::server
