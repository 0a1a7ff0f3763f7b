// SPDX-License-Identifier: Apache-2.0
// A directory that may not grow: what goes, what stays, and what happens when nothing can go.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/disk/manifest.hpp"
#include "tests/storage/agents/store_test.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::fault;
using semantic::tests::fault_file_system;
using semantic::tests::lost;
using semantic::tests::temp_dir;
namespace fs = std::filesystem;

std::uint64_t bytes_in(const std::string& directory) {
    return bytes_below(posix_file_system(), directory).value();
}

void write_file(const std::string& path, std::size_t bytes) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << std::string(bytes, 'x');
}

class agent_cache_store_quota_test : public store_test {
  protected:
    agent_cache_store_quota_test() : store_test(small_layout(), 400) {}

    std::unique_ptr<agent_cache_store> open(std::uint64_t budget, file_system* files = nullptr,
                                            const std::string& model = "model") {
        store_options options = options_for(directory.path(), files);
        options.fingerprint = fingerprint_of(model);
        options.disk_budget_bytes = budget;
        options.record_budget_bytes = 1;
        return store_test::open(options);
    }
    result<save_report> save(agent_cache_store& store, const std::string& id, int seed,
                             int last_used) {
        store.put(make_state(pool, id, some_tokens(21, seed), last_used));
        return store.save(id_of(id));
    }
    /// What saving one agent of 21 tokens asks for, found by trying.
    std::uint64_t agent_bytes() {
        const temp_dir elsewhere;
        store_options options = options_for(elsewhere.path());
        options.disk_budget_bytes = 1 << 30;
        const auto store = std::move(*agent_cache_store::open(options, pool));
        store->put(make_state(pool, "a", some_tokens(21)));
        return store->save(id_of("a"))->bytes_written;
    }
    bool is_whole(agent_cache_store& store, const std::string& id, int seed) {
        return tests::is_whole(store, layout, id, some_tokens(21, seed));
    }
};

TEST_F(agent_cache_store_quota_test, what_is_spared_goes_when_there_is_nothing_else) {
    // A save asks for more than twice what it writes: one of three gives way to a fourth.
    const auto store = open(agent_bytes() * 47 / 10);
    ASSERT_TRUE(save(*store, "old", 1, 1000));
    ASSERT_TRUE(save(*store, "mid", 2, 2000));
    ASSERT_TRUE(save(*store, "new", 3, 3000));
    store->spare(store->manifest_of(id_of("old")), true);
    ASSERT_TRUE(save(*store, "four", 4, 4000));
    EXPECT_NE(store->find(id_of("old")), nullptr);
    EXPECT_EQ(store->find(id_of("mid")), nullptr);
    for (const char* each : {"new", "four"}) store->spare(store->manifest_of(id_of(each)), true);
    ASSERT_TRUE(save(*store, "five", 5, 5000));
    EXPECT_EQ(store->find(id_of("old")), nullptr);
    store->spare(store->manifest_of(id_of("new")), false);
    ASSERT_TRUE(save(*store, "six", 6, 6000));
    EXPECT_EQ(store->find(id_of("new")), nullptr);
    EXPECT_TRUE(is_whole(*store, "four", 4));
}

TEST_F(agent_cache_store_quota_test, every_byte_in_the_directory_is_counted) {
    write_file(directory / "notes.txt", 11);
    write_file(directory / "other/deep/file", 13);
    write_file(directory / "agents/readme", 17);
    write_file(directory / "blocks/readme", 19);
    write_file(directory / "blocks/ab/readme", 23);
    write_file(directory / "blocks/ab/deep/readme", 29);
    write_file(directory / "agents/torn.manifest", 31);  // deleted, being corrupt
    write_file(directory / "agents/x.manifest.tmp", 37);
    {
        const auto store = open(1 << 30);
        EXPECT_EQ(store->probe().disk_bytes, bytes_in(directory.path()));
        for (int turn = 1; turn <= 4; ++turn) {
            store->put(make_state(pool, "a", some_tokens(turn * 9)));
            ASSERT_TRUE(store->save(id_of("a")));
            EXPECT_EQ(store->probe().disk_bytes, bytes_in(directory.path()));
        }
        ASSERT_TRUE(save(*store, "b", 1, 1000));
        ASSERT_TRUE(store->erase(id_of("a")));
        EXPECT_EQ(store->probe().disk_bytes, bytes_in(directory.path()));
    }
    EXPECT_EQ(open(1 << 30)->probe().disk_bytes, bytes_in(directory.path()));
    EXPECT_EQ(open(1 << 30, nullptr, "another")->probe().disk_bytes, bytes_in(directory.path()));
    EXPECT_EQ(open(1 << 30)->probe().disk_budget_bytes, std::uint64_t{1} << 30);
}

