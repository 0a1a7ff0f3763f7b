// SPDX-License-Identifier: Apache-2.0
// Models with sliding layers: RAM holds a window of them, the disk all, and an agent can be taken
// up at its end and at every earlier place; what is lost costs a shorter prefix, never a wrong
// byte.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <list>
#include <map>
#include <random>

#include "storage/agents/agent_cache_store.hpp"
#include "tests/storage/agents/store_test.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::fault;
using semantic::tests::fault_file_system;
using semantic::tests::temp_dir;
namespace fs = std::filesystem;

class agent_cache_store_window_test : public store_test {
  protected:
    agent_cache_store_window_test() : store_test(sliding_layout()) {}

    /// Restores the agent after `count` tokens and expects the right bytes. Returns: the prefix.
    restored_prefix restore(agent_cache_store& store, const std::string& id,
                            const std::vector<token_id>& tokens, int count) {
        const auto restored = store.restore(*store.find(id_of(id)), count);
        EXPECT_TRUE(restored) << restored.error().what;
        EXPECT_TRUE(holds(layout, restored->blocks, tokens, restored->tokens));
        EXPECT_EQ(restored->blocks.size(),
                  static_cast<std::size_t>((restored->tokens + block_tokens - 1) / block_tokens));
        return *restored;
    }
    std::string sibling(const std::vector<token_id>& tokens, std::size_t index) {
        const auto names = block_names(fingerprint_of("model"), "salt", tokens, block_tokens);
        return directory / block_path(names[index], kv_part::sliding);
    }
};

TEST_F(agent_cache_store_window_test, a_saved_agent_holds_a_window_of_sliding_frames_in_ram) {
    const auto store = open();
    put_and_save(*store, "a", some_tokens(403));
    // 51 blocks of one full layer; of two sliding ones the tail and what 10 tokens reach.
    EXPECT_EQ(pool.held_count(), 51u + 2 * 2);
    EXPECT_EQ(store->list()[0].tier, memory_tier::hot);
    EXPECT_EQ(fs::exists(sibling(some_tokens(403), 0)), true);
    EXPECT_EQ(restore(*store, "a", some_tokens(403), 403).bytes_read, 0u);
}

TEST_F(agent_cache_store_window_test, what_the_window_has_passed_stays_in_ram_until_it_is_saved) {
    const auto store = open();
    store->put(make_state(pool, "a", some_tokens(80)));
    EXPECT_EQ(pool.held_count(), 10u * 3);
    for (int count = 0; count <= 80; ++count)
        EXPECT_EQ(restore(*store, "a", some_tokens(80), count).tokens, count);
    ASSERT_TRUE(store->save(id_of("a")));
    EXPECT_EQ(pool.held_count(), 10u + 2 * 2);
}

// Goal: states that follow each other faster than the disk writes them lose nothing.
TEST_F(agent_cache_store_window_test, a_state_takes_over_what_the_one_before_it_did_not_save) {
    const auto tokens = some_tokens(120);
    const auto store = open();
    kv_sequence sequence(pool, {}, 0);
    for (int count = 20; count <= 120; count += 20) {
        append_tokens(sequence, layout, {tokens.begin(), tokens.begin() + count});
        agent_state state = make_state(pool, "a", {tokens.begin(), tokens.begin() + count});
        state.blocks = sequence.share();
        if (count < 120) store->put(state);
        state.id = id_of("fork");
        store->put(std::move(state));
    }
    ASSERT_TRUE(store->save(id_of("fork")));
    ASSERT_TRUE(store->erase(id_of("a")));
    for (int count = 0; count <= 120; ++count)
        EXPECT_EQ(restore(*store, "fork", tokens, count).tokens, count);
}

