// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/agent_cache_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sys/stat.h>
#include <thread>

#include "storage/disk/manifest.hpp"
#include "tests/storage/agents/store_test.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::fault_file_system;
using semantic::tests::temp_dir;

std::vector<std::string> files_below(const std::string& directory) {
    std::vector<std::string> paths;
    for (const auto& each : std::filesystem::recursive_directory_iterator(directory))
        if (each.is_regular_file()) paths.push_back(each.path().string());
    std::sort(paths.begin(), paths.end());
    return paths;
}

std::vector<std::string> block_files_below(const std::string& directory) {
    return files_below(directory + "/blocks");
}

class agent_cache_store_test : public store_test {};

TEST_F(agent_cache_store_test, a_restart_finds_the_agent_with_every_byte) {
    const auto tokens = some_tokens(21);
    std::shared_ptr<const agent_state> before;
    {
        const auto store = open();
        put_and_save(*store, "sess_1", tokens);
        before = store->find(id_of("sess_1"));
    }
    const auto store = open();
    const auto after = store->find(id_of("sess_1"));
    ASSERT_NE(after, nullptr);
    EXPECT_EQ(after->tokens, before->tokens);
    EXPECT_EQ(after->text, before->text);
    EXPECT_EQ(after->token_ends, before->token_ends);
    EXPECT_EQ(after->notes, before->notes);
    EXPECT_EQ(after->created, before->created);
    EXPECT_EQ(after->last_used, before->last_used);
    EXPECT_EQ(after->blocks, std::vector<kv_block_parts>(3));
    before.reset();
    EXPECT_EQ(store->list()[0].tier, memory_tier::warm);
    expect_whole(*store, "sess_1", tokens);
    EXPECT_EQ(store->list()[0].tier, memory_tier::hot);
    EXPECT_EQ(store->probe().blocks_read, 3u);
}

TEST_F(agent_cache_store_test, values_inside_keys_are_restored_as_fully_as_any) {
    const kv_layout latent = latent_layout();
    block_pool latents{latent, latent.frame_bytes() * 100};
    const auto tokens = some_tokens(21);
    {
        auto store = agent_cache_store::open(options_for(directory.path()), latents);
        ASSERT_TRUE(store);
        (*store)->put(make_state(latents, "a", tokens));
        ASSERT_TRUE((*store)->save(id_of("a")));
    }
    auto store = agent_cache_store::open(options_for(directory.path()), latents);
    ASSERT_TRUE(store);
    const auto restored = (*store)->restore(*(*store)->find(id_of("a")), 21);
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->tokens, 21) << restored->detail;
    EXPECT_TRUE(holds(latent, restored->blocks, tokens, 21));
}

TEST_F(agent_cache_store_test, the_f16_rows_of_the_last_group_come_back_with_its_block) {
    const kv_layout wide = wide_layout();
    block_pool frames{wide, wide.frame_bytes() * 100};
    const auto tokens = some_tokens(21);
    {
        auto store = agent_cache_store::open(options_for(directory.path()), frames);
        ASSERT_TRUE(store);
        (*store)->put(make_state(frames, "a", tokens));
        ASSERT_TRUE((*store)->save(id_of("a")));
        const std::size_t held = frames.held_count();
        EXPECT_EQ((*store)->usage({}).frames_held, held);
        ASSERT_TRUE((*store)->evict(id_of("a")));
        EXPECT_EQ(frames.held_count(), 0u);
    }
    auto store = agent_cache_store::open(options_for(directory.path()), frames);
    ASSERT_TRUE(store);
    const auto restored = (*store)->restore(*(*store)->find(id_of("a")), 21);
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->tokens, 21) << restored->detail;
    EXPECT_TRUE(holds(wide, restored->blocks, tokens, 21));
    const kv_sequence sequence(frames, restored->blocks, 21);
    EXPECT_EQ(sequence.token_count(), 21);
    for (int layer = 0; layer < wide.layer_count(); ++layer)
        EXPECT_TRUE(wide_holds(wide, layer, sequence.group_rows(layer), tokens, 21));
}

