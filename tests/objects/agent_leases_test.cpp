// SPDX-License-Identifier: Apache-2.0
// Leases among nodes, on a real Redis that dies, is silent, and comes back.

#include "storage/objects/redis/agent_leases.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/objects/redis_process.hpp"

namespace semantic::storage {
namespace {

using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

class agent_leases_on_redis : public testing::Test {
  protected:
    void SetUp() override {
        if (!tests::redis_process::is_installed()) GTEST_SKIP() << "there is no redis-server";
        redis_.emplace();
    }
    /// A node that others reach at `url`.
    std::unique_ptr<agent_leases> node(const std::string& url = {},
                                       milliseconds lasts = milliseconds(1500)) {
        agent_leases_options how;
        how.address = redis_->address();
        how.url = url;
        how.lasts = lasts;
        how.wait = milliseconds(0);
        how.pause = milliseconds(500);
        how.on_warning = [this](const std::string&) { ++warnings_; };
        auto made = std::make_unique<agent_leases>(how);
        made->set_secret(secret);
        return made;
    }
    /// What a node of the same object store, called `id`, puts in Redis for the agent.
    static std::string lease_of(const std::string& id, const std::string& url,
                                const std::string& agent = "a") {
        redis_seal seal;
        seal.set_secret(secret);
        return id + " " + seal.seal("lease " + id + " " + agent, url).value();
    }
    static bool soon(const std::function<bool()>& is_so, milliseconds most = milliseconds(10'000)) {
        const auto until = clock::now() + most;
        while (!is_so()) {
            if (clock::now() > until) return false;
            std::this_thread::sleep_for(milliseconds(5));
        }
        return true;
    }

    static constexpr const char* secret = "what all nodes share";
    inline static const std::string other_id = std::string(32, 'b');

    std::optional<tests::redis_process> redis_;
    std::atomic<int> warnings_{0};
};

TEST_F(agent_leases_on_redis, one_node_has_an_agent_and_the_others_hear_where) {
    const auto one = node("http://one:8001"), two = node("http://two:8001");
    const auto mine = one->take("agents/a");
    EXPECT_TRUE(mine.mine);
    EXPECT_FALSE(mine.is_elsewhere);
    const auto theirs = two->take("agents/a");
    EXPECT_FALSE(theirs.mine);
    EXPECT_TRUE(theirs.is_elsewhere);
    EXPECT_EQ(theirs.url, "http://one:8001");
    EXPECT_TRUE(two->take("agents/b").mine);
    EXPECT_EQ(one->counts().taken, 1U);
    EXPECT_EQ(two->counts().elsewhere, 1U);
}

TEST_F(agent_leases_on_redis, it_is_given_back_when_the_last_user_has_left) {
    const auto one = node(), two = node();
    auto first = one->take("a").mine;
    auto second = one->share("a");
    EXPECT_TRUE(second);
    first.reset();
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_TRUE(two->take("a").is_elsewhere);
    second.reset();
    EXPECT_TRUE(soon([&] { return two->take("a").mine != nullptr; }, milliseconds(1200)));
    EXPECT_EQ(one->share("a"), nullptr);
}

TEST_F(agent_leases_on_redis, take_waits_a_little_for_a_node_that_is_about_to_be_done) {
    const auto one = node();
    auto held = one->take("a").mine;
    agent_leases_options patient;
    patient.address = redis_->address();
    patient.wait = milliseconds(5'000);
    agent_leases two(patient);
    two.set_secret(secret);
    std::thread ends([&] {
        std::this_thread::sleep_for(milliseconds(100));
        held.reset();
    });
    EXPECT_TRUE(two.take("a").mine);
    ends.join();
    EXPECT_EQ(two.counts().elsewhere, 0U);
}

TEST_F(agent_leases_on_redis, one_lasts_as_long_as_it_is_used) {
    const auto one = node(), two = node();
    const auto held = one->take("a").mine;
    for (int i = 0; i < 30; ++i) {
        std::this_thread::sleep_for(milliseconds(100));  // twice as long as one lasts
        ASSERT_TRUE(two->take("a").is_elsewhere) << i;
    }
}

TEST_F(agent_leases_on_redis, that_of_a_node_which_died_runs_out) {
    agent_leases_options silent;
    silent.address = redis_->address();
    redis_link link(silent.address, milliseconds(1000));
    ASSERT_TRUE(
        link.call({"SET", "semantic:lease:a", lease_of(other_id, "http://gone:1"), "PX", "300"}));
    const auto one = node();
    EXPECT_EQ(one->take("a").url, "http://gone:1");
    EXPECT_TRUE(soon([&] { return one->take("a").mine != nullptr; }));
}

TEST_F(agent_leases_on_redis, a_node_that_ends_gives_back_what_it_has) {
    auto one = node();
    auto held = one->take("a").mine;
    const auto two = node();
    held.reset();
    one.reset();
    EXPECT_TRUE(two->take("a").mine);
}

TEST_F(agent_leases_on_redis, without_redis_nobody_says_whose_an_agent_is_and_it_is_said_once) {
    const auto one = node(), two = node();
    redis_->stop();
    for (int i = 0; i < 3; ++i) {
        const auto claim = one->take("a");
        EXPECT_FALSE(claim.mine);
        EXPECT_FALSE(claim.is_elsewhere);
    }
    EXPECT_EQ(one->counts().unanswered, 3U);
    EXPECT_EQ(warnings_, 1);
    redis_->start();
    EXPECT_TRUE(soon([&] { return one->take("a").mine != nullptr; }));
}

TEST_F(agent_leases_on_redis, a_silent_redis_is_waited_for_once_and_then_left_alone_for_a_while) {
    const auto one = node();
    ASSERT_TRUE(one->take("a").mine);
    redis_->pause();
    const auto before = clock::now();
    EXPECT_FALSE(one->take("b").mine);
    const auto first = clock::now() - before;
    EXPECT_GE(first, milliseconds(250));
    const auto again = clock::now();
    EXPECT_FALSE(one->take("c").mine);
    EXPECT_LT(clock::now() - again, milliseconds(250));  // less than one wait
    redis_->go_on();
    EXPECT_TRUE(soon([&] { return one->take("b").mine != nullptr; }));
}

TEST_F(agent_leases_on_redis, one_from_before_a_silence_is_renewed_at_once) {
    const auto one = node({}, milliseconds(60'000));
    const auto held = one->take("a").mine;
    redis_->pause();
    EXPECT_FALSE(one->take("b").mine);  // Redis has read it
    redis_->go_on();
    agent_leases::lease again;
    ASSERT_TRUE(soon([&] { return (again = one->take("b").mine) != nullptr; }));
    // A third of a lease would be 20 s. What is known to be this node's needs no further question.
    std::this_thread::sleep_for(milliseconds(500));
    redis_->pause();
    EXPECT_TRUE(one->take("b").mine);
    redis_->go_on();
}

TEST_F(agent_leases_on_redis, what_a_silent_redis_gives_in_the_end_is_given_back) {
    const auto one = node({}, milliseconds(60'000)), two = node();
    const auto held = one->take("a").mine;  // connected
    redis_->pause();
    EXPECT_FALSE(one->take("b").mine);
    redis_->go_on();
    // It has read the question, so that "b" is node one's by now, and nobody uses it.
    EXPECT_TRUE(soon([&] { return two->take("b").is_elsewhere; }));
    EXPECT_TRUE(soon([&] { return one->take("c").mine != nullptr; }));  // it answers again
    EXPECT_TRUE(soon([&] { return two->take("b").mine != nullptr; }));
}

TEST_F(agent_leases_on_redis, a_redis_that_was_started_anew_learns_what_is_held) {
    const auto one = node();
    const auto held = one->take("a").mine;
    redis_->stop();
    redis_->start();
    const auto two = node();
    // The lease is renewed before a third of its time is over.
    ASSERT_TRUE(soon([&] {
        redis_link link(redis_->address(), milliseconds(1000));
        const auto value = link.call({"GET", "semantic:lease:a"});
        return value && value->is == redis_reply::kind::text;
    }));
    EXPECT_TRUE(two->take("a").is_elsewhere);
}

TEST_F(agent_leases_on_redis, one_that_another_node_has_now_is_lost_and_left_to_it) {
    const auto one = node();
    auto held = one->take("a").mine;
    redis_link link(redis_->address(), milliseconds(1000));
    const std::string theirs = lease_of(other_id, "http://other:1");
    ASSERT_TRUE(link.call({"SET", "semantic:lease:a", theirs, "PX", "60000"}));
    EXPECT_TRUE(soon([&] { return one->counts().lost == 1; }));
    EXPECT_EQ(one->take("a").url, "http://other:1");
    held.reset();
    EXPECT_TRUE(soon([&] { return one->counts().held == 0; }));
    EXPECT_EQ(link.call({"GET", "semantic:lease:a"})->text, theirs);
}

TEST_F(agent_leases_on_redis, what_is_no_url_of_a_node_is_told_to_nobody) {
    redis_link link(redis_->address(), milliseconds(1000));
    ASSERT_TRUE(link.call({"SET", "semantic:lease:a", lease_of(other_id, "javascript:alert(1)")}));
    const auto claim = node()->take("a");
    EXPECT_TRUE(claim.is_elsewhere);
    EXPECT_EQ(claim.url, "");
}

TEST_F(agent_leases_on_redis, a_node_that_was_started_anew_sends_nobody_to_itself) {
    redis_link link(redis_->address(), milliseconds(1000));
    ASSERT_TRUE(link.call({"SET", "semantic:lease:a", lease_of(other_id, "http://one:8001")}));
    const auto claim = node("http://one:8001")->take("a");
    EXPECT_TRUE(claim.is_elsewhere);
    EXPECT_EQ(claim.url, "");
}

// Redis is reached without TLS: an attacker who writes there must not redirect a client's request
// and key.
TEST_F(agent_leases_on_redis, one_that_no_node_has_signed_counts_for_nothing) {
    redis_link link(redis_->address(), milliseconds(1000));
    const auto one = node("http://one:8001");
    redis_seal stranger;
    stranger.set_secret("another object store's");
    const std::string url = "http://203.0.113.66:8001";
    redis_seal late([] { return std::int64_t{1'000'000'000}; });
    late.set_secret(secret);
    const std::string good = lease_of(other_id, url);
    std::string changed = good;
    changed.back() = '2';
    for (const std::string& forged :
         {other_id + " " + url, "x " + url, std::string(), std::string(70'000, 'x'), changed,
          other_id + " " + stranger.seal("lease " + other_id + " a", url).value(),
          other_id + " " + late.seal("lease " + other_id + " a", url).value(),
          lease_of(other_id, url, "of another agent"),
          std::string(32, 'c') + good.substr(other_id.size())}) {
        ASSERT_TRUE(link.call({"SET", "semantic:lease:a", forged}));
        std::this_thread::sleep_for(milliseconds(forged.size() > 60'000 ? 600 : 0));
        const auto claim = one->take("a");
        EXPECT_FALSE(claim.mine) << forged.substr(0, 200);
        EXPECT_FALSE(claim.is_elsewhere) << forged.substr(0, 200);
        EXPECT_EQ(claim.url, "");
        std::this_thread::sleep_for(milliseconds(forged.size() > 60'000 ? 600 : 0));
    }
    ASSERT_TRUE(link.call({"SET", "semantic:lease:a", good}));
    EXPECT_EQ(one->take("a").url, url);
    EXPECT_EQ(warnings_, 2) << "one of the forgeries, one of the reply without an end";
}

TEST_F(agent_leases_on_redis, without_the_common_secret_none_is_taken) {
    agent_leases_options how;
    how.address = redis_->address();
    agent_leases one(how);
    EXPECT_FALSE(one.take("a").mine);
    redis_link link(redis_->address(), milliseconds(1000));
    EXPECT_EQ(link.call({"GET", "semantic:lease:a"})->is, redis_reply::kind::nothing);
    one.set_secret(secret);
    EXPECT_TRUE(one.take("a").mine);
}

TEST_F(agent_leases_on_redis, of_many_nodes_and_threads_one_has_an_agent_at_a_time) {
    constexpr int nodes = 4, rounds = 300;
    std::atomic<int> inside{0}, most{0}, entered{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < nodes; ++i)
        threads.emplace_back([&] {
            const auto self = node({}, milliseconds(60'000));
            for (int round = 0; round < rounds; ++round) {
                auto claim = self->take("a");
                if (!claim.mine) continue;
                const int now = ++inside;
                if (now > most) most = now;
                ++entered;
                --inside;
                claim.mine.reset();
            }
        });
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(most, 1);
    EXPECT_GT(entered, 0);
}

TEST_F(agent_leases_on_redis, a_password_is_given_and_a_database_chosen) {
    redis_->require("secret");
    redis_address address = redis_->address();
    address.database = 3;
    redis_link link(address, milliseconds(1000));
    EXPECT_TRUE(link.call({"SET", "k", "v"}));
    address.password = "wrong";
    redis_link wrong(address, milliseconds(1000));
    const auto refused = wrong.call({"GET", "k"});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().find("wrong"), std::string::npos);
    redis_link other(redis_->address(), milliseconds(1000));
    EXPECT_EQ(other.call({"GET", "k"})->is, redis_reply::kind::nothing);
}

TEST(redis_url, has_a_host_and_perhaps_a_port_and_a_database) {
    std::string why;
    const auto plain = parse_redis_url("redis://cache.example", why);
    ASSERT_TRUE(plain) << why;
    EXPECT_EQ(plain->host, "cache.example");
    EXPECT_EQ(plain->port, 6379);
    EXPECT_EQ(plain->database, 0);
    const auto full = parse_redis_url("redis://10.0.0.1:6380/15", why);
    ASSERT_TRUE(full) << why;
    EXPECT_EQ(full->port, 6380);
    EXPECT_EQ(full->database, 15);
    for (const char* bad : {"", "cache", "http://h", "redis://", "redis://:1", "redis://h:0",
                            "redis://h:65536", "redis://h:x", "redis://h/x", "redis://h/-1",
                            "redis://user:pass@h", "redis://h h", "redis://h/1000001"}) {
        why.clear();
        EXPECT_FALSE(parse_redis_url(bad, why)) << bad;
        EXPECT_NE(why, "") << bad;
        EXPECT_EQ(why.find("pass@"), std::string::npos);
    }
}

TEST(node_url, is_where_http_goes_and_nothing_that_ends_a_header) {
    for (const char* good : {"http://node1", "https://10.0.0.1:8001", "http://[::1]:8001",
                             "https://front.example/node1"})
        EXPECT_TRUE(is_node_url(good)) << good;
    for (const char* bad : {"", "node1:8001", "ftp://h", "http://", "http:///x", "http://h\r\nx: y",
                            "http://h h", "http://u@h", "http://h?x"})
        EXPECT_FALSE(is_node_url(bad)) << bad;
    EXPECT_TRUE(is_node_url("http://" + std::string(512, 'h')));
    EXPECT_FALSE(is_node_url("http://" + std::string(513, 'h')));
}

}  // namespace
}  // namespace semantic::storage
