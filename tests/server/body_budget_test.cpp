// SPDX-License-Identifier: Apache-2.0
// What half-read bodies may take together.

#include "server/http/body_budget.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <gtest/gtest.h>

#include <deque>

#include "server/runtime/tokens.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using namespace std::chrono_literals;
using tests::answer_with;
using tests::get;
using tests::http_client;
using tests::post;
using clock = std::chrono::steady_clock;

enum class state { waits, has_it, too_late };

net::awaitable<void> grow(body_budget::share* one, std::size_t bytes, clock::time_point until,
                          state* now) {
    const bool got = co_await one->grow_to(bytes, until);
    *now = got ? state::has_it : state::too_late;
}

class rooms : public ::testing::Test {
  protected:
    /// Returns: the state once nothing more happens by itself.
    state* ask(body_budget::share& one, std::size_t bytes, clock::duration patience = 1h) {
        states_.push_back(std::make_unique<state>(state::waits));
        state* now = states_.back().get();
        net::co_spawn(context_, grow(&one, bytes, clock::now() + patience, now),
                      [](std::exception_ptr) {});
        run();
        return now;
    }
    void run() {
        context_.restart();
        context_.poll();
    }
    net::io_context context_;
    std::vector<std::unique_ptr<state>> states_;
    body_budget room_{100, 10};
};

TEST_F(rooms, bytes_at_the_bound_are_given_and_one_more_waits_until_another_is_gone) {
    body_budget::share a(room_), b(room_), c(room_);
    EXPECT_EQ(*ask(a, 60), state::has_it);
    EXPECT_EQ(*ask(b, 40), state::has_it);
    state* more = ask(b, 41);
    EXPECT_EQ(*more, state::waits);
    EXPECT_EQ(*ask(c, 10), state::has_it) << "small bodies are not counted";
    EXPECT_FALSE(c.is_counted());
    a.free();
    run();
    EXPECT_EQ(*more, state::has_it);
}

TEST_F(rooms, the_body_that_came_first_never_waits) {
    body_budget::share a(room_), b(room_), c(room_);
    EXPECT_EQ(*ask(a, 50), state::has_it);
    EXPECT_EQ(*ask(b, 50), state::has_it);
    state* second = ask(b, 80);
    EXPECT_EQ(*second, state::waits);
    EXPECT_EQ(*ask(a, 300), state::has_it);
    state* third = ask(c, 20);
    a.free();
    run();
    EXPECT_EQ(*second, state::has_it);
    EXPECT_EQ(*third, state::has_it);
}

TEST_F(rooms, who_waits_too_long_gets_nothing_and_takes_nothing) {
    body_budget::share a(room_), b(room_);
    EXPECT_EQ(*ask(a, 100), state::has_it);
    EXPECT_EQ(*ask(b, 20, 0s), state::too_late);
    a.free();
    body_budget::share c(room_);
    EXPECT_EQ(*ask(c, 100), state::has_it);
}

TEST_F(rooms, a_body_that_waits_stands_in_nobodys_way_and_half_of_the_room_may_wait) {
    body_budget::share a(room_), b(room_), c(room_), d(room_);
    EXPECT_EQ(*ask(a, 50), state::has_it);
    EXPECT_TRUE(a.set_aside());
    EXPECT_FALSE(a.is_counted());
    EXPECT_EQ(*ask(b, 50), state::has_it);
    EXPECT_FALSE(b.set_aside()) << "half of it is set aside";
    state* more = ask(c, 60);
    EXPECT_EQ(*more, state::waits) << "what waits is there";
    b.free();
    run();
    EXPECT_EQ(*more, state::has_it) << "the first of those that are read";
    c.free();
    a.free();
    EXPECT_EQ(*ask(d, 10), state::has_it);
    EXPECT_TRUE(d.set_aside()) << "a small one always";
    EXPECT_EQ(*ask(b, 100), state::has_it) << "and nothing is lost";
}

TEST_F(rooms, one_tenants_bodies_never_have_all_and_its_first_never_waits_for_its_own_share) {
    body_budget shared(100, 10, 75);
    body_budget::share a(shared), b(shared), c(shared), other(shared);
    for (body_budget::share* each : {&a, &b, &c}) each->set_tenant("a");
    other.set_tenant("b");
    EXPECT_EQ(*ask(a, 40), state::has_it);
    EXPECT_EQ(*ask(b, 25), state::has_it);
    state* more = ask(c, 11);
    EXPECT_EQ(*more, state::waits) << "there is room, and not for this tenant";
    EXPECT_EQ(*ask(other, 35), state::has_it);
    a.free();
    run();
    EXPECT_EQ(*more, state::has_it);
    b.free();
    c.free();
    EXPECT_EQ(*ask(a, 65), state::has_it) << "behind another's, in its whole share";
    other.free();
    body_budget::share first(shared), second(shared);
    a.free();
    first.set_tenant("b");
    second.set_tenant("a");
    EXPECT_EQ(*ask(first, 11), state::has_it);
    EXPECT_EQ(*ask(second, 89), state::has_it) << "it is the tenant's first";
}

TEST_F(rooms, of_many_bodies_of_one_tenant_the_first_has_bytes_left_and_others_keep_theirs) {
    body_budget shared(100, 10, 75);
    std::deque<body_budget::share> greedy;
    std::size_t held = 0;
    for (int i = 0; i < 6; ++i) greedy.emplace_back(shared).set_tenant("a");
    for (std::size_t bytes = 12; bytes <= 24; bytes += 4)
        for (body_budget::share& each : greedy)
            if (*ask(each, bytes) == state::has_it && bytes == 12) held += bytes;
    EXPECT_EQ(held, 48u) << "the first, and three of the others in the rest of the share";
    EXPECT_EQ(*ask(greedy.front(), 25), state::has_it);
    body_budget::share other(shared);
    other.set_tenant("b");
    EXPECT_EQ(*ask(other, 35), state::has_it) << "whatever the first one's others have taken";
}

