// SPDX-License-Identifier: Apache-2.0
// Responses over a WebSocket: what a client says and reads there, and what it may not.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <algorithm>

#include "protocol/responses/socket_message.hpp"
#include "server/handlers/responses/socket.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

namespace json = boost::json;
using tests::answer_with;
using tests::get;
using tests::http_client;

std::string upgrade(const std::string& more = "") {
    return get("/v1/responses",
               "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
               "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
                   more);
}

/// A client of RFC 6455 that masks with zeros.
class socket_client {
  public:
    explicit socket_client(std::uint16_t port, const std::string& more = "") : http_(port) {
        http_.send(upgrade(more));
        status_ = http_.read_head().status;
    }
    int status() const { return status_; }
    void say(const std::string& text) {
        std::string frame("\x81", 1);
        const std::size_t size = text.size();
        ASSERT_LT(size, 65536u);
        frame += static_cast<char>(0x80 | std::min<std::size_t>(size, 126));
        if (size >= 126)
            frame.append({static_cast<char>(size >> 8), static_cast<char>(size & 0xff)});
        http_.send(frame.append(4, '\0') + text);
    }
    /// The head of a frame of so many bytes, and some of them.
    void begin_long(std::size_t size, const std::string& text) {
        std::string frame("\x81\xff", 2);
        for (int shift = 56; shift >= 0; shift -= 8)
            frame += static_cast<char>(size >> shift & 0xff);
        http_.send(frame.append(4, '\0') + text);
    }
    void ask(const std::string& more) {
        say(R"({"type":"response.create","model":"scripted","store":false)" + more + "}");
    }
    json::value read() {
        const std::string head = http_.read_bytes(2);
        std::size_t size = static_cast<unsigned char>(head[1]);
        const int more = size == 126 ? 2 : size == 127 ? 8 : 0;
        if (more > 0) {
            size = 0;
            for (const char byte : http_.read_bytes(static_cast<std::size_t>(more)))
                size = size << 8 | static_cast<unsigned char>(byte);
        }
        return json::parse(http_.read_bytes(size));
    }
    /// The last event of a response, or the error.
    json::value read_to_end() {
        for (;;) {
            json::value event = read();
            const auto& type = event.at("type").as_string();
            if (type == "error" || type == "response.completed" || type == "response.failed" ||
                type == "response.incomplete")
                return event;
        }
    }
    http_client& http() { return http_; }

  private:
    http_client http_;
    int status_ = 0;
};

std::string id_of(const json::value& event) {
    return std::string(event.at("response").at("id").as_string());
}

std::string follows(const std::string& id) { return R"(,"previous_response_id":")" + id + '"'; }

class response_socket_api : public ::testing::Test {
  protected:
    response_socket_api() { server_.ready().engine().on_submit = answer_with({"Hel", "lo"}); }

    engine::generation_request wanted(std::size_t number) {
        return server_.engine().request_of(server_.engine().wait_for_request(number));
    }

    test_server server_;
};

TEST_F(response_socket_api, each_event_is_a_message_and_their_numbers_have_no_gap) {
    socket_client client(server_.port());
    ASSERT_EQ(client.status(), 101);
    client.ask(R"(,"input":"hi")");
    std::int64_t number = 0;
    for (;;) {
        const json::value event = client.read();
        EXPECT_EQ(event.at("sequence_number"), number++);
        if (event.at("type") == "response.completed") break;
    }
    EXPECT_GT(number, 5);
}

TEST_F(response_socket_api, tools_in_namespaces_and_calls_without_an_end_are_taken_there_too) {
    server_.engine().on_submit =
        answer_with({"<tool_call>\n{\"name\": \"mcp__n__add\", \"arguments\": {\"a\": 1}}\n"
                     "</tool_call>"});
    socket_client client(server_.port());
    client.ask(R"(,"tools":[{"type":"namespace","name":"mcp__n__","tools":[{"type":"function",)"
               R"("name":"add","parameters":{"type":"object"}}]}],)"
               R"("input":[{"role":"user","content":"Hi"},)"
               R"({"type":"function_call","call_id":"c","namespace":"mcp__n__","name":"add",)"
               R"("arguments":"{\"a\": \"Once","status":"incomplete"},)"
               R"({"type":"function_call_output","call_id":"c","output":"cut"}])");
    const json::value last = client.read_to_end();
    ASSERT_EQ(last.at("type"), "response.completed") << last;
    const json::value& call = last.at("response").at("output").at(0);
    EXPECT_EQ(call.at("namespace"), "mcp__n__");
    EXPECT_EQ(call.at("name"), "add");
    const auto asked = wanted(1);
    EXPECT_EQ(asked.chat.tools.at(0).name, "mcp__n__add");
    const auto& earlier = std::get<engine::tool_call_part>(asked.chat.messages.at(1).parts.at(0));
    EXPECT_EQ(earlier.name, "mcp__n__add");
    EXPECT_EQ(earlier.arguments_json, R"({"a": "Once)");
}

