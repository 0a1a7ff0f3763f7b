// SPDX-License-Identifier: Apache-2.0
// Bounds that only show while something else goes on: an answer, a refusal, a burst of log lines.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <sstream>
#include <streambuf>

#include "server/runtime/logging.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::answer_with;
using tests::get;
using tests::http_client;
using tests::http_reply;
using tests::post;

constexpr std::chrono::milliseconds a_while{150};

/// An engine function that keeps its callers until the test lets them go.
class gate {
  public:
    ~gate() { open(); }
    void pass() {
        std::unique_lock lock(mutex_);
        ++waiting_;
        changed_.notify_all();
        changed_.wait(lock, [&] { return open_; });
    }
    void open() {
        std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    bool holds(int callers) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::seconds(5),
                                 [&] { return waiting_ >= callers; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int waiting_ = 0;
    bool open_ = false;
};

void count_behind(gate& counts, tests::scripted_engine& engine) {
    engine.on_count = [&counts](const engine::conversation&) {
        counts.pass();
        return storage::result<int>(1);
    };
}

TEST(limits, long_token_count_does_not_hold_up_another_connection) {
    test_server server;  // with one I/O thread
    server.ready().engine().on_submit = answer_with({"x"});
    gate counts;
    count_behind(counts, server.engine());
    http_client counting(server.port());
    counting.send(
        post("/v1/messages/count_tokens", message_body(false, std::string(1'000'000, 'x'))));
    ASSERT_TRUE(counts.holds(1));
    http_client other(server.port());
    EXPECT_EQ(other.request(get("/health/live")).status, 200);
    EXPECT_EQ(other.request(post("/v1/messages", message_body(true))).status, 200);
    counts.open();
    EXPECT_EQ(counting.read_reply().body, R"({"input_tokens":1})");
}

// With every worker busy a large body waits, and a small one does not: it is the workers who parse
// the large one.
TEST(limits, large_bodies_are_parsed_by_the_workers) {
    test_server server;
    server.ready().engine().on_submit = answer_with({"x"});
    gate counts;
    count_behind(counts, server.engine());
    http_client first(server.port());
    http_client second(server.port());
    for (http_client* one : {&first, &second})
        one->send(post("/v1/messages/count_tokens", message_body(false)));
    ASSERT_TRUE(counts.holds(2));
    for (const char* path : {"/v1/messages", "/v1/chat/completions"}) {
        http_client small(server.port());
        EXPECT_EQ(small.request(post(path, message_body(false))).status, 200) << path;
    }
    http_client large(server.port());
    large.send(post("/v1/messages", message_body(false, std::string(64 * 1024, 'x'))));
    EXPECT_FALSE(large.has_input(static_cast<int>(a_while.count())));
    counts.open();
    EXPECT_EQ(large.read_reply().status, 200);
}

app_options small_read_ahead() {
    app_options options = test_server::default_options();
    options.limits.pipelined_bytes_max = 1024;
    return options;
}

std::string requests_of_more_than(std::size_t bytes, int& count) {
    std::string all;
    for (count = 0; all.size() <= bytes; ++count) all += get("/nowhere");
    return all;
}

TEST(limits, requests_beyond_the_read_ahead_are_answered_all_the_same) {
    test_server server(small_read_ahead());
    server.ready();
    http_client client(server.port());
    client.send(post("/v1/messages", message_body(false)));
    engine::request_id id = server.engine().wait_for_request(1);
    int count = 0;
    client.send(requests_of_more_than(20 * 1024, count));
    std::this_thread::sleep_for(a_while);
    server.engine().admit(id);
    server.engine().finish(id);
    EXPECT_EQ(client.read_reply().status, 200);
    for (int i = 0; i < count; ++i) ASSERT_EQ(client.read_reply().status, 404) << i;
}

TEST(limits, client_that_leaves_beyond_the_read_ahead_is_noticed_at_a_write) {
    test_server server(small_read_ahead());
    server.ready();
    http_client client(server.port());
    client.send(post("/v1/messages", message_body(true)));
    engine::request_id id = server.engine().wait_for_request(1);
    int count = 0;
    client.send(requests_of_more_than(4096, count));
    std::this_thread::sleep_for(a_while);
    client.close();
    std::this_thread::sleep_for(a_while);
    EXPECT_FALSE(server.engine().is_cancelled(id));  // nothing is read any more
    server.engine().admit(id);
    for (int i = 0; i < 100 && !server.engine().is_cancelled(id); ++i) {
        server.engine().say(id, "x");
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(server.engine().is_cancelled(id));
}

/// Announces an upload that is refused; a client that sends its body all the same comes next.
void announce_upload(http_client& client) {
    client.send(
        "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000000\r\n\r\n");
    EXPECT_EQ(client.read_reply().status, 413);
}

TEST(limits, refused_upload_is_cut_off_beyond_its_bytes) {
    app_options options = test_server::default_options();
    options.limits.linger_bytes_max = 1 << 20;
    test_server server(std::move(options));
    server.ready();
    http_client client(server.port());
    announce_upload(client);
    std::string piece(64 * 1024, 'x');
    std::size_t sent = 0;
    while (sent < (std::size_t{256} << 20) && client.send(piece)) sent += piece.size();
    EXPECT_GE(sent, std::size_t{1} << 20);
    EXPECT_LT(sent, std::size_t{64} << 20);  // the limit, and what the kernel's buffers took
}

TEST(limits, refused_upload_is_cut_off_after_its_time) {
    app_options options = test_server::default_options();
    options.limits.linger = std::chrono::milliseconds(100);
    test_server server(std::move(options));
    server.ready();
    http_client client(server.port());
    announce_upload(client);
    EXPECT_TRUE(client.send("x"));
    // Taken and thrown away at first; cut off, it is answered by a reset, which the next one meets.
    auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (client.send("x") && std::chrono::steady_clock::now() < give_up)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(client.send("x"));
}

class answer_that_never_ends : public ::testing::TestWithParam<const char*> {
  protected:
    static app_options options() {
        app_options options = test_server::default_options();
        options.settings.request_timeout = std::chrono::seconds(0);
        options.limits.engine_lateness = std::chrono::milliseconds(100);
        return options;
    }
    answer_that_never_ends() : server_(options()) { server_.ready(); }
    test_server server_;
};

TEST_P(answer_that_never_ends, is_ended_by_the_server_as_one_body) {
    http_client client(server_.port());
    client.send(post(GetParam(), message_body(false)));
    engine::request_id id = server_.engine().wait_for_request(1);
    server_.engine().admit(id);
    EXPECT_EQ(client.read_reply().status, 504);
    EXPECT_TRUE(server_.engine().wait_for_cancel(id));
    EXPECT_EQ(client.request(get("/health/live")).status, 200);
}

TEST_P(answer_that_never_ends, is_ended_by_the_server_before_its_stream_begins) {
    http_client client(server_.port());
    client.send(post(GetParam(), message_body(true)));
    engine::request_id id = server_.engine().wait_for_request(1);
    EXPECT_EQ(client.read_reply().status, 504);
    EXPECT_TRUE(server_.engine().wait_for_cancel(id));
}

TEST_P(answer_that_never_ends, is_ended_by_the_server_within_its_stream) {
    http_client client(server_.port());
    client.send(post(GetParam(), message_body(true)));
    engine::request_id id = server_.engine().wait_for_request(1);
    server_.engine().admit(id);
    server_.engine().say(id, "half an");
    http_reply reply = client.read_reply();
    EXPECT_EQ(reply.status, 200);
    EXPECT_NE(reply.body.find("half an"), std::string::npos) << reply.body;
    EXPECT_NE(reply.body.find("longer than the server allows"), std::string::npos) << reply.body;
    EXPECT_TRUE(server_.engine().wait_for_cancel(id));
}

INSTANTIATE_TEST_SUITE_P(limits, answer_that_never_ends,
                         ::testing::Values("/v1/messages", "/v1/chat/completions"));

/// A stream whose writer waits for the test.
class slow_stream : public std::stringbuf {
  public:
    std::promise<void> go;

  protected:
    std::streamsize xsputn(const char* text, std::streamsize size) override {
        gone_.wait();
        return std::stringbuf::xsputn(text, size);
    }
    int_type overflow(int_type c) override {
        gone_.wait();
        return std::stringbuf::overflow(c);
    }

  private:
    std::shared_future<void> gone_ = go.get_future().share();
};

TEST(limits, log_lines_beyond_the_queue_are_dropped_and_nobody_waits) {
    constexpr int queued_max = 8192;
    slow_stream buffer;
    std::ostream stream(&buffer);
    start_logging(log_level::info, stream);
    for (int i = 0; i < queued_max + 1000; ++i) log_event(log_level::info, "a line");
    buffer.go.set_value();  // reached although nothing was written
    stop_logging();
    std::string text = buffer.str();
    auto lines = std::count(text.begin(), text.end(), '\n');
    EXPECT_GE(lines, queued_max);
    EXPECT_LE(lines, queued_max + 2);  // those that the writer had taken already
}

TEST(limits, two_io_threads_serve_many_connections_at_once) {
    app_options options = test_server::default_options();
    options.settings.io_threads = 2;
    test_server server(std::move(options));
    server.ready().engine().on_submit = answer_with({"a", "b", "c"});
    std::atomic<int> good{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i)
        clients.emplace_back([&server, &good] {
            http_client client(server.port());
            for (int round = 0; round < 10; ++round) {
                bool stream = round % 2 == 0;
                http_reply reply = client.request(post("/v1/messages", message_body(stream)));
                bool whole = reply.body.find(stream ? "message_stop" : "abc") != std::string::npos;
                if (reply.status == 200 && whole) ++good;
            }
        });
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(good.load(), 80);
    EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace semantic::server
