// SPDX-License-Identifier: Apache-2.0
// What a client sees of its key's limits, over a socket.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include "server/http/middleware.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::get;
using tests::http_client;
using tests::http_reply;
using tests::post;

app_options with_keys(std::uint64_t requests, std::uint64_t tokens, std::uint64_t at_once) {
    app_options options = test_server::default_options();
    options.settings.file_keys = {{"k1", "one"}, {"k2", "two"}};
    options.settings.admin_key = "boss";
    options.settings.requests_per_minute = requests;
    options.settings.tokens_per_minute = tokens;
    options.settings.concurrent_requests = at_once;
    return options;
}

/// On a connection of its own: one whose body is refused is closed.
http_reply ask(const test_server& server, const std::string& key, const std::string& path,
               const std::string& body = message_body(false)) {
    http_client client(server.port());
    return client.request(post(path, body, "x-api-key: " + key + "\r\n"));
}

TEST(limits_of_key, the_request_beyond_is_429_in_each_dialect_with_what_its_sdk_reads) {
    test_server server(with_keys(1, 0, 0));
    server.ready().engine().on_submit = tests::answer_with({"x"});
    http_client client(server.port());
    http_reply reply = ask(server, "k1", "/v1/messages");
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.fields["anthropic-ratelimit-requests-limit"], "1");
    EXPECT_EQ(reply.fields["anthropic-ratelimit-requests-remaining"], "0");
    EXPECT_EQ(reply.fields["anthropic-ratelimit-requests-reset"].size(), 20u) << "RFC 3339";

    reply = ask(server, "k1", "/v1/messages");
    EXPECT_EQ(reply.status, 429);
    EXPECT_EQ(reply.fields["x-should-retry"], "true");
    const int wait = std::stoi(reply.fields["retry-after"]);
    EXPECT_TRUE(wait > 50 && wait <= 60) << wait;
    EXPECT_NE(reply.body.find(R"("type":"rate_limit_error")"), std::string::npos) << reply.body;
    EXPECT_NE(reply.body.find("this key may have 1 requests a minute"), std::string::npos);

    reply = ask(server, "k1", "/v1/chat/completions");
    EXPECT_EQ(reply.status, 429);
    EXPECT_EQ(reply.fields["x-ratelimit-limit-requests"], "1");
    EXPECT_EQ(reply.fields["x-ratelimit-remaining-requests"], "0");
    EXPECT_FALSE(reply.fields["x-ratelimit-reset-requests"].empty());
    EXPECT_NE(reply.body.find(R"("code":"rate_limit_exceeded")"), std::string::npos) << reply.body;

    EXPECT_EQ(ask(server, "k2", "/v1/messages").status, 200) << "another key has its own";
    EXPECT_EQ(client.request(get("/v1/models", "x-api-key: k1\r\n")).status, 200)
        << "what does not make the model work is not counted";
}

TEST(limits_of_key, what_writes_or_counts_is_a_request_too) {
    for (const char* path : {"/v1/messages/count_tokens", "/v1/conversations",
                             "/v1/conversations/conv_1", "/v1/conversations/conv_1/items"}) {
        test_server server(with_keys(1, 0, 0));
        server.ready().engine().on_submit = tests::answer_with({"x"});
        EXPECT_NE(ask(server, "k1", path).status, 429) << path;
        EXPECT_EQ(ask(server, "k1", path).status, 429) << path;
    }
}

TEST(limits_of_key, tokens_that_were_computed_are_paid_for) {
    test_server server(with_keys(0, 20, 0));
    server.ready().engine().on_submit = tests::answer_with(std::vector<std::string>(30, "x"));
    http_client client(server.port());
    http_reply reply = ask(server, "k1", "/v1/messages");
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.fields["anthropic-ratelimit-tokens-limit"], "20");
    reply = ask(server, "k1", "/v1/messages");
    EXPECT_EQ(reply.status, 429);
    EXPECT_NE(reply.body.find("20 computed tokens a minute"), std::string::npos) << reply.body;
    EXPECT_EQ(reply.fields["anthropic-ratelimit-tokens-remaining"], "0");
}

TEST(limits_of_key, one_more_at_once_is_refused_until_one_ends) {
    test_server server(with_keys(0, 0, 1));
    server.ready();
    http_client first(server.port());
    first.send(post("/v1/messages", message_body(false), "x-api-key: k1\r\n"));
    server.engine().wait_for_request(1);
    http_reply reply = ask(server, "k1", "/v1/messages");
    EXPECT_EQ(reply.status, 429);
    EXPECT_EQ(reply.fields["retry-after"], "1");
    EXPECT_NE(reply.body.find("1 requests at once"), std::string::npos) << reply.body;
    first.close(true);  // it leaves, and its place is free
    server.engine().on_submit = tests::answer_with({"x"});
    int status = 429;
    for (int i = 0; i < 200 && status == 429; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        status = ask(server, "k1", "/v1/messages").status;
    }
    EXPECT_EQ(status, 200);
    for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(ask(server, "k1", "/v1/messages", message_body(i % 2 == 0)).status, 200)
            << "whoever has the whole answer may ask again at once";
    }
}

TEST(limits_of_key, a_request_that_is_refused_for_another_reason_first_costs_nothing) {
    test_server server(with_keys(1, 0, 0));
    server.ready().engine().on_submit = tests::answer_with({"x"});
    http_client client(server.port());
    EXPECT_EQ(ask(server, "wrong", "/v1/messages").status, 401);
    EXPECT_EQ(client.request(get("/v1/messages", "x-api-key: k1\r\n")).status, 405);
    EXPECT_EQ(ask(server, "k1", "/v1/messages").status, 200);
}