TEST_F(response_socket_api, a_summary_that_is_due_is_its_first_item) {
    server_.engine().on_count = [](const engine::conversation&) { return 5; };
    socket_client client(server_.port());
    client.ask(
        R"(,"input":"hi","context_management":[{"type":"compaction","compact_threshold":4}])");
    const json::value last = client.read_to_end();
    EXPECT_EQ(last.at("response").at("output").at(0).at("type"), "compaction") << last;
    EXPECT_EQ(last.at("response").at("output").at(1).at("type"), "message");
}

TEST_F(response_socket_api, a_prompt_is_warmed_up_and_then_followed_with_what_is_new) {
    server_.engine().on_submit = answer_with({});
    socket_client client(server_.port());
    client.ask(R"(,"generate":false,"input":[{"role":"developer","content":"You help."}])");
    const json::value warm = client.read_to_end();
    EXPECT_EQ(warm.at("type"), "response.completed");
    EXPECT_TRUE(wanted(1).only_reads);
    server_.engine().on_submit = answer_with({"Hel", "lo"});
    client.ask(R"(,"input":[{"role":"user","content":"One"}])" + follows(id_of(warm)));
    const json::value first = client.read_to_end();
    EXPECT_EQ(wanted(2).chat.system, "You help.");
    EXPECT_EQ(wanted(2).chat.messages.size(), 1u);
    client.ask(R"(,"input":[{"role":"user","content":"Two"}])" + follows(id_of(first)));
    const json::value second = client.read_to_end();
    EXPECT_EQ(second.at("type"), "response.completed") << second;
    EXPECT_EQ(wanted(3).chat.messages.size(), 3u);
    // Nothing of it was to be stored: it is known here, and as long as the client stays.
    EXPECT_TRUE(server_.engine().kept.empty());
    socket_client other(server_.port());
    other.ask(R"(,"input":"x")" + follows(id_of(second)));
    const json::value lost = other.read_to_end();
    EXPECT_EQ(lost.at("status"), 404);
    EXPECT_EQ(lost.at("error").at("code"), "previous_response_not_found");
    client.ask(R"(,"input":"x")" + follows(id_of(first)));
    EXPECT_EQ(client.read_to_end().at("status"), 404) << "the latest alone is known";
}

TEST_F(response_socket_api, a_stored_response_is_followed_from_anywhere) {
    std::string id;
    {
        socket_client client(server_.port());
        client.say(R"({"type":"response.create","model":"scripted","input":"hi"})");
        id = id_of(client.read_to_end());
    }
    socket_client client(server_.port());
    client.ask(R"(,"input":"more")" + follows(id));
    const json::value next = client.read_to_end();
    ASSERT_EQ(next.at("type"), "response.completed") << next;
    client.ask(R"(,"input":"yet more")" + follows(id_of(next)));
    EXPECT_EQ(client.read_to_end().at("type"), "response.completed");
    EXPECT_EQ(wanted(3).chat.messages.size(), 5u);
}

TEST_F(response_socket_api, what_is_wrong_is_an_error_with_its_status_and_the_client_stays) {
    socket_client client(server_.port());
    for (const char* wrong : {"{", "[]", R"({"type":"response.cancel"})", R"({"type":7})", "",
                              R"({"type":"response.create"})",
                              R"({"type":"response.create","model":"scripted","input":7})",
                              R"({"type":"response.create","model":"scripted","input":"x",)"
                              R"("background":true})"}) {
        client.say(wrong);
        const json::value error = client.read();
        EXPECT_EQ(error.at("type"), "error") << wrong;
        EXPECT_EQ(error.at("status"), 400) << wrong;
        EXPECT_EQ(error.at("error").at("type"), "invalid_request_error") << error;
    }
    client.say(R"({"type":"response.processed","response_id":"resp_1"})");
    client.ask(R"(,"input":"hi")");
    EXPECT_EQ(client.read_to_end().at("type"), "response.completed");
}

TEST_F(response_socket_api, each_event_of_an_answer_names_the_lane_that_its_request_named) {
    socket_client client(server_.port());
    const std::string longest(protocol::responses::lane_bytes_max, 'b');
    client.ask(R"(,"stream_id":"a \"1\"","input":"hi")");
    client.ask(R"(,"stream_id":")" + longest + R"(","input":7)");
    client.ask(R"(,"stream_id":")" + longest + R"(b","input":"hi")");
    client.ask(R"(,"input":"hi")");
    for (json::value event; !event.is_object() || event.at("type") != "response.completed";) {
        event = client.read();
        EXPECT_EQ(event.at("stream_id"), R"(a "1")") << event;
    }
    const json::value refused = client.read();
    EXPECT_EQ(refused.at("type"), "error");
    EXPECT_EQ(refused.at("stream_id"), json::value(longest));
    const json::value too_long = client.read();
    EXPECT_EQ(too_long.at("error").at("param"), "stream_id") << too_long;
    EXPECT_FALSE(client.read_to_end().as_object().contains("stream_id"));
}

