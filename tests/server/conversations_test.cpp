// SPDX-License-Identifier: Apache-2.0
// /v1/conversations over real sockets.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <deque>

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

TEST_F(conversation_api, whatever_its_items_are_it_goes_on) {
    const std::string id =
        make(R"({"items":[{"role":"user","content":[{"type":"input_image","image_url":"data:x"}]},)"
             R"({"type":"function_call","call_id":"c","name":"f","arguments":"{\"n\": 1e400, "},)"
             R"({"type":"function_call_output","call_id":"c","output":"cut"},)"
             R"({"type":"mcp_list_tools","tools":[],"n":12345678901234567890123}]})");
    const http_reply reply = ask(id);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_NE(reply.body.find(R"("left_out":["mcp_list_tools"])"), std::string::npos) << reply.body;
    const auto wanted = server_.engine().request_of(server_.engine().wait_for_request(1));
    EXPECT_EQ(wanted.chat.messages.size(), 4u);
    const http_reply items = send("GET", "/v1/conversations/" + id + "/items");
    EXPECT_NE(items.body.find(R"("n":12345678901234567890123)"), std::string::npos) << items.body;
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

TEST_F(conversation_api, one_that_is_deleted_while_it_is_added_to_does_not_come_back) {
    server_.engine().on_submit = nullptr;
    const std::string id = make();
    http_client asking(server_.port());
    asking.send(post("/v1/responses",
                     R"({"model":"scripted","input":"hi","conversation":")" + id + R"("})"));
    const engine::request_id asked = server_.engine().wait_for_request(1);
    EXPECT_EQ(send("DELETE", "/v1/conversations/" + id).status, 200);
    server_.engine().admit(asked);
    server_.engine().say(asked, "x");
    server_.engine().finish(asked, 1);
    EXPECT_EQ(asking.read_reply().status, 200);
    EXPECT_EQ(send("GET", "/v1/conversations/" + id).status, 404);
    EXPECT_FALSE(server_.engine().kept.contains({{}, "conversation:" + id}));
}

// Goal: whatever the last answer ended with, the conversation goes on.
TEST_F(conversation_api, goes_on_behind_an_answer_that_its_limit_cut_in_a_call) {
    const std::string tools =
        R"(,"tools":[{"type":"function","name":"look","parameters":{"type":"object"}}])";
    const std::string cut = "Well.<tool_call>\n{\"name\": \"look\", \"arguments\": {\"a";
    for (const bool stream : {false, true}) {
        const std::string id = make();
        server_.engine().on_submit = [&](tests::scripted_engine& engine, engine::request_id asked) {
            engine.admit(asked);
            engine.say(asked, cut);
            engine.push(asked, engine::finished{engine::stop_reason::max_tokens, "", 9, true});
        };
        const std::string body = R"({"model":"scripted","input":"hi","stream":)" +
                                 std::string(stream ? "true" : "false") + R"(,"conversation":")" +
                                 id + '"' + tools + "}";
        const http_reply half = send_to("/v1/responses", body);
        EXPECT_EQ(half.status, 200) << half.body;
        EXPECT_NE(half.body.find("incomplete"), std::string::npos) << half.body;
        server_.engine().on_submit = answer_with({"Hello"});
        const http_reply next = ask(id);
        EXPECT_EQ(next.status, 200) << next.body;
        EXPECT_EQ(items_in(id), 5u) << "the half call is one of them";
    }
}

TEST_F(conversation_api, stays_whole_when_what_it_refers_to_is_deleted) {
    const http_reply first =
        send_to("/v1/responses", R"({"model":"scripted","input":[{"role":"user","id":"msg_a",)"
                                 R"("content":"Before."}]})");
    const std::string other(json::parse(first.body).at("id").as_string());
    const std::string id = make();
    const http_reply added =
        send_to("/v1/responses", R"({"model":"scripted","input":[{"type":"item_reference",)"
                                 R"("id":"msg_a"}],"conversation":")" +
                                     id + R"("})");
    EXPECT_EQ(added.status, 200) << added.body;
    EXPECT_EQ(send("DELETE", "/v1/responses/" + other).status, 200);
    const http_reply next = ask(id);
    EXPECT_EQ(next.status, 200) << next.body;
    const auto wanted = server_.engine().request_of(server_.engine().wait_for_request(3));
    EXPECT_EQ(std::get<engine::text_part>(wanted.chat.messages[0].parts[0]).text, "Before.");
}

