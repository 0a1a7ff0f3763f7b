// SPDX-License-Identifier: Apache-2.0
// Who may connect when slots are short.

#include "server/http/connection/connection_slots.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::get;
using tests::http_client;
using tests::post;

/// Connections that note when they are asked to leave.
struct crowd {
    explicit crowd(std::size_t connections_max) : all(connections_max, connections_max) {}
    void come() {
        const std::size_t number = held.size();
        held.emplace_back(std::in_place, all)->on_eviction([this, number] {
            told.push_back(number);
        });
    }
    connection_slots all;
    std::vector<std::size_t> told;
    std::deque<std::optional<connection_slots::holder>> held;
};

TEST(connection_slots, nine_in_ten_are_for_connections_that_have_not_asked) {
    crowd some(20);
    for (int i = 0; i < 17; ++i) some.come();
    EXPECT_TRUE(some.all.has_room());
    some.come();
    EXPECT_FALSE(some.all.has_room()) << "18 are silent";
    some.held[3]->has_asked("");
    EXPECT_TRUE(some.all.has_room());
    some.come();
    some.held[4]->has_asked("");
    some.come();
    EXPECT_FALSE(some.all.has_room()) << "20 are there";
}

TEST(connection_slots, the_oldest_that_has_not_asked_leaves_and_each_is_told_once) {
    crowd some(3);
    for (int i = 0; i < 3; ++i) some.come();
    some.held[0]->has_asked("");
    some.all.evict_oldest_silent();
    EXPECT_EQ(some.told, (std::vector<std::size_t>{1}));
    EXPECT_FALSE(some.all.has_room()) << "until it is gone";
    some.held[1].reset();
    EXPECT_TRUE(some.all.has_room());
    some.all.evict_oldest_silent();
    EXPECT_FALSE(some.all.has_silent());
    some.all.evict_oldest_silent();
    EXPECT_EQ(some.told, (std::vector<std::size_t>{1, 2}));
}

TEST(connection_slots, who_has_to_leave_before_it_can_be_told_is_told_then) {
    connection_slots one(1, 1);
    connection_slots::holder early(one);
    one.evict_oldest_silent();
    bool told = false;
    early.on_eviction([&] { told = true; });
    EXPECT_TRUE(told);
}

TEST(connection_slots, one_key_never_has_all) {
    connection_slots all(8, 6);
    std::deque<connection_slots::holder> held;
    for (int i = 0; i < 7; ++i) held.emplace_back(all);
    for (int i = 0; i < 6; ++i) EXPECT_TRUE(held[static_cast<std::size_t>(i)].has_asked("a")) << i;
    EXPECT_FALSE(held[6].has_asked("a"));
    EXPECT_TRUE(held[5].has_asked("a")) << "it has that one";
    EXPECT_TRUE(held[6].has_asked("b"));
    EXPECT_TRUE(held[5].has_asked("b")) << "connections of a proxy are one client's and another's";
    EXPECT_TRUE(held[6].has_asked("a"));
    EXPECT_FALSE(held[5].has_asked("a"));
    held.pop_back();
    EXPECT_TRUE(held[5].has_asked("a"));
}

app_options ten_slots() {
    app_options options = test_server::default_options();
    options.settings.max_connections = 10;
    return options;
}

/// How long the server takes to say that it lives.
std::chrono::milliseconds time_to_health(test_server& server) {
    const auto before = std::chrono::steady_clock::now();
    http_client client(server.port());
    EXPECT_EQ(client.request(get("/health")).status, 200);
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 before);
}

class silent_crowd : public ::testing::TestWithParam<const char*> {};

TEST_P(silent_crowd, keeps_nobody_out_at_the_limit_nor_beyond_it) {
    test_server server(ten_slots());
    server.ready();
    std::deque<http_client> silent;
    for (std::size_t count : {9, 10, 11, 30}) {
        while (silent.size() < count) silent.emplace_back(server.port()).send(GetParam());
        EXPECT_LT(time_to_health(server).count(), 2000) << count;
    }
    // The youngest is still welcome.
    http_client& youngest = silent.back();
    youngest.send(std::string(get("/health")).substr(std::string_view(GetParam()).size()));
    EXPECT_EQ(youngest.read_reply().status, 200);
}

INSTANTIATE_TEST_SUITE_P(connection_slots, silent_crowd,
                         ::testing::Values("", "G", "GET /health HTTP/1.1\r\n"));

