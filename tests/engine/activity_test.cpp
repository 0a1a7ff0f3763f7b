// SPDX-License-Identifier: Apache-2.0
// The engine's activity events for a subscriber, and that without one they cost nothing.

#include <gtest/gtest.h>

#include "engine/types/activity_feed.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::ask;
using semantic::tests::chat_of;
using semantic::tests::load;
using semantic::tests::long_paste;
using semantic::tests::options_in;
using semantic::tests::run;
using semantic::tests::temp_dir;

storage::agent_id id_of(const char* name) { return storage::agent_id::parse(name).value(); }

template <class Kind>
std::vector<Kind> of_kind(const activity_feed::batch& all) {
    std::vector<Kind> found;
    for (const activity& each : all.events)
        if (const auto* one = std::get_if<Kind>(&each.event)) found.push_back(*one);
    return found;
}

TEST(activity_feed, makes_no_event_while_nobody_watches) {
    activity_feed feed;
    int made = 0;
    const auto make = [&] {
        ++made;
        return memory_left{id_of("a")};
    };
    feed.publish(make);
    EXPECT_EQ(made, 0);
    feed.watch(true);
    feed.publish(make);
    feed.watch(false);
    feed.publish(make);
    EXPECT_EQ(made, 1);
    EXPECT_TRUE(feed.take().events.empty());  // what waited is forgotten with the last watcher
}

TEST(activity_feed, hands_everything_over_once_and_in_order) {
    activity_feed feed;
    feed.watch(true);
    for (int i = 0; i < 3; ++i) feed.publish([&] { return request_arrived{request_id(i)}; });
    const auto taken = of_kind<request_arrived>(feed.take());
    ASSERT_EQ(taken.size(), 3u);
    EXPECT_EQ(taken[2].id, 2u);
    EXPECT_TRUE(feed.take().events.empty());
}

TEST(activity_feed, counts_what_came_while_as_many_events_as_it_holds_waited) {
    activity_feed feed;
    feed.watch(true);
    for (std::size_t i = 0; i < activity_feed::events_max + 1; ++i)
        feed.publish([] { return step_run{}; });
    const auto taken = feed.take();
    EXPECT_EQ(taken.events.size(), activity_feed::events_max);
    EXPECT_EQ(taken.dropped, 1u);
    EXPECT_EQ(feed.take().dropped, 0u);
}

TEST(text_difference, shows_both_texts_from_a_little_before_the_place_on) {
    const std::string same(200, 'x');
    const auto found = difference_at(same + "old tail", same + "new tail", 200);
    EXPECT_EQ(found.at, 200u);
    EXPECT_EQ(found.begins, 120u);
    EXPECT_EQ(found.remembered, std::string(80, 'x') + "old tail");
    EXPECT_EQ(found.sent, std::string(80, 'x') + "new tail");
}

TEST(text_difference, cuts_no_character_in_two) {
    std::string umlauts;
    for (int i = 0; i < 300; ++i) umlauts += "ü";
    const auto found = difference_at("a" + umlauts, "a" + umlauts.substr(0, 101) + "!", 101);
    for (const std::string& text : {found.remembered, found.sent}) {
        EXPECT_NE(static_cast<unsigned char>(text.front()) & 0xC0, 0x80);
        EXPECT_EQ(text.size() % 2, text == found.sent ? (101 - found.begins + 2) % 2 : 0u);
    }
    EXPECT_EQ(difference_at("", "abc", 5).at, 0u);
}

class watched_engine : public ::testing::Test {
  protected:
    watched_engine() {
        options = options_in(dir.path());
        options.feed = feed;
        feed->watch(true);
    }
    temp_dir dir;
    std::shared_ptr<activity_feed> feed = std::make_shared<activity_feed>();
    engine_options options;
};