TEST_F(response_socket_api, input_that_is_to_steer_an_answer_is_handed_back) {
    socket_client client(server_.port());
    client.ask(R"(,"input":"hi")");
    const std::string id = id_of(client.read_to_end());
    client.say(R"({"type":"response.steer","input":"stop")" + follows(id) + "}");
    const json::value event = client.read();
    EXPECT_EQ(event.at("type"), "response.steer.failed") << event;
    EXPECT_EQ(event.at("error").at("code"), "steering_not_supported");
    EXPECT_EQ(event.at("steer").at("input"), "stop");
    EXPECT_EQ(event.at("steer").at("previous_response_id"), json::value(id));
    client.say(R"({"type":"response.steer","input":"stop"})");
    EXPECT_EQ(client.read().at("error").at("param"), "previous_response_id");
    client.ask(R"(,"input":"stop")" + follows(id));
    EXPECT_EQ(client.read_to_end().at("type"), "response.completed");
}

TEST_F(response_socket_api, a_refusal_of_the_engine_is_an_error_that_clients_know) {
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine.push(id, engine::failed{engine::failure_kind::too_large, "needs 9, there are 4"});
    };
    socket_client client(server_.port());
    client.ask(R"(,"input":"hi")");
    const json::value error = client.read();
    EXPECT_EQ(error.at("status"), 400);
    EXPECT_EQ(error.at("error").at("code"), "context_length_exceeded");
}

TEST_F(response_socket_api, a_client_that_leaves_has_its_answer_cancelled) {
    server_.engine().on_submit = nullptr;
    socket_client client(server_.port());
    client.ask(R"(,"input":"hi")");
    const engine::request_id id = server_.engine().wait_for_request(1);
    server_.engine().admit(id);
    client.read();
    client.http().close(true);
    EXPECT_TRUE(server_.engine().wait_for_cancel(id));
}

TEST_F(response_socket_api, as_many_requests_wait_as_may_and_one_more_ends_it) {
    server_.engine().on_submit = nullptr;
    socket_client client(server_.port());
    client.ask(R"(,"input":"hi")");
    const engine::request_id id = server_.engine().wait_for_request(1);
    for (std::size_t i = 0; i < waiting_requests_max; ++i) client.ask(R"(,"input":"hi")");
    server_.engine().admit(id);
    EXPECT_EQ(client.read().at("type"), "response.created");
    client.ask(R"(,"input":"hi")");
    EXPECT_TRUE(server_.engine().wait_for_cancel(id));
}

TEST_F(response_socket_api, as_many_are_open_as_may_and_one_more_is_503) {
    std::vector<std::unique_ptr<socket_client>> open;
    for (std::size_t i = 0; i < response_sockets_max; ++i) {
        open.push_back(std::make_unique<socket_client>(server_.port()));
        ASSERT_EQ(open.back()->status(), 101);
    }
    EXPECT_EQ(socket_client(server_.port()).status(), 503);
    open.pop_back();
    for (int i = 0; i < 2000; ++i) {
        socket_client late(server_.port());
        if (late.status() == 101) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    FAIL() << "nobody may come although one has left";
}

TEST_F(response_socket_api, a_page_of_another_origin_opens_none) {
    EXPECT_EQ(socket_client(server_.port(), "origin: https://evil.example\r\n").status(), 403);
}

TEST_F(response_socket_api, without_an_upgrade_it_is_426_which_clients_take_for_a_post_instead) {
    http_client client(server_.port());
    const auto reply = client.request(get("/v1/responses"));
    EXPECT_EQ(reply.status, 426);
    EXPECT_EQ(reply.fields.at("upgrade"), "websocket");
}

TEST(response_socket_keys, a_key_is_needed_where_there_are_some_and_is_the_tenant) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"one", "two"};
    test_server server(std::move(options));
    server.ready().engine().on_submit = answer_with({"Hello"});
    EXPECT_EQ(socket_client(server.port()).status(), 401);
    std::string id;
    for (const char* key : {"one", "two"}) {
        socket_client client(server.port(), "authorization: Bearer " + std::string(key) + "\r\n");
        ASSERT_EQ(client.status(), 101);
        if (id.empty()) {
            client.say(R"({"type":"response.create","model":"scripted","input":"hi"})");
            id = id_of(client.read_to_end());
        } else {
            client.ask(R"(,"input":"x")" + follows(id));
            EXPECT_EQ(client.read_to_end().at("status"), 404);
        }
    }
}

