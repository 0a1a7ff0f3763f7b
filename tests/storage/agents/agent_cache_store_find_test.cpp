// SPDX-License-Identifier: Apache-2.0
// Tenants, forks, answers by name: who finds whose memory in a store.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <thread>

#include "tests/storage/agents/store_test.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::fault_file_system;
using semantic::tests::temp_dir;

std::size_t block_files_below(const std::string& directory) {
    std::size_t count = 0;
    for (const auto& each : std::filesystem::recursive_directory_iterator(directory + "/blocks"))
        count += each.is_regular_file() ? 1 : 0;
    return count;
}

class agent_cache_store_find_test : public store_test {};

TEST_F(agent_cache_store_find_test, kept_files_stay_while_their_agent_goes_another_way) {
    const auto tokens = some_tokens(21);
    const auto store = open();
    put_and_save(*store, "a", tokens);
    ASSERT_TRUE(store->evict(id_of("a")));
    const auto before = store->find(id_of("a"));
    {
        const auto kept = store->keep_files(*before, 21);
        ASSERT_TRUE(kept);
        put_and_save(*store, "a", some_tokens(5, 3));
        EXPECT_EQ(block_files_below(directory.path()), 4u);
        const auto restored = store->restore(*before, 21);
        ASSERT_TRUE(restored);
        EXPECT_EQ(restored->tokens, 21);
        EXPECT_TRUE(holds(layout, restored->blocks, tokens, 21));
    }
    EXPECT_EQ(block_files_below(directory.path()), 1u);
    EXPECT_FALSE(store->keep_files(*before, 21));  // it is too late
    EXPECT_EQ(store->restore(*before, 21)->tokens, 0);
}

// Who waits with blocks that are in the pool may have to let go of them.
TEST_F(agent_cache_store_find_test, kept_files_stand_in_for_blocks_that_left_the_pool) {
    const auto tokens = some_tokens(21);
    const auto store = open();
    put_and_save(*store, "a", tokens);
    auto before = store->find(id_of("a"));
    const auto kept = store->keep_files(*before, 21);
    ASSERT_TRUE(kept);
    put_and_save(*store, "a", some_tokens(5, 3));
    before = store->without_saved(*before);
    ASSERT_TRUE(before);
    EXPECT_EQ(pool.held_count(), pool.layout().frames_for(5, 0));
    EXPECT_FALSE(store->without_saved(*before));
    const auto restored = store->restore(*before, 21);
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->tokens_read, 21);
    EXPECT_TRUE(holds(layout, restored->blocks, tokens, 21));
}

TEST_F(agent_cache_store_find_test, kept_files_that_an_agent_keeps_too_are_let_go_of_at_once) {
    const auto store = open();
    put_and_save(*store, "a", some_tokens(21));
    EXPECT_TRUE(store->keep_files(*store->find(id_of("a")), 21)->release_shared());
    {
        auto kept = store->keep_files(*store->find(id_of("a")), 21);
        ASSERT_TRUE(kept);
        put_and_save(*store, "a", some_tokens(17));  // the same blocks, another tail
        EXPECT_FALSE(kept->release_shared());
        EXPECT_FALSE(kept->release_shared());
        EXPECT_EQ(block_files_below(directory.path()), 4u);
    }
    EXPECT_EQ(block_files_below(directory.path()), 3u);
}

TEST_F(agent_cache_store_find_test, blocks_that_no_file_has_are_not_let_go_of_as_saved) {
    const auto store = open();
    store->put(make_state(pool, "a", some_tokens(21)));
    EXPECT_TRUE(store->keep_files(*store->find(id_of("a")), 21));
    EXPECT_FALSE(store->without_saved(*store->find(id_of("a"))));
}

