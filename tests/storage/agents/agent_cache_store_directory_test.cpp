// SPDX-License-Identifier: Apache-2.0
// What a store does when somebody takes files away while it is open, and where no more can be made.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/disk/record_files.hpp"
#include "tests/storage/agents/store_fixture.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::fault_file_system;
using semantic::tests::temp_dir;
namespace fs = std::filesystem;

class agent_cache_store_directory_test : public testing::Test {
  protected:
    std::unique_ptr<agent_cache_store> open(file_system* files = nullptr) {
        store_options options = options_for(path, files);
        options.disk_budget_bytes = 1 << 30;
        auto store = agent_cache_store::open(options, pool);
        EXPECT_TRUE(store) << store.error().what;
        return std::move(*store);
    }
    void put(agent_cache_store& store, const std::string& id, int count, int seed = 0) {
        store.put(make_state(pool, id, some_tokens(count, seed), next_use++));
    }
    /// Whether `count` tokens come back, from disk or from the pool.
    bool is_whole(agent_cache_store& store, const std::string& id, int count, int seed = 0) {
        return tests::is_whole(store, pool.layout(), id, some_tokens(count, seed));
    }
    std::uint64_t bytes_in() { return bytes_below(posix_file_system(), path).value(); }

    const temp_dir parent;
    const std::string path = parent / "caches";
    block_pool pool{small_layout(), small_layout().frame_bytes() * 400};
    int next_use = 1000;
};

TEST_F(agent_cache_store_directory_test, whatever_is_taken_away_the_next_save_brings_it_back) {
    for (const char* gone : {"", "/agents", "/blocks"}) {
        SCOPED_TRACE(gone);
        {
            const auto store = open();
            put(*store, "a", 21);
            put(*store, "b", 13, 1);
            ASSERT_TRUE(store->save(id_of("a")));
            ASSERT_TRUE(store->save(id_of("b")));
            EXPECT_TRUE(store->take_warning().empty());
            fs::remove_all(path + gone);

            put(*store, "a", 30);
            const auto saved = store->save(id_of("a"));
            ASSERT_TRUE(saved) << saved.error().what;
            EXPECT_NE(store->take_warning().find("gone; 1 agents"), std::string::npos);
            EXPECT_EQ(store->dirty_agents(), std::vector{id_of("b")});
            ASSERT_TRUE(store->save(id_of("b")));
            EXPECT_TRUE(store->dirty_agents().empty());
            EXPECT_EQ(store->probe().disk_bytes, bytes_in());
            EXPECT_EQ(store->probe().save_failures, 0u);
        }
        const auto again = open();
        EXPECT_TRUE(is_whole(*again, "a", 30));
        EXPECT_TRUE(is_whole(*again, "b", 13, 1));
        ASSERT_TRUE(again->erase(id_of("a")));
        ASSERT_TRUE(again->erase(id_of("b")));
    }
}

TEST_F(agent_cache_store_directory_test, an_agent_that_had_no_files_yet_brings_back_the_others) {
    for (const char* gone : {"", "/agents", "/blocks"}) {
        SCOPED_TRACE(gone);
        {
            const auto store = open();
            put(*store, "a", 21);
            ASSERT_TRUE(store->save(id_of("a")));
            fs::remove_all(path + gone);
            put(*store, "new", 13, 1);
            ASSERT_TRUE(store->save(id_of("new")));
            EXPECT_EQ(store->dirty_agents(), std::vector{id_of("a")});
            ASSERT_TRUE(store->save(id_of("a")));
        }
        const auto again = open();
        EXPECT_TRUE(is_whole(*again, "a", 21));
        EXPECT_TRUE(is_whole(*again, "new", 13, 1));
        ASSERT_TRUE(again->erase(id_of("a")));
        ASSERT_TRUE(again->erase(id_of("new")));
    }
}

TEST_F(agent_cache_store_directory_test,
       a_clean_agent_whose_files_are_gone_is_saved_when_asked_to) {
    for (const char* gone : {"", "/agents", "/blocks"}) {
        SCOPED_TRACE(gone);
        {
            const auto store = open();
            put(*store, "a", 21);
            ASSERT_TRUE(store->save(id_of("a")));
            fs::remove_all(path + gone);
            const auto saved = store->save(id_of("a"));
            ASSERT_TRUE(saved);
            EXPECT_GT(saved->bytes_written, 0u);
            EXPECT_EQ(store->save(id_of("a"))->bytes_written, 0u);
        }
        EXPECT_TRUE(is_whole(*open(), "a", 21));
    }
}

TEST_F(agent_cache_store_directory_test, each_file_that_is_taken_away_is_written_again) {
    const auto store = open();
    put(*store, "a", 21);
    ASSERT_TRUE(store->save(id_of("a")));
    std::vector<fs::path> files;
    for (const auto& each : fs::recursive_directory_iterator(path))
        if (each.is_regular_file() && each.path().has_extension()) files.push_back(each.path());
    ASSERT_EQ(files.size(), 4u);
    for (const fs::path& each : files) {
        fs::remove(each);
        ASSERT_TRUE(store->save(id_of("a")));
        EXPECT_TRUE(fs::exists(each)) << each;
        EXPECT_EQ(store->probe().disk_bytes, bytes_in());
    }
}

