// SPDX-License-Identifier: Apache-2.0
// The index alone: a pool that gives tests their blocks, no directory, no model.

#include "storage/agents/agent_index.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/storage/agents/store_fixture.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using std::chrono::seconds;
using std::chrono::system_clock;

class agent_index_test : public testing::Test {
  protected:
    explicit agent_index_test(kv_layout given = small_layout()) : layout(std::move(given)) {}

    agent_index::outdated put(const agent_index::lock& locked, agent_state state) {
        auto names = shape.names_of(state);
        return index.publish(locked, std::move(state), std::move(names));
    }
    /// The same, and everything of it is in files.
    agent_record& put_clean(const agent_index::lock& locked, const std::string& id,
                            const std::vector<token_id>& tokens, int last_used_seconds = 1000) {
        put(locked, make_state(pool, id, tokens, last_used_seconds));
        agent_record& agent = *index.find(locked, id_of(id));
        agent.dirty = false;
        return agent;
    }
    static system_clock::time_point at(int second) {
        return system_clock::time_point(seconds(second));
    }
    agent_state with_message(const std::string& id, const std::vector<token_id>& tokens,
                             const std::string& message, std::uint32_t end) {
        agent_state state = make_state(pool, id, tokens);
        state.messages.push_back({message, end});
        return state;
    }

    const kv_layout layout;
    block_pool pool{layout, layout.frame_bytes() * 200};
    const state_blocks shape{fingerprint_of("model"), "salt", layout};
    std::set<std::pair<block_hash, kv_part>> saved, known;
    std::vector<block_hash> retained;
    agent_index index{shape,
                      {[this](const block_hash& name, kv_part part) {
                           return saved.contains({name, part});
                       },
                       [this](const block_hash& name, kv_part part) {
                           return known.contains({name, part});
                       },
                       [this](std::span<const block_hash> names) {
                           retained.insert(retained.end(), names.begin(), names.end());
                       }}};
};

TEST_F(agent_index_test, an_agents_newest_state_is_found_by_name_by_text_and_by_answer) {
    const agent_index::lock locked(index);
    put(locked, with_message("a", some_tokens(20), "msg_1", 10));
    const agent_state longer = with_message("a", some_tokens(30), "msg_2", 30);
    put(locked, longer);
    EXPECT_EQ(index.find(locked, id_of("a"))->state->tokens, some_tokens(30));
    EXPECT_TRUE(index.find(locked, id_of("a"))->dirty);
    const auto closest = index.closest(locked, {}, longer.text, 5);
    ASSERT_EQ(closest.size(), 1u);
    EXPECT_EQ(closest[0].common_bytes, longer.text.size());
    EXPECT_FALSE(index.find_message(locked, {}, "msg_1"));
    const auto place = index.find_message(locked, {}, "msg_2");
    ASSERT_TRUE(place);
    EXPECT_EQ(place->agent, id_of("a"));
    EXPECT_TRUE(place->is_last);
    const agent_record taken = index.take(locked, id_of("a"));
    EXPECT_EQ(taken.state->tokens, some_tokens(30));
    EXPECT_EQ(index.find(locked, id_of("a")), nullptr);
    EXPECT_TRUE(index.closest(locked, {}, longer.text, 5).empty());
    EXPECT_FALSE(index.find_message(locked, {}, "msg_2"));
}

TEST_F(agent_index_test, agents_that_compute_the_same_have_one_block) {
    const agent_index::lock locked(index);
    put(locked, make_state(pool, "a", some_tokens(20)));
    const auto out = put(locked, make_state(pool, "b", some_tokens(20)));
    const auto& a = index.find(locked, id_of("a"))->state->blocks;
    const auto& b = index.find(locked, id_of("b"))->state->blocks;
    EXPECT_EQ(a[0].full, b[0].full);
    EXPECT_EQ(a[1].full, b[1].full);
    EXPECT_NE(a[2].full, b[2].full);  // not full yet
    ASSERT_EQ(out.duplicates.size(), 3u);
    EXPECT_NE(out.duplicates[0], b[0].full);
}

