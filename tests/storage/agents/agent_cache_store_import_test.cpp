// SPDX-License-Identifier: Apache-2.0
// Imported memory is its agent's own: whatever KV a file brings, nobody else ever runs on it.

#include <gtest/gtest.h>

#include "storage/disk/agent_file.hpp"
#include "tests/storage/agents/store_fixture.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::appending_to;
using semantic::tests::bytes_file;
using semantic::tests::temp_dir;

/// Agents "right", whose KV was computed, and "evil", whose file has the same tokens and text, the
/// KV of others, and every checksum right.
class import_test : public testing::Test {
  protected:
    void open() {
        store.reset();
        auto opened = agent_cache_store::open(options_for(home.path()), pool);
        ASSERT_TRUE(opened) << opened.error().what;
        store = std::move(*opened);
    }
    std::string written(const agent_state& state) {
        std::string bytes;
        EXPECT_TRUE(write_agent_file(state, fingerprint_of("model"), layout, appending_to(bytes)));
        return bytes;
    }
    std::string exported(const std::string& id) {
        std::string bytes;
        EXPECT_TRUE(store->export_agent(id_of(id), appending_to(bytes)));
        return bytes;
    }
    void import(const std::string& id, const std::string& bytes) {
        bytes_file file(bytes);
        const auto imported =
            store->import_agent(id_of(id), file, [](const agent_state&) { return result<void>(); });
        ASSERT_TRUE(imported) << imported.error().what;
        ASSERT_TRUE(store->save(id_of(id)));
    }
    void import_evil() {
        agent_state evil = make_state(pool, "evil", tokens);
        evil.blocks = make_state(pool, "evil", others).blocks;
        import("evil", written(evil));
    }
    void compute_right(const std::string& id = "right") {
        store->put(make_state(pool, id, tokens));
        ASSERT_TRUE(store->save(id_of(id)));
    }
    /// Whether all of the agent's KV is that of `computed_for`, in the pool and on disk.
    bool has_kv_of(const std::string& id, const std::vector<token_id>& computed_for) {
        const auto state = store->find(id_of(id));
        const int count = static_cast<int>(state->tokens.size());
        bool hot = true;
        for (int i = 0; i < 2; ++i) {
            const auto restored = store->restore(*state, count);
            hot = hot && restored && restored->tokens == count &&
                  holds(layout, restored->blocks, computed_for, count);
            (void)store->evict(id_of(id));
        }
        return hot;
    }
    /// A state that a running sequence makes of `from` and `more` tokens.
    agent_state continued(const std::string& id, const agent_state& from,
                          const std::vector<token_id>& all) {
        const int has = static_cast<int>(from.tokens.size());
        const auto restored = store->restore(from, has);
        kv_sequence sequence(pool, restored->blocks, restored->tokens);
        append_tokens(sequence, layout, all);
        agent_state state = make_state(pool, id, all);
        state.blocks = sequence.share();
        state.private_salt = from.private_salt;
        return state;
    }

    const temp_dir home;
    const kv_layout layout = small_layout();
    block_pool pool{layout, layout.frame_bytes() * 400};
    const std::vector<token_id> tokens = some_tokens(21), others = some_tokens(21, 1);
    std::unique_ptr<agent_cache_store> store;
};

TEST_F(import_test, what_was_imported_is_no_source_for_others_and_takes_nothing_of_theirs) {
    open();
    import_evil();
    const auto evil = store->find(id_of("evil"));
    EXPECT_TRUE(store->closest({}, evil->text, 10).empty());
    compute_right();
    EXPECT_TRUE(has_kv_of("right", tokens));
    EXPECT_TRUE(has_kv_of("evil", others));
    const auto closest = store->closest({}, evil->text, 10);
    ASSERT_EQ(closest.size(), 1u);
    EXPECT_EQ(closest[0].state->id, id_of("right"));
    EXPECT_EQ(store->inspect(id_of("right"))->frames_shared, 0u);
}

TEST_F(import_test, right_blocks_on_disk_are_neither_overwritten_nor_replaced) {
    open();
    compute_right();
    ASSERT_TRUE(store->evict(id_of("right")));
    import_evil();
    EXPECT_TRUE(has_kv_of("right", tokens));
    ASSERT_TRUE(store->erase(id_of("right")));
    compute_right();
    EXPECT_TRUE(has_kv_of("right", tokens));
    EXPECT_TRUE(has_kv_of("evil", others));
}

TEST_F(import_test, an_import_leaves_nothing_behind_when_it_is_deleted) {
    open();
    import_evil();
    // Somebody still runs on its blocks.
    const auto evil = store->restore(*store->find(id_of("evil")), 21);
    ASSERT_TRUE(store->erase(id_of("evil")));
    compute_right();
    EXPECT_TRUE(has_kv_of("right", tokens));
    ASSERT_TRUE(store->erase(id_of("right")));
    open();
    EXPECT_EQ(store->list().size(), 0u);
    compute_right();
    EXPECT_TRUE(has_kv_of("right", tokens));
}