TEST_F(agent_cache_store_window_test, an_earlier_state_is_taken_up_where_the_agent_has_gone_on) {
    for (const int further : {45, 47, 49, 80}) {
        const auto store = open();
        put_and_save(*store, "a", some_tokens(44));
        ASSERT_TRUE(store->evict(id_of("a")));
        const auto earlier = store->find(id_of("a"));
        put_and_save(*store, "a", some_tokens(further));
        const auto restored = store->restore(*earlier, 44);
        ASSERT_TRUE(restored);
        EXPECT_EQ(restored->tokens, 44) << restored->detail;
        EXPECT_TRUE(holds(layout, restored->blocks, some_tokens(44), 44));
        EXPECT_EQ(restore(*store, "a", some_tokens(further), further).tokens, further);
        ASSERT_TRUE(store->erase(id_of("a")));
    }
}

// Goal: a fork that is not saved yet keeps the files that it relies on.
TEST_F(agent_cache_store_window_test, a_fork_outlives_the_agent_that_it_left_before_its_own_save) {
    const auto tokens = some_tokens(80);
    const auto store = open();
    put_and_save(*store, "a", tokens);
    auto prefix = restore(*store, "a", tokens, 80);
    kv_sequence sequence(pool, std::move(prefix.blocks), 80);
    agent_state fork = make_state(pool, "b", tokens);
    fork.blocks = sequence.share();
    store->put(std::move(fork));
    put_and_save(*store, "a", some_tokens(9, 5));
    ASSERT_TRUE(store->save(id_of("b")));
    for (int count = 0; count <= 80; ++count)
        EXPECT_EQ(restore(*store, "b", tokens, count).tokens, count);
    ASSERT_TRUE(store->erase(id_of("b")));
    ASSERT_TRUE(store->erase(id_of("a")));
    for (const auto& each : fs::recursive_directory_iterator(directory / "blocks"))
        EXPECT_TRUE(each.is_directory()) << each.path();
}

TEST_F(agent_cache_store_window_test, an_agent_is_taken_up_at_every_place_hot_and_from_disk) {
    const auto tokens = some_tokens(61);
    auto store = open();
    put_and_save(*store, "a", tokens);
    for (const char* how : {"hot", "evicted", "restarted"}) {
        for (int count = 61; count >= 0; --count) {
            const auto restored = restore(*store, "a", tokens, count);
            EXPECT_EQ(restored.tokens, count) << how;
            EXPECT_EQ(restored.why, shortfall::none) << how << " " << restored.detail;
        }
        // Going back has not made the agent hold more than the window at its end.
        EXPECT_EQ(pool.held_count(), 8u + 2 * 2) << how;
        if (how == std::string("hot")) {
            EXPECT_TRUE(store->evict(id_of("a")));
        } else {
            store.reset();
            store = open();
        }
        EXPECT_EQ(pool.held_count(), 0u);
    }
}

TEST_F(agent_cache_store_window_test, reused_tokens_that_came_from_disk_are_counted_once) {
    const auto tokens = some_tokens(61);
    { put_and_save(*open(), "a", tokens); }
    const auto store = open();
    EXPECT_EQ(restore(*store, "a", tokens, 61).tokens_read, 61);
    EXPECT_EQ(store->probe().blocks_read, 8u + 2);
    EXPECT_EQ(restore(*store, "a", tokens, 61).tokens_read, 0);
    const auto diverged = restore(*store, "a", tokens, 30);
    EXPECT_EQ(diverged.tokens_read, 30 - 2 * block_tokens);  // the siblings of blocks 2 and 3
}

TEST_F(agent_cache_store_window_test, a_fork_shares_siblings_with_the_agent_that_it_left) {
    const auto store = open();
    put_and_save(*store, "a", some_tokens(40));
    auto other = some_tokens(24);
    for (int i = 0; i < 20; ++i) other.push_back(7 + i);
    auto prefix = restore(*store, "a", some_tokens(40), 24);
    kv_sequence sequence(pool, std::move(prefix.blocks), 24);
    append_tokens(sequence, layout, other);
    agent_state fork = make_state(pool, "b", other);
    fork.blocks = sequence.share();
    EXPECT_EQ(fork.blocks[0].sliding, nullptr);
    store->put(std::move(fork));
    const auto saved = store->save(id_of("b"));
    ASSERT_TRUE(saved);
    EXPECT_EQ(saved->blocks_written, 3 * 2);
    for (int count = 0; count <= 44; ++count)
        EXPECT_EQ(restore(*store, "b", other, count).tokens, count);
    ASSERT_TRUE(store->erase(id_of("a")));
    for (int count = 0; count <= 44; ++count)
        EXPECT_EQ(restore(*store, "b", other, count).tokens, count);
    ASSERT_TRUE(store->erase(id_of("b")));
    for (const auto& each : fs::recursive_directory_iterator(directory / "blocks"))
        EXPECT_TRUE(each.is_directory()) << each.path();
}