TEST_F(agent_index_test, a_private_agents_blocks_are_its_own_and_its_text_is_not_found) {
    const agent_index::lock locked(index);
    agent_state imported = make_state(pool, "imported", some_tokens(20));
    imported.private_salt = checksum128("salt of one import");
    const std::string text = imported.text;
    put(locked, imported);
    put(locked, make_state(pool, "a", some_tokens(20)));
    const agent_state& own = *index.find(locked, id_of("imported"))->state;
    const agent_state& other = *index.find(locked, id_of("a"))->state;
    EXPECT_NE(own.blocks[0].full, other.blocks[0].full);
    const auto closest = index.closest(locked, {}, text, 5);
    ASSERT_EQ(closest.size(), 1u);
    EXPECT_EQ(closest[0].state->id, id_of("a"));
    const auto names = shape.names_of(other);
    EXPECT_EQ(index.find_block(locked, other, {0, kv_part::full}, shape.place(other, names, 0)),
              other.blocks[0].full);
    agent_state earlier = other;  // as if the agent had been public before the import
    earlier.id = id_of("imported");
    EXPECT_EQ(index.find_same_prefix(locked, earlier, 20), nullptr);
    EXPECT_NE(index.find_same_prefix(locked, own, 20), nullptr);
}

TEST_F(agent_index_test, the_oldest_clean_agent_whose_blocks_nobody_shares_is_evicted_first) {
    const agent_index::lock locked(index);
    put_clean(locked, "new", some_tokens(20, 1), 3000);
    put_clean(locked, "old", some_tokens(20, 2), 2000);
    put_clean(locked, "oldest_shared", some_tokens(16, 3), 1000);
    put_clean(locked, "shares", some_tokens(16, 3), 1000);
    put(locked, make_state(pool, "dirty", some_tokens(20, 4), 500));
    const agent_id keep = id_of("new");
    EXPECT_EQ(index.evict_clean(locked, at(4000), &keep)->id, id_of("old"));
    EXPECT_FALSE(state_blocks::any_hot(*index.find(locked, id_of("old"))->state));
    for (int i = 0; i < 2; ++i) EXPECT_NE(index.evict_clean(locked, at(4000), &keep), nullptr);
    EXPECT_EQ(index.evict_clean(locked, at(4000), &keep), nullptr);
    EXPECT_EQ(index.evict_clean(locked, at(4000), nullptr)->id, id_of("new"));
    EXPECT_TRUE(shape.all_hot(*index.find(locked, id_of("dirty"))->state));
}

TEST_F(agent_index_test, an_agent_whose_save_has_failed_is_forgotten_unless_somebody_holds_it) {
    const agent_index::lock locked(index);
    put(locked, make_state(pool, "held", some_tokens(20, 1), 1000));
    put(locked, make_state(pool, "failed", some_tokens(20, 2), 2000));
    put(locked, make_state(pool, "dirty", some_tokens(20, 3), 500));
    for (const char* id : {"held", "failed"}) index.find(locked, id_of(id))->save_failed = true;
    index.find(locked, id_of("failed"))->saved = {checksum128("an older block")};
    index.hold(locked, id_of("held"));
    EXPECT_EQ(index.forget_failed(locked, nullptr)->id, id_of("failed"));
    EXPECT_EQ(index.forget_failed(locked, nullptr), nullptr);
    const std::string path = shape.manifest_of(id_of("failed"));
    EXPECT_EQ(index.why_absent(locked, path, ""), shortfall::evicted);
    EXPECT_EQ(index.take_foreign(locked, path).names.size(), 1u);
    index.release(locked, id_of("held"));
    EXPECT_FALSE(index.is_held(locked, id_of("held")));
    EXPECT_EQ(index.forget_failed(locked, nullptr)->id, id_of("held"));
}