// Goal: conversations that nobody comes back to do not grow for ever.
TEST_F(agent_cache_store_quota_test, a_hundred_agents_never_take_more_than_the_budget) {
    const std::uint64_t budget = agent_bytes() * 10;
    const auto store = open(budget);
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(save(*store, "a" + std::to_string(i), i, 1000 + i));
        ASSERT_LE(bytes_in(directory.path()), budget);
        ASSERT_EQ(store->probe().disk_bytes, bytes_in(directory.path()));
    }
    EXPECT_GE(store->list().size(), 5u);
    EXPECT_EQ(store->list().size() + store->probe().disk_removals, 100u);
    EXPECT_TRUE(is_whole(*store, "a99", 99));
    EXPECT_EQ(store->find(id_of("a0")), nullptr);
    EXPECT_EQ(store->probe().save_failures, 0u);
}

TEST_F(agent_cache_store_quota_test, a_budget_that_shrank_is_kept_from_the_opening_on) {
    {
        const auto store = open(1 << 30);
        for (int i = 0; i < 8; ++i) ASSERT_TRUE(save(*store, "a" + std::to_string(i), i, 1000 + i));
    }
    const std::uint64_t budget = bytes_in(directory.path()) / 2;
    const auto store = open(budget);
    EXPECT_LE(bytes_in(directory.path()), budget);
    EXPECT_TRUE(is_whole(*store, "a7", 7));
    EXPECT_EQ(store->find(id_of("a0")), nullptr);
}

TEST_F(agent_cache_store_quota_test, files_of_a_later_format_go_with_the_blocks_that_only_it_knew) {
    const std::uint64_t one = agent_bytes();
    const std::string later = directory / manifest_path("salt", "x", fingerprint_of("model"));
    {
        const auto store = open(1 << 30);
        for (int i = 0; i < 3; ++i) ASSERT_TRUE(save(*store, "a" + std::to_string(i), i, 1000));
    }
    // Three agents' blocks without manifests, and a manifest that says a later version.
    for (const auto& each : fs::directory_iterator(directory / "agents")) fs::remove(each.path());
    std::ofstream(later, std::ios::binary) << later_manifest();
    const auto store = open(one * 7 / 2);
    EXPECT_TRUE(fs::exists(later));
    ASSERT_TRUE(save(*store, "new0", 20, 1000));
    EXPECT_FALSE(fs::exists(later));
    ASSERT_TRUE(save(*store, "new1", 21, 1000));
    EXPECT_TRUE(is_whole(*store, "new0", 20));
    EXPECT_LE(bytes_in(directory.path()), one * 7 / 2);
    EXPECT_EQ(store->probe().disk_bytes, bytes_in(directory.path()));
}

TEST_F(agent_cache_store_quota_test, an_agent_that_is_held_or_dirty_stays) {
    const std::uint64_t one = agent_bytes();
    const auto store = open(one * 9 / 2);
    ASSERT_TRUE(save(*store, "held", 1, 1));
    ASSERT_TRUE(save(*store, "dirty", 2, 2));
    ASSERT_TRUE(save(*store, "clean", 3, 3));
    auto held = std::optional(store->hold(id_of("held")));
    store->put(make_state(pool, "dirty", some_tokens(23, 2), 2));
    ASSERT_TRUE(save(*store, "new", 4, 4));
    EXPECT_NE(store->find(id_of("held")), nullptr);
    EXPECT_NE(store->find(id_of("dirty")), nullptr);
    EXPECT_EQ(store->find(id_of("clean")), nullptr);
    held.reset();
    ASSERT_TRUE(save(*store, "newer", 5, 5));
    EXPECT_EQ(store->find(id_of("held")), nullptr);
}