TEST_F(agent_cache_store_test, restore_reads_only_what_is_asked_for_and_not_hot) {
    const auto tokens = some_tokens(21);
    { put_and_save(*open(), "a", tokens); }
    const auto store = open();
    const auto part = store->restore(*store->find(id_of("a")), 9);
    ASSERT_TRUE(part);
    EXPECT_EQ(part->tokens, 9);
    EXPECT_EQ(part->blocks.size(), 2u);
    EXPECT_GT(part->bytes_read, 0u);
    EXPECT_EQ(store->probe().blocks_read, 2u);
    const auto again = store->restore(*store->find(id_of("a")), 16);
    EXPECT_EQ(again->bytes_read, 0u);
    EXPECT_EQ(again->blocks, part->blocks);
    EXPECT_EQ(store->restore(*store->find(id_of("a")), 0)->blocks.size(), 0u);
}

TEST_F(agent_cache_store_test, what_is_hot_is_had_without_a_look_at_the_disk_and_nothing_else_is) {
    const auto tokens = some_tokens(21);
    const auto store = open();
    put_and_save(*store, "a", tokens);
    {
        const auto hot = store->restore_hot(*store->find(id_of("a")), 21);
        ASSERT_TRUE(hot);
        EXPECT_EQ(hot->blocks, store->restore(*store->find(id_of("a")), 21)->blocks);
        EXPECT_EQ(hot->tokens, 21);
    }
    EXPECT_EQ(store->restore_hot(*store->find(id_of("a")), 0)->blocks.size(), 0u);
    ASSERT_TRUE(store->evict(id_of("a")));
    EXPECT_FALSE(store->restore_hot(*store->find(id_of("a")), 21));
    EXPECT_FALSE(store->restore_hot(*store->find(id_of("a")), 1));
    ASSERT_EQ(store->restore(*store->find(id_of("a")), 9)->tokens, 9);
    EXPECT_TRUE(store->restore_hot(*store->find(id_of("a")), 16));
    EXPECT_FALSE(store->restore_hot(*store->find(id_of("a")), 17));
    EXPECT_EQ(store->probe().blocks_read, 2u);
}

TEST_F(agent_cache_store_test, saving_twice_writes_nothing) {
    fault_file_system files(directory.path());
    const auto store = open(&files);
    put_and_save(*store, "a", some_tokens(21));
    files.reset();
    const auto again = store->save(id_of("a"));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->bytes_written, 0u);
    EXPECT_EQ(again->blocks_written, 0);
    EXPECT_EQ(files.operations(), 0);
    EXPECT_TRUE(store->save(id_of("nobody")));
    EXPECT_TRUE(store->dirty_agents().empty());
}

TEST_F(agent_cache_store_test, a_turn_writes_what_is_new_and_no_more) {
    const auto store = open();
    put_and_save(*store, "a", some_tokens(803));
    store->put(make_state(pool, "a", some_tokens(812)));
    const auto turn = store->save(id_of("a"));
    ASSERT_TRUE(turn);
    EXPECT_EQ(turn->blocks_written, 2);  // the block that became full, and the new tail
    EXPECT_EQ(block_files_below(directory.path()).size(), 102u);
    const auto files = block_files_below(directory.path());
    const auto largest = std::filesystem::file_size(*std::max_element(
        files.begin(), files.end(), [](const std::string& a, const std::string& b) {
            return std::filesystem::file_size(a) < std::filesystem::file_size(b);
        }));
    const auto manifest = std::filesystem::file_size(files_below(directory / "agents")[0]);
    EXPECT_LE(turn->bytes_written, 2 * largest + manifest);
}

TEST_F(agent_cache_store_test, the_previous_tail_is_deleted_once_nobody_needs_it) {
    const auto store = open();
    put_and_save(*store, "a", some_tokens(9));
    const auto before = block_files_below(directory.path());
    put_and_save(*store, "b", some_tokens(9));
    EXPECT_EQ(block_files_below(directory.path()), before);
    put_and_save(*store, "a", some_tokens(10));
    EXPECT_EQ(block_files_below(directory.path()).size(), 3u);  // b still has the old tail
    put_and_save(*store, "b", some_tokens(10));
    EXPECT_EQ(block_files_below(directory.path()).size(), 2u);
    expect_whole(*store, "b", some_tokens(10));
}

