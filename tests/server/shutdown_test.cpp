// SPDX-License-Identifier: Apache-2.0
// What SIGTERM sets off, and what clients see of it.

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::get;
using tests::http_client;
using tests::http_reply;
using tests::post;

TEST(shutdown, running_stream_ends_in_order_and_then_the_server) {
    test_server server;
    server.ready();
    http_client client(server.port());
    client.send(post("/v1/messages", message_body(true)));
    engine::request_id id = server.engine().wait_for_request(1);
    server.engine().admit(id);
    EXPECT_EQ(client.read_head().status, 200);
    client.read_chunk();
    server.begin_stop();
    EXPECT_FALSE(server.has_ended_within(std::chrono::milliseconds(100)));
    server.engine().say(id, "last words");
    EXPECT_NE(client.read_chunk().find("last words"), std::string::npos);
    server.engine().finish(id);
    EXPECT_NE(client.read_chunk().find("message_stop"), std::string::npos);
    EXPECT_EQ(client.read_chunk(), "");
    EXPECT_EQ(server.wait(), 0);
    EXPECT_TRUE(client.is_closed_by_server());
}

TEST(shutdown, new_requests_on_open_connections_are_refused_clearly) {
    test_server server;
    server.ready();
    http_client busy(server.port());
    http_client idle(server.port());
    EXPECT_EQ(idle.request(get("/health/ready")).status, 200);
    busy.send(post("/v1/messages", message_body(false)));
    engine::request_id id = server.engine().wait_for_request(1);
    server.begin_stop();
    http_reply refused = idle.request(post("/v1/messages", message_body(false)));
    EXPECT_TRUE(refused.status == 503 || refused.status == 529) << refused.status;
    EXPECT_NE(refused.body.find("shutting down"), std::string::npos) << refused.body;
    EXPECT_EQ(refused.fields["connection"], "close");
    EXPECT_THROW(http_client late(server.port()), std::runtime_error);
    server.engine().admit(id);
    server.engine().finish(id);
    EXPECT_EQ(busy.read_reply().status, 200);
    EXPECT_EQ(server.wait(), 0);
    EXPECT_EQ(server.engine().request_count(), 1u);
}

TEST(shutdown, readiness_turns_red_first) {
    test_server server;
    server.ready();
    http_client busy(server.port());
    http_client probe(server.port());
    EXPECT_EQ(probe.request(get("/health/ready")).status, 200);
    busy.send(post("/v1/messages", message_body(false)));
    engine::request_id id = server.engine().wait_for_request(1);
    server.begin_stop();
    EXPECT_EQ(probe.request(get("/health/ready")).status, 503);
    server.engine().finish(id);
    EXPECT_EQ(server.wait(), 0);
}

TEST(shutdown, answers_beyond_the_grace_are_cut_and_told_so) {
    app_options options = test_server::default_options();
    options.settings.shutdown_grace = std::chrono::seconds(0);
    test_server server(std::move(options));
    server.ready();
    http_client client(server.port());
    client.send(post("/v1/messages", message_body(true)));
    engine::request_id id = server.engine().wait_for_request(1);
    server.engine().admit(id);
    client.read_head();
    client.read_chunk();
    server.begin_stop();
    EXPECT_TRUE(server.engine().wait_for_cancel(id));
    EXPECT_NE(client.read_chunk().find("event: error"), std::string::npos);
    EXPECT_EQ(server.wait(), 0);
}

TEST(shutdown, idle_server_stops_at_once) {
    test_server server;
    server.ready();
    http_client idle(server.port());
    EXPECT_EQ(idle.request(get("/health/live")).status, 200);
    server.begin_stop();
    EXPECT_TRUE(server.has_ended_within(std::chrono::seconds(3)));
    EXPECT_TRUE(idle.is_closed_by_server());
    EXPECT_TRUE(server.engine().was_drained());
}

// What signals do is tried in a process of its own for each test: it starts again and runs the
// test up to the exit.
class signals_DeathTest : public ::testing::TestWithParam<int> {
  protected:
    signals_DeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

    static app_options with_signals() {
        app_options options = test_server::default_options();
        options.handle_signals = true;
        return options;
    }
    /// Does not return by itself, should the signal not end the process.
    [[noreturn]] static void wait_for_the_end() {
        std::this_thread::sleep_for(std::chrono::seconds(5));
        std::_Exit(99);
    }
    [[noreturn]] static void signal_idle_server(int number) {
        test_server server(with_signals());
        server.ready();
        kill(getpid(), number);
        std::_Exit(server.wait());
    }
    [[noreturn]] static void signal_during_load(int number) {
        app_options options = with_signals();
        std::promise<void> loading;
        options.load = [&](std::size_t,
                           const auto&) -> storage::result<std::unique_ptr<engine::engine>> {
            loading.set_value();
            wait_for_the_end();
        };
        test_server server(std::move(options));
        loading.get_future().wait();
        kill(getpid(), number);
        wait_for_the_end();
    }
    [[noreturn]] static void signal_twice_during_an_answer(int number) {
        test_server server(with_signals());
        server.ready();
        http_client client(server.port());
        client.send(post("/v1/messages", message_body(false)));
        server.engine().wait_for_request(1);
        kill(getpid(), number);
        // The first one has arrived when the port is closed.
        for (bool open = true; open;) try {
                http_client probe(server.port());
            } catch (const std::runtime_error&) {
                open = false;
            }
        if (server.has_ended_within(std::chrono::milliseconds(50))) std::_Exit(98);
        kill(getpid(), number);
        wait_for_the_end();
    }
};

TEST_P(signals_DeathTest, signal_ends_an_idle_server_in_order) {
    EXPECT_EXIT(signal_idle_server(GetParam()), ::testing::ExitedWithCode(0), "");
}

TEST_P(signals_DeathTest, signal_during_the_load_ends_the_process_at_once) {
    EXPECT_EXIT(signal_during_load(GetParam()), ::testing::ExitedWithCode(0), "");
}

TEST_P(signals_DeathTest, second_signal_ends_the_process_at_once) {
    EXPECT_EXIT(signal_twice_during_an_answer(GetParam()),
                ::testing::ExitedWithCode(128 + GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(both, signals_DeathTest, ::testing::Values(SIGTERM, SIGINT));

}  // namespace
}  // namespace semantic::server
