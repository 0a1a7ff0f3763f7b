// SPDX-License-Identifier: Apache-2.0
// A file system that is full, or says so, although the budget is kept; and files that are not
// memories: no acknowledged memory is removed in vain, or for such a file.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/disk/record_files.hpp"
#include "tests/storage/agents/store_test.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::fault;
using semantic::tests::fault_file_system;

const tenant_id alice{*block_hash::from_hex(std::string(32, 'a'))};
const tenant_id bob{*block_hash::from_hex(std::string(32, 'b'))};

class agent_cache_store_full_disk_test : public store_test {
  protected:
    static constexpr int agents = 20;

    agent_cache_store_full_disk_test() : store_test(small_layout(), 400), files(directory.path()) {}

    void open(std::uint64_t budget = 1 << 30, std::uint64_t record_budget = 1) {
        store_options options = options_for(directory.path(), &files);
        options.disk_budget_bytes = budget;
        options.record_budget_bytes = record_budget;
        store = store_test::open(options);
    }
    static std::string name(int i) { return "a" + std::to_string(i); }
    result<save_report> save(const agent_id& id, int seed) {
        agent_state state = make_state(pool, "x", some_tokens(21, seed), 1000 + seed);
        state.id = id;
        store->put(std::move(state));
        return store->save(id);
    }
    void save_agents(const tenant_id& tenant = {}) {
        for (int i = 0; i < agents; ++i) ASSERT_TRUE(save(id_of(name(i)).owned_by(tenant), i));
    }
    /// How many of them have a memory that is whole.
    int count_whole(const tenant_id& tenant = {}) {
        int whole = 0;
        for (int i = 0; i < agents; ++i) {
            const auto state = store->find(id_of(name(i)).owned_by(tenant));
            if (state == nullptr) continue;
            const auto restored = store->restore(*state, 21);
            whole += restored && holds(layout, restored->blocks, some_tokens(21, i), 21) ? 1 : 0;
        }
        return whole;
    }
    std::uint64_t held_bytes() const { return store->probe().disk_bytes; }

    fault_file_system files;
    std::unique_ptr<agent_cache_store> store;
};

TEST_F(agent_cache_store_full_disk_test, a_disk_that_says_it_is_full_and_has_room_costs_no_memory) {
    open();
    save_agents();
    files.set_full(true);
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ(save(id_of("new" + std::to_string(i)), 100 + i).error().code, errc::out_of_space);
    EXPECT_EQ(count_whole(), agents);
    EXPECT_EQ(store->probe().disk_removals, 0u);
    files.set_full(false);
    EXPECT_TRUE(store->save(id_of("new3")));
}

TEST_F(agent_cache_store_full_disk_test, to_a_quota_of_the_user_as_many_give_way_as_are_needed) {
    open();
    save_agents();
    files.set_user_quota(held_bytes() + 10);
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(save(id_of("new" + std::to_string(i)), 100 + i)) << i;
    EXPECT_GE(count_whole(), agents - 8);
    EXPECT_EQ(store->probe().save_failures, 0u);
}

TEST_F(agent_cache_store_full_disk_test,
       where_removing_gives_a_quota_nothing_hardly_a_memory_goes) {
    open();
    save_agents();
    files.set_user_quota(held_bytes() + 10, true);
    files.set_space({1 << 30, 1 << 29});
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ(save(id_of("new" + std::to_string(i)), 100 + i).error().code, errc::out_of_space);
    EXPECT_GE(count_whole(), agents - 2);
}

TEST_F(agent_cache_store_full_disk_test, where_all_that_may_go_would_not_do_nothing_goes) {
    open();
    save_agents();
    std::vector<agent_cache_store::pin> pins;
    for (int i = 1; i < agents; ++i) pins.push_back(store->hold(id_of(name(i))));
    files.set_capacity(held_bytes() * 20 / 19);
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ(save(id_of("new" + std::to_string(i)), 100 + i).error().code, errc::out_of_space);
    EXPECT_EQ(count_whole(), agents) << "the one that nobody holds is not enough";
}

TEST_F(agent_cache_store_full_disk_test,
       a_stranger_who_fills_it_costs_what_is_written_and_no_more) {
    open();
    save_agents();
    // Of what is to stay free he has taken all: more than all agents have.
    files.set_capacity(held_bytes() * 100, false, held_bytes() * 99);
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(save(id_of("new" + std::to_string(i)), 100 + i)) << i;
    EXPECT_GE(count_whole(), agents - 12);
}

TEST_F(agent_cache_store_full_disk_test, on_a_full_disk_as_many_give_way_as_are_needed) {
    open();
    save_agents();
    files.set_capacity(held_bytes() * 20 / 19);
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(save(id_of("new" + std::to_string(i)), 100 + i)) << i;
    EXPECT_GE(count_whole(), agents - 10);
}