TEST_F(watched_engine, tells_a_request_from_its_arrival_to_its_saved_end) {
    auto engine = load(options);
    run(*engine, ask("a", chat_of({"Hello."}), 4));
    engine->drain(std::chrono::steady_clock::now());
    const auto told = feed->take();
    ASSERT_EQ(of_kind<request_arrived>(told).size(), 1u);
    ASSERT_EQ(of_kind<request_admitted>(told).size(), 1u);
    EXPECT_EQ(of_kind<request_admitted>(told)[0].usage.match, match_kind::miss);
    ASSERT_EQ(of_kind<first_token_made>(told).size(), 1u);
    ASSERT_EQ(of_kind<request_ended>(told).size(), 1u);
    const request_ended end = of_kind<request_ended>(told)[0];
    EXPECT_EQ(end.agent->str(), "a");
    EXPECT_FALSE(end.has_failed);
    EXPECT_TRUE(end.saved);
    EXPECT_FALSE(of_kind<memory_saved>(told).empty());
    EXPECT_GT(of_kind<memory_saved>(told)[0].bytes, 0u);
}

TEST_F(watched_engine, tells_of_each_step_whose_chunk_it_ran_and_who_decoded) {
    auto engine = load(options);
    run(*engine, ask("a", chat_of({"Hello."}), 4));
    const auto steps = of_kind<step_run>(feed->take());
    ASSERT_GE(steps.size(), 2u);
    ASSERT_EQ(steps[0].shares.size(), 1u);
    EXPECT_EQ(steps[0].shares[0].agent.str(), "a");
    EXPECT_FALSE(steps[0].shares[0].decodes);
    EXPECT_GT(steps[0].shares[0].tokens, 1);
    EXPECT_TRUE(steps[1].shares[0].decodes);
    EXPECT_EQ(steps[1].shares[0].tokens, 1);
    EXPECT_GT(steps[1].took.count(), 0);
}

TEST_F(watched_engine, shows_where_a_prompt_parts_from_its_memory) {
    auto engine = load(options);
    run(*engine, ask("a", chat_of({"Hello, I am Ada."}, "You are a pirate."), 4));
    run(*engine, ask("a", chat_of({"Hello, I am Ada."}, "You are a nurse."), 4));
    const auto admitted = of_kind<request_admitted>(feed->take());
    ASSERT_EQ(admitted.size(), 2u);
    EXPECT_FALSE(admitted[0].usage.difference);
    ASSERT_TRUE(admitted[1].usage.difference);
    const text_difference& shown = *admitted[1].usage.difference;
    const std::size_t place = shown.at - shown.begins;
    EXPECT_EQ(shown.remembered.substr(place, 6), "pirate");
    EXPECT_EQ(shown.sent.substr(place, 5), "nurse");
}

TEST_F(watched_engine, tells_of_evictions_restores_forks_and_deletions) {
    auto engine = load(options);
    const auto first = run(*engine, ask("a", chat_of({long_paste(40)}), 4));
    ASSERT_TRUE(engine->evict(id_of("a")));
    run(*engine, ask("a", chat_of({long_paste(40), first->text, "And now?"}), 4));
    ASSERT_TRUE(engine->fork(id_of("a"), id_of("b")));
    ASSERT_TRUE(engine->erase(id_of("b")));
    const auto told = feed->take();
    ASSERT_EQ(of_kind<memory_left>(told).size(), 1u);
    EXPECT_EQ(of_kind<memory_left>(told)[0].fate, storage::memory_fate::evicted);
    ASSERT_EQ(of_kind<memory_restored>(told).size(), 1u);
    EXPECT_GT(of_kind<memory_restored>(told)[0].tokens_read, 256);
    const auto changes = of_kind<agent_changed>(told);
    ASSERT_EQ(changes.size(), 2u);
    EXPECT_EQ(changes[0].kind, agent_changed::change::forked);
    EXPECT_EQ(changes[0].parent, id_of("a"));
    EXPECT_EQ(changes[1].kind, agent_changed::change::erased);
    EXPECT_FALSE(changes[1].parent);
}

TEST_F(watched_engine, tells_why_a_request_failed) {
    auto engine = load(options);
    auto request = ask("a", chat_of({"Hello."}), 4);
    request.sampling.biases = {{1 << 30, 1.0f}};
    run(*engine, std::move(request));
    const auto ends = of_kind<request_ended>(feed->take());
    ASSERT_EQ(ends.size(), 1u);
    EXPECT_TRUE(ends[0].has_failed);
    EXPECT_NE(ends[0].why.find("cannot be biased"), std::string::npos);
}

}  // namespace
}  // namespace semantic::engine