TEST_F(agent_cache_store_test, a_shorter_or_other_state_replaces_the_former) {
    const auto store = open();
    put_and_save(*store, "a", some_tokens(30));
    put_and_save(*store, "a", some_tokens(11));
    EXPECT_EQ(block_files_below(directory.path()).size(), 2u);
    put_and_save(*store, "a", some_tokens(20, 5));
    EXPECT_EQ(block_files_below(directory.path()).size(), 3u);
    put_and_save(*store, "a", {});
    EXPECT_TRUE(block_files_below(directory.path()).empty());
    EXPECT_EQ(store->find(id_of("a"))->tokens.size(), 0u);
}

TEST_F(agent_cache_store_test, agents_with_the_same_prefix_hold_it_once_in_ram_and_on_disk) {
    const auto store = open();
    auto tokens = some_tokens(16);
    put_and_save(*store, "a", tokens);
    const std::size_t held = pool.held_count();
    tokens.push_back(4711);
    put_and_save(*store, "b", tokens);
    const auto a = store->find(id_of("a"));
    const auto b = store->find(id_of("b"));
    EXPECT_EQ(a->blocks[0], b->blocks[0]);
    EXPECT_EQ(a->blocks[1], b->blocks[1]);
    EXPECT_EQ(pool.held_count(), held + 2);  // one more block of two layers: b's tail
    EXPECT_EQ(block_files_below(directory.path()).size(), 3u);
}

TEST_F(agent_cache_store_test, a_restored_prefix_is_shared_with_who_has_it_already) {
    {
        const auto store = open();
        put_and_save(*store, "a", some_tokens(16));
        put_and_save(*store, "b", some_tokens(16));
    }
    const auto store = open();
    expect_whole(*store, "a", some_tokens(16));
    const std::size_t held = pool.held_count();
    expect_whole(*store, "b", some_tokens(16));
    EXPECT_EQ(pool.held_count(), held);
    EXPECT_EQ(store->probe().blocks_read, 2u);
}

// Goal: who waits with an agent's memory in hand loses nothing of it when the agent goes on.
TEST_F(agent_cache_store_test, an_earlier_state_is_taken_up_where_the_agent_has_gone_on_from_it) {
    for (const bool evicted : {false, true}) {
        const auto store = open();
        put_and_save(*store, "a", some_tokens(13));
        ASSERT_TRUE(store->evict(id_of("a")));
        const auto earlier = store->find(id_of("a"));
        put_and_save(*store, "a", some_tokens(21));
        if (evicted) {
            ASSERT_TRUE(store->evict(id_of("a")));
        }
        const auto restored = store->restore(*earlier, 13);
        ASSERT_TRUE(restored);
        EXPECT_EQ(restored->tokens, 13) << restored->detail;
        EXPECT_EQ(restored->why, shortfall::none);
        EXPECT_TRUE(holds(layout, restored->blocks, some_tokens(13), 13));
        expect_whole(*store, "a", some_tokens(21));
        EXPECT_EQ(store->probe().blocks_missing, 0u);
        // Where it has parted from there, that is lost.
        put_and_save(*store, "a", some_tokens(21, 5));
        EXPECT_LT(store->restore(*earlier, 13)->tokens, 13);
        ASSERT_TRUE(store->erase(id_of("a")));
    }
}

TEST_F(agent_cache_store_test, a_second_store_on_the_directory_is_locked_out_by_name) {
    auto first = open();
    const auto second = agent_cache_store::open(options_for(directory.path()), pool);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, errc::locked);
    EXPECT_NE(second.error().what.find(directory.path()), std::string::npos);
    first.reset();
    EXPECT_NE(open(), nullptr);
}

