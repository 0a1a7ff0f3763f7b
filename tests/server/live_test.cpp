// WebSockets at their limits. What they say: tests/protocol/live, tests/conformance/live.mjs.

#include <gtest/gtest.h>

#include "server/live/live_hub.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using namespace std::chrono_literals;
using tests::get;
using tests::http_client;

std::string upgrade() {
    return get("/ws",
               "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
               "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
               "sec-websocket-protocol: semantic.v1\r\n");
}

bool becomes_true(const std::function<bool()>& what) {
    for (int i = 0; i < 2000; ++i) {
        if (what()) return true;
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
