// SPDX-License-Identifier: Apache-2.0
// A Redis that lies about its replies: their length, their number, their end.

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <atomic>
#include <functional>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "storage/objects/redis/redis_link.hpp"
#include "storage/objects/redis/redis_seal.hpp"

namespace semantic::storage {
namespace {

using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

/// Answers the first command of each connection as the test says, until it is gone.
class lying_redis {
  public:
    /// `answer`: writes to the connection; returns when it is done with it.
    explicit lying_redis(std::function<void(int connection)> answer) {
        listening_ = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        if (bind(listening_, reinterpret_cast<sockaddr*>(&at), size) != 0 ||
            listen(listening_, 8) != 0)
            throw std::runtime_error("no port");
        getsockname(listening_, reinterpret_cast<sockaddr*>(&at), &size);
        port_ = ntohs(at.sin_port);
        serving_ = std::thread([this, answer = std::move(answer)] {
            for (int one = 0; (one = accept(listening_, nullptr, nullptr)) >= 0; close(one)) {
                char command[4096];
                if (recv(one, command, sizeof command, 0) > 0) answer(one);
            }
        });
    }
    ~lying_redis() {
        shutdown(listening_, SHUT_RDWR);
        serving_.join();
        close(listening_);
    }
    redis_address address() const { return {"127.0.0.1", port_, 0, {}}; }

  private:
    int listening_ = -1;
    int port_ = 0;
    std::thread serving_;
};

bool say(int connection, const std::string& text) {
    return send(connection, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
}

TEST(redis_liar, a_reply_that_comes_in_drops_is_waited_for_no_longer_than_any) {
    lying_redis redis([](int connection) {
        say(connection, "$1000\r\n");
        while (say(connection, "x")) std::this_thread::sleep_for(milliseconds(20));
    });
    redis_link link(redis.address(), milliseconds(200));
    const auto before = clock::now();
    EXPECT_FALSE(link.call({"GET", "a"}));
    EXPECT_LT(clock::now() - before, milliseconds(2'000));
}

TEST(redis_liar, a_reply_without_an_end_takes_no_memory) {
    std::atomic<std::size_t> sent{0};
    lying_redis redis([&](int connection) {
        say(connection, "$500000000\r\n");
        const std::string piece(16 * 1024, 'x');
        while (say(connection, piece)) sent += piece.size();
    });
    redis_link link(redis.address(), milliseconds(20'000));
    const auto got = link.call({"GET", "a"});
    ASSERT_FALSE(got);
    EXPECT_NE(got.error().find("more than 65536 bytes"), std::string::npos) << got.error();
    EXPECT_LT(sent, std::size_t{64} << 20) << "what sockets hold";
}

TEST(redis_liar, a_reply_that_announces_a_list_of_billions_takes_no_memory_for_it) {
    for (const char* head : {"*2147483647\r\n", "*2\r\n:1\r\n*2147483647\r\n", "*1025\r\n"}) {
        lying_redis redis([&](int connection) { say(connection, head); });
        redis_link link(redis.address(), milliseconds(5'000));
        const auto before = clock::now();
        EXPECT_FALSE(link.call({"GET", "a"})) << head;
        EXPECT_LT(clock::now() - before, milliseconds(2'000)) << head;
    }
}

TEST(redis_liar, a_message_without_an_end_ends_the_connection) {
    lying_redis redis([](int connection) {
        say(connection, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$500000000\r\n");
        const std::string piece(16 * 1024, 'x');
        while (say(connection, piece)) {
        }
    });
    redis_listener listener(redis.address(), {"c"}, milliseconds(1'000));
    const auto got = listener.next(milliseconds(10'000));
    ASSERT_FALSE(got);
    EXPECT_NE(got.error().find("no end"), std::string::npos) << got.error();
}

TEST(redis_liar, a_stream_of_other_things_holds_nobody_up) {
    lying_redis redis([](int connection) {
        const std::string piece(1024, 'x');
        while (say(connection, "+" + piece + "\r\n")) {
        }
    });
    redis_listener listener(redis.address(), {"c"}, milliseconds(1'000));
    const auto before = clock::now();
    const auto got = listener.next(milliseconds(300));
    EXPECT_TRUE(got && !*got);
    EXPECT_LT(clock::now() - before, milliseconds(2'000));
}

TEST(redis_seal, holds_for_its_purpose_its_text_and_its_time) {
    std::int64_t now = 1'800'000'000;
    redis_seal one([&] { return now; }), two([&] { return now; }), other([&] { return now; });
    EXPECT_FALSE(one.has_secret());
    EXPECT_FALSE(one.seal("p", "text"));
    one.set_secret("s");
    two.set_secret("s");
    other.set_secret("t");
    const std::string sealed = one.seal("p", "a text").value();
    EXPECT_EQ(two.open("p", sealed), "a text");
    EXPECT_EQ(two.open("q", sealed), std::nullopt);
    EXPECT_EQ(other.open("p", sealed), std::nullopt);
    EXPECT_EQ(redis_seal().open("p", sealed), std::nullopt);
    for (std::size_t i = 0; i < sealed.size(); ++i) {
        std::string changed = sealed;
        changed[i] = static_cast<char>(changed[i] ^ 1);
        EXPECT_EQ(two.open("p", changed), std::nullopt) << i;
        EXPECT_EQ(two.open("p", sealed.substr(0, i)), std::nullopt) << i;
    }
    for (const auto& [seconds, is_good] : {std::pair{redis_seal::seconds_max, true},
                                           {redis_seal::seconds_max + 1, false},
                                           {-redis_seal::seconds_max, true},
                                           {-redis_seal::seconds_max - 1, false}}) {
        now = 1'800'000'000 + seconds;
        EXPECT_EQ(two.open("p", sealed).has_value(), is_good) << seconds;
    }
}

}  // namespace
}  // namespace semantic::storage