TEST_F(agent_cache_store_test, everything_it_makes_is_private) {
    const std::string root = directory / "new/caches";
    auto store = agent_cache_store::open(options_for(root), pool);
    ASSERT_TRUE(store);
    put_and_save(**store, "a", some_tokens(9));
    for (const auto& each : std::filesystem::recursive_directory_iterator(directory.path())) {
        struct stat status {};
        ASSERT_EQ(::stat(each.path().c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 0777, each.is_directory() ? 0700u : 0600u) << each.path();
        EXPECT_EQ(each.path().string().find("/a."), std::string::npos);
    }
}

TEST_F(agent_cache_store_test, opening_removes_temporaries_and_orphans_and_leaves_strangers) {
    { put_and_save(*open(), "a", some_tokens(9)); }
    const auto own = files_below(directory.path());
    const std::string block = block_files_below(directory.path())[0];
    const std::string fan_out = block.substr(0, block.rfind('/'));
    std::string orphan = std::filesystem::path(block).filename().string();
    orphan[5] = orphan[5] == '0' ? '1' : '0';
    std::filesystem::copy_file(block, fan_out + "/" + orphan);
    std::filesystem::copy_file(block, block + ".tmp");
    std::filesystem::copy_file(block, directory / "agents/left.manifest.tmp");
    std::filesystem::copy_file(block, fan_out + "/README");
    {
        const auto store = open();
        expect_whole(*store, "a", some_tokens(9));
    }
    auto expected = own;
    expected.push_back(fan_out + "/README");
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(files_below(directory.path()), expected);
}

TEST_F(agent_cache_store_test, make_room_evicts_clean_agents_least_recently_used_first) {
    const auto store = open();
    put_and_save(*store, "old", some_tokens(16, 1), 10);
    put_and_save(*store, "older", some_tokens(16, 2), 5);
    put_and_save(*store, "young", some_tokens(16, 3), 20);
    store->put(make_state(pool, "dirty", some_tokens(16, 4), 1));
    const std::size_t free = pool.free_count();
    const agent_id keep = id_of("older");
    EXPECT_TRUE(store->make_room(free, nullptr));
    EXPECT_EQ(store->probe().evictions, 0u);
    EXPECT_TRUE(store->make_room(free + 1, &keep));
    EXPECT_EQ(store->find(id_of("old"))->blocks[0].full, nullptr);
    EXPECT_NE(store->find(id_of("older"))->blocks[0].full, nullptr);
    EXPECT_NE(store->find(id_of("young"))->blocks[0].full, nullptr);
    EXPECT_FALSE(store->make_room(pool.frame_count(), &keep));
    EXPECT_EQ(store->find(id_of("young"))->blocks[0].full, nullptr);
    EXPECT_NE(store->find(id_of("older"))->blocks[0].full, nullptr);
    EXPECT_NE(store->find(id_of("dirty"))->blocks[0].full, nullptr);
    EXPECT_EQ(store->probe().evictions, 2u);
    expect_whole(*store, "old", some_tokens(16, 1));
}

TEST_F(agent_cache_store_test, evict_drops_clean_agents_only_and_loses_nothing) {
    const auto store = open();
    store->put(make_state(pool, "a", some_tokens(9)));
    EXPECT_FALSE(store->evict(id_of("a")));
    EXPECT_FALSE(store->evict(id_of("nobody")));
    ASSERT_TRUE(store->save(id_of("a")));
    EXPECT_TRUE(store->evict(id_of("a")));
    EXPECT_EQ(pool.held_count(), 0u);
    expect_whole(*store, "a", some_tokens(9));
}

TEST_F(agent_cache_store_test, restore_makes_room_and_says_when_there_is_none) {
    block_pool tight(layout, layout.frame_bytes() * 6);  // three blocks
    const std::string root = directory / "tight";
    const auto store = std::move(*agent_cache_store::open(options_for(root), tight));
    store->put(make_state(tight, "a", some_tokens(24, 1)));
    ASSERT_TRUE(store->save(id_of("a")));
    ASSERT_TRUE(store->evict(id_of("a")));
    store->put(make_state(tight, "b", some_tokens(24, 2)));
    ASSERT_TRUE(store->save(id_of("b")));
    const auto a = store->find(id_of("a"));
    const auto restored = store->restore(*a, 24);  // b goes
    ASSERT_TRUE(restored) << restored.error().what;
    EXPECT_TRUE(holds(layout, restored->blocks, a->tokens, 24));
    const auto refused = store->restore(*store->find(id_of("b")), 24);  // `restored` holds all
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, errc::pool_exhausted);
}