TEST(limits_of_key, a_key_reads_its_own_usage_and_the_admin_that_of_all) {
    test_server server(with_keys(5, 0, 0));
    server.ready().engine().on_submit = tests::answer_with({"x", "y", "z"});
    http_client client(server.port());
    ask(server, "k1", "/v1/messages");
    const auto own =
        boost::json::parse(client.request(get("/v1/usage", "x-api-key: k1\r\n")).body).as_object();
    EXPECT_EQ(own.at("name"), "one");
    EXPECT_EQ(own.at("requests"), 1);
    EXPECT_EQ(own.at("tokens").at("output"), 3);
    EXPECT_EQ(own.at("running"), 0);
    EXPECT_EQ(own.at("limits").at("requests_per_minute").at("remaining"), 4);
    EXPECT_TRUE(own.at("limits").at("tokens_per_minute").is_null());
    EXPECT_EQ(client.request(get("/admin/usage", "x-api-key: k1\r\n")).status, 401);
    const auto all =
        boost::json::parse(client.request(get("/admin/usage", "x-admin-key: boss\r\n")).body);
    ASSERT_EQ(all.at("data").as_array().size(), 2u);
    EXPECT_EQ(all.at("data").at(1).at("name"), "two");
    EXPECT_EQ(all.at("data").at(1).at("requests"), 0);
    const std::string metrics = client.request(get("/metrics")).body;
    EXPECT_NE(metrics.find("semantic_key_requests_total{key=\"one\"} 1\n"), std::string::npos);
    EXPECT_NE(metrics.find("semantic_key_tokens_total{key=\"one\",kind=\"output\"} 3\n"),
              std::string::npos);
    EXPECT_EQ(metrics.find("k1"), std::string::npos) << "a key is no label";
}

TEST(limits_of_key, metrics_are_for_whom_the_operator_says) {
    const auto statuses = [](metrics_readers readers) {
        app_options options = with_keys(0, 0, 0);
        options.settings.metrics_for = readers;
        test_server server(std::move(options));
        server.ready();
        http_client client(server.port());
        std::vector<int> all;
        for (const char* fields : {"", "x-admin-key: boss\r\n", "x-admin-key: bos\r\n"})
            all.push_back(client.request(get("/metrics", fields)).status);
        return all;
    };
    EXPECT_EQ(statuses(metrics_readers::local), (std::vector<int>{200, 200, 200}));
    EXPECT_EQ(statuses(metrics_readers::admin), (std::vector<int>{403, 200, 403}));
    EXPECT_EQ(statuses(metrics_readers::all), (std::vector<int>{200, 200, 200}));
    // A client of another machine, as the session reports it to the middleware.
    config settings;
    request far;
    EXPECT_EQ(refuse_reader(settings, far)->status, 403);
    far.fields = {{"x-admin-key", ""}};
    EXPECT_EQ(refuse_reader(settings, far)->status, 403) << "no admin-key is set: none fits";
    far.is_local = true;
    EXPECT_EQ(refuse_reader(settings, far)->status, 403) << "it does not ask for this machine";
    far.fields = {{"host", "localhost:8001"}};
    EXPECT_FALSE(refuse_reader(settings, far));
    far.fields.emplace_back("x-forwarded-for", "203.0.113.1");
    EXPECT_EQ(refuse_reader(settings, far)->status, 403) << "a proxy asks for somebody else";
}

TEST(limits_of_key, one_keys_requests_never_have_the_whole_queue) {
    app_options options = with_keys(0, 0, 0);
    options.settings.max_batch = 3;
    options.settings.max_queued = 5;
    test_server server(std::move(options));
    server.ready();
    const auto text = [](const std::string& key) {
        return post("/v1/messages", message_body(false), "x-api-key: " + key + "\r\n");
    };
    std::vector<std::unique_ptr<http_client>> greedy;
    for (int i = 0; i < 6; ++i) {
        greedy.push_back(std::make_unique<http_client>(server.port()));
        greedy.back()->send(text("k1"));
    }
    ASSERT_GT(server.engine().wait_for_request(6), 0u);
    const http_reply refused = ask(server, "k1", "/v1/messages");
    EXPECT_EQ(refused.status, 529);
    EXPECT_NE(refused.body.find("as many requests"), std::string::npos) << refused.body;
    EXPECT_EQ(ask(server, "k1", "/v1/chat/completions").status, 503);
    server.engine().on_submit = tests::answer_with({"x"});
    EXPECT_EQ(ask(server, "k2", "/v1/messages").status, 200);
    server.engine().admit(server.engine().wait_for_request(1));
    server.engine().finish(server.engine().wait_for_request(1));
    EXPECT_EQ(greedy.front()->read_reply().status, 200);
    EXPECT_EQ(ask(server, "k1", "/v1/messages").status, 200);
}

TEST(limits_of_key, the_key_file_and_the_log_level_are_read_again_and_faults_change_nothing) {
    app_options options = with_keys(0, 0, 0);
    config fresh;
    std::string fault;
    options.read_again = [&] {
        if (!fault.empty()) throw config_error(fault);
        return fresh;
    };
    test_server server(std::move(options));
    server.ready();
    http_client client(server.port());
    const auto status = [&](const std::string& key) {
        return client.request(get("/v1/models", "x-api-key: " + key + "\r\n")).status;
    };
    EXPECT_EQ(status("k1"), 200);
    fresh.file_keys = {{"k9", "one"}};
    server.reload();
    EXPECT_EQ(status("k1"), 401);
    EXPECT_EQ(status("k9"), 200);
    fault = "the file is broken";
    server.reload();
    EXPECT_EQ(status("k9"), 200);
    fault.clear();
    fresh.file_keys = live_keys();
    server.reload();
    EXPECT_EQ(status("k9"), 200) << "keys cannot be turned off while others rely on them";
}

}  // namespace
}  // namespace semantic::server
