// SPDX-License-Identifier: Apache-2.0
// WebSockets at their limits. What they say: tests/protocol/live, tests/conformance/live.mjs.

#include <gtest/gtest.h>

#include "server/live/live_hub.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using namespace std::chrono_literals;
using tests::get;
using tests::http_client;

std::string upgrade(const std::string& more = "") {
    return get("/ws",
               "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
               "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
               "sec-websocket-protocol: semantic.v1\r\n" +
                   more);
}

std::string key_field(const std::string& key) { return "x-api-key: " + key + "\r\n"; }

/// A message of a client that masks with zeros.
std::string frame_of(const std::string& text) {
    return std::string("\x81") + static_cast<char>(0x80 | text.size()) + std::string(4, '\0') +
           text;
}

bool becomes_true(const std::function<bool()>& is_true) {
    for (int i = 0; i < 2000; ++i) {
        if (is_true()) return true;
        std::this_thread::sleep_for(10ms);
    }
    return false;
}

/// An agent that takes a megabyte to show.
engine::agent_info large_agent(int number) {
    engine::agent_info agent{storage::agent_id::parse("agent-" + std::to_string(number)).value()};
    engine::memory_info memory;
    memory.model_id = std::string(1 << 20, 'm');
    agent.memories = {memory};
    return agent;
}

TEST(live_socket, that_is_not_read_is_told_and_dropped_and_nobody_waits_for_it) {
    app_options options = test_server::default_options();
    options.limits.watcher_messages_max = 4;
    options.limits.farewell = 60s;  // for the test to read it
    const auto feed = options.feed;
    test_server server(std::move(options));
    for (int i = 0; i < 16; ++i) server.ready().engine().remember(large_agent(i));
    http_client client(server.port(), 4096);
    client.send(upgrade());
    ASSERT_TRUE(becomes_true([&] { return feed->is_watched(); }));
    const auto id = storage::agent_id::parse("a").value();
    ASSERT_TRUE(becomes_true([&] {
        feed->publish([&] { return engine::memory_left{id}; });
        return !feed->is_watched();
    }));
    client.read_until("too_slow");
    client.close();
}

TEST(live_socket, as_many_as_may_watch_do_and_one_more_is_503) {
    app_options options = test_server::default_options();
    options.limits.watchers_max = 2;
    const auto feed = options.feed;
    test_server server(std::move(options));
    server.ready();
    http_client first(server.port());
    http_client second(server.port());
    http_client third(server.port());
    for (http_client* each : {&first, &second}) {
        each->send(upgrade());
        each->read_until("\"snapshot\"");
    }
    EXPECT_EQ(third.request(upgrade()).status, 503);
}

TEST(live_socket, of_one_key_fewer_than_all_watch_and_one_more_is_503) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"k1", "k2"};
    options.limits.watchers_max = 4;
    test_server server(std::move(options));
    server.ready();
    std::vector<std::unique_ptr<http_client>> greedy;
    for (int i = 0; i < 3; ++i) {
        greedy.push_back(std::make_unique<http_client>(server.port()));
        greedy.back()->send(upgrade(key_field("k1")));
        greedy.back()->read_until("\"snapshot\"");
    }
    http_client fourth(server.port()), other(server.port()), last(server.port());
    EXPECT_EQ(fourth.request(upgrade(key_field("k1"))).status, 503);
    other.send(upgrade(key_field("k2")));
    other.read_until("\"snapshot\"");
    EXPECT_EQ(last.request(upgrade(key_field("k2"))).status, 503) << "all are taken";
}

TEST(live_socket, a_key_that_is_shown_in_a_message_counts_as_one_in_the_header) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"k1"};
    options.limits.watchers_max = 4;
    test_server server(std::move(options));
    server.ready();
    std::vector<std::unique_ptr<http_client>> greedy;
    for (int i = 0; i < 4; ++i) {
        greedy.push_back(std::make_unique<http_client>(server.port()));
        greedy.back()->send(upgrade());
        greedy.back()->read_until("authenticate");
        greedy.back()->send(frame_of(R"({"type":"authenticate","api_key":"k1"})"));
        greedy.back()->read_until(i < 3 ? "\"snapshot\"" : "overloaded");
    }
}