TEST_F(agent_cache_store_test, erase_deletes_what_nobody_else_needs) {
    const auto store = open();
    put_and_save(*store, "a", some_tokens(17));
    auto tokens = some_tokens(8);
    tokens.push_back(1);
    put_and_save(*store, "b", tokens);
    EXPECT_EQ(block_files_below(directory.path()).size(), 4u);
    ASSERT_TRUE(store->erase(id_of("a")));
    EXPECT_EQ(store->find(id_of("a")), nullptr);
    EXPECT_EQ(block_files_below(directory.path()).size(), 2u);
    EXPECT_EQ(store->erase(id_of("a")).error().code, errc::not_found);
    store->put(make_state(pool, "c", some_tokens(3)));  // never saved
    EXPECT_TRUE(store->erase(id_of("c")));
    expect_whole(*store, "b", tokens);
}

TEST_F(agent_cache_store_test, another_fingerprint_hides_the_agent_and_keeps_its_files) {
    { put_and_save(*open(), "a", some_tokens(17)); }
    const auto before = files_below(directory.path());
    auto options = options_for(directory.path());
    options.fingerprint = fingerprint_of("another model");
    {
        const auto store = std::move(*agent_cache_store::open(options, pool));
        EXPECT_EQ(store->find(id_of("a")), nullptr);
        EXPECT_EQ(store->why_absent(id_of("a")), shortfall::incompatible);
        EXPECT_EQ(store->why_absent(id_of("b")), shortfall::none);
        EXPECT_EQ(store->probe().manifests_incompatible, 0u) << "its model can use it";
        EXPECT_EQ(files_below(directory.path()), before);
    }
    { expect_whole(*open(), "a", some_tokens(17)); }
    // Its next save under the other model leaves the first one's memory where it is.
    {
        const auto store = std::move(*agent_cache_store::open(options, pool));
        put_and_save(*store, "a", some_tokens(17));
        EXPECT_EQ(store->why_absent(id_of("a")), shortfall::none);
        EXPECT_EQ(block_files_below(directory.path()).size(), 6u);
        expect_whole(*store, "a", some_tokens(17));
    }
    expect_whole(*open(), "a", some_tokens(17));
}

TEST_F(agent_cache_store_test, another_tenant_salt_finds_nothing_and_shares_nothing) {
    { put_and_save(*open(), "a", some_tokens(16)); }
    auto options = options_for(directory.path());
    options.tenant_salt = "another";
    const auto store = std::move(*agent_cache_store::open(options, pool));
    EXPECT_EQ(store->find(id_of("a")), nullptr);
    put_and_save(*store, "a", some_tokens(16));
    EXPECT_EQ(block_files_below(directory.path()).size(), 4u);
}

TEST_F(agent_cache_store_test, a_manifest_of_a_later_format_protects_every_block) {
    { put_and_save(*open(), "a", some_tokens(16)); }
    const std::string path = files_below(directory / "agents")[0];
    ASSERT_TRUE(replace_file(posix_file_system(), path, later_manifest()));
    const auto before = files_below(directory.path());
    const auto store = open();
    EXPECT_EQ(store->find(id_of("a")), nullptr);
    EXPECT_EQ(store->why_absent(id_of("a")), shortfall::incompatible);
    EXPECT_EQ(files_below(directory.path()), before);
}

TEST_F(agent_cache_store_test, the_closest_agent_is_found_after_put_evict_erase_and_a_restart) {
    const auto closest = [](const agent_cache_store& store, const std::string& text) {
        const auto found = store.closest({}, text, 1);
        return found.empty() ? std::string("nobody") : found[0].state->id.str();
    };
    std::string text_of_a;
    {
        auto store = open();
        put_and_save(*store, "a", some_tokens(20));
        put_and_save(*store, "b", some_tokens(12));
        put_and_save(*store, "c", some_tokens(20, 1));
        text_of_a = store->find(id_of("a"))->text;
        EXPECT_EQ(closest(*store, text_of_a + "more"), "a");
        EXPECT_EQ(store->closest({}, text_of_a, 9).size(), 2u);
        ASSERT_TRUE(store->evict(id_of("a")));
        EXPECT_EQ(closest(*store, text_of_a), "a") << "warm agents count too";
        put_and_save(*store, "a", some_tokens(4));
        EXPECT_EQ(closest(*store, text_of_a), "b") << "a's former text is forgotten";
        put_and_save(*store, "a", some_tokens(20));
    }
    auto store = open();
    EXPECT_EQ(closest(*store, text_of_a), "a");
    ASSERT_TRUE(store->erase(id_of("a")));
    EXPECT_EQ(closest(*store, text_of_a), "b");
    EXPECT_EQ(closest(*store, "none of theirs"), "nobody");
}