TEST_F(rooms, one_tenants_bodies_that_wait_never_have_all_that_may_wait) {
    body_budget shared(100, 10, 75);
    body_budget::share a(shared), b(shared), other(shared);
    for (body_budget::share* each : {&a, &b}) each->set_tenant("a");
    other.set_tenant("b");
    EXPECT_EQ(*ask(a, 37), state::has_it);
    EXPECT_TRUE(a.set_aside());
    EXPECT_EQ(*ask(b, 11), state::has_it);
    EXPECT_FALSE(b.set_aside());
    EXPECT_EQ(*ask(other, 13), state::has_it);
    EXPECT_TRUE(other.set_aside());
}

app_options two_bodies_of_a_mib() {
    app_options options = test_server::default_options();
    options.settings.body_limit_mb = 1;
    options.limits.bodies_at_once = 2;
    return options;
}

constexpr std::size_t large = 900'000;

TEST(body_limits, bodies_beyond_the_room_are_read_when_others_are_gone) {
    test_server server(two_bodies_of_a_mib());
    server.ready().engine().on_submit = answer_with({"x"});
    const std::string whole = post("/v1/messages", message_body(false, std::string(large, 'x')));
    std::deque<http_client> half;
    for (int i = 0; i < 8; ++i)
        half.emplace_back(server.port()).send(whole.substr(0, whole.size() - 1));
    http_client small(server.port());
    EXPECT_EQ(small.request(post("/v1/messages", message_body(false))).status, 200);
    for (http_client& one : half) one.send(whole.substr(whole.size() - 1));
    for (http_client& one : half) EXPECT_EQ(one.read_reply().status, 200);
}

TEST(body_limits, one_keys_half_read_bodies_keep_no_other_keys_out) {
    app_options options = two_bodies_of_a_mib();
    options.limits.bodies_at_once = 4;
    options.settings.api_keys = {"k1", "k2"};
    test_server server(std::move(options));
    server.ready().engine().on_submit = answer_with({"x"});
    const auto whole = [](const std::string& key) {
        return post("/v1/messages", message_body(false, std::string(large, 'x')),
                    "x-api-key: " + key + "\r\n");
    };
    const std::string greedy = whole("k1");
    std::deque<http_client> half;
    for (int i = 0; i < 6; ++i)
        half.emplace_back(server.port()).send(greedy.substr(0, greedy.size() - 1));
    http_client other(server.port());
    EXPECT_EQ(other.request(whole("k2")).status, 200) << "it is waited for 5 s";
    for (http_client& one : half) one.send(greedy.substr(greedy.size() - 1));
    for (http_client& one : half) EXPECT_EQ(one.read_reply().status, 200);
}

TEST(body_limits, a_large_body_that_stays_silent_is_408_and_the_next_is_read) {
    app_options options = two_bodies_of_a_mib();
    options.limits.bodies_at_once = 1;
    options.limits.body_silence = 200ms;
    test_server server(std::move(options));
    server.ready().engine().on_submit = answer_with({"x"});
    const std::string whole = post("/v1/messages", message_body(false, std::string(large, 'x')));
    http_client silent(server.port());
    silent.send(whole.substr(0, whole.size() - 1));
    http_client next(server.port());
    EXPECT_EQ(next.request(whole).status, 200);
    EXPECT_EQ(silent.read_reply().status, 408);
}

TEST(body_limits, a_body_that_finds_no_room_in_its_time_is_408) {
    app_options options = two_bodies_of_a_mib();
    options.limits.bodies_at_once = 1;
    options.limits.body = 300ms;
    test_server server(std::move(options));
    server.ready();
    server.engine().on_submit = answer_with({"x"});
    const std::string whole = post("/v1/messages", message_body(false, std::string(large, 'x')));
    std::deque<http_client> half;
    for (int i = 0; i < 3; ++i)
        half.emplace_back(server.port()).send(whole.substr(0, whole.size() - 1));
    for (http_client& one : half) EXPECT_EQ(one.read_reply().status, 408);
    http_client after(server.port());
    EXPECT_EQ(after.request(whole).status, 200);
}

/// Sends it and waits until the engine has it.
void begin_answer(test_server& server, http_client& client, const std::string& body) {
    const std::size_t before = server.engine().request_count();
    client.send(body);
    ASSERT_NE(server.engine().wait_for_request(before + 1), 0u);
}

// Goal: a body is gone when it is parsed, whatever it refers to, and holds no room while its answer
// is made.
TEST(body_limits, a_body_that_is_parsed_makes_room_whatever_words_are_in_it) {
    app_options options = two_bodies_of_a_mib();
    options.limits.bodies_at_once = 1;
    options.settings.shutdown_grace = 0s;
    test_server server(std::move(options));
    server.ready();
    const std::string text(large, 'x');
    std::deque<http_client> answered;
    for (const char* more : {"", " conversation", " previous_response_id", " item_reference"}) {
        const std::string body = R"({"model":"scripted","input":")" + text + more + "\"}";
        begin_answer(server, answered.emplace_back(server.port()), post("/v1/responses", body));
    }
    begin_answer(server, answered.emplace_back(server.port()),
                 post("/v1/messages", message_body(false, text)));
}

}  // namespace
}  // namespace semantic::server
