// Whole requests over real sockets: what a client of /v1/responses sees, and when.

#include <gtest/gtest.h>

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

TEST_F(response_api, a_previous_response_is_a_404_that_clients_know) {
    const http_reply reply = ask(response_body(false, R"(,"previous_response_id":"resp_x")"));
    EXPECT_EQ(reply.status, 404);
    EXPECT_NE(reply.body.find(R"("code":"previous_response_not_found")"), std::string::npos)
        << reply.body;
}

TEST_F(response_api, a_websocket_is_refused_with_426) {
    http_client client(server_.port());
    const http_reply reply = client.request(
        "GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\n"
        "upgrade: websocket\r\nsec-websocket-version: 13\r\n\r\n");
    EXPECT_EQ(reply.status, 426);
}

}  // namespace
}  // namespace semantic::server