TEST(connection_slots, connections_that_have_asked_are_not_cut_off_for_others) {
    test_server server(ten_slots());
    server.ready();
    std::deque<http_client> asked;
    for (int i = 0; i < 9; ++i)
        EXPECT_EQ(asked.emplace_back(server.port()).request(get("/health/live")).status, 200);
    http_client working(server.port());
    working.send(post("/v1/messages", message_body(true)));
    const auto id = server.engine().wait_for_request(1);
    std::deque<http_client> silent;
    for (int i = 0; i < 20; ++i) silent.emplace_back(server.port());
    server.engine().admit(id);
    server.engine().finish(id);
    EXPECT_EQ(working.read_reply().status, 200);
    for (http_client& one : asked) EXPECT_EQ(one.request(get("/health/live")).status, 200);
}

TEST(connection_slots, a_key_with_its_share_of_connections_is_told_so_and_another_one_comes_in) {
    app_options options = ten_slots();
    options.settings.api_keys = {"k1", "k2"};
    test_server server(std::move(options));
    server.ready();
    const auto ask = [](http_client& client, const std::string& key) {
        return client.request(get("/v1/models", "x-api-key: " + key + "\r\n"));
    };
    std::deque<http_client> greedy;
    for (int i = 0; i < 8; ++i)
        EXPECT_EQ(ask(greedy.emplace_back(server.port()), "k1").status, 200) << i;
    http_client ninth(server.port());
    const auto refused = ask(ninth, "k1");
    EXPECT_EQ(refused.status, 503);
    EXPECT_NE(refused.body.find("connections"), std::string::npos) << refused.body;
    EXPECT_EQ(refused.fields.at("retry-after"), "1");
    EXPECT_TRUE(ninth.is_closed_by_server());
    http_client other(server.port());
    EXPECT_EQ(ask(other, "k2").status, 200);
    EXPECT_EQ(ask(greedy.front(), "k1").status, 200);
    greedy.pop_back();
    for (int i = 0; i < 1000; ++i) {
        http_client late(server.port());
        if (ask(late, "k1").status == 200) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    FAIL() << "a slot that was given back is not given again";
}

TEST(connection_slots, where_there_are_keys_who_has_none_keeps_nobody_out_by_asking_now_and_then) {
    app_options options = ten_slots();
    options.settings.api_keys = {"k1"};
    test_server server(std::move(options));
    server.ready();
    std::deque<http_client> strangers;
    for (int i = 0; i < 30; ++i)
        EXPECT_EQ(strangers.emplace_back(server.port()).request(get("/health/live")).status, 200);
    http_client client(server.port());
    EXPECT_EQ(client.request(get("/v1/models", "x-api-key: k1\r\n")).status, 200);
}

TEST(agents_api_limits, one_key_never_has_all_places_for_uploads) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"k1", "k2"};
    options.limits.uploads_max = 4;
    test_server server(std::move(options));
    server.ready();
    const auto begin = [](http_client& client, const std::string& key) {
        client.send(
            "PUT /v1/agents/a/cache HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n"
            "expect: 100-continue\r\nx-api-key: " +
            key + "\r\n\r\n");
        return client.read_head().status;
    };
    std::vector<std::unique_ptr<http_client>> greedy;
    for (int i = 0; i < 3; ++i) {
        greedy.push_back(std::make_unique<http_client>(server.port()));
        EXPECT_EQ(begin(*greedy.back(), "k1"), 100);
    }
    http_client fourth(server.port()), other(server.port()), last(server.port());
    EXPECT_EQ(begin(fourth, "k1"), 503);
    EXPECT_EQ(begin(other, "k2"), 100);
    EXPECT_EQ(begin(last, "k2"), 503) << "all are taken";
}

TEST(connection_slots, a_new_connection_has_the_headers_time_for_its_first_byte) {
    app_options options = test_server::default_options();
    options.limits.header = std::chrono::milliseconds(100);
    test_server server(std::move(options));
    server.ready();
    http_client silent(server.port());
    EXPECT_TRUE(silent.is_closed_by_server());
    http_client asked(server.port());
    EXPECT_EQ(asked.request(get("/health/live")).status, 200);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(asked.request(get("/health/live")).status, 200) << "between requests it has longer";
}

}  // namespace
}  // namespace semantic::server
