// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/step_rows.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "tests/engine/scheduler/bare_sequences.hpp"

namespace semantic::engine {
namespace {

constexpr int block = 256;

class step_rows_ : public tests::bare_sequences {
  protected:
    /// Leaves `frames` frames of the pool free.
    void leave(std::size_t frames) { taken_ = *pool_.allocate(pool_.free_count() - frames); }
    void give_back() { pool_.release(std::exchange(taken_, {})); }
    ~step_rows_() override { give_back(); }

    /// An agent of two blocks, in the pool and on disk.
    void remember_saved(const std::string& id, token_id first) {
        storage::agent_state state{*storage::agent_id::parse(id)};
        for (int i = 0; i < 2 * block; ++i) {
            state.tokens.push_back(first);
            state.text += "a";
            state.token_ends.push_back(static_cast<std::uint32_t>(i + 1));
        }
        put(std::move(state));
        ASSERT_TRUE(store_->save(*storage::agent_id::parse(id)));
    }
    bool is_hot(const std::string& id) {
        return store_->restore_hot(*store_->find(*storage::agent_id::parse(id)), 2 * block)
            .has_value();
    }
    std::vector<step_row> choose() { return rows_.choose(set_, heads_, cost_); }

    chunk_policy chunks_{block, 16 * block, 16 * block};
    step_rows rows_{pool_, *store_, chunks_, draft_rule::never};
    step_cost cost_;
    head_plan heads_;

  private:
    std::vector<std::byte*> taken_;
};

TEST_F(step_rows_, a_chunk_is_halved_until_the_pool_has_frames_for_it) {
    struct row {
        std::size_t free;
        int tokens;
    };
    for (const row& each : {row{16, 16 * block}, row{15, 8 * block}, row{8, 8 * block},
                            row{7, 4 * block}, row{1, block}}) {
        SCOPED_TRACE(each.free);
        leave(each.free);
        sequence& run = add(1, 16 * block);
        const auto rows = choose();
        ASSERT_EQ(rows.size(), 1u);
        EXPECT_EQ(rows[0].run, &run);
        EXPECT_EQ(rows[0].tokens, each.tokens);
        set_.end(run);
        set_.remove_ended();
        give_back();
    }
}

TEST_F(step_rows_, without_a_frame_for_the_smallest_chunk_there_is_no_step) {
    leave(0);
    add(1, 16 * block);
    EXPECT_TRUE(choose().empty());
}

TEST_F(step_rows_, a_sequence_without_a_frame_waits_and_those_beside_it_go_on) {
    sequence& full = add_computed(1, block);
    sequence& open = add_computed(2, block + 1);
    for (sequence* each : {&full, &open})
        each->accept(std::vector<float>(static_cast<std::size_t>(words_.vocabulary())));
    leave(0);
    const auto rows = choose();
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].run, &open);
    EXPECT_EQ(rows[0].tokens, 1);
}

TEST_F(step_rows_, others_memory_makes_room_before_the_agents_own) {
    remember_saved("a", 10);
    remember_saved("b", 11);
    leave(0);
    sequence& run = add(1, 4 * block);  // of agent "a"
    chunks_.max_tokens = block;
    EXPECT_EQ(choose().size(), 1u);
    run.cache().advance(block);
    EXPECT_TRUE(is_hot("a"));
    EXPECT_FALSE(is_hot("b"));
    while (run.view().position < 4 * block) {
        ASSERT_EQ(choose().size(), 1u);
        run.cache().advance(run.view().position + block);
    }
    EXPECT_FALSE(is_hot("a"));
}

TEST_F(step_rows_, prompts_take_turns) {
    chunks_.max_tokens = chunks_.threshold_tokens = block;
    add(1, 8 * block);
    add(2, 8 * block);
    std::vector<request_id> ran;
    for (int step = 0; step < 4; ++step) {
        const auto rows = choose();
        ASSERT_EQ(rows.size(), 1u);
        ran.push_back(rows[0].run->work().id);
    }
    EXPECT_EQ(ran, (std::vector<request_id>{1, 2, 1, 2}));
}

}  // namespace
}  // namespace semantic::engine