// At shutdown, when time may run out.
TEST_F(agent_cache_store_find_test, what_costs_most_to_lose_is_the_first_to_be_saved) {
    const auto store = open();
    const auto put = [&](const char* id, int count, int used) {
        store->put(make_state(pool, id, some_tokens(count, id[0] - 'a'), used));
    };
    put("a", 9, 1000);    // small and old
    put("b", 200, 1000);  // large and old
    put("c", 9, 900'000'000);
    put("d", 200, 1'700'000'000);  // large and new
    put_and_save(*store, "e", some_tokens(300, 7));
    EXPECT_EQ(store->dirty_agents(), (std::vector{id_of("d"), id_of("c"), id_of("b"), id_of("a")}));
}

TEST_F(agent_cache_store_find_test, two_tenants_with_the_same_agent_and_tokens_share_nothing) {
    const auto tokens = some_tokens(20);
    const auto put_of = [&](agent_cache_store& store, const tenant_id& tenant) {
        agent_state state = make_state(pool, "a", tokens);
        state.id = state.id.owned_by(tenant);
        store.put(std::move(state));
        ASSERT_TRUE(store.save(id_of("a").owned_by(tenant)));
    };
    tenant_id first, second;
    {
        auto store = open();
        first = store->tenant("key one");
        second = store->tenant("key two");
        EXPECT_NE(first, second);
        EXPECT_FALSE(first.is_default());
        put_of(*store, first);
        const std::size_t files = block_files_below(directory.path());
        const std::size_t frames = pool.held_count();
        EXPECT_EQ(store->find(id_of("a").owned_by(second)), nullptr);
        EXPECT_EQ(store->find(id_of("a")), nullptr);
        put_of(*store, second);
        EXPECT_EQ(block_files_below(directory.path()), 2 * files);
        EXPECT_EQ(pool.held_count(), 2 * frames);
        const std::string text = store->find(id_of("a").owned_by(first))->text;
        EXPECT_EQ(store->closest(second, text, 9).size(), 1u);
        EXPECT_TRUE(store->closest({}, text, 9).empty());
    }
    auto store = open();  // the secret and with it the tenants are the same after a restart
    EXPECT_EQ(store->tenant("key one"), first);
    ASSERT_TRUE(store->erase(id_of("a").owned_by(first)));
    EXPECT_EQ(store->find(id_of("a").owned_by(first)), nullptr);
    const auto kept = store->find(id_of("a").owned_by(second));
    ASSERT_NE(kept, nullptr);
    const auto restored = store->restore(*kept, 20);
    ASSERT_TRUE(restored);
    EXPECT_TRUE(holds(layout, restored->blocks, tokens, 20));
}

TEST_F(agent_cache_store_find_test, a_tenants_id_is_the_published_one) {
    std::filesystem::create_directories(directory.path());
    ASSERT_TRUE(replace_file(posix_file_system(), directory.path() + "/secret",
                             "0123456789abcdef0123456789abcdef"));
    EXPECT_EQ(open()->tenant("key k1").salt.hex(), "1ae61c35055f1f3ca7cf4a8e5fb7a1e9");
}

TEST_F(agent_cache_store_find_test, a_damaged_secret_is_replaced_and_hides_no_default_agent) {
    {
        auto store = open();
        put_and_save(*store, "a", some_tokens(20));
    }
    ASSERT_TRUE(replace_file(posix_file_system(), directory.path() + "/secret", "torn"));
    {
        auto store = open();
        expect_whole(*store, "a", some_tokens(20));
    }
    EXPECT_EQ(std::filesystem::file_size(directory.path() + "/secret"), 32u);
}

/// Two blocks that have one name. Names are XXH3 sums, which add up 8 bytes at a time: where the
/// low half of 8 bytes equals that of the key they are mixed with, the high half is only added to a
/// sum, and what one place has more, another may have less.
class blocks_of_one_name : public agent_cache_store_find_test {
  protected:
    blocks_of_one_name() {
        tokens[19] = 0x4ee679cb;
        tokens[35] = 0x7dd05a82;
        twin = tokens;
        ++twin[20];
        --twin[36];
    }
    void SetUp() override { ASSERT_EQ(name_of(tokens), name_of(twin)); }
    static std::vector<block_hash> name_of(const std::vector<token_id>& each) {
        return block_names(fingerprint_of("model"), "salt", each, 64);
    }
    /// The state of a clean agent that has `memory`, with nothing in the pool.
    std::shared_ptr<const agent_state> bare(const std::string& id,
                                            const std::vector<token_id>& memory) {
        store->put(make_state(frames, id, memory));
        EXPECT_TRUE(store->save(id_of(id)));
        EXPECT_TRUE(store->evict(id_of(id)));
        return store->find(id_of(id));
    }

    const kv_layout long_blocks{{{1, 16, 16, 0}, {2, 16, 32, 0}}, {4, 16}, 64};
    block_pool frames{long_blocks, long_blocks.frame_bytes() * 100};
    std::vector<token_id> tokens = some_tokens(64), twin;
    std::unique_ptr<agent_cache_store> store =
        std::move(*agent_cache_store::open(options_for(directory.path()), frames));
};

TEST_F(blocks_of_one_name, of_an_agents_earlier_state_are_not_taken_from_its_newest) {
    const auto earlier = bare("a", tokens);
    store->put(make_state(frames, "a", twin));
    const auto restored = store->restore(*earlier, 64);
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->tokens, 64) << restored->detail;
    EXPECT_TRUE(holds(long_blocks, restored->blocks, tokens, 64));
}