TEST_F(import_test, it_is_private_after_a_restart_too) {
    open();
    import_evil();
    open();
    const auto evil = store->find(id_of("evil"));
    ASSERT_NE(evil, nullptr);
    EXPECT_TRUE(evil->is_private());
    EXPECT_FALSE(evil->notes.contains("private"));
    EXPECT_TRUE(store->closest({}, evil->text, 10).empty());
    EXPECT_TRUE(has_kv_of("evil", others));
    compute_right();
    EXPECT_TRUE(has_kv_of("right", tokens));
    open();
    EXPECT_TRUE(has_kv_of("right", tokens));
    EXPECT_TRUE(has_kv_of("evil", others));
}

TEST_F(import_test, what_is_computed_on_top_of_it_is_as_private) {
    open();
    import_evil();
    std::vector<token_id> longer = some_tokens(40);
    store->put(continued("evil", *store->find(id_of("evil")), longer));
    ASSERT_TRUE(store->save(id_of("evil")));
    open();
    EXPECT_TRUE(store->closest({}, store->find(id_of("evil"))->text, 10).empty());
    store->put(make_state(pool, "right", longer));
    ASSERT_TRUE(store->save(id_of("right")));
    EXPECT_TRUE(has_kv_of("right", longer));
}

TEST_F(import_test, a_fork_shares_with_its_origin_and_with_nobody_else) {
    open();
    import_evil();
    const std::uint64_t before = store->usage({}).frames_held;
    ASSERT_TRUE(store->fork(id_of("evil"), id_of("fork")));
    EXPECT_EQ(store->usage({}).frames_held, before);
    for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(store->find(id_of("fork"))->is_private());
        compute_right();
        EXPECT_EQ(store->closest({}, store->find(id_of("fork"))->text, 10).size(), 1u);
        EXPECT_TRUE(has_kv_of("right", tokens));
        EXPECT_TRUE(has_kv_of("fork", others));
        if (i == 0) open();
    }
    ASSERT_TRUE(store->erase(id_of("evil")));
    EXPECT_TRUE(has_kv_of("fork", others));
    EXPECT_TRUE(has_kv_of("right", tokens));
}

TEST_F(import_test, two_imports_of_one_file_share_nothing_and_an_export_of_one_stays_private) {
    open();
    import_evil();
    const std::string again = exported("evil");
    import("another", again);
    const auto evil = store->find(id_of("evil")), another = store->find(id_of("another"));
    EXPECT_TRUE(another->is_private());
    EXPECT_NE(another->private_salt, evil->private_salt);
    EXPECT_EQ(store->inspect(id_of("another"))->frames_shared, 0u);
    compute_right();
    EXPECT_TRUE(has_kv_of("right", tokens));
}

// Goal: a note of that name in a file means nothing, and does not make its agent public.
TEST_F(import_test, a_file_cannot_say_whose_blocks_it_has) {
    open();
    import_evil();
    agent_state thief = make_state(pool, "thief", tokens);
    const auto salt = store->find(id_of("evil"))->private_salt;
    thief.notes["private"] = std::string(reinterpret_cast<const char*>(salt.bytes.data()), 16);
    import("thief", written(thief));
    EXPECT_NE(store->find(id_of("thief"))->private_salt, salt);
    EXPECT_FALSE(store->find(id_of("thief"))->notes.contains("private"));
    EXPECT_TRUE(has_kv_of("thief", tokens));
    EXPECT_TRUE(has_kv_of("evil", others));
    open();
    EXPECT_NE(store->find(id_of("thief"))->private_salt, salt);
}

// Goal: a prompt that was resolved before an import does not go on from what came instead.
TEST_F(import_test, a_prompt_that_waited_does_not_restore_what_was_imported_meanwhile) {
    open();
    compute_right("agent");
    ASSERT_TRUE(store->evict(id_of("agent")));
    const auto waiting = store->find(id_of("agent"));
    agent_state evil = make_state(pool, "agent", tokens);
    evil.blocks = make_state(pool, "agent", others).blocks;
    import("agent", written(evil));
    const auto restored = store->restore(*waiting, 21);
    ASSERT_TRUE(restored);
    EXPECT_TRUE(holds(layout, restored->blocks, tokens, restored->tokens));
}

TEST_F(import_test, computing_an_agents_memory_anew_makes_it_public_again) {
    open();
    import_evil();
    compute_right("evil");
    EXPECT_FALSE(store->find(id_of("evil"))->is_private());
    EXPECT_TRUE(has_kv_of("evil", tokens));
    EXPECT_EQ(store->closest({}, store->find(id_of("evil"))->text, 10).size(), 1u);
    open();
    EXPECT_FALSE(store->find(id_of("evil"))->is_private());
    EXPECT_TRUE(has_kv_of("evil", tokens));
}

}  // namespace
}  // namespace semantic::storage
