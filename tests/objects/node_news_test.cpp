// SPDX-License-Identifier: Apache-2.0
// Messages between nodes, on a real Redis that dies, is silent, and comes back.

#include "storage/objects/redis/node_news.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "storage/objects/random_id.hpp"
#include "storage/objects/redis/uploaded_blocks.hpp"
#include "tests/objects/machine.hpp"
#include "tests/objects/redis_process.hpp"

namespace semantic::storage {
namespace {

using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

bool soon(const std::function<bool()>& is_so, milliseconds most = milliseconds(10'000)) {
    for (const auto until = clock::now() + most; !is_so();) {
        if (clock::now() > until) return false;
        std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
}

class news_on_redis : public testing::Test {
  protected:
    void SetUp() override {
        if (!tests::redis_process::is_installed()) GTEST_SKIP() << "there is no redis-server";
        redis_.emplace();
    }
    std::unique_ptr<node_news> node(const std::string& url = {},
                                    milliseconds interval = milliseconds(50),
                                    milliseconds forget_after = milliseconds(1'000)) {
        node_news_options how;
        how.address = redis_->address();
        how.url = url;
        how.interval = interval;
        how.forget_after = forget_after;
        how.pause = milliseconds(50);
        how.on_warning = [this](const std::string&) { ++warnings_; };
        auto made = std::make_unique<node_news>(how);
        made->set_secret(secret);
        return made;
    }
    /// As a node of the same object store publishes it.
    static std::string sealed(const std::string& channel, const std::string& text) {
        redis_seal seal;
        seal.set_secret(secret);
        return seal.seal(channel, text).value();
    }
    static redis_result<redis_reply> publish(redis_link& link, const std::string& channel,
                                             const std::string& text) {
        return link.call({"PUBLISH", channel, sealed(channel, text)});
    }
    static bool hears(const node_news& node, std::size_t others) {
        return soon([&] { return node.nodes().size() == others + 1; });
    }

    static constexpr const char* secret = "what all nodes share";

    std::optional<tests::redis_process> redis_;
    std::atomic<int> warnings_{0};
};

TEST_F(news_on_redis, nodes_hear_of_each_other_and_what_each_says) {
    const auto one = node("http://one:1"), two = node("http://two:2");
    one->describe_by([] { return std::string(R"({"i":"am one"})"); });
    ASSERT_TRUE(hears(*one, 1) && hears(*two, 1));
    EXPECT_TRUE(soon([&] { return two->nodes()[1].says == R"({"i":"am one"})"; }));
    const auto seen = two->nodes();
    EXPECT_TRUE(seen[0].is_self);
    EXPECT_EQ(seen[0].url, "http://two:2");
    EXPECT_EQ(seen[1].url, "http://one:1");
    EXPECT_FALSE(seen[1].is_self);
    EXPECT_EQ(two->counts().nodes, 1U);
    one->describe_by({});
}

TEST_F(news_on_redis, a_node_that_can_say_more_says_so_at_once) {
    const auto one = node({}, std::chrono::hours(1)), two = node();
    ASSERT_TRUE(hears(*one, 1));
    one->describe_by([] { return std::string("ready"); });
    EXPECT_TRUE(soon([&] {
        const auto all = two->nodes();
        return all.size() == 2 && all[1].says == "ready";
    }));
    one->describe_by({});
}

TEST_F(news_on_redis, one_that_leaves_is_gone_at_once_and_one_that_dies_after_a_while) {
    const auto one = node();
    auto two = node(), three = node();
    ASSERT_TRUE(hears(*one, 2));
    const auto before = clock::now();
    two.reset();
    ASSERT_TRUE(hears(*one, 1));
    EXPECT_LT(clock::now() - before, milliseconds(900));
    redis_link dead(redis_->address(), milliseconds(1000));
    ASSERT_TRUE(publish(dead, "semantic:nodes:0", std::string(32, 'a') + " here http://gone:1 {}"));
    ASSERT_TRUE(hears(*one, 2));
    ASSERT_TRUE(hears(*one, 1));
}

TEST_F(news_on_redis, what_is_told_of_agents_reaches_the_others_and_not_who_tells) {
    const auto one = node(), two = node();
    std::mutex mutex;
    std::vector<std::string> heard;
    const auto take = [&](const agent_news& news) {
        std::lock_guard lock(mutex);
        heard.push_back((news.action == agent_news::kind::saved ? "saved " : "erased ") +
                        news.agent);
    };
    const auto self = one->follow(take), other = two->follow(take);
    ASSERT_TRUE(hears(*one, 1) && hears(*two, 1));
    one->tell({agent_news::kind::saved, "agents/a"});
    one->tell({agent_news::kind::erased, "agents/b"});
    ASSERT_TRUE(soon([&] { return two->counts().heard == 2 && one->counts().told == 2; }));
    std::lock_guard lock(mutex);
    EXPECT_EQ(heard, (std::vector<std::string>{"saved agents/a", "erased agents/b"}));
    EXPECT_EQ(one->counts().told, 2U);
    EXPECT_EQ(one->counts().heard, 0U);
}

TEST_F(news_on_redis, what_makes_no_sense_is_passed_over) {
    const auto one = node();
    redis_link stranger(redis_->address(), milliseconds(1000));
    ASSERT_TRUE(soon([&] { return publish(stranger, "semantic:nodes:0", "a b")->number; }));
    for (const std::string& text :
         {std::string(), std::string(" "), std::string("x"), std::string("x here"),
          std::string("x here javascript:alert(1) {}"),
          std::string(std::string(32, 'a') + " here javascript:1 {}"),
          std::string(32, 'a') + " here - " + std::string(node_news::says_bytes_max + 1, 'x')})
        publish(stranger, "semantic:nodes:0", text);
    for (const char* text : {"", "x", "x saved", "x eaten agents/a"})
        publish(stranger, "semantic:agents:0", text);
    publish(stranger, "semantic:nodes:0",
            std::string(32, 'b') + " here - " + std::string(4096, 'x'));
    ASSERT_TRUE(soon([&] { return one->nodes().size() > 1; }));
    for (const known_node& each : one->nodes()) EXPECT_TRUE(each.is_self || each.says.size() > 1);
    EXPECT_EQ(one->counts().heard, 0U);
}

TEST_F(news_on_redis, what_no_node_has_signed_is_not_heard) {
    const auto one = node();
    std::atomic<int> heard_unsigned{0}, heard_signed{0};
    const auto following = one->follow([&](const agent_news& news) {
        ++(news.agent == "agents/signed" ? heard_signed : heard_unsigned);
    });
    redis_link stranger(redis_->address(), milliseconds(1000));
    const std::string id = random_id();
    const std::string sign = id + " here http://203.0.113.66:8001 {}";
    const std::string news = id + " erased agents/a";
    redis_seal other;
    other.set_secret("another object store's");
    for (const auto& [channel, text] :
         {std::pair<std::string, std::string>{"semantic:nodes:0", sign},
          {"semantic:nodes:0", other.seal("semantic:nodes:0", sign).value()},
          {"semantic:nodes:0", sealed("semantic:nodes:1", sign)},
          {"semantic:agents:0", news},
          {"semantic:agents:0", other.seal("semantic:agents:0", news).value()},
          {"semantic:agents:0", sealed("semantic:nodes:0", news)},
          {"semantic:nodes:0", std::string(100'000, 'x')}})
        ASSERT_TRUE(soon([&, &to = channel, &said = text] {
            return stranger.call({"PUBLISH", to, said})->number > 0;
        }));
    // The node breaks off the connection that brought the long message, and loses what is
    // published until it listens again.
    ASSERT_TRUE(soon([&] {
        publish(stranger, "semantic:agents:0", id + " erased agents/signed");
        return heard_signed > 0;
    }));
    EXPECT_EQ(heard_unsigned, 0);
    EXPECT_EQ(one->nodes().size(), 1u);
}

TEST_F(news_on_redis, no_more_nodes_are_remembered_than_may_be) {
    const auto one = node({}, std::chrono::hours(1), std::chrono::minutes(2));
    redis_link stranger(redis_->address(), milliseconds(1000));
    const auto says = [&](const std::string& id) {
        return publish(stranger, "semantic:nodes:0", id + " here - {}");
    };
    const std::string first = random_id();
    ASSERT_TRUE(soon([&] { return says(first)->number > 0; }));
    for (std::size_t i = 0; i < node_news::nodes_max; ++i) ASSERT_TRUE(says(random_id()));
    EXPECT_TRUE(soon([&] { return one->nodes().size() == node_news::nodes_max + 1; }));
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(one->nodes().size(), node_news::nodes_max + 1);  // with itself
}

TEST_F(news_on_redis, no_more_news_wait_for_a_receiver_than_may) {
    const auto one = node();
    std::atomic<bool> is_in{false}, may_go{false};
    const auto following = one->follow([&](const agent_news&) {
        is_in = true;
        while (!may_go) std::this_thread::sleep_for(milliseconds(5));
    });
    redis_link stranger(redis_->address(), milliseconds(1000));
    const std::string id = random_id();
    const auto says = [&] {
        return publish(stranger, "semantic:agents:0", id + " saved agents/a");
    };
    ASSERT_TRUE(soon([&] { return says()->number > 0; }));
    ASSERT_TRUE(soon([&] { return is_in.load(); }));
    for (std::size_t i = 0; i < node_news::heard_max + 1; ++i) ASSERT_TRUE(says());
    EXPECT_TRUE(soon([&] { return one->counts().dropped == 1; }));
    may_go = true;
    EXPECT_TRUE(soon([&] { return one->counts().heard == node_news::heard_max + 1; }));
}

TEST_F(news_on_redis, while_redis_is_gone_nothing_waits_and_later_they_hear_again) {
    const auto one = node("http://one:1"), two = node("http://two:2");
    ASSERT_TRUE(hears(*one, 1));
    redis_->stop();
    ASSERT_TRUE(soon([&] { return warnings_ >= 2; }));  // once a node
    const auto before = clock::now();
    for (std::size_t i = 0; i < node_news::waiting_max + 1; ++i)
        one->tell({agent_news::kind::saved, "agents/a"});
    EXPECT_LT(clock::now() - before, milliseconds(200));
    ASSERT_TRUE(hears(*one, 0));
    ASSERT_TRUE(soon([&] { return one->counts().dropped > node_news::waiting_max; }));
    redis_->start();
    EXPECT_TRUE(hears(*one, 1) && hears(*two, 1));
}

TEST_F(news_on_redis, a_silent_redis_holds_up_no_end) {
    auto one = node();
    redis_->pause();
    one->tell({agent_news::kind::saved, "agents/a"});
    std::this_thread::sleep_for(milliseconds(100));
    const auto before = clock::now();
    one.reset();
    EXPECT_LT(clock::now() - before, milliseconds(3'000));
    redis_->go_on();
}

TEST_F(news_on_redis, a_receiver_that_takes_its_time_hides_no_node) {
    const auto one = node(), two = node();
    std::atomic<bool> is_in{false}, may_go{false};
    const auto following = two->follow([&](const agent_news&) {
        is_in = true;
        while (!may_go) std::this_thread::sleep_for(milliseconds(5));
    });
    ASSERT_TRUE(hears(*one, 1) && hears(*two, 1));
    one->tell({agent_news::kind::saved, "agents/a"});
    ASSERT_TRUE(soon([&] { return is_in.load(); }));
    std::this_thread::sleep_for(milliseconds(1'500));  // longer than a silent node is shown
    EXPECT_EQ(two->nodes().size(), 2u);
    EXPECT_EQ(two->counts().heard, 0U);
    may_go = true;
    EXPECT_TRUE(soon([&] { return two->counts().heard == 1; }));
}

TEST_F(news_on_redis, what_is_said_of_an_agent_counts_only_as_far_as_the_object_store_says_it_too) {
    using namespace tests;
    temp_dir objects, first, second;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    const auto tokens = some_tokens(4 * block_tokens);
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(b.fetch("ada"));
    const std::string name = shared_name_of(*b.store, id_of("ada"));
    b.shared->heard_erased(name);  // a lie
    b.shared->heard_erased("agents/unknown");
    b.shared->heard_erased("../../etc/passwd");
    EXPECT_TRUE(b.has("ada", tokens));
    const auto checks = b.shared->counts().agents_fetched;
    a.put("ada", some_tokens(5 * block_tokens));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    b.shared->heard_erased(name);  // of a newer memory too; nobody has asked for that one here
    EXPECT_EQ(b.shared->counts().agents_fetched, checks);
    ASSERT_TRUE(a.shared->forget(id_of("ada")));
    {
        const auto held = b.store->hold(id_of("ada"));
        b.shared->heard_erased(name);
        EXPECT_NE(b.store->find(id_of("ada")), nullptr);
    }
    b.shared->heard_erased(name);
    EXPECT_EQ(b.store->find(id_of("ada")), nullptr);
    EXPECT_EQ(b.shared->counts().erased, 1U);
}

TEST_F(news_on_redis, an_agent_that_another_machine_goes_on_with_leaves_the_pool) {
    using namespace tests;
    temp_dir objects, first, second;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    const auto tokens = some_tokens(4 * block_tokens);
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    const std::string name = shared_name_of(*a.store, id_of("ada"));
    ASSERT_GT(a.store->inspect(id_of("ada"))->frames_held, 0u);
    {
        const auto held = a.store->hold(id_of("ada"));
        a.shared->heard_saved(name);  // by somebody who does not matter: it is in use here
    }
    EXPECT_GT(a.store->inspect(id_of("ada"))->frames_held, 0u);
    a.shared->heard_saved("agents/unknown");
    a.shared->heard_saved(name);
    EXPECT_EQ(a.store->inspect(id_of("ada"))->frames_held, 0u);
    EXPECT_EQ(a.shared->counts().evicted, 1U);
    EXPECT_TRUE(a.has("ada", tokens));
}

class blocks_on_redis : public news_on_redis {};

TEST_F(blocks_on_redis, what_one_node_has_put_another_knows_for_two_days) {
    long long day = 100;
    uploaded_blocks one(redis_->address(), milliseconds(300), [&] { return day; });
    uploaded_blocks two(redis_->address(), milliseconds(300), [&] { return day; });
    one.note({"blocks/a", "blocks/b"});
    const std::vector<std::string> names{"blocks/b", "blocks/c", "blocks/a"};
    EXPECT_EQ(two.look(names), (std::vector<bool>{true, false, true}));
    ++day;
    EXPECT_EQ(two.look(names), (std::vector<bool>{true, false, true}));
    ++day;
    EXPECT_EQ(two.look(names), (std::vector<bool>{false, false, false}));
    EXPECT_EQ(two.look({}), std::vector<bool>());
    redis_link link(redis_->address(), milliseconds(300));
    const auto left = link.call({"TTL", "semantic:blocks:100"});
    ASSERT_TRUE(left);
    EXPECT_GT(left->number, 172'000);
}

TEST_F(blocks_on_redis, many_names_are_asked_for_in_parts) {
    uploaded_blocks one(redis_->address(), milliseconds(1000));
    std::vector<std::string> names;
    for (int i = 0; i < 2'500; ++i) names.push_back("blocks/" + std::to_string(i));
    one.note(names);
    names.push_back("blocks/none");
    const auto known = one.look(names);
    ASSERT_TRUE(known);
    EXPECT_EQ(std::ranges::count(*known, true), 2'500);
    EXPECT_FALSE(known->back());
}

TEST_F(blocks_on_redis, without_redis_there_is_no_answer_and_no_wait) {
    uploaded_blocks one(redis_->address(), milliseconds(200));
    redis_->stop();
    EXPECT_EQ(one.look({"blocks/a"}), std::nullopt);
    const auto before = clock::now();
    EXPECT_EQ(one.look({"blocks/a"}), std::nullopt);
    one.note({"blocks/a"});
    EXPECT_LT(clock::now() - before, milliseconds(50));
}

TEST_F(blocks_on_redis, a_wrong_hint_loses_no_block) {
    using namespace tests;
    temp_dir objects, first, second, third;
    const auto tokens = some_tokens(4 * block_tokens);
    uploaded_blocks hints(redis_->address(), milliseconds(1000));
    machine a(objects.path(), first.path());
    a.share_with(&hints);
    // Redis says that they are there, and they are not.
    std::vector<std::string> lies;
    a.store->put(make_state(a.pool, "ada", tokens));
    ASSERT_TRUE(a.store->save(id_of("ada")));
    for (const blocks_stored& run : a.store->stored_blocks(id_of("ada")))
        for (const block_hash& each : run.names) lies.push_back(block_path(each, kv_part::full));
    ASSERT_EQ(lies.size(), 4u);
    hints.note(lies);
    a.shared->note_saved(id_of("ada"));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    EXPECT_EQ(a.shared->counts().blocks_uploaded, 4U);
    machine b(objects.path(), second.path());
    ASSERT_TRUE(b.fetch("ada"));
    EXPECT_TRUE(b.has("ada", tokens));
    // Redis says nothing of what is there.
    redis_->stop();
    redis_->start();
    machine c(objects.path(), third.path());
    uploaded_blocks empty(redis_->address(), milliseconds(1000));
    c.share_with(&empty);
    c.put("bea", tokens);
    ASSERT_TRUE(c.shared->wait_until_idle(patience));
    EXPECT_EQ(c.shared->counts().blocks_uploaded, 0U);
    ASSERT_TRUE(b.fetch("bea"));
    EXPECT_TRUE(b.has("bea", tokens));
    EXPECT_EQ(empty.look(lies), (std::vector<bool>(4, true)));
}

TEST_F(blocks_on_redis, many_blocks_that_redis_has_forgotten_are_asked_for_and_not_uploaded) {
    using namespace tests;
    temp_dir objects, first;
    const auto tokens = some_tokens(5 * block_tokens);
    {
        machine a(objects.path(), first.path());
        a.put("ada", tokens);
        ASSERT_TRUE(a.shared->wait_until_idle(patience));
    }
    uploaded_blocks empty(redis_->address(), milliseconds(1000));
    for (const int blocks : {5, 4}) {
        temp_dir fresh;
        machine c(objects.path(), fresh.path());
        c.blocks = &empty;
        slow_objects& store = c.make_slow(milliseconds(0));
        redis_link link(redis_->address(), milliseconds(1000));
        ASSERT_TRUE(link.call({"FLUSHALL"}));
        c.put("cat-" + std::to_string(blocks), some_tokens(blocks * block_tokens));
        ASSERT_TRUE(c.shared->wait_until_idle(patience));
        // The manifest, and blocks where they are few.
        EXPECT_EQ(store.puts, blocks > 4 ? 1 : 5);
        EXPECT_EQ(c.shared->counts().blocks_uploaded, 0U);
    }
}

}  // namespace
}  // namespace semantic::storage