TEST(response_socket_keys, one_tenant_does_not_take_every_socket) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"one", "two"};
    test_server server(std::move(options));
    server.ready();
    const std::string key = "authorization: Bearer ";
    std::vector<std::unique_ptr<socket_client>> open;
    for (std::size_t i = 0; i < response_sockets_of_tenant_max; ++i) {
        open.push_back(std::make_unique<socket_client>(server.port(), key + "one\r\n"));
        ASSERT_EQ(open.back()->status(), 101) << i;
    }
    EXPECT_EQ(socket_client(server.port(), key + "one\r\n").status(), 429);
    EXPECT_EQ(socket_client(server.port(), key + "two\r\n").status(), 101);
}

constexpr std::size_t large = 900'000;

std::string long_message() {
    const std::string head =
        R"({"type":"response.create","model":"scripted","store":false,"input":")";
    return head + std::string(large - head.size() - 2, 'x') + "\"}";
}

class response_socket_bodies : public ::testing::Test {
  protected:
    static app_options one_body_of_a_mib() {
        app_options options = test_server::default_options();
        options.settings.body_limit_mb = 1;
        options.limits.bodies_at_once = 1;
        options.settings.shutdown_grace = std::chrono::seconds(0);
        options.limits.body_silence = std::chrono::milliseconds(300);
        return options;
    }
    response_socket_bodies() { server_.ready().engine().on_submit = answer_with({"x"}); }

    test_server server_{one_body_of_a_mib()};
};

TEST_F(response_socket_bodies, a_long_message_is_answered) {
    socket_client client(server_.port());
    for (int i = 0; i < 3; ++i) {
        client.begin_long(large, long_message());
        EXPECT_EQ(client.read_to_end().at("type"), "response.completed");
    }
}

// Goal: messages have their share of what bodies may take together, and the time of one.
TEST_F(response_socket_bodies, one_that_stays_half_is_closed_and_makes_room_for_others) {
    const std::string text = long_message();
    socket_client silent(server_.port());
    silent.begin_long(large, text.substr(0, large - 1));
    socket_client next(server_.port());
    next.begin_long(large, text);
    EXPECT_EQ(next.read_to_end().at("type"), "response.completed");
    EXPECT_TRUE(silent.http().is_closed_by_server());
    http_client posting(server_.port());
    EXPECT_EQ(posting.request(tests::post("/v1/responses", text)).status, 200);
}

// Goal: a long message holds no room while the answer before it is made.
TEST_F(response_socket_bodies, a_long_message_is_read_when_its_turn_has_come) {
    server_.engine().on_submit = nullptr;
    socket_client client(server_.port());
    client.ask(R"(,"input":"hi")");
    const engine::request_id id = server_.engine().wait_for_request(1);
    const std::string text = long_message();
    client.begin_long(large, text.substr(0, large - 1));
    http_client posting(server_.port());
    posting.send(tests::post("/v1/responses", text));
    ASSERT_NE(server_.engine().wait_for_request(2), 0u) << "its body found room";
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    server_.engine().on_submit = answer_with({"x"});
    server_.engine().admit(id);
    server_.engine().say(id, "x");
    server_.engine().finish(id, 1);
    EXPECT_EQ(client.read_to_end().at("type"), "response.completed");
    client.http().send(text.substr(large - 1));
    EXPECT_EQ(client.read_to_end().at("type"), "response.completed") << "and has not timed out";
}

TEST(response_socket_keys, one_that_is_taken_out_of_the_key_file_ends_its_sockets) {
    app_options options = test_server::default_options();
    options.settings.file_keys = {{"old", "team"}, {"new", "team"}};
    config fresh;
    fresh.file_keys = {{"new", "team"}};
    options.read_again = [&] { return fresh; };
    test_server server(std::move(options));
    server.ready().engine().on_submit = answer_with({"Hello"});
    socket_client revoked(server.port(), "x-api-key: old\r\n");
    socket_client at_work(server.port(), "x-api-key: old\r\n");
    socket_client stays(server.port(), "x-api-key: new\r\n");
    for (socket_client* each : {&revoked, &stays}) {
        each->ask(R"(,"input":"hi")");
        EXPECT_EQ(each->read_to_end().at("type"), "response.completed");
    }
    server.engine().on_submit = nullptr;
    at_work.ask(R"(,"input":"hi")");
    const engine::request_id id = server.engine().wait_for_request(3);
    server.reload();
    EXPECT_TRUE(server.engine().wait_for_cancel(id)) << "what it asked for before";
    EXPECT_TRUE(revoked.http().is_closed_by_server());
    server.engine().on_submit = answer_with({"Hello"});
    stays.ask(R"(,"input":"hi")");
    EXPECT_EQ(stays.read_to_end().at("type"), "response.completed");
}

}  // namespace
}  // namespace semantic::server