TEST_F(agent_cache_store_test, list_tells_tier_tokens_and_bytes) {
    const auto store = open();
    put_and_save(*store, "b", some_tokens(9), 77);
    store->put(make_state(pool, "a", some_tokens(3, 2)));
    const auto agents = store->list();
    ASSERT_EQ(agents.size(), 2u);
    EXPECT_EQ(agents[0].id, id_of("a"));
    EXPECT_TRUE(agents[0].dirty);
    EXPECT_EQ(agents[0].disk_bytes, 0u);
    EXPECT_FALSE(agents[1].dirty);
    EXPECT_EQ(agents[1].tokens, 9);
    EXPECT_EQ(agents[1].last_used, std::chrono::system_clock::time_point(std::chrono::seconds(77)));
    std::uint64_t bytes = 0;
    for (const char* folder : {"/agents", "/blocks"})
        for (const std::string& path : files_below(directory.path() + folder))
            bytes += std::filesystem::file_size(path);
    EXPECT_EQ(agents[1].disk_bytes, bytes);
    EXPECT_EQ(store->dirty_agents(), std::vector<agent_id>{id_of("a")});
}

// Goal: no lost block, no deadlock, no leak when agents that share blocks are saved, erased and
// restored at once.
TEST_F(agent_cache_store_test, parallel_agents_that_share_blocks_stay_whole) {
    block_pool large(layout, layout.frame_bytes() * 2000);
    const std::string root = directory / "parallel";
    {
        const auto store = std::move(*agent_cache_store::open(options_for(root), large));
        std::vector<std::thread> threads;
        for (int worker = 0; worker < 6; ++worker)
            threads.emplace_back([&, worker] {
                const std::string id = std::string("agent").append(std::to_string(worker));
                for (int round = 1; round <= 25; ++round) {
                    const auto tokens = some_tokens(round * 3, worker % 2);
                    store->put(make_state(large, id, tokens, round));
                    EXPECT_TRUE(store->save(id_of(id)));
                    store->evict(id_of(id));
                    const auto state = store->find(id_of(id));
                    const auto restored = store->restore(*state, round * 3);
                    ASSERT_TRUE(restored);
                    EXPECT_EQ(restored->why, shortfall::none) << restored->detail;
                    EXPECT_TRUE(holds(layout, restored->blocks, tokens, round * 3));
                    EXPECT_TRUE(round % 7 != 0 || store->erase(id_of(id)));
                }
            });
        for (std::thread& each : threads) each.join();
    }
    const auto store = std::move(*agent_cache_store::open(options_for(root), large));
    ASSERT_EQ(store->list().size(), 6u);
    for (int worker = 0; worker < 6; ++worker)
        expect_whole(*store, std::string("agent").append(std::to_string(worker)),
                     some_tokens(75, worker % 2));
    EXPECT_EQ(block_files_below(root).size(), 20u);
}

/// Bytes that a turn of 10 new tokens writes, the mean of 40 turns, on top of `past` tokens.
double bytes_a_turn(block_pool& pool, int past) {
    const temp_dir directory;
    fault_file_system files(directory.path());
    const auto store =
        std::move(*agent_cache_store::open(options_for(directory.path(), &files), pool));
    store->put(make_state(pool, "a", some_tokens(past)));
    EXPECT_TRUE(store->save(id_of("a")));
    files.reset();
    constexpr int turns = 40;
    for (int turn = 1; turn <= turns; ++turn) {
        store->put(make_state(pool, "a", some_tokens(past + 10 * turn)));
        EXPECT_TRUE(store->save(id_of("a")));
    }
    return static_cast<double>(files.bytes_written()) / turns;
}

// Goal: a turn costs what it brings, however long the past is. What is left of growth is the names
// of directories, nothing of the context.
TEST_F(agent_cache_store_test, a_turn_writes_what_is_new_whatever_the_context) {
    const kv_layout layout_of = small_layout();
    block_pool roomy(layout_of, layout_of.frame_bytes() * 2000);
    const double shallow = bytes_a_turn(roomy, 100);
    const double deep = bytes_a_turn(roomy, 3200);
    EXPECT_LT(deep, 1.1 * shallow);
}