/// The longest prefix of at most `count` tokens whose window needs none of the lost siblings.
int longest_without(const kv_layout& layout, std::vector<std::size_t> lost_blocks, int count) {
    for (bool changed = true; changed;) {
        changed = false;
        for (std::size_t lost_block : lost_blocks) {
            const int begin = static_cast<int>(lost_block) * block_tokens;
            if (count > begin &&
                static_cast<int>(lost_block) >= layout.first_sliding_block(count)) {
                count = begin;
                changed = true;
            }
        }
    }
    return count;
}

TEST_F(agent_cache_store_window_test, a_lost_sibling_shortens_prefixes_whose_window_needs_it) {
    const auto tokens = some_tokens(61);
    for (const std::vector<std::size_t>& lost_blocks :
         std::vector<std::vector<std::size_t>>{{0}, {3}, {7}, {1, 3}, {5, 6}, {0, 1, 2, 3, 4}}) {
        { put_and_save(*open(), "a", tokens); }
        for (std::size_t index : lost_blocks) ASSERT_TRUE(fs::remove(sibling(tokens, index)));
        const auto store = open();
        for (int count = 0; count <= 61; ++count) {
            const auto restored = restore(*store, "a", tokens, count);
            const int expected = longest_without(layout, lost_blocks, count);
            EXPECT_EQ(restored.tokens, expected) << count;
            EXPECT_EQ(restored.why, expected < count ? shortfall::evicted : shortfall::none);
            EXPECT_EQ(restored.detail.empty(), expected == count);
        }
        ASSERT_TRUE(store->erase(id_of("a")));
    }
}

TEST_F(agent_cache_store_window_test, a_flip_anywhere_in_a_sibling_is_a_counted_shortfall) {
    const auto tokens = some_tokens(29);
    { put_and_save(*open(), "a", tokens); }
    for (std::size_t index = 0; index < 4; ++index) {
        const std::string path = sibling(tokens, index);
        const std::string whole = read_whole(posix_file_system(), path, 1 << 24).value();
        const auto write = [&](const std::string& bytes) {
            auto file = posix_file_system().create(path);
            ASSERT_TRUE(file);
            ASSERT_TRUE((*file)->write(std::as_bytes(std::span(bytes))));
        };
        for (std::size_t at = 0; at < whole.size(); at += 31) {
            std::string damaged = whole;
            damaged[at] ^= 0x10;
            write(damaged);
            const auto store = open();
            const auto restored = restore(*store, "a", tokens, 29);
            EXPECT_EQ(restored.tokens, longest_without(layout, {index}, 29)) << at;
            const bool needed = index >= 2;
            EXPECT_EQ(store->probe().blocks_corrupt, needed ? 1u : 0u);
            if (needed) {
                EXPECT_NE(restored.detail.find(path), std::string::npos);
            }
        }
        write(whole.substr(0, whole.size() - 1));
        EXPECT_EQ(restore(*open(), "a", tokens, 29).tokens, longest_without(layout, {index}, 29));
        write(whole);
    }
    EXPECT_EQ(restore(*open(), "a", tokens, 29).why, shortfall::none);
}

TEST_F(agent_cache_store_window_test, files_of_the_two_parts_that_changed_places_are_refused) {
    const auto tokens = some_tokens(8);
    { put_and_save(*open(), "a", tokens); }
    const std::string first = directory / block_path(block_names(fingerprint_of("model"), "salt",
                                                                 tokens, block_tokens)[0],
                                                     kv_part::full);
    fs::rename(first, first + "x");
    fs::rename(sibling(tokens, 0), first);
    fs::rename(first + "x", sibling(tokens, 0));
    const auto restored = restore(*open(), "a", tokens, 8);
    EXPECT_EQ(restored.tokens, 0);
    EXPECT_EQ(restored.why, shortfall::corrupt);
}

