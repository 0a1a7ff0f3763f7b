// /v1/conversations over real sockets.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

namespace json = boost::json;
using tests::answer_with;
using tests::http_client;
using tests::http_reply;
using tests::post;

class conversation_api : public ::testing::Test {
  protected:
    conversation_api() { server_.ready().engine().on_submit = answer_with({"Hello"}); }

    http_reply send_to(const std::string& path, const std::string& body) {
        http_client client(server_.port());
        return client.request(post(path, body));
    }
    http_reply send(const std::string& method, const std::string& path) {
        http_client client(server_.port());
        return client.request(method + " " + path + " HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    }
    std::string make(const std::string& body = "{}") {
        const http_reply reply = send_to("/v1/conversations", body);
        EXPECT_EQ(reply.status, 200) << reply.body;
        return std::string(json::parse(reply.body).at("id").as_string());
    }
    std::size_t items_in(const std::string& id) {
        const http_reply reply = send("GET", "/v1/conversations/" + id + "/items");
        EXPECT_EQ(reply.status, 200) << reply.body;
        return json::parse(reply.body).at("data").as_array().size();
    }
    http_reply ask(const std::string& id, bool stream = false) {
        return send_to("/v1/responses", R"({"model":"scripted","input":"hi","stream":)" +
                                            std::string(stream ? "true" : "false") +
                                            R"(,"conversation":")" + id + R"("})");
    }

    test_server server_;
};

TEST_F(conversation_api, a_response_is_asked_with_its_items_and_adds_its_own) {
    const std::string id = make(R"({"items":[{"role":"user","content":"Before."}]})");
    std::size_t asked = 0;
    std::size_t messages = 2;
    for (const bool stream : {false, true}) {
        const http_reply reply = ask(id, stream);
        EXPECT_EQ(reply.status, 200) << reply.body;
        EXPECT_NE(reply.body.find(R"("conversation":{"id":")" + id), std::string::npos);
        const auto wanted = server_.engine().request_of(server_.engine().wait_for_request(++asked));
        EXPECT_EQ(wanted.chat.messages.size(), messages);
        messages += 2;
    }
    EXPECT_EQ(items_in(id), 5u);
    EXPECT_TRUE(server_.engine().kept.contains({{}, "conversation:" + id})) << "and is on disk";
}

TEST_F(conversation_api, is_read_changed_and_deleted_and_then_none) {
    const std::string id = make(R"({"metadata":{"a":"b"}})");
    const std::string path = "/v1/conversations/" + id;
    EXPECT_EQ(json::parse(send("GET", path).body).at("metadata").at("a"), "b");
    EXPECT_EQ(json::parse(send_to(path, R"({"metadata":{"c":"d"}})").body).at("metadata").at("c"),
              "d");
    EXPECT_EQ(json::parse(send("DELETE", path).body).at("object"), "conversation.deleted");
    EXPECT_EQ(send("GET", path).status, 404);
    EXPECT_EQ(send("DELETE", path).status, 404);
    EXPECT_EQ(send("GET", path + "/items").status, 404);
    EXPECT_EQ(send_to(path, R"({"metadata":{}})").status, 404);
    EXPECT_EQ(send_to(path + "/items", R"({"items":[]})").status, 404);
    const http_reply lost = ask(id);
    EXPECT_EQ(lost.status, 404);
    EXPECT_NE(lost.body.find("conversation_not_found"), std::string::npos) << lost.body;
    EXPECT_TRUE(server_.engine().kept.empty());
}

TEST_F(conversation_api, items_are_added_read_and_removed) {
    const std::string id = make();
    const std::string path = "/v1/conversations/" + id + "/items";
    const http_reply added = send_to(path, R"({"items":[{"role":"user","content":"One"}]})");
    EXPECT_EQ(added.status, 200) << added.body;
    const std::string item(json::parse(added.body).at("first_id").as_string());
    EXPECT_EQ(json::parse(send("GET", path + "/" + item).body).at("role"), "user");
    EXPECT_EQ(send("GET", path + "/msg_none").status, 404);
    EXPECT_EQ(send("GET", "/v1/conversations/conv_none/items/" + item).status, 404);
    EXPECT_EQ(json::parse(send("DELETE", path + "/" + item).body).at("id"), json::value(id));
    EXPECT_EQ(send("DELETE", path + "/" + item).status, 404);
    EXPECT_EQ(items_in(id), 0u);
}

TEST_F(conversation_api, is_one_requests_at_a_time) {
    server_.engine().on_submit = nullptr;
    const std::string id = make();
    http_client first(server_.port());
    first.send(post("/v1/responses",
                    R"({"model":"scripted","input":"hi","conversation":")" + id + R"("})"));
    const engine::request_id asked = server_.engine().wait_for_request(1);
    const http_reply second = ask(id);
    EXPECT_EQ(second.status, 409);
    EXPECT_NE(second.body.find("conversation_locked"), std::string::npos) << second.body;
    server_.engine().admit(asked);
    server_.engine().say(asked, "x");
    server_.engine().finish(asked, 1);
    EXPECT_EQ(first.read_reply().status, 200);
    EXPECT_EQ(items_in(id), 2u);
}

TEST_F(conversation_api, goes_with_no_previous_response) {
    const std::string id = make();
    const std::string first(json::parse(ask(id).body).at("id").as_string());
    const http_reply both =
        send_to("/v1/responses", R"({"model":"scripted","input":"hi","conversation":")" + id +
                                     R"(","previous_response_id":")" + first + R"("})");
    EXPECT_EQ(both.status, 400) << both.body;
}

TEST_F(conversation_api, a_response_that_is_not_stored_does_not_say_that_it_is) {
    server_.engine().on_keep_record = [](const storage::kept_record&) -> storage::result<void> {
        return storage::failure{storage::errc::out_of_space, "full"};
    };
    for (const bool stream : {false, true}) {
        const http_reply reply =
            send_to("/v1/responses", R"({"model":"scripted","input":"hi","stream":)" +
                                         std::string(stream ? "true" : "false") + "}");
        EXPECT_EQ(reply.status, 200);
        EXPECT_TRUE(reply.body.rfind(R"("store":false)") != std::string::npos) << reply.body;
    }
}

TEST_F(conversation_api, a_conversation_is_summed_up_on_a_branch) {
    const http_reply reply =
        send_to("/v1/responses/compact",
                R"({"model":"scripted","input":[{"role":"user","content":"Hi"}]})");
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(json::parse(reply.body).at("output").at(1).at("type"), "compaction");
    const auto wanted = server_.engine().request_of(server_.engine().wait_for_request(1));
    EXPECT_FALSE(wanted.agent);
    EXPECT_EQ(wanted.chat.messages.size(), 2u);
}

TEST_F(conversation_api, embeddings_are_refused_in_words) {
    const http_reply reply = send_to("/v1/embeddings", R"({"model":"scripted","input":"hi"})");
    EXPECT_EQ(reply.status, 400);
    EXPECT_NE(reply.body.find("no embedding model"), std::string::npos) << reply.body;
    EXPECT_NE(reply.body.find("invalid_request_error"), std::string::npos) << reply.body;
    for (const char* path : {"/api/embed", "/api/embeddings"})
        EXPECT_NE(send_to(path, "{}").body.find("no embedding model"), std::string::npos);
}

}  // namespace
}  // namespace semantic::server