TEST_F(agent_cache_store_quota_test, what_cannot_be_saved_fails_and_stays_usable) {
    const auto store = open(agent_bytes() / 2);
    const auto saved = save(*store, "a", 1, 1000);
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().code, errc::out_of_space);
    EXPECT_NE(saved.error().what.find("the cache directory"), std::string::npos);
    EXPECT_EQ(saved.error().what.find(directory.path()), std::string::npos) << "clients read it";
    EXPECT_EQ(store->probe().saves_out_of_space, 1u);
    EXPECT_EQ(store->probe().save_failures, 1u);
    EXPECT_TRUE(is_whole(*store, "a", 1));
    EXPECT_EQ(store->dirty_agents(), std::vector<agent_id>{id_of("a")});
    EXPECT_EQ(bytes_in(directory.path()), 32u + std::string_view("semantic-cache 2\n").size())
        << "the secret and the format; not even half of the agent";
}

TEST_F(agent_cache_store_quota_test, a_pool_full_of_what_cannot_be_saved_gives_way_at_last) {
    const auto store = open(agent_bytes() / 2);
    ASSERT_FALSE(save(*store, "old", 1, 1000));
    ASSERT_FALSE(save(*store, "held", 2, 900));
    const auto held = store->hold(id_of("held"));
    store->put(make_state(pool, "untried", some_tokens(21, 3), 800));
    EXPECT_FALSE(store->make_room(pool.frame_count(), nullptr));
    EXPECT_EQ(store->find(id_of("old")), nullptr);
    EXPECT_EQ(store->why_absent(id_of("old")), shortfall::evicted);
    EXPECT_NE(store->find(id_of("held")), nullptr);
    EXPECT_NE(store->find(id_of("untried")), nullptr);
    EXPECT_EQ(store->probe().agents_lost, 1u);
}

TEST_F(agent_cache_store_quota_test, a_twentieth_of_the_file_system_stays_free) {
    fault_file_system files(directory.path());
    const std::uint64_t one = agent_bytes();
    files.set_space({one * 200, one * 100});
    const auto store = open(one * 100, &files);
    ASSERT_TRUE(save(*store, "a", 1, 1000));
    files.set_space({one * 200, one * 10 + one});  // bytes_to_write is an upper bound
    const auto refused = save(*store, "b", 2, 2000);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, errc::out_of_space);
    EXPECT_TRUE(is_whole(*store, "a", 1)) << "without it there is not room enough either";
    files.set_space({one * 200, one * 13});
    EXPECT_TRUE(store->save(id_of("b")));
}

TEST_F(agent_cache_store_quota_test, what_cannot_be_deleted_is_still_counted_and_tried_again) {
    fault_file_system files(directory.path());
    const std::uint64_t one = agent_bytes();
    const auto store = open(one * 5 / 2, &files);
    ASSERT_TRUE(save(*store, "a", 1, 1000));
    ASSERT_TRUE(save(*store, "b", 2, 2000));
    files.fail_at(3, fault::io_error);  // unlink the manifest, sync, unlink the first block
    ASSERT_TRUE(save(*store, "c", 3, 3000));
    EXPECT_TRUE(files.has_fired());
    EXPECT_EQ(store->probe().disk_bytes, bytes_in(directory.path()));
    ASSERT_TRUE(save(*store, "d", 4, 4000));
    EXPECT_LE(bytes_in(directory.path()), one * 5 / 2);
    EXPECT_EQ(store->probe().disk_bytes, bytes_in(directory.path()));
}

struct trouble {
    fault kind;
    lost loss;
    unsigned seed;
};