TEST_F(agent_cache_store_full_disk_test, where_snapshots_keep_what_is_removed_one_memory_goes) {
    open();
    save_agents();
    files.set_capacity(held_bytes() * 20 / 19, true);
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ(save(id_of("new" + std::to_string(i)), 100 + i).error().code, errc::out_of_space);
    EXPECT_EQ(count_whole(), agents - 1);
}

TEST_F(agent_cache_store_full_disk_test, without_inodes_empty_directories_go_before_memories) {
    open();
    save_agents();
    ASSERT_TRUE(save(id_of("gone"), 77));
    ASSERT_TRUE(store->erase(id_of("gone")));
    files.set_files_max(0);
    files.reset();
    EXPECT_EQ(save(id_of("new"), 100).error().code, errc::out_of_space);
    const auto log = files.log();
    const auto is = [](const char* operation) {
        return [operation](const std::string& each) { return each.starts_with(operation); };
    };
    const auto directory_gone = std::ranges::find_if(log, is("remove_directory "));
    const auto file_gone = std::ranges::find_if(log, [](const std::string& each) {
        return each.starts_with("unlink ") && each.ends_with(".manifest");
    });
    ASSERT_NE(directory_gone, log.end());
    ASSERT_NE(file_gone, log.end());
    EXPECT_LT(directory_gone - log.begin(), file_gone - log.begin());
    files.set_files_max(std::nullopt);
    EXPECT_TRUE(store->save(id_of("new")));
}

// Method: any one operation of a save fails, in each way; the others' memories stay.
TEST_F(agent_cache_store_full_disk_test, no_single_fault_of_a_save_costs_anothers_memory) {
    open();
    save_agents();
    int seed = 100;
    for (const fault kind : {fault::io_error, fault::no_space, fault::torn_write})
        for (int operation = 1; operation <= 24; ++operation) {
            SCOPED_TRACE(testing::Message() << int(kind) << " at " << operation);
            files.fail_at(operation, kind);
            const bool is_saved = save(id_of("new"), ++seed).has_value();
            files.reset();
            EXPECT_TRUE(is_saved || store->save(id_of("new")));
            EXPECT_TRUE(is_whole(*store, layout, "new", some_tokens(21, seed)));
        }
    EXPECT_EQ(count_whole(), agents);
    EXPECT_EQ(store->probe().disk_removals, 0u);
}

TEST_F(agent_cache_store_full_disk_test, records_take_their_share_and_no_other_tenants_memory) {
    open(1 << 18, 1 << 16);
    save_agents(alice);
    const int before = count_whole(alice);
    const std::string bytes(1000, 'r');
    int written = 0;
    int refused = 0;
    for (int i = 0; i < 200; ++i) {
        const auto done = store->records().write({bob, "session:" + std::to_string(i), bytes});
        (done ? written : refused) += 1;
        EXPECT_TRUE(done || done.error().code == errc::out_of_space);
    }
    EXPECT_GT(written, 20);
    EXPECT_GT(refused, 0);
    EXPECT_LE(written * 1000, 1 << 15) << "half of the share";
    EXPECT_TRUE(store->records().write({alice, "session:1", bytes})) << "others find room";
    EXPECT_EQ(count_whole(alice), before);
    EXPECT_TRUE(save(id_of("new").owned_by(alice), 100));
}

TEST_F(agent_cache_store_full_disk_test, memories_leave_records_their_share) {
    open(1 << 18, 1 << 16);
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(save(id_of(name(i)).owned_by(alice), i));
    EXPECT_GT(store->probe().disk_removals, 0u);
    EXPECT_LE(held_bytes(), (1u << 18) - (1u << 16));
    const std::size_t remembered = store->list(alice).size();
    for (int i = 0; i < 25; ++i)
        ASSERT_TRUE(store->records().write({bob, std::to_string(i), std::string(1000, 'r')})) << i;
    EXPECT_EQ(store->list(alice).size(), remembered);
}

TEST_F(agent_cache_store_full_disk_test, an_upload_takes_no_other_tenants_memory) {
    open(1 << 19, 1);
    save_agents(alice);
    save_agents(bob);
    auto upload = store->reserve_disk(bob);
    std::uint64_t bytes = 0;
    while (bytes < (1 << 20) && upload.grow(4096)) bytes += 4096;
    EXPECT_LT(bytes, 1u << 19);
    EXPECT_EQ(count_whole(alice), agents);
    EXPECT_EQ(count_whole(bob), 0) << "its own give way";
    EXPECT_TRUE(save(id_of("new").owned_by(alice), 100)) << "while the upload lies there";
    EXPECT_EQ(count_whole(alice), agents);
}

}  // namespace
}  // namespace semantic::storage
