// SPDX-License-Identifier: Apache-2.0
// How long memories are to be kept: what goes first, in RAM and on disk, what budgets overrule, and
// what is written for whom.

#include <gtest/gtest.h>

#include <filesystem>

#include "storage/agents/agent_cache_store.hpp"
#include "tests/storage/agents/store_test.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using std::chrono::seconds;
using std::chrono::system_clock;

class agent_cache_store_policy_test : public store_test {
  protected:
    agent_cache_store_policy_test() : store_test(small_layout(), 400) {}

    static int now() {
        return static_cast<int>(
            std::chrono::duration_cast<seconds>(system_clock::now().time_since_epoch()).count());
    }
    std::unique_ptr<agent_cache_store> open(std::uint64_t budget = 1 << 30, unsigned share = 100,
                                            write_limits writes = {}) {
        store_options options = options_for(directory.path());
        options.disk_budget_bytes = budget;
        options.record_budget_bytes = 1;
        options.kept_share_percent = share;
        options.writes = writes;
        return store_test::open(options);
    }
    /// An agent of 21 tokens that was used `age` seconds ago.
    result<save_report> save(agent_cache_store& store, const std::string& id, int age,
                             const memory_policy& policy = {}) {
        agent_state state = make_state(pool, id, some_tokens(21, age + 7), now() - age);
        state.policy = policy;
        store.put(std::move(state));
        return store.save(id_of(id));
    }
    std::uint64_t agent_bytes() {
        const semantic::tests::temp_dir elsewhere;
        store_options options = options_for(elsewhere.path());
        options.disk_budget_bytes = 1 << 30;
        const auto store = std::move(*agent_cache_store::open(options, pool));
        return save(*store, "a", 1)->bytes_written;
    }
    static bool is_there(const agent_cache_store& store, const std::string& id) {
        return store.find(id_of(id)) != nullptr;
    }
    static bool is_hot(const agent_cache_store& store, const std::string& id) {
        return store.inspect(id_of(id))->tier == memory_tier::hot;
    }
    bool make_room_for_one_more(agent_cache_store& store) {
        return store.make_room(pool.free_count() + 1, nullptr);
    }
};

const memory_policy kept{seconds(3600), {}};
const memory_policy pinned{{}, true};

TEST_F(agent_cache_store_policy_test, the_disk_gives_up_what_nobody_keeps_before_what_is_kept) {
    // A save asks for more than twice what it writes: one of three gives way to a fourth.
    const auto store = open(agent_bytes() * 47 / 10);
    ASSERT_TRUE(save(*store, "pinned", 900, pinned));
    ASSERT_TRUE(save(*store, "kept", 800, kept));
    ASSERT_TRUE(save(*store, "plain", 10));
    ASSERT_TRUE(save(*store, "dropped", 1, {seconds(0), {}}));
    EXPECT_FALSE(is_there(*store, "plain")) << "younger, and nobody keeps it";
    ASSERT_TRUE(save(*store, "next", 5));
    EXPECT_FALSE(is_there(*store, "dropped")) << "the youngest, and the first to go";
    EXPECT_EQ(store->probe().kept_removals, 0u);
    // Budgets still rule: where nothing else is left, what is kept goes, and this is said.
    ASSERT_TRUE(save(*store, "other", 4, kept));
    EXPECT_FALSE(is_there(*store, "next"));
    ASSERT_TRUE(save(*store, "third", 3, kept));
    EXPECT_FALSE(is_there(*store, "kept"));
    EXPECT_TRUE(is_there(*store, "pinned")) << "after all that are kept";
    EXPECT_EQ(store->probe().kept_removals, 1u);
    EXPECT_TRUE(store->is_unkept(id_of("kept")));
    EXPECT_FALSE(store->is_unkept(id_of("next")));
    EXPECT_EQ(store->why_absent(id_of("kept")), shortfall::evicted);
    ASSERT_TRUE(save(*store, "kept", 2));
    EXPECT_FALSE(store->is_unkept(id_of("kept"))) << "it is back";
}

TEST_F(agent_cache_store_policy_test, a_policy_that_has_run_out_is_none) {
    const auto store = open(agent_bytes() * 47 / 10);
    ASSERT_TRUE(save(*store, "ended", 4000, kept));
    ASSERT_TRUE(save(*store, "plain", 100));
    ASSERT_TRUE(save(*store, "young", 10));
    EXPECT_EQ(store->inspect(id_of("ended"))->claim, memory_claim::none);
    ASSERT_TRUE(save(*store, "next", 5));
    EXPECT_FALSE(is_there(*store, "ended"));
    EXPECT_EQ(store->probe().kept_removals, 0u);
}