TEST_F(agent_cache_store_window_test, a_lost_sibling_is_written_again_by_who_computes_it_again) {
    const auto tokens = some_tokens(61);
    { put_and_save(*open(), "a", tokens); }
    ASSERT_TRUE(fs::remove(sibling(tokens, 6)));
    const auto store = open();
    EXPECT_EQ(restore(*store, "a", tokens, 61).tokens, 48);
    put_and_save(*store, "a", tokens);
    EXPECT_TRUE(store->evict(id_of("a")));
    EXPECT_EQ(restore(*store, "a", tokens, 61).tokens, 61);
}

// Goal: a disk that takes nothing costs divergences their speed, not RAM its bound.
TEST_F(agent_cache_store_window_test, after_a_failed_save_room_comes_from_what_only_a_fork_needs) {
    fault_file_system files(directory.path());
    const auto store = open(&files);
    const auto tokens = some_tokens(80);
    store->put(make_state(pool, "a", tokens));
    const std::size_t all = pool.frame_count() - 10 - 2 * 2;
    EXPECT_FALSE(store->make_room(all, nullptr));  // a save may still come
    EXPECT_EQ(pool.held_count(), 10u * 3);
    files.fail_at(1, fault::io_error);
    ASSERT_FALSE(store->save(id_of("a")));
    EXPECT_EQ(pool.held_count(), 10u * 3);
    EXPECT_TRUE(store->make_room(all, nullptr));
    EXPECT_EQ(pool.held_count(), 10u + 2 * 2);
    EXPECT_EQ(restore(*store, "a", tokens, 80).tokens, 80);
    const auto diverged = restore(*store, "a", tokens, 50);
    EXPECT_EQ(diverged.tokens, 0);
    EXPECT_EQ(diverged.why, shortfall::evicted);
    EXPECT_EQ(store->probe().blocks_missing, 0u);  // nothing that was there is gone
    files.reset();
    ASSERT_TRUE(store->save(id_of("a")));
    EXPECT_TRUE(store->evict(id_of("a")));
    EXPECT_EQ(restore(*store, "a", tokens, 80).tokens, 80);
}

TEST_F(agent_cache_store_window_test, restore_of_an_agent_larger_than_a_pool_of_its_windows_fits) {
    const auto tokens = some_tokens(200);
    { put_and_save(*open(), "a", tokens); }
    block_pool tight(layout, layout.frame_bytes() * layout.frames_for(200, 1));
    const auto store = std::move(*agent_cache_store::open(options_for(directory.path()), tight));
    const auto restored = store->restore(*store->find(id_of("a")), 200);
    ASSERT_TRUE(restored) << restored.error().what;
    EXPECT_EQ(restored->tokens, 200);
    EXPECT_TRUE(holds(layout, restored->blocks, tokens, 200));
    EXPECT_LT(tight.frame_count(), 25u * 3);
}

/// Agents that act at random, on a pool that holds a part of all, and a plain list of what each
/// must hold.
class random_agents {
  public:
    random_agents(const kv_layout& rows, unsigned seed)
        : layout(rows), pool(rows, rows.frame_bytes() * 220), random(seed) {
        reopen();
    }
    std::size_t below(std::size_t count) { return random() % count; }