TEST_F(agent_index_test, the_disk_gives_up_leftovers_first_and_never_what_is_held_or_dirty) {
    std::set<std::string> in_vain;
    {
        const agent_index::lock locked(index);
        put_clean(locked, "old", some_tokens(20, 1), 1000);
        put_clean(locked, "new", some_tokens(20, 2), 2000);
        put_clean(locked, "held", some_tokens(20, 3), 500);
        put(locked, make_state(pool, "dirty", some_tokens(20, 4), 400));
        index.hold(locked, id_of("held"));
        index.add_foreign(locked, "agents/leftover", {{checksum128("block")}, 100});
        foreign_manifest other{{checksum128("another block")}, 100, id_of("a")};
        other.last_used = at(1500);
        other.tokens = 20;
        index.add_foreign(locked, "agents/of_another_model", other);
    }
    const auto choose = [&] {
        return index.choose_removal(agent_index::lock(index), at(3000), in_vain);
    };
    const auto first = choose();
    EXPECT_EQ(first.path, "agents/leftover");
    EXPECT_TRUE(first.is_leftover);
    EXPECT_FALSE(first.agent);
    EXPECT_TRUE(first.orphans_may_go);
    const manifest_turn leftover(index, first.path, std::adopt_lock);
    const auto second = choose();
    EXPECT_EQ(second.agent, id_of("old"));
    EXPECT_EQ(second.path, shape.manifest_of(id_of("old")));
    const manifest_turn old(index, second.path, std::adopt_lock);
    const auto third = choose();
    EXPECT_EQ(third.path, "agents/of_another_model") << "older than the newest of this model";
    EXPECT_FALSE(third.agent);
    EXPECT_FALSE(third.is_leftover);
    const manifest_turn other(index, third.path, std::adopt_lock);
    in_vain.insert(shape.manifest_of(id_of("new")));
    EXPECT_TRUE(choose().path.empty());
    index.add_foreign(agent_index::lock(index), "agents/empty_of_another_model",
                      {{}, 100, id_of("b")});
    const auto fourth = choose();
    EXPECT_TRUE(fourth.orphans_may_go) << "it needs no block";
    const manifest_turn empty(index, fourth.path, std::adopt_lock);
    foreign_manifest later{{}, 100};
    later.is_understood = false;
    index.add_foreign(agent_index::lock(index), "agents/of_a_later_format", later);
    EXPECT_FALSE(choose().orphans_may_go);
}

TEST_F(agent_index_test, one_at_a_time_saves_or_removes_an_agent) {
    std::string order;
    std::thread other;
    {
        const manifest_turn mine(index, "agents/a");
        other = std::thread([&] {
            const manifest_turn next(index, "agents/a");
            order += "second";
        });
        const manifest_turn apart(index, "agents/b");
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        order += "first ";
    }
    other.join();
    EXPECT_EQ(order, "first second");
}

TEST_F(agent_index_test, a_damaged_file_makes_who_has_the_block_save_it_again) {
    const agent_index::lock locked(index);
    const agent_record& hot = put_clean(locked, "hot", some_tokens(20));
    agent_record& warm = put_clean(locked, "warm", some_tokens(20));
    index.drop_blocks(locked, warm);
    const auto version = hot.version;
    index.mark_damaged(locked, hot.names[1], kv_part::full);
    EXPECT_TRUE(hot.dirty);
    EXPECT_EQ(hot.version, version + 1);
    EXPECT_FALSE(warm.dirty);
}