TEST_F(blocks_of_one_name, that_were_read_for_an_earlier_state_do_not_become_the_newests) {
    const auto earlier = bare("a", tokens);
    const auto newest = bare("a", twin);
    ASSERT_EQ(store->restore(*earlier, 64)->tokens, 64);
    EXPECT_EQ(store->find(id_of("a"))->blocks, newest->blocks);
    EXPECT_FALSE(store->restore_hot(*store->find(id_of("a")), 64));
}

TEST_F(blocks_of_one_name, are_never_taken_for_each_other) {
    store->put(make_state(frames, "a", tokens));
    store->put(make_state(frames, "b", twin));
    EXPECT_TRUE(holds(long_blocks, store->find(id_of("a"))->blocks, tokens, 64));
    EXPECT_TRUE(holds(long_blocks, store->find(id_of("b"))->blocks, twin, 64));
    // There is one file for both: the second one learns that it lost its memory.
    for (const char* id : {"a", "b"}) {
        ASSERT_TRUE(store->save(id_of(id)));
        ASSERT_TRUE(store->evict(id_of(id)));
    }
    const auto second = store->restore(*store->find(id_of("b")), 64);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->tokens, 0);
    EXPECT_EQ(second->why, shortfall::corrupt);
    const auto first = store->restore(*store->find(id_of("a")), 64);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->tokens, 64);
    EXPECT_TRUE(holds(long_blocks, first->blocks, tokens, 64));
}

TEST_F(agent_cache_store_find_test,
       a_tenants_usage_counts_what_agents_share_once_and_others_never) {
    const auto store = open();
    const auto bytes_of_files = [&] {
        return bytes_below(posix_file_system(), directory / "agents").value() +
               bytes_below(posix_file_system(), directory / "blocks").value();
    };
    put_and_save(*store, "a", some_tokens(21));
    ASSERT_TRUE(store->fork(id_of("a"), id_of("b")));
    put_and_save(*store, "c", some_tokens(21, 3));
    const tenant_usage before = store->usage({});
    EXPECT_EQ(before.frames_held, pool.held_count());
    EXPECT_EQ(before.disk_bytes, bytes_of_files());
    const tenant_id other = store->tenant("other");
    EXPECT_EQ(store->usage(other).disk_bytes, 0u);
    agent_state theirs = make_state(pool, "a", some_tokens(21));
    theirs.id = theirs.id.owned_by(other);
    store->put(std::move(theirs));
    ASSERT_TRUE(store->save(id_of("a").owned_by(other)));
    EXPECT_EQ(store->usage({}).frames_held, before.frames_held);
    EXPECT_EQ(store->usage({}).disk_bytes, before.disk_bytes);
    EXPECT_EQ(store->usage(other).frames_held, pool.held_count() - before.frames_held);
    EXPECT_EQ(store->usage(other).disk_bytes, bytes_of_files() - before.disk_bytes);
    for (const char* id : {"a", "b", "c"}) EXPECT_TRUE(store->evict(id_of(id)));
    EXPECT_EQ(store->usage({}).frames_held, 0u);
}