// Goal: what is long is read on another thread than the one that serves all clients, one key's
// after another.
TEST_F(conversation_api, long_items_are_read_beside_the_thread_that_serves_everybody) {
    const std::string text(100'000, 'x');
    const std::string id = make(R"({"items":[{"role":"user","content":")" + text + R"("}]})");
    const std::string path = "/v1/conversations/" + id + "/items";
    const std::string item(json::parse(send("GET", path).body).at("first_id").as_string());
    std::atomic<bool> may_count{false};
    std::atomic<bool> is_counting{false};
    server_.engine().on_count = [&](const engine::conversation&) {
        is_counting = true;
        for (int i = 0; i < 2000 && !may_count; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return storage::result<int>(1);
    };
    http_client counting(server_.port());
    counting.send(post("/v1/messages/count_tokens", message_body(false, text)));
    for (int i = 0; i < 2000 && !is_counting; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::deque<http_client> readers;
    for (const std::string& target : {path + "/" + item, path})
        readers.emplace_back(server_.port()).send(tests::get(target));
    EXPECT_FALSE(readers[0].has_input(100));
    EXPECT_FALSE(readers[1].has_input(0));
    EXPECT_EQ(send("GET", "/health/live").status, 200);
    EXPECT_EQ(ask(make()).status, 200) << "others are not in its way";
    may_count = true;
    for (http_client& each : readers) EXPECT_EQ(each.read_reply().status, 200);
    EXPECT_EQ(counting.read_reply().status, 200);
}

// Goal: what a client reads slowly takes no more memory however many such clients there are.
TEST(conversation_limits, long_items_have_their_share_of_what_replies_may_take) {
    app_options options = test_server::default_options();
    options.settings.body_limit_mb = 8;
    options.limits.write = std::chrono::milliseconds(1'000);
    test_server server(std::move(options));
    server.ready();
    http_client making(server.port());
    const std::string text(7'000'000, 'x');
    const http_reply made = making.request(
        post("/v1/conversations", R"({"items":[{"role":"user","content":")" + text + R"("}]})"));
    ASSERT_EQ(made.status, 200) << made.body;
    const std::string path =
        "/v1/conversations/" + std::string(json::parse(made.body).at("id").as_string()) + "/items";
    http_client slow(server.port(), 4096);
    slow.send(tests::get(path));
    slow.read_head();
    http_client next(server.port());
    next.send(tests::get(path));
    EXPECT_FALSE(next.has_input(300)) << "the first holds what there is";
    EXPECT_EQ(next.read_reply().status, 200) << "and is closed when it takes nothing";
    slow.close();
}

// Goal: what expands to more than its own bytes is refused before it is put together.
TEST(conversation_limits, what_cannot_fit_the_context_is_refused_before_it_is_put_together) {
    test_server server;
    server.engine().description().bytes_per_token_max = 10;
    server.engine().description().context_tokens_max = 1'000;
    server.ready().engine().on_submit = answer_with({"Hello"});
    const auto send_to = [&](const std::string& path, const std::string& body) {
        http_client client(server.port());
        return client.request(post(path, body));
    };
    const std::string text(9'000, 'x');
    const http_reply made =
        send_to("/v1/conversations", R"({"items":[{"role":"user","content":")" + text + R"("}]})");
    const std::string id(json::parse(made.body).at("id").as_string());
    const std::string more(1'001, 'y');
    for (const char* background : {"false", "true"}) {
        const http_reply refused = send_to(
            "/v1/responses", R"({"model":"scripted","conversation":")" + id + R"(","background":)" +
                                 background + R"(,"input":")" + more + R"("})");
        EXPECT_EQ(refused.status, 400) << refused.body;
        EXPECT_NE(refused.body.find("context_length_exceeded"), std::string::npos) << refused.body;
        EXPECT_NE(refused.body.find("maximum context length is 1000 tokens"), std::string::npos)
            << refused.body;
    }
    EXPECT_EQ(server.engine().request_count(), 0u);
    EXPECT_EQ(send_to("/v1/responses",
                      R"({"model":"scripted","conversation":")" + id + R"(","input":"z"})")
                  .status,
              200);
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