TEST_F(agent_index_test, restored_blocks_join_the_newest_state_as_far_as_that_has_the_same_ones) {
    const agent_index::lock locked(index);
    const agent_state whole = make_state(pool, "a", some_tokens(24));
    agent_record& agent = put_clean(locked, "a", some_tokens(24));
    index.drop_blocks(locked, agent);
    std::vector<token_id> other_end = some_tokens(24);
    other_end.back() += 1;
    const agent_state parted = make_state(pool, "a", other_end);
    EXPECT_NE(index.add_restored(locked, parted, shape.names_of(parted), parted.blocks), nullptr);
    EXPECT_EQ(agent.state->blocks[1].full, parted.blocks[1].full);
    EXPECT_EQ(agent.state->blocks[2].full, nullptr);
    EXPECT_NE(index.add_restored(locked, whole, shape.names_of(whole), whole.blocks), nullptr);
    EXPECT_EQ(agent.state->blocks[2].full, whole.blocks[2].full);
    EXPECT_FALSE(agent.dirty);
}

// Goal: what was taken away is saved again where it is in the pool, and given up where it is not.
TEST_F(agent_index_test, agents_whose_files_are_gone_are_dirty_where_they_can_be_written_again) {
    const agent_index::lock locked(index);
    const auto on_disk = [&](const std::string& id, int seed) -> agent_record& {
        agent_record& agent = put_clean(locked, id, some_tokens(20, seed));
        agent.manifest_bytes = 100;
        agent.saved = agent.names;
        return agent;
    };
    const agent_record& hot = on_disk("hot", 1);
    agent_record& warm = on_disk("warm", 2);
    const agent_record& there = on_disk("there", 3);
    index.drop_blocks(locked, warm);
    for (const block_hash& name : there.names) known.insert({name, kv_part::full});
    index.add_foreign(locked, "agents/of_others", {{checksum128("block")}, 50});
    EXPECT_EQ(index.manifests(locked).size(), 4u);
    EXPECT_FALSE(index.take_made_dirty(locked));
    const auto left = index.reconcile(
        locked,
        {shape.manifest_of(id_of("hot")), shape.manifest_of(id_of("warm")), "agents/of_others"});
    EXPECT_EQ(left.bytes, 250u);
    EXPECT_EQ(left.names.size(), 1u);
    EXPECT_TRUE(hot.dirty);
    EXPECT_EQ(hot.attempted, hot.names);
    EXPECT_FALSE(warm.dirty);
    EXPECT_FALSE(there.dirty);
    EXPECT_EQ(index.take_made_dirty(locked), 1u);
    EXPECT_EQ(index.reconciliations(locked), 1u);
    EXPECT_EQ(index.manifests(locked).size(), 1u);
}

/// With layers that see a window.
class agent_index_window_test : public agent_index_test {
  protected:
    agent_index_window_test() : agent_index_test(sliding_layout()) {}
};

TEST_F(agent_index_window_test, passed_sliding_frames_stay_until_they_are_saved) {
    const agent_index::lock locked(index);
    put(locked, make_state(pool, "a", some_tokens(45)));
    agent_record& agent = *index.find(locked, id_of("a"));
    ASSERT_NE(agent.state->blocks[0].sliding, nullptr);
    // What the new state needs of others' files stays there.
    EXPECT_EQ(retained, std::vector<block_hash>(agent.names.begin(), agent.names.begin() + 4));
    using passed = agent_index::passed_frames;
    EXPECT_EQ(index.drop_passed(locked, agent, passed::saved), nullptr);
    saved.insert({agent.names[0], kv_part::sliding});
    EXPECT_NE(index.drop_passed(locked, agent, passed::saved), nullptr);
    EXPECT_EQ(agent.state->blocks[0].sliding, nullptr);
    EXPECT_NE(agent.state->blocks[1].sliding, nullptr);
    agent.save_failed = true;
    EXPECT_NE(index.evict_passed_of_failed(locked), nullptr);
    EXPECT_EQ(agent.state->blocks[1].sliding, nullptr);
    EXPECT_TRUE(shape.all_hot(*agent.state));
    EXPECT_EQ(index.evict_passed_of_failed(locked), nullptr);
}

}  // namespace
}  // namespace semantic::storage