TEST_F(agent_cache_store_find_test, a_fork_shares_every_block_and_outlives_its_source) {
    const auto store = open();
    const auto tokens = some_tokens(21);
    store->put(make_state(pool, "a", tokens));
    const std::size_t frames = pool.held_count();
    ASSERT_TRUE(store->fork(id_of("a"), id_of("b")));
    EXPECT_EQ(pool.held_count(), frames);
    EXPECT_EQ(block_files_below(directory.path()), 3u);
    EXPECT_EQ(store->fork(id_of("a"), id_of("b")).error().code, errc::bad_value);
    EXPECT_EQ(store->fork(id_of("c"), id_of("d")).error().code, errc::not_found);
    const auto fork = store->inspect(id_of("b"));
    ASSERT_TRUE(fork);
    EXPECT_EQ(fork->frames_held, frames);
    EXPECT_EQ(fork->frames_shared, frames);
    ASSERT_TRUE(store->save(id_of("a")));
    ASSERT_TRUE(store->evict(id_of("b")));
    ASSERT_TRUE(store->erase(id_of("a")));
    expect_whole(*store, "b", tokens);
}

TEST_F(agent_cache_store_find_test, a_fork_of_an_evicted_agent_needs_nothing_in_the_pool) {
    const auto store = open();
    put_and_save(*store, "a", some_tokens(21));
    ASSERT_TRUE(store->evict(id_of("a")));
    ASSERT_TRUE(store->fork(id_of("a"), id_of("b")));
    EXPECT_EQ(pool.held_count(), 0u);
    ASSERT_TRUE(store->erase(id_of("a")));
    expect_whole(*store, "b", some_tokens(21));
}