TEST_F(agent_cache_store_test, an_early_save_leaves_the_unfinished_block_for_the_last_one) {
    const auto store = open();
    store->put(make_state(pool, "a", some_tokens(21)));
    const auto early = store->save(id_of("a"), save_extent::full_blocks);
    ASSERT_TRUE(early);
    EXPECT_EQ(early->blocks_written, 2);
    EXPECT_EQ(store->dirty_agents(), std::vector<agent_id>{id_of("a")});
    EXPECT_EQ(store->save(id_of("a"), save_extent::full_blocks)->bytes_written, 0u);
    EXPECT_EQ(store->save(id_of("a"))->blocks_written, 1);
    EXPECT_TRUE(store->dirty_agents().empty());
    // Nothing that an early save could add.
    store->put(make_state(pool, "b", some_tokens(7, 2)));
    EXPECT_EQ(store->save(id_of("b"), save_extent::full_blocks)->bytes_written, 0u);
}

TEST_F(agent_cache_store_test, an_early_save_survives_a_restart_up_to_its_last_full_block) {
    {
        const auto store = open();
        store->put(make_state(pool, "a", some_tokens(21)));
        ASSERT_TRUE(store->save(id_of("a"), save_extent::full_blocks));
    }
    const auto store = open();
    const auto state = store->find(id_of("a"));
    ASSERT_NE(state, nullptr);
    EXPECT_EQ(state->tokens, some_tokens(16));
    EXPECT_EQ(state->token_ends.back(), state->text.size());
    const auto restored = store->restore(*state, 16);
    ASSERT_TRUE(restored);
    EXPECT_TRUE(holds(layout, restored->blocks, some_tokens(16), 16));
}

// Method: saves of every kind over each other, each followed by a reopening that must find it.
TEST_F(agent_cache_store_test, what_was_appended_turn_by_turn_is_read_as_one) {
    std::vector<int> lengths = {21, 24, 30, 9, 9, 40, 41, 17, 64, 80, 33};
    std::vector<std::string> texts;
    for (int i = 0; i < 120; ++i) lengths.push_back(1 + (i * 37) % 150);
    auto store = open();
    for (std::size_t turn = 0; turn < lengths.size(); ++turn) {
        agent_state state = make_state(pool, "a", some_tokens(lengths[turn], turn % 7 == 6), 2000);
        // The same tokens may have another text.
        if (turn % 5 == 4) state.text[0] = static_cast<char>('A' + turn % 26);
        state.notes["turn"] = std::to_string(turn);
        const agent_state expected = state;
        store->put(std::move(state));
        ASSERT_TRUE(store->save(id_of("a")));
        if (turn % 9 != 8) continue;
        store.reset();
        store = open();
        const auto found = store->find(id_of("a"));
        ASSERT_NE(found, nullptr);
        EXPECT_EQ(found->tokens, expected.tokens);
        EXPECT_EQ(found->text, expected.text);
        EXPECT_EQ(found->token_ends, expected.token_ends);
        EXPECT_EQ(found->notes, expected.notes);
        EXPECT_EQ(store->probe().manifests_torn, 0u);
    }
}

// Opening costs a file an agent, whatever they hold; perf/inside/store_bench measures 10,000.
TEST_F(agent_cache_store_test, opening_reads_each_manifest_once_and_no_block_file) {
    constexpr int agents = 200;
    {
        const auto store = open();
        for (int i = 0; i < agents; ++i) {
            const std::string id = "a" + std::to_string(i);
            put_and_save(*store, id, some_tokens(40, i));
            store->evict(id_of(id));
        }
    }
    fault_file_system files(directory.path());
    const auto store = open(&files);
    EXPECT_EQ(store->list().size(), std::size_t{agents});
    auto opened = files.opened();
    std::sort(opened.begin(), opened.end());
    EXPECT_EQ(std::erase(opened, directory / "secret"), 1u);
    EXPECT_EQ(std::erase(opened, directory / "format"), 1u);
    EXPECT_EQ(opened, files_below(directory / "agents"));
    EXPECT_EQ(store->find(id_of("a7"))->tokens, some_tokens(40, 7));
}

}  // namespace
}  // namespace semantic::storage