TEST(live_socket, who_shows_no_key_gives_way_to_one_who_comes) {
    app_options options = test_server::default_options();
    options.settings.api_keys = {"k1"};
    options.limits.watchers_max = 4;
    test_server server(std::move(options));
    server.ready();
    std::vector<std::unique_ptr<http_client>> strangers;
    for (int i = 0; i < 12; ++i) {
        strangers.push_back(std::make_unique<http_client>(server.port()));
        strangers.back()->send(upgrade());
        strangers.back()->read_until("authenticate\"}");
    }
    EXPECT_EQ(strangers.front()->read_bytes(4), "\x88\x02\x03\xf5") << "1013: try again later";
    http_client one(server.port());
    one.send(upgrade());
    one.read_until("authenticate");
    one.send(frame_of(R"({"type":"authenticate","api_key":"k1"})"));
    one.read_until("\"snapshot\"");
}

TEST(live_socket, a_key_that_is_taken_out_of_the_key_file_ends_its_sockets_and_no_others) {
    app_options options = test_server::default_options();
    options.settings.file_keys = {{"old", "team"}, {"new", "team"}, {"k1", "one"}};
    config fresh;
    fresh.file_keys = {{"new", "team"}, {"k1", "one"}};
    options.read_again = [&] { return fresh; };
    const auto feed = options.feed;
    test_server server(std::move(options));
    server.ready();
    http_client old_one(server.port()), said(server.port()), new_one(server.port()),
        stays(server.port());
    old_one.send(upgrade(key_field("old")));
    said.send(upgrade());
    said.read_until("authenticate");
    said.send(frame_of(R"({"type":"authenticate","api_key":"old"})"));
    new_one.send(upgrade(key_field("new")));
    stays.send(upgrade(key_field("k1")));
    for (http_client* each : {&old_one, &said, &new_one, &stays}) each->read_until("\"snapshot\"");
    server.reload();
    for (http_client* each : {&old_one, &said}) each->read_until("this key is none any more");
    for (http_client* each : {&new_one, &stays}) {
        each->send(frame_of(R"({"type":"ping"})"));
        each->read_until("pong");
    }
}

TEST(live_socket, nobody_is_watched_for_when_the_last_has_left) {
    app_options options = test_server::default_options();
    const auto feed = options.feed;
    test_server server(std::move(options));
    server.ready();
    EXPECT_FALSE(feed->is_watched());
    http_client client(server.port());
    client.send(upgrade());
    client.read_until("\"snapshot\"");
    EXPECT_TRUE(feed->is_watched());
    client.close(true);
    EXPECT_TRUE(becomes_true([&] { return !feed->is_watched(); }));
}

TEST(live_hub, tells_few_twice_a_second_and_many_no_more_than_fifty_times_a_second_in_all) {
    for (const std::size_t few : {0u, 1u, 25u}) EXPECT_EQ(live_hub::period_for(few), 500ms) << few;
    for (const std::size_t many : {26u, 100u, 256u}) {
        const double a_second = 1000.0 / static_cast<double>(live_hub::period_for(many).count());
        EXPECT_LE(static_cast<double>(many) * a_second, 50.0) << many;
    }
    EXPECT_EQ(live_hub::period_for(26), 520ms);
    EXPECT_EQ(live_hub::period_for(256), 5120ms);
}

TEST(live_socket, gets_a_long_message_as_one_frame) {
    app_options options = test_server::default_options();
    test_server server(std::move(options));
    server.ready().engine().remember(large_agent(0));
    http_client client(server.port());
    client.send(upgrade());
    // Text, whole (0x81), with a length of 8 bytes (127), of which a megabyte sets the sixth.
    const std::string frame{"\x81\x7F\0\0\0\0\0\x10", 8};
    const std::string read = client.read_until("\"snapshot\"");
    EXPECT_NE(read.find(frame), std::string::npos);
}

}  // namespace
}  // namespace semantic::server