TEST_F(agent_cache_store_quota_test, an_upload_takes_what_is_free_and_a_save_does_not_count_it) {
    const auto store = open(1 << 20);
    ASSERT_TRUE(save(*store, "old", 0, 1000));
    ASSERT_TRUE(save(*store, "held", 1, 2000));
    const auto pin = store->hold(id_of("held"));
    const std::uint64_t both = store->probe().disk_bytes;
    {
        auto room = store->reserve_disk(tenant_id{});
        ASSERT_TRUE(room.grow((1 << 20) - both));
        EXPECT_EQ(store->probe().disk_bytes, std::uint64_t{1} << 20);
        EXPECT_NE(store->find(id_of("old")), nullptr);
        ASSERT_TRUE(save(*store, "new", 2, 3000)) << "an upload is no memory yet";
        EXPECT_NE(store->find(id_of("old")), nullptr);
        auto moved = std::move(room);
        EXPECT_EQ(moved.grow(1 << 20).error().code, errc::out_of_space);
        EXPECT_NE(store->find(id_of("old")), nullptr) << "all that may go would not do";
        ASSERT_TRUE(moved.grow(1));
        EXPECT_EQ(store->find(id_of("old")), nullptr) << "the same tenant's";
    }
    EXPECT_EQ(store->probe().disk_bytes, bytes_in(directory.path()));
}

// Method: a save that has to remove two agents meets trouble at operation 1, 2, 3, ... of the
// whole; what was acknowledged and not removed is whole after the reopening.
TEST_F(agent_cache_store_quota_test, a_removal_that_is_cut_off_anywhere_leaves_whole_agents_only) {
    const std::uint64_t one = agent_bytes();
    std::vector<trouble> all = {{fault::io_error, lost::nothing, 1},
                                {fault::no_space, lost::everything, 1},
                                {fault::power_cut, lost::nothing, 1},
                                {fault::power_cut, lost::everything, 1}};
    for (unsigned seed = 1; seed <= 5; ++seed)
        all.push_back({fault::power_cut, lost::at_random, seed});
    for (const trouble& each : all) {
        bool fired = true;
        for (int n = 1; fired; ++n) {
            SCOPED_TRACE(testing::Message()
                         << "kind " << int(each.kind) << " lost " << int(each.loss) << " seed "
                         << each.seed << " operation " << n);
            const temp_dir fresh;
            fault_file_system files(fresh.path());
            store_options options = options_for(fresh.path(), &files);
            options.disk_budget_bytes = one * 7 / 2;
            options.record_budget_bytes = 1;
            std::vector<std::string> alive;
            bool acknowledged = false;
            {
                const auto store = std::move(*agent_cache_store::open(options, pool));
                for (int i = 0; i < 3; ++i)
                    ASSERT_TRUE(save(*store, "a" + std::to_string(i), i, 1000 + i));
                store->put(make_state(pool, "new", some_tokens(21, 9), 5000));
                files.fail_at(n, each.kind);
                acknowledged = store->save(id_of("new")).has_value();
                fired = files.has_fired();
                for (const agent_summary& agent : store->list()) alive.push_back(agent.id.str());
                const auto state = store->find(id_of("new"));
                ASSERT_NE(state, nullptr);
                EXPECT_TRUE(holds(layout, state->blocks, state->tokens, 21));
            }
            files.restart(each.loss, each.seed);
            const auto reopened = agent_cache_store::open(options, pool);
            ASSERT_TRUE(reopened) << reopened.error().what;
            const auto& store = **reopened;
            EXPECT_TRUE(acknowledged || fired);
            EXPECT_TRUE(!acknowledged || is_whole(**reopened, "new", 9));
            for (int i = 0; i < 3; ++i) {
                const std::string id = "a" + std::to_string(i);
                // An agent whose removal had begun may be there or not; but what is there is whole.
                const bool stayed = std::ranges::count(alive, id) > 0 && i == 2;
                const bool found = store.find(id_of(id)) != nullptr;
                EXPECT_TRUE(found || !stayed) << id;
                EXPECT_TRUE(!found || is_whole(**reopened, id, i)) << id;
            }
            EXPECT_LE(store.probe().disk_bytes, options.disk_budget_bytes);
            EXPECT_EQ(store.probe().disk_bytes, bytes_in(fresh.path()));
        }
    }
}

}  // namespace
}  // namespace semantic::storage