    /// A turn: `id` continues what `from` remembers, at its end or before, in some chunks.
    void take_turn(const std::string& id, const std::string& from) {
        std::vector<token_id> tokens;
        std::vector<kv_block_parts> prefix;
        if (const auto source = store->find(id_of(from))) {
            ASSERT_EQ(source->tokens, expected[from]);
            const int size = static_cast<int>(source->tokens.size());
            const int wanted =
                below(2) == 0 ? size : static_cast<int>(below(source->tokens.size() + 1));
            const auto restored = store->restore(*source, wanted);
            if (!restored) return;  // the pool is full of what cannot be evicted
            const int kept = restored->tokens;
            ASSERT_TRUE(holds(layout, restored->blocks, source->tokens, kept));
            ASSERT_TRUE(kept == wanted || (lossy && restored->why != shortfall::none))
                << restored->detail;
            tokens.assign(source->tokens.begin(), source->tokens.begin() + kept);
            prefix = restored->blocks;
        }
        kv_sequence sequence(pool, std::move(prefix), static_cast<int>(tokens.size()));
        for (std::size_t chunk = below(4) + 1; chunk-- > 0;) {
            auto longer = tokens;
            for (std::size_t i = below(20) + 1; i-- > 0;)
                longer.push_back(static_cast<token_id>(random() % 9));
            store->make_room(60, nullptr);
            if (!sequence.reserve(static_cast<int>(longer.size()))) break;
            tokens = longer;
            append_tokens(sequence, layout, tokens);
            if (!sequence.window_has_moved()) continue;
            publish(id, sequence.share_whole_blocks(), tokens);
            (void)store->save(id_of(id));
        }
        publish(id, sequence.share(), tokens);
        if (below(4) != 0) (void)store->save(id_of(id));
    }
    void fail_a_save(const std::string& id) {
        files.fail_at(static_cast<int>(below(10)) + 1, fault::io_error);
        if (!store->save(id_of(id))) lossy = true;
        files.reset();
    }
    void lose_files() {
        for (const auto& each : fs::recursive_directory_iterator(place / "blocks"))
            if (each.is_regular_file() && below(20) == 0) {
                fs::remove(each.path());
                lossy = true;
            }
    }
    void restart() {
        for (const agent_id& dirty : store->dirty_agents()) ASSERT_TRUE(store->save(dirty));
        close();
        ASSERT_EQ(pool.held_count(), 0u);
        reopen();
        ASSERT_EQ(store->list().size(), expected.size());
    }

    void close() {
        pins.clear();
        store.reset();
    }

    const kv_layout layout;
    const temp_dir place;
    fault_file_system files{place.path()};
    block_pool pool;
    std::unique_ptr<agent_cache_store> store;

  private:
    void reopen() {
        store = std::move(*agent_cache_store::open(options_for(place.path(), &files), pool));
        for (int i = 0; i < 6; ++i)
            pins.push_back(store->hold(id_of(std::string("agent").append(std::to_string(i)))));
    }
    void publish(const std::string& id, std::vector<kv_block_parts> blocks,
                 std::vector<token_id> tokens) {
        agent_state state = make_state(pool, id, {});
        tokens.resize(std::min(tokens.size(), blocks.size() * block_tokens));
        state.token_ends.assign(tokens.size(), 0);
        state.tokens = expected[id] = std::move(tokens);
        state.blocks = std::move(blocks);
        store->put(std::move(state));
    }

    std::list<agent_cache_store::pin> pins;  // nobody is forgotten for the sake of room
    std::map<std::string, std::vector<token_id>> expected;  // by agent: its tokens
    bool lossy = false;
    std::mt19937 random;
};

// Goal: whatever happens to agents and files, what is restored is right, and shorter than asked for
// only where something was lost.
TEST(agent_cache_store_windows, random_turns_forks_losses_and_restarts_give_no_wrong_byte) {
    for (unsigned seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE(seed);
        random_agents agents(seed % 3 == 0 ? frame_sharing_layout() : sliding_layout(), seed);
        for (int step = 0; step < 150 && !testing::Test::HasFailure(); ++step) {
            const std::string id = std::string("agent").append(std::to_string(agents.below(6)));
            const std::string from = std::string("agent").append(std::to_string(agents.below(6)));
            const std::size_t action = agents.below(12);
            if (action <= 7) agents.take_turn(id, from);
            if (action == 8) agents.store->evict(id_of(id));
            if (action == 9 && agents.below(3) == 0) agents.fail_a_save(id);
            if (action == 10 && agents.below(4) == 0) agents.lose_files();
            if (action == 11 && agents.below(4) == 0) agents.restart();
        }
        agents.close();
        EXPECT_EQ(agents.pool.held_count(), 0u);
    }
}

}  // namespace
}  // namespace semantic::storage
