// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/agents/shared_agents.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <thread>

#include "storage/disk/block_format.hpp"
#include "storage/objects/agents/object_sweep.hpp"
#include "tests/objects/machine.hpp"
#include "tests/support/fault_file_system.hpp"

namespace semantic::storage {
namespace {

using semantic::tests::fault_file_system;
using std::chrono::milliseconds;
using namespace tests;

std::vector<token_id> longer(std::vector<token_id> tokens, int count) {
    for (token_id each : some_tokens(count, 7)) tokens.push_back(each);
    return tokens;
}

TEST(shared_agents, another_machine_goes_on_with_every_byte) {
    for (const kv_layout& layout : {small_layout(), sliding_layout()}) {
        temp_dir objects, first, second, third;
        const auto tokens = some_tokens(30), more = longer(tokens, 21);
        machine a(objects.path(), first.path(), layout);
        machine b(objects.path(), second.path(), layout);
        EXPECT_FALSE(b.fetch("ada"));
        a.put("ada", tokens);
        ASSERT_TRUE(a.shared->wait_until_idle(patience));
        ASSERT_TRUE(b.fetch("ada"));
        EXPECT_TRUE(b.has("ada", tokens));
        EXPECT_FALSE(b.store->inspect(id_of("ada"))->dirty);
        EXPECT_EQ(b.store->find(id_of("ada"))->notes.at("day"), "Friday");
        b.put("ada", more);
        ASSERT_TRUE(b.shared->wait_until_idle(patience));
        EXPECT_EQ(b.shared->counts().conflicts, 0U);
        machine c(objects.path(), third.path(), layout);
        ASSERT_TRUE(c.fetch("ada"));
        EXPECT_TRUE(c.has("ada", more));
    }
}

TEST(shared_agents, what_was_fetched_lasts_and_is_not_uploaded_again) {
    temp_dir objects, first, second;
    const auto tokens = some_tokens(30);
    {
        machine a(objects.path(), first.path());
        a.put("ada", tokens);
        ASSERT_TRUE(a.shared->wait_until_idle(patience));
        machine b(objects.path(), second.path());
        ASSERT_TRUE(b.fetch("ada"));
    }
    machine b(objects.path(), second.path());
    EXPECT_TRUE(b.has("ada", tokens));
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    EXPECT_EQ(b.shared->counts().agents_uploaded, 0U);
}

TEST(shared_agents, a_turn_uploads_only_what_is_new) {
    temp_dir objects, first;
    machine a(objects.path(), first.path());
    const auto tokens = some_tokens(4 * block_tokens);
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    EXPECT_EQ(a.shared->counts().blocks_uploaded, 4U);
    a.put("ada", longer(tokens, block_tokens));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    EXPECT_EQ(a.shared->counts().blocks_uploaded, 5U);
    EXPECT_EQ(a.shared->counts().agents_uploaded, 2U);
}

TEST(shared_agents, blocks_go_and_come_several_at_once_and_no_more_than_the_bounds) {
    temp_dir objects, first, second;
    const auto tokens = some_tokens(24 * block_tokens);
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    auto& up = a.make_slow(milliseconds(20));
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    EXPECT_GT(up.puts_at_once.most, 1);
    EXPECT_LE(up.puts_at_once.most, 4);
    auto& down = b.make_slow(milliseconds(20));
    ASSERT_TRUE(b.fetch("ada"));
    EXPECT_TRUE(b.has("ada", tokens));
    EXPECT_GT(down.gets_at_once.most, 4);
    EXPECT_LE(down.gets_at_once.most, 8);
}

TEST(shared_agents, a_turn_that_was_overtaken_does_not_end_the_wait_for_the_others) {
    temp_dir objects, first, second;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    a.put("agent-0", some_tokens(20));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(b.fetch("agent-0"));
    b.put("agent-0", longer(some_tokens(20), 5));
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    a.make_slow(milliseconds(30));
    for (int i = 0; i < 8; ++i) a.put("agent-" + std::to_string(i), longer(some_tokens(20, i), 9));
    a.shared->flush(patience);
    EXPECT_EQ(a.shared->counts().conflicts, 1U);
    EXPECT_EQ(a.shared->counts().pending, 0U);
}

TEST(shared_agents, a_store_that_is_gone_and_back_has_everything_then) {
    temp_dir objects, first, second;
    fault_file_system faults(objects.path());
    machine a(objects.path(), first.path(), small_layout(), &faults);
    faults.set_read_only(true);
    for (int i = 0; i < 5; ++i) a.put("agent-" + std::to_string(i), some_tokens(20, i));
    EXPECT_FALSE(a.shared->wait_until_idle(milliseconds(200)));
    EXPECT_GT(a.shared->counts().failures, 0U);
    EXPECT_TRUE(a.has("agent-0", some_tokens(20, 0)));
    faults.set_read_only(false);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    machine b(objects.path(), second.path());
    for (int i = 0; i < 5; ++i) {
        const std::string id = "agent-" + std::to_string(i);
        ASSERT_TRUE(b.fetch(id));
        EXPECT_TRUE(b.has(id, some_tokens(20, i)));
    }
}

TEST(shared_agents, a_damaged_notice_of_a_sweep_delays_uploads_and_loses_none) {
    temp_dir objects, first, second;
    machine a(objects.path(), first.path());
    ASSERT_TRUE(a.objects->put(sweep_notice::name, "rubbish", always()));
    a.put("ada", some_tokens(20));
    EXPECT_FALSE(a.shared->wait_until_idle(milliseconds(100)));
    ASSERT_TRUE(a.objects->remove(sweep_notice::name));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    machine b(objects.path(), second.path());
    ASSERT_TRUE(b.fetch("ada"));
}

TEST(shared_agents, more_than_may_wait_are_counted_and_uploaded_after_the_next_start) {
    constexpr int bound = 3;
    temp_dir objects, first, second;
    fault_file_system faults(objects.path());
    machine a(objects.path(), first.path(), small_layout(), &faults);
    a.share(bound);
    faults.set_read_only(true);
    for (int i = 0; i < bound; ++i) a.put("agent-" + std::to_string(i), some_tokens(20, i));
    EXPECT_EQ(a.shared->counts().left_out, 0U);
    a.put("one-more", some_tokens(20, 9));
    EXPECT_EQ(a.shared->counts().left_out, 1U);
    EXPECT_EQ(a.shared->counts().pending, std::size_t{bound});
    faults.set_read_only(false);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    EXPECT_EQ(a.shared->counts().agents_uploaded, std::uint64_t{bound});
    machine b(objects.path(), second.path());
    EXPECT_FALSE(b.fetch("one-more"));
    a.share(bound);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    EXPECT_TRUE(b.fetch("one-more"));
}

TEST(shared_agents, the_end_waits_for_uploads_and_not_for_a_store_that_is_gone) {
    using clock = std::chrono::steady_clock;
    temp_dir objects, first;
    fault_file_system faults(objects.path());
    machine a(objects.path(), first.path(), small_layout(), &faults);
    a.put("ada", some_tokens(30));
    a.shared->flush(patience);
    EXPECT_EQ(a.shared->counts().pending, 0U);
    faults.set_read_only(true);
    a.put("eve", some_tokens(30));
    const auto began = clock::now();
    a.shared->flush(patience);
    EXPECT_LT(clock::now() - began, patience / 4);
    EXPECT_EQ(a.shared->counts().agents_uploaded, 1U);
}

TEST(shared_agents, what_was_not_uploaded_before_the_end_is_after_the_next_start) {
    temp_dir objects, first, second;
    {
        fault_file_system faults(objects.path());
        machine a(objects.path(), first.path(), small_layout(), &faults);
        faults.set_read_only(true);
        a.put("ada", some_tokens(30));
        EXPECT_FALSE(a.shared->wait_until_idle(milliseconds(50)));
    }
    machine a(objects.path(), first.path());
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    EXPECT_EQ(a.shared->counts().agents_uploaded, 1U);
    machine b(objects.path(), second.path());
    ASSERT_TRUE(b.fetch("ada"));
    EXPECT_TRUE(b.has("ada", some_tokens(30)));
}

TEST(shared_agents, an_upload_whose_mark_was_lost_is_no_conflict) {
    temp_dir objects, first;
    machine a(objects.path(), first.path());
    a.put("ada", some_tokens(30));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    const std::string mark =
        first / "shared/" + posix_file_system().list(first / "shared")->at(0).name;
    ASSERT_TRUE(posix_file_system().unlink(mark));
    a.share();
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    EXPECT_EQ(a.shared->counts().conflicts, 0U);
    EXPECT_TRUE(*posix_file_system().exists(mark));
}

TEST(shared_agents, of_two_machines_that_go_on_with_one_agent_one_wins) {
    const auto tokens = some_tokens(30);
    for (int round = 0; round < 10; ++round) {
        temp_dir objects, first, second, third;
        machine a(objects.path(), first.path()), b(objects.path(), second.path());
        a.put("ada", tokens);
        ASSERT_TRUE(a.shared->wait_until_idle(patience));
        ASSERT_TRUE(b.fetch("ada"));
        auto of_a = tokens, of_b = tokens;
        for (token_id each : some_tokens(12, 3)) of_a.push_back(each);
        for (token_id each : some_tokens(12, 4)) of_b.push_back(each);
        a.put("ada", of_a);
        b.put("ada", of_b);
        ASSERT_TRUE(a.shared->wait_until_idle(patience));
        ASSERT_TRUE(b.shared->wait_until_idle(patience));
        EXPECT_EQ(a.shared->counts().conflicts + b.shared->counts().conflicts, 1U);
        const bool a_won = a.shared->counts().conflicts == 0;
        machine c(objects.path(), third.path());
        ASSERT_TRUE(c.fetch("ada"));
        EXPECT_TRUE(c.has("ada", a_won ? of_a : of_b));
        EXPECT_TRUE(a.has("ada", of_a)) << "each keeps its own";
        EXPECT_TRUE(b.has("ada", of_b));
    }
}

TEST(shared_agents, nothing_is_taken_up_of_what_is_damaged_or_missing) {
    const auto tokens = some_tokens(30);
    for (const bool is_missing : {true, false}) {
        temp_dir objects, first, second;
        machine a(objects.path(), first.path()), b(objects.path(), second.path());
        a.put("ada", tokens);
        ASSERT_TRUE(a.shared->wait_until_idle(patience));
        const auto blocks = a.objects->list("blocks/", "", 10);
        const std::string last = blocks->objects.back().name;
        if (is_missing) {
            ASSERT_TRUE(a.objects->remove(last));
        } else {
            const std::string rubbish(1000, 'x');
            auto file = posix_file_system().create(objects / "objects/" + last);
            ASSERT_TRUE((*file)->write(std::as_bytes(std::span(rubbish))));
        }
        const auto fetched = b.shared->refresh(id_of("ada"));
        ASSERT_FALSE(fetched);
        EXPECT_EQ(fetched.error().code, object_errc::corrupt) << fetched.error().what;
        EXPECT_EQ(b.store->find(id_of("ada")), nullptr);
        EXPECT_EQ(b.store->probe().disk_bytes.load(), *bytes_below(posix_file_system(), b.path));
    }
}

TEST(shared_agents, a_block_with_other_contents_is_a_shortfall_and_never_wrong_bytes) {
    temp_dir objects, first, second;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    const auto tokens = some_tokens(30);
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    const auto blocks = a.objects->list("blocks/", "", 10);
    std::string other;
    ASSERT_TRUE(a.objects->get(blocks->objects.at(0).name, other));
    ASSERT_TRUE(a.objects->put(blocks->objects.at(1).name, other, always()));
    ASSERT_TRUE(b.fetch("ada"));
    const auto restored = b.store->restore(*b.store->find(id_of("ada")), 30);
    ASSERT_TRUE(restored);
    EXPECT_LT(restored->tokens, 30);
    EXPECT_EQ(restored->why, shortfall::corrupt);
}

TEST(shared_agents, an_agent_that_is_not_saved_yet_is_not_replaced) {
    temp_dir objects, first, second;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    a.put("ada", some_tokens(30));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    b.store->put(make_state(b.pool, "ada", some_tokens(10, 5)));
    EXPECT_EQ(b.refresh("ada"), freshness::same);
    EXPECT_TRUE(b.has("ada", some_tokens(10, 5)));
}

TEST(shared_agents, a_machine_that_is_behind_takes_up_what_another_has_added) {
    for (const kv_layout& layout : {small_layout(), sliding_layout()}) {
        temp_dir objects, first, second;
        machine a(objects.path(), first.path(), layout), b(objects.path(), second.path(), layout);
        const std::uint64_t other_bytes = b.store->probe().disk_bytes.load();
        auto tokens = some_tokens(30);
        a.put("ada", tokens);
        for (int turn = 0; turn < 4; ++turn) {
            machine& next = turn % 2 == 0 ? b : a;
            machine& former = turn % 2 == 0 ? a : b;
            ASSERT_TRUE(former.shared->wait_until_idle(patience));
            EXPECT_EQ(former.refresh("ada"), freshness::same);
            ASSERT_EQ(next.refresh("ada"), freshness::fetched) << turn;
            EXPECT_TRUE(next.has("ada", tokens)) << turn;
            EXPECT_EQ(next.store->probe().disk_bytes.load() - other_bytes,
                      *bytes_below(posix_file_system(), next.path + "/agents") +
                          *bytes_below(posix_file_system(), next.path + "/blocks"));
            tokens = longer(tokens, 5 + turn);
            next.put("ada", tokens);
        }
        EXPECT_EQ(a.shared->counts().conflicts + b.shared->counts().conflicts, 0U);
        EXPECT_EQ(a.shared->counts().forks + b.shared->counts().forks, 0U);
    }
}

TEST(shared_agents, of_what_both_have_only_new_blocks_are_fetched) {
    temp_dir objects, first, second;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    const auto tokens = some_tokens(20 * block_tokens);
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(b.fetch("ada"));
    const auto whole = b.shared->counts().bytes_fetched;
    b.put("ada", longer(tokens, block_tokens));
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    ASSERT_TRUE(a.fetch("ada"));
    EXPECT_LT(a.shared->counts().bytes_fetched, whole / 4);
}

TEST(shared_agents, turns_that_were_overtaken_stand_in_a_fork) {
    temp_dir objects, first, second, third;
    const auto tokens = some_tokens(30);
    machine a(objects.path(), first.path());
    fault_file_system faults(objects.path());
    machine b(objects.path(), second.path(), small_layout(), &faults);
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(b.fetch("ada"));
    faults.set_read_only(true);  // so that b is late
    b.put("ada", longer(tokens, 10));
    a.put("ada", longer(tokens, 25));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    faults.set_read_only(false);
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    EXPECT_EQ(b.refresh("ada"), freshness::fetched);
    EXPECT_TRUE(b.has("ada", longer(tokens, 25)));
    EXPECT_TRUE(b.has(b.last_fork, longer(tokens, 10)));
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    EXPECT_EQ(b.shared->counts().conflicts, 1U);
    EXPECT_EQ(b.shared->counts().forks, 1U);
    machine c(objects.path(), third.path());
    EXPECT_TRUE(c.fetch("ada"));
    EXPECT_TRUE(c.fetch(b.last_fork));
}

TEST(shared_agents, a_winner_that_cannot_be_taken_up_costs_one_fork) {
    temp_dir objects, first, second;
    const auto tokens = some_tokens(30);
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(b.fetch("ada"));
    a.put("ada", longer(tokens, 25));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    const auto blocks = a.objects->list("blocks/", "", 100);
    b.put("ada", longer(tokens, 10));
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    for (const listed_object& each : blocks->objects) ASSERT_TRUE(a.objects->remove(each.name));
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(b.shared->refresh(id_of("ada")));
    EXPECT_EQ(b.shared->counts().forks, 1U);
}

TEST(shared_agents, that_cannot_be_opened_say_so) {
    temp_dir objects, first;
    machine a(objects.path(), first.path());
    fault_file_system faults(first.path());
    faults.set_read_only(true);
    shared_agents_options options;
    options.directory = first.path();
    options.files = &faults;
    EXPECT_FALSE(shared_agents::open(*a.store, *a.objects, options));
}

TEST(shared_agents, of_two_who_write_at_once_exactly_one_wins_each_time) {
    const int tries = std::getenv("SEMANTIC_TEST_WRITERS")
                          ? std::atoi(std::getenv("SEMANTIC_TEST_WRITERS"))
                          : 200;
    temp_dir objects, first, second;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    a.put("ada", some_tokens(5));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    std::uint64_t conflicts = 0;
    for (int i = 0; i < tries; ++i) {
        a.refresh("ada");
        b.refresh("ada");
        const auto base = a.store->find(id_of("ada"))->tokens;
        ASSERT_EQ(b.store->find(id_of("ada"))->tokens, base);
        auto of_a = some_tokens(5), of_b = some_tokens(5);
        of_a.push_back(2 * (i % 100) + 1);
        of_b.push_back(2 * (i % 100) + 2);
        a.put("ada", of_a);
        b.put("ada", of_b);
        ASSERT_TRUE(a.shared->wait_until_idle(patience));
        ASSERT_TRUE(b.shared->wait_until_idle(patience));
        const auto now = a.shared->counts().conflicts + b.shared->counts().conflicts;
        ASSERT_EQ(now, ++conflicts) << i;
        // The winner's is the store's, and the loser's is its fork after the next refresh.
        const bool a_has_won = a.refresh("ada") == freshness::same;
        ASSERT_EQ(b.refresh("ada"), a_has_won ? freshness::fetched : freshness::same) << i;
        const auto& won = a_has_won ? of_a : of_b;
        ASSERT_EQ(a.store->find(id_of("ada"))->tokens, won) << i;
        ASSERT_EQ(b.store->find(id_of("ada"))->tokens, won) << i;
        machine& loser = a_has_won ? b : a;
        ASSERT_EQ(loser.store->find(id_of(loser.last_fork))->tokens, a_has_won ? of_b : of_a) << i;
        ASSERT_TRUE(loser.store->erase(id_of(loser.last_fork)));
        ASSERT_TRUE(loser.shared->forget(id_of(loser.last_fork)));
    }
}

TEST(shared_agents, who_waits_for_an_upload_is_told_when_it_is_there_or_has_failed) {
    temp_dir objects, first;
    fault_file_system faults(objects.path());
    machine a(objects.path(), first.path(), small_layout(), &faults);
    const auto save = [&](int seed) {
        std::promise<bool> told;
        a.store->put(make_state(a.pool, "ada", some_tokens(30, seed)));
        EXPECT_TRUE(a.store->save(id_of("ada")));
        a.shared->note_saved(id_of("ada"), [&](bool is_there) { told.set_value(is_there); });
        return told.get_future().get();
    };
    EXPECT_TRUE(save(1));
    EXPECT_EQ(a.objects->list("agents/", "", 10)->objects.size(), 1U);
    faults.set_read_only(true);
    EXPECT_FALSE(save(2));
}

TEST(shared_agents, what_has_left_the_disk_before_its_upload_is_not_said_to_be_there) {
    temp_dir objects, first;
    machine a(objects.path(), first.path());
    a.store->put(make_state(a.pool, "ada", some_tokens(30)));
    ASSERT_TRUE(a.store->save(id_of("ada")));
    ASSERT_TRUE(a.store->erase(id_of("ada")));
    std::promise<bool> told;
    a.shared->note_saved(id_of("ada"), [&](bool is_there) { told.set_value(is_there); });
    EXPECT_FALSE(told.get_future().get());
    EXPECT_EQ(a.shared->counts().agents_uploaded, 0U);
}

TEST(shared_agents, one_that_is_erased_during_its_first_upload_does_not_come_back) {
    temp_dir objects, first, second;
    machine a(objects.path(), first.path());
    a.make_slow(milliseconds(100));
    a.put("ada", some_tokens(2 * block_tokens));
    while (a.objects->list("blocks/", "", 1)->objects.empty()) continue;
    ASSERT_TRUE(a.shared->forget(id_of("ada")));
    ASSERT_TRUE(a.store->erase(id_of("ada")));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    machine b(objects.path(), second.path());
    EXPECT_FALSE(b.fetch("ada"));
}

TEST(shared_agents, an_erasure_that_could_not_be_made_here_is_made_when_it_can) {
    temp_dir objects, first, second, third;
    fault_file_system faults(second.path());
    machine a(objects.path(), first.path());
    machine b(objects.path(), second.path(), small_layout(), nullptr, &faults);
    a.put("ada", some_tokens(30));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(b.fetch("ada"));
    ASSERT_TRUE(a.store->erase(id_of("ada")));
    ASSERT_TRUE(a.shared->forget(id_of("ada")));
    faults.set_read_only(true);
    EXPECT_FALSE(b.shared->refresh(id_of("ada")));
    faults.set_read_only(false);
    b.share();
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    machine c(objects.path(), third.path());
    EXPECT_FALSE(c.fetch("ada")) << "what is left at b must not replace the tombstone";
}

TEST(shared_agents, what_another_machine_erases_is_gone_here_and_may_be_made_anew) {
    temp_dir objects, first, second;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    a.put("ada", some_tokens(30));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(b.fetch("ada"));
    ASSERT_TRUE(a.store->erase(id_of("ada")));
    ASSERT_TRUE(a.shared->forget(id_of("ada")));
    EXPECT_EQ(b.refresh("ada"), freshness::erased);
    EXPECT_EQ(b.store->find(id_of("ada")), nullptr);
    EXPECT_EQ(b.refresh("ada"), freshness::absent);
    b.put("ada", some_tokens(12, 3));
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    EXPECT_EQ(a.refresh("ada"), freshness::fetched);
    EXPECT_TRUE(a.has("ada", some_tokens(12, 3)));
    EXPECT_EQ(a.shared->counts().conflicts + b.shared->counts().conflicts, 0U);
}

TEST(shared_agents, an_object_store_that_has_lost_an_agent_gets_it_again) {
    temp_dir objects, first, second;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    a.put("ada", some_tokens(30));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(a.objects->remove(a.store->manifest_of(id_of("ada"))));
    EXPECT_EQ(a.refresh("ada"), freshness::absent);
    EXPECT_TRUE(a.has("ada", some_tokens(30)));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    EXPECT_TRUE(b.fetch("ada"));
}

TEST(shared_agents, a_silent_object_store_is_asked_again_after_a_pause) {
    temp_dir objects, first;
    fault_file_system faults(objects.path());
    machine a(objects.path(), first.path(), small_layout(), &faults);
    shared_agents_options options;
    options.directory = a.path;
    options.pause = milliseconds(100);
    struct silent final : object_store {
        object_failure none() {
            ++asked;
            return {object_errc::unavailable, "silent"};
        }
        object_result<object_info> get(const std::string&, std::string&) override { return none(); }
        object_result<object_info> get_range(const std::string&, std::uint64_t,
                                             std::span<std::byte>) override {
            return none();
        }
        object_result<std::string> put(const std::string&, std::string_view,
                                       const put_condition&) override {
            return none();
        }
        object_result<std::vector<std::optional<object_info>>> stat(
            std::span<const std::string>) override {
            return none();
        }
        object_result<void> remove(const std::string&) override { return none(); }
        object_result<object_page> list(const std::string&, const std::string&,
                                        std::size_t) override {
            return none();
        }
        int asked = 0;
    } store;
    auto shared = std::move(*shared_agents::open(*a.store, store, options));
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(shared->refresh(id_of("ada")).error().code, object_errc::unavailable);
    EXPECT_EQ(store.asked, 1);
    std::this_thread::sleep_for(milliseconds(120));
    EXPECT_FALSE(shared->refresh(id_of("ada")));
    EXPECT_EQ(store.asked, 2);
    EXPECT_EQ(shared->counts().unanswered, 4U);
    // A directory that has agreed starts without an answer; one that has not does not.
    EXPECT_TRUE(agree_on_secret(store, posix_file_system(), a.path));
    temp_dir other;
    EXPECT_FALSE(agree_on_secret(store, posix_file_system(), other.path()));
}

TEST(shared_agents, what_is_forgotten_is_fetched_by_nobody) {
    temp_dir objects, first, second;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    a.put("ada", some_tokens(30));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(a.store->erase(id_of("ada")));
    ASSERT_TRUE(a.shared->forget(id_of("ada")));
    EXPECT_FALSE(b.fetch("ada"));
    a.put("ada", some_tokens(20));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    EXPECT_TRUE(b.fetch("ada"));
}

TEST(shared_secret, is_the_first_machines_and_another_one_is_refused) {
    temp_dir objects, first, second, third;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    EXPECT_EQ(a.store->tenant("key"), b.store->tenant("key"));
    {
        block_pool pool(small_layout(), 1 << 20);
        (void)agent_cache_store::open(options_for(third.path()), pool);
    }
    const auto refused = agree_on_secret(*a.objects, posix_file_system(), third.path());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, object_errc::io);
    EXPECT_NE(refused.error().what.find("another secret"), std::string::npos);
    EXPECT_TRUE(agree_on_secret(*a.objects, posix_file_system(), first.path()));
}

}  // namespace
}  // namespace semantic::storage