TEST_F(agent_cache_store_directory_test, a_save_is_refused_that_relies_on_a_file_that_is_gone) {
    const auto store = open();
    put(*store, "a", 21);
    ASSERT_TRUE(store->save(id_of("a")));
    ASSERT_TRUE(store->evict(id_of("a")));
    fs::remove_all(path + "/blocks");
    const auto forked = store->fork(id_of("a"), id_of("b"));
    ASSERT_FALSE(forked);
    EXPECT_EQ(forked.error().code, errc::io);
    EXPECT_NE(forked.error().what.find(path + "/blocks/"), std::string::npos)
        << forked.error().what;
    EXPECT_EQ(store->probe().save_failures, 1u);
}

TEST_F(agent_cache_store_directory_test, the_new_directory_is_taken_as_the_old_one_was) {
    const auto store = open();
    put(*store, "a", 21);
    ASSERT_TRUE(store->save(id_of("a")));
    fs::remove(path + "/lock");
    EXPECT_EQ(agent_cache_store::open(options_for(path), pool).error().code, errc::locked);
    const auto tenant = store->tenant("key");
    fs::remove_all(path);
    put(*store, "a", 22);
    ASSERT_TRUE(store->save(id_of("a")));
    const auto second = agent_cache_store::open(options_for(path), pool);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, errc::locked);
    EXPECT_NE(second.error().what.find(path), std::string::npos);
    EXPECT_EQ(store->tenant("key"), tenant);
}

TEST_F(agent_cache_store_directory_test, nothing_is_written_into_the_directory_of_another_process) {
    const auto store = open();
    fs::remove_all(path);
    {
        const auto other = open();
        put(*store, "a", 21);
        EXPECT_EQ(store->save(id_of("a")).error().code, errc::locked);
        EXPECT_EQ(store->records().write({{}, "r", "x"}).error().code, errc::locked);
    }
    fs::remove(path + "/format");  // as a program of format 1 leaves it
    const auto refused = store->save(id_of("a"));
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().what.find("another cache directory"), std::string::npos);
    EXPECT_EQ(store->probe().save_failures, 2u);
    EXPECT_FALSE(store->records().write({{}, "r", "x"}));
    EXPECT_TRUE(fs::is_empty(path + "/agents"));
    EXPECT_FALSE(fs::exists(path + "/format"));
    EXPECT_FALSE(fs::exists(path + "/records"));
    fs::remove_all(path);
    EXPECT_TRUE(store->records().write({{}, "r", "x"}));
    EXPECT_TRUE(store->save(id_of("a")));
}

TEST_F(agent_cache_store_directory_test, an_agent_is_erased_whose_directory_is_gone) {
    const auto store = open();
    put(*store, "a", 21);
    ASSERT_TRUE(store->save(id_of("a")));
    fs::remove_all(path);
    EXPECT_TRUE(store->erase(id_of("a")));
    EXPECT_TRUE(store->list().empty());
    EXPECT_EQ(store->erase(id_of("a")).error().code, errc::not_found);
}

// Goal: a file system without inodes has bytes enough, so no budget is ever in the way.
TEST_F(agent_cache_store_directory_test, agents_give_way_where_no_more_files_can_be_made) {
    fs::create_directories(path);
    fault_file_system files(path);
    const auto store = open(&files);
    for (int i = 0; i < 4; ++i) {
        put(*store, "a" + std::to_string(i), 21, i);
        ASSERT_TRUE(store->save(id_of("a" + std::to_string(i))));
    }
    // The secret, and four files for each agent: one too few for a fifth.
    files.set_files_max(1 + 4 * 4 + 3);
    put(*store, "new", 21, 9);
    const auto saved = store->save(id_of("new"));
    ASSERT_TRUE(saved) << saved.error().what;
    EXPECT_EQ(store->probe().disk_removals, 1u);
    EXPECT_EQ(store->find(id_of("a0")), nullptr);
    EXPECT_TRUE(is_whole(*store, "a1", 21, 1));
    EXPECT_EQ(store->probe().save_failures, 0u);

    files.set_files_max(0);
    put(*store, "last", 21, 10);
    EXPECT_EQ(store->save(id_of("last")).error().code, errc::out_of_space);
    EXPECT_EQ(store->probe().saves_out_of_space, 1u);
    files.set_files_max(std::nullopt);
    EXPECT_TRUE(store->save(id_of("last")));
}

// Method: no removal gives an inode back.
TEST_F(agent_cache_store_directory_test, one_agent_gives_way_in_vain_and_then_no_other) {
    fs::create_directories(path);
    fault_file_system files(path);
    const auto store = open(&files);
    for (int i = 0; i < 17; ++i) {
        put(*store, "a" + std::to_string(i), 5, i);
        ASSERT_TRUE(store->save(id_of("a" + std::to_string(i))));
    }
    files.set_files_max(0);
    for (int i = 0; i < 5; ++i) {
        put(*store, "new", 5 + i, 99);
        EXPECT_EQ(store->save(id_of("new")).error().code, errc::out_of_space);
        EXPECT_EQ(store->probe().disk_removals, 1u);
    }
    files.set_files_max(std::nullopt);
    EXPECT_TRUE(store->save(id_of("new")));
}

}  // namespace
}  // namespace semantic::storage