// Method: two answers, a turn that keeps one of them, a restart, an erasure.
// Method: an agent of the fork's name is just being erased, so that the fork, which everybody sees
// already, has to wait for its turn to be saved. Meanwhile its source goes.
TEST_F(agent_cache_store_find_test, a_fork_keeps_its_sources_files_before_its_own_first_save) {
    fault_file_system files(directory.path());
    const auto tokens = some_tokens(21);
    const std::function<void(agent_cache_store&)> ways_to_go[] = {
        [](agent_cache_store& store) { EXPECT_TRUE(store.erase(id_of("a"))); },
        [&](agent_cache_store& store) { put_and_save(store, "a", some_tokens(9, 6)); },
        [&](agent_cache_store& store) {
            files.set_space({1 << 30, 0});
            auto room = store.reserve_disk(tenant_id{});
            EXPECT_FALSE(room.grow(1)) << "files that nobody needs go first, and give nothing";
            files.set_space({1 << 30, 1 << 20});
            EXPECT_FALSE(room.grow(1)) << "whatever goes, this disk gets no room";
            EXPECT_EQ(store.find(id_of("a")), nullptr);
            files.set_space({1 << 30, 1 << 30});
        }};
    for (const auto& go : ways_to_go) {
        {
            const auto store = open(&files);
            put_and_save(*store, "a", tokens);
            ASSERT_TRUE(store->evict(id_of("a")));
            put_and_save(*store, "b", some_tokens(9, 5));
            std::promise<void> erasing, source_is_gone;
            std::atomic<bool> is_first = true;
            files.before_unlink([&](const std::string& path) {
                if (path.find("/blocks/") == std::string::npos || !is_first.exchange(false)) return;
                erasing.set_value();
                source_is_gone.get_future().wait();
            });
            std::jthread eraser([&] { EXPECT_TRUE(store->erase(id_of("b"))); });
            erasing.get_future().wait();
            std::jthread forker([&] { EXPECT_TRUE(store->fork(id_of("a"), id_of("b"))); });
            for (int i = 0; i < 10000 && store->find(id_of("b")) == nullptr; ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            EXPECT_NE(store->find(id_of("b")), nullptr);
            go(*store);
            source_is_gone.set_value();
        }
        files.before_unlink({});
        const auto store = open(&files);
        expect_whole(*store, "b", tokens);
        for (const agent_summary& each : store->list()) EXPECT_TRUE(store->erase(each.id));
        EXPECT_EQ(block_files_below(directory.path()), 0u) << "and nothing for ever";
    }
}

TEST_F(agent_cache_store_find_test, the_end_of_an_answer_is_found_by_its_name_after_a_restart) {
    const auto put = [&](agent_cache_store& store, int tokens, std::vector<message_end> messages) {
        agent_state state = make_state(pool, "a", some_tokens(tokens));
        state.messages = std::move(messages);
        store.put(std::move(state));
        ASSERT_TRUE(store.save(id_of("a")));
    };
    {
        const auto store = open();
        put(*store, 9, {{"msg_1", 9, "x"}});
        put(*store, 20, {{"msg_1", 9, "x"}, {"msg_2", 20, {}}});
        EXPECT_TRUE(store->find_message({}, "msg_2")->is_last);
    }
    auto store = open();
    auto place = store->find_message({}, "msg_1");
    ASSERT_TRUE(place);
    EXPECT_EQ(place->agent, id_of("a"));
    EXPECT_EQ(place->tokens, 9);
    EXPECT_EQ(place->text_bytes, store->find(id_of("a"))->token_ends[8]);
    EXPECT_EQ(place->rest, "x");
    EXPECT_FALSE(place->is_last);
    EXPECT_FALSE(store->find_message({}, "msg_3"));
    EXPECT_FALSE(store->find_message(store->tenant("another"), "msg_1"));
    put(*store, 12, {{"msg_1", 9, "x"}, {"msg_4", 12, {}}});
    EXPECT_FALSE(store->find_message({}, "msg_2"));
    EXPECT_TRUE(store->find_message({}, "msg_4"));
    ASSERT_TRUE(store->fork(id_of("a"), id_of("b")));
    EXPECT_EQ(store->find_message({}, "msg_4")->agent, id_of("a")) << "a fork has no answers";
    ASSERT_TRUE(store->erase(id_of("a")));
    EXPECT_FALSE(store->find_message({}, "msg_1"));
}

TEST_F(agent_cache_store_find_test, an_early_save_keeps_the_answers_within_its_blocks) {
    {
        const auto store = open();
        agent_state state = make_state(pool, "a", some_tokens(21));
        state.messages = {{"msg_1", 16, "r"}, {"msg_2", 17, {}}};
        store->put(std::move(state));
        ASSERT_TRUE(store->save(id_of("a"), save_extent::full_blocks));
    }
    const auto store = open();
    EXPECT_TRUE(store->find_message({}, "msg_1"));
    EXPECT_FALSE(store->find_message({}, "msg_2"));
}

TEST_F(agent_cache_store_find_test, an_agent_of_other_weights_is_told_from_an_incompatible_one) {
    auto options = options_for(directory.path());
    const auto open_of = [&](const std::string& model, const std::string& fingerprint) {
        options.model = model;
        options.fingerprint = fingerprint_of(fingerprint);
        return std::move(*agent_cache_store::open(options, pool));
    };
    { put_and_save(*open_of("weights", "one"), "a", some_tokens(9)); }
    EXPECT_EQ(open_of("weights", "two")->why_absent(id_of("a")), shortfall::incompatible);
    EXPECT_EQ(open_of("others", "two")->why_absent(id_of("a")), shortfall::model_changed);
    EXPECT_EQ(open_of("weights", "one")->why_absent(id_of("a")), shortfall::none);
}

}  // namespace
}  // namespace semantic::storage