TEST_F(agent_cache_store_policy_test, a_policy_survives_a_restart_and_other_models) {
    const std::uint64_t budget = agent_bytes() * 47 / 10;
    {
        const auto store = open(budget);
        ASSERT_TRUE(save(*store, "kept", 900, kept));
        ASSERT_TRUE(save(*store, "plain", 100));
        ASSERT_TRUE(store->set_policy(id_of("plain"), {{}, true}));
        ASSERT_TRUE(store->set_policy(id_of("plain"), {}));
        EXPECT_EQ(store->set_policy(id_of("nobody"), kept).error().code, errc::not_found);
    }
    {
        const auto store = open(budget);
        EXPECT_EQ(store->inspect(id_of("kept"))->policy, kept);
        EXPECT_EQ(store->inspect(id_of("kept"))->claim, memory_claim::kept);
        EXPECT_TRUE(store->inspect(id_of("plain"))->policy.is_empty());
        // A turn that says nothing of it leaves it as it is.
        ASSERT_TRUE(save(*store, "kept", 800));
        EXPECT_EQ(store->inspect(id_of("kept"))->policy, kept);
        EXPECT_FALSE(store->find(id_of("kept"))->notes.contains(policy_note));
    }
    store_options other = options_for(directory.path());
    other.fingerprint = fingerprint_of("another model");
    other.disk_budget_bytes = budget;
    other.record_budget_bytes = 1;
    other.kept_share_percent = 100;
    const auto store = store_test::open(other);
    ASSERT_TRUE(save(*store, "young", 3));
    ASSERT_TRUE(save(*store, "next", 2));
    const auto others = store->list_others();
    ASSERT_EQ(others.size(), 1u);
    EXPECT_EQ(others[0].id, id_of("kept"));
}

TEST_F(agent_cache_store_policy_test, the_pool_gives_up_what_nobody_keeps_before_what_is_kept) {
    const auto store = open();
    ASSERT_TRUE(save(*store, "kept", 900, kept));
    ASSERT_TRUE(save(*store, "pinned", 800, pinned));
    ASSERT_TRUE(save(*store, "plain", 10));
    ASSERT_TRUE(make_room_for_one_more(*store));
    EXPECT_FALSE(is_hot(*store, "plain"));
    EXPECT_TRUE(is_hot(*store, "kept") && is_hot(*store, "pinned"));
    EXPECT_EQ(store->probe().kept_evictions, 0u);
    ASSERT_TRUE(make_room_for_one_more(*store));
    EXPECT_FALSE(is_hot(*store, "kept"));
    EXPECT_TRUE(is_hot(*store, "pinned"));
    EXPECT_EQ(store->probe().kept_evictions, 1u);
    ASSERT_TRUE(make_room_for_one_more(*store));
    EXPECT_FALSE(is_hot(*store, "pinned"));
    EXPECT_FALSE(make_room_for_one_more(*store)) << "there is nothing more to give";
}

TEST_F(agent_cache_store_policy_test, without_a_share_nothing_is_kept) {
    const auto store = open(agent_bytes() * 47 / 10, 0);
    ASSERT_TRUE(save(*store, "pinned", 900, pinned));
    EXPECT_EQ(store->inspect(id_of("pinned"))->claim, memory_claim::none);
    ASSERT_TRUE(save(*store, "plain", 20));
    ASSERT_TRUE(save(*store, "young", 10));
    ASSERT_TRUE(save(*store, "next", 5));
    EXPECT_FALSE(is_there(*store, "pinned"));
    EXPECT_EQ(store->probe().kept_removals, 0u) << "it had no claim";
}

TEST_F(agent_cache_store_policy_test, what_is_written_for_an_agent_is_counted_to_the_byte) {
    std::uint64_t in_all = 0;
    {
        const auto store = open();
        in_all = save(*store, "a", 9)->bytes_written;
        EXPECT_EQ(store->inspect(id_of("a"))->bytes_written, in_all);
        EXPECT_EQ(bytes_below(posix_file_system(), directory.path()).value(),
                  store->probe().disk_bytes);
        const auto first = store->end_turn(id_of("a"));
        EXPECT_EQ(first.of_turn, in_all);
        store->put(make_state(pool, "a", some_tokens(40, 16), now()));
        const auto second = store->save(id_of("a"));
        in_all += second->bytes_written;
        const auto next = store->end_turn(id_of("a"));
        EXPECT_EQ(next.of_turn, second->bytes_written);
        EXPECT_EQ(next.in_all, in_all);
        EXPECT_EQ(store->end_turn(id_of("a")).of_turn, 0u);
        EXPECT_EQ(store->end_turn(id_of("nobody")).in_all, 0u);
        EXPECT_EQ(store->bytes_written_today(), in_all);
    }
    const auto store = open();
    EXPECT_EQ(store->inspect(id_of("a"))->bytes_written, in_all) << "after a restart";
    EXPECT_FALSE(store->find(id_of("a"))->notes.contains("written"));
}

