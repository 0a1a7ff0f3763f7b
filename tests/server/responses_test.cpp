// SPDX-License-Identifier: Apache-2.0
// Whole requests over real sockets: what a client of /v1/responses sees, and when.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::answer_with;
using tests::http_client;
using tests::http_reply;
using tests::post;

/// A request that the parser takes. `more` begins with a comma or is empty.
std::string response_body(bool stream, const std::string& more = "") {
    return R"({"model":"scripted","stream":)" + std::string(stream ? "true" : "false") +
           R"(,"input":"hi")" + more + "}";
}

class response_api : public ::testing::Test {
  protected:
    response_api() { server_.ready(); }

    http_reply ask(const std::string& body, const std::string& fields = "") {
        http_client client(server_.port());
        return client.request(post("/v1/responses", body, fields));
    }
    /// Starts a stream and reads its head and its first events.
    engine::request_id open_stream(http_client& client) {
        client.send(post("/v1/responses", response_body(true)));
        engine::request_id id = server_.engine().wait_for_request(1);
        server_.engine().admit(id);
        EXPECT_EQ(client.read_head().status, 200);
        EXPECT_TRUE(client.read_chunk().starts_with("event: response.created\n"));
        return id;
    }

    test_server server_;
};

TEST_F(response_api, plain_answer_has_text_usage_and_an_id) {
    server_.engine().on_submit = answer_with({"Hel", "lo"});
    const http_reply reply = ask(response_body(false));
    EXPECT_EQ(reply.status, 200);
    EXPECT_NE(reply.body.find(R"({"id":"resp_)"), std::string::npos) << reply.body;
    EXPECT_NE(reply.body.find(R"("type":"output_text","text":"Hello")"), std::string::npos)
        << reply.body;
    EXPECT_NE(reply.body.find(R"("cached_tokens":4)"), std::string::npos) << reply.body;
}

TEST_F(response_api, each_token_arrives_before_the_next_is_made) {
    http_client client(server_.port());
    const engine::request_id id = open_stream(client);
    for (int i = 0; i < 20; ++i) {
        const std::string word = std::to_string(i).append("w");
        server_.engine().say(id, word);
        EXPECT_NE(client.read_chunk().find(R"("delta":")" + word), std::string::npos);
    }
    server_.engine().finish(id, 20);
    EXPECT_NE(client.read_chunk().find("event: response.completed"), std::string::npos);
    EXPECT_EQ(client.read_chunk(), "");
}

TEST_F(response_api, disconnect_cancels_the_request) {
    http_client client(server_.port());
    const engine::request_id id = open_stream(client);
    client.close();
    EXPECT_TRUE(server_.engine().wait_for_cancel(id));
}

TEST_F(response_api, failure_in_mid_stream_is_a_failed_response) {
    http_client client(server_.port());
    const engine::request_id id = open_stream(client);
    server_.engine().push(id, engine::failed{engine::failure_kind::internal, "out of luck"});
    const std::string last = client.read_chunk();
    EXPECT_TRUE(last.starts_with("event: response.failed\n")) << last;
    EXPECT_NE(last.find(R"("message":"out of luck")"), std::string::npos) << last;
    EXPECT_EQ(client.read_chunk(), "");
}

TEST_F(response_api, refusal_before_the_first_event_keeps_its_status) {
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine.push(id, engine::failed{engine::failure_kind::too_large, "needs 9, there are 4"});
    };
    for (bool stream : {false, true}) {
        const http_reply reply = ask(response_body(stream));
        EXPECT_EQ(reply.status, 400);
        EXPECT_NE(reply.body.find(R"("code":"context_length_exceeded")"), std::string::npos)
            << reply.body;
    }
}

std::string id_in(const std::string& body) {
    const std::size_t at = body.find("resp_");
    return at == std::string::npos ? "" : body.substr(at, 29);
}

http_reply send(test_server& server, const std::string& method, const std::string& path,
                const std::string& fields = "") {
    http_client client(server.port());
    const std::string body = method == "POST" ? "content-length: 2\r\n" : "";
    return client.request(method + " /v1/responses/" + path + " HTTP/1.1\r\nhost: 127.0.0.1\r\n" +
                          fields + body + "\r\n" + (method == "POST" ? "{}" : ""));
}

TEST_F(response_api, a_response_that_is_not_kept_is_a_404_that_clients_know) {
    const http_reply reply = ask(response_body(false, R"(,"previous_response_id":"resp_x")"));
    EXPECT_EQ(reply.status, 404);
    EXPECT_NE(reply.body.find(R"("code":"previous_response_not_found")"), std::string::npos)
        << reply.body;
    for (const char* method : {"GET", "DELETE"})
        EXPECT_EQ(send(server_, method, "resp_x").status, 404) << method;
    EXPECT_EQ(send(server_, "GET", "resp_x/input_items").status, 404);
    EXPECT_EQ(send(server_, "POST", "resp_x/cancel").status, 404);
}

TEST_F(response_api, a_turn_that_says_only_what_is_new_is_the_whole_conversations_turn) {
    server_.engine().on_submit = answer_with({"Hello"});
    std::size_t asked = 0;
    for (const bool stream : {false, true}) {
        const std::string first = id_in(ask(response_body(stream)).body);
        server_.engine().wait_for_request(++asked);
        const std::string more =
            R"(,"instructions":"Be brief.","previous_response_id":")" + first + R"(")";
        const http_reply reply = ask(response_body(stream, more));
        EXPECT_EQ(reply.status, 200) << reply.body;
        EXPECT_NE(reply.body.find(R"("previous_response_id":")" + first + '"'), std::string::npos);
        const auto request =
            server_.engine().request_of(server_.engine().wait_for_request(++asked));
        EXPECT_EQ(request.chat.system, "Be brief.");
        ASSERT_EQ(request.chat.messages.size(), 3u);
        EXPECT_EQ(std::get<engine::text_part>(request.chat.messages[1].parts[0]).text, "Hello");
        EXPECT_EQ(request.chat.messages[1].from, engine::role::assistant);
        // Once more from the first: a fork.
        EXPECT_EQ(ask(response_body(stream, more)).status, 200);
        EXPECT_EQ(server_.engine()
                      .request_of(server_.engine().wait_for_request(++asked))
                      .chat.messages.size(),
                  3u);
    }
}

TEST_F(response_api, is_on_disk_before_its_last_event_goes_out) {
    std::atomic<bool> may_write{false};
    std::promise<void> writes;
    server_.engine().on_keep_record =
        [&](const storage::kept_record& record) -> storage::result<void> {
        EXPECT_TRUE(record.name.starts_with("response:resp_")) << record.name;
        writes.set_value();
        while (!may_write) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return {};
    };
    http_client client(server_.port());
    const engine::request_id id = open_stream(client);
    server_.engine().say(id, "Hi");
    EXPECT_NE(client.read_chunk().find("output_text.delta"), std::string::npos);
    server_.engine().finish(id, 1);
    writes.get_future().wait();
    may_write = true;
    const std::string last = client.read_chunk();
    EXPECT_NE(last.find("event: response.completed"), std::string::npos) << last;
    EXPECT_EQ(server_.engine().kept.size(), 1u);
}

TEST_F(response_api, one_is_read_listed_and_deleted_by_its_id) {
    server_.engine().on_submit = answer_with({"Hello"});
    const http_reply made = ask(response_body(false));
    const std::string id = id_in(made.body);
    EXPECT_EQ(send(server_, "GET", id).body, made.body);
    EXPECT_EQ(send(server_, "GET", id + "?stream=true").status, 400);
    const http_reply items = send(server_, "GET", id + "/input_items?order=asc&limit=1");
    EXPECT_NE(items.body.find(R"("content":[{"type":"input_text","text":"hi"}])"),
              std::string::npos)
        << items.body;
    EXPECT_EQ(send(server_, "GET", id + "/input_items?limit=101").status, 400);
    const http_reply cancelled = send(server_, "POST", id + "/cancel");
    EXPECT_EQ(cancelled.status, 400);
    EXPECT_NE(cancelled.body.find("Only responses created with background=true"), std::string::npos)
        << cancelled.body;
    EXPECT_EQ(send(server_, "DELETE", id).body,
              R"({"id":")" + id + R"(","object":"response","deleted":true})");
    EXPECT_EQ(send(server_, "DELETE", id).status, 404);
    EXPECT_EQ(send(server_, "GET", id).status, 404);
    EXPECT_TRUE(server_.engine().kept.empty());
}

TEST_F(response_api, nothing_is_kept_of_one_that_is_not_to_be_stored_or_that_fails) {
    server_.engine().on_submit = answer_with({"Hello"});
    EXPECT_EQ(
        send(server_, "GET", id_in(ask(response_body(false, R"(,"store":false)")).body)).status,
        404);
    server_.engine().on_submit = nullptr;
    http_client client(server_.port());
    client.send(post("/v1/responses", response_body(true)));
    const engine::request_id id = server_.engine().wait_for_request(2);
    server_.engine().admit(id);
    client.read_head();
    const std::string begun = client.read_chunk();
    server_.engine().push(id, engine::failed{engine::failure_kind::internal, "out of luck"});
    EXPECT_TRUE(client.read_chunk().starts_with("event: response.failed\n"));
    EXPECT_EQ(send(server_, "GET", id_in(begun)).status, 404);
    EXPECT_TRUE(server_.engine().kept.empty());
}

TEST(response_api_tenants, another_keys_responses_are_none) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"one", "two"};
    test_server server(std::move(options));
    server.ready();
    server.engine().on_submit = answer_with({"Hello"});
    const auto ask = [&](const std::string& key, const std::string& body) {
        http_client client(server.port());
        return client.request(post("/v1/responses", body, "authorization: Bearer " + key + "\r\n"));
    };
    const std::string id = id_in(ask("one", response_body(false)).body);
    const std::string more = response_body(false, R"(,"previous_response_id":")" + id + R"(")");
    for (const char* method : {"GET", "DELETE"})
        EXPECT_EQ(send(server, method, id, "authorization: Bearer two\r\n").status, 404);
    EXPECT_EQ(ask("two", more).status, 404);
    EXPECT_EQ(send(server, "GET", id, "authorization: Bearer one\r\n").status, 200);
    EXPECT_EQ(ask("one", more).status, 200);
}

}  // namespace
}  // namespace semantic::server