TEST_F(agent_cache_store_policy_test, what_is_over_a_bound_stays_in_ram_and_is_whole_there) {
    const std::uint64_t one = agent_bytes();
    const auto store = open(1 << 30, 100, {one * 4, 0});
    ASSERT_TRUE(save(*store, "a", 9));
    std::optional<errc> refused;
    int saved = 1;
    for (int i = 0; i < 10 && !refused; ++i, ++saved) {
        const auto done = save(*store, "b" + std::to_string(i), i);
        if (!done) refused = done.error().code;
    }
    ASSERT_EQ(refused, errc::out_of_space);
    EXPECT_LE(store->bytes_written_today(), one * 4);
    EXPECT_EQ(store->probe().saves_over_bound, 1u);
    const std::string last = "b" + std::to_string(saved - 2);
    EXPECT_TRUE(store->inspect(id_of(last))->dirty);
    EXPECT_TRUE(store->inspect(id_of(last))->is_over_bound);
    EXPECT_TRUE(store->end_turn(id_of(last)).is_over_bound);
    EXPECT_EQ(store->probe().saves_out_of_space, 0u);
    EXPECT_TRUE(tests::is_whole(*store, layout, last, some_tokens(21, saved - 2 + 7)));
    // Where the pool needs the frames, it goes: it is nowhere else.
    EXPECT_TRUE(store->make_room(pool.frame_count(), nullptr));
    EXPECT_FALSE(is_there(*store, last));
    EXPECT_EQ(store->probe().agents_lost, 1u);
}

TEST_F(agent_cache_store_policy_test, a_turn_that_exceeds_its_bound_is_refused) {
    const std::uint64_t one = agent_bytes();
    const auto store = open(1 << 30, 100, {0, one / 2});
    EXPECT_EQ(save(*store, "a", 9).error().code, errc::out_of_space);
    EXPECT_EQ(store->bytes_written_today(), 0u);
    EXPECT_EQ(store->end_turn(id_of("a")).in_all, 0u);
}

TEST_F(agent_cache_store_policy_test, a_fork_at_a_place_shares_the_blocks_up_to_there) {
    const auto store = open();
    ASSERT_TRUE(save(*store, "a", 9));
    const auto blocks = store->probe().blocks_written.load();
    using place = agent_cache_store::fork_place;
    struct row {
        const char* name;
        std::size_t at;
        int tokens;
    };
    // Blocks have 8 tokens, the agent 21.
    for (const row& each : {row{"zero", 0, 0}, row{"one", 1, 8}, row{"block", 8, 8},
                            row{"nine", 9, 16}, row{"tail", 17, 21}, row{"all", 21, 21}}) {
        ASSERT_TRUE(
            store->fork(id_of("a"), id_of(each.name), false, place{each.at, {{"day", "Monday"}}}))
            << each.name;
        std::vector<token_id> tokens = some_tokens(21, 16);
        tokens.resize(static_cast<std::size_t>(each.tokens));
        EXPECT_TRUE(tests::is_whole(*store, layout, each.name, tokens)) << each.name;
        EXPECT_EQ(store->find(id_of(each.name))->notes.at("day"), "Monday");
    }
    EXPECT_EQ(store->probe().blocks_written.load(), blocks) << "nothing was copied";
    EXPECT_EQ(store->fork(id_of("a"), id_of("more"), false, place{22, {}}).error().code,
              errc::bad_value);
    ASSERT_TRUE(store->erase(id_of("a")));
    EXPECT_TRUE(store->evict(id_of("nine")));
    std::vector<token_id> tokens = some_tokens(21, 16);
    tokens.resize(16);
    expect_whole(*store, "nine", tokens);
}

TEST_F(agent_cache_store_policy_test, a_fork_has_no_policy_of_its_source) {
    const auto store = open();
    ASSERT_TRUE(save(*store, "a", 9, pinned));
    ASSERT_TRUE(store->fork(id_of("a"), id_of("b")));
    EXPECT_TRUE(store->inspect(id_of("b"))->policy.is_empty());
}

}  // namespace
}  // namespace semantic::storage
