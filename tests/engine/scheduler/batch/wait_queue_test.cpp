#include "engine/scheduler/batch/wait_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/prompt/stored_prompts.hpp"

namespace semantic::engine {
namespace {

constexpr int block = 256;

class wait_queue_ : public tests::stored_prompts {
  protected:
    /// A request that goes on from a memory of `tokens` tokens of its own; 0: from none.
    job_ptr wait(request_id id, int tokens, bool saved) {
        auto work = std::make_shared<job>();
        work->id = id;
        work->prompt = resolved_prompt{*storage::agent_id::parse("a" + std::to_string(id))};
        if (tokens > 0) work->prompt->source = memory(work->prompt->agent, tokens, saved);
        waiting_.push(work);
        return work;
    }
    std::shared_ptr<const storage::agent_state> memory(const storage::agent_id& agent, int tokens,
                                                       bool saved) {
        storage::agent_state state{agent};
        for (int i = 0; i < tokens; ++i) {
            state.tokens.push_back(agent.str().back() * 1000 + i);
            state.text += static_cast<char>('a' + i % 26);
            state.token_ends.push_back(static_cast<std::uint32_t>(i + 1));
        }
        put(std::move(state));
        EXPECT_TRUE(!saved || store_->save(agent));
        return store_->find(agent);
    }
    static int blocks_of(const job_ptr& work) {
        const auto& blocks = work->prompt->source->blocks;
        return static_cast<int>(std::ranges::count_if(
            blocks, [](const storage::kv_block_parts& each) { return each.full != nullptr; }));
    }
    std::vector<request_id> in_order() {
        std::vector<request_id> ids;
        for (; !waiting_.empty(); waiting_.pop_front()) ids.push_back(waiting_.front()->id);
        return ids;
    }

    engine_probe probe_;
    wait_queue waiting_{*store_, probe_};
};

TEST_F(wait_queue_, who_stops_leaves_with_its_reason_and_without_its_blocks_and_no_other_moves) {
    const job_ptr cancelled = wait(1, block, false);
    wait(2, block, false);
    const job_ptr late = wait(3, 0, false);
    const job_ptr in_time = wait(4, 0, false);
    cancelled->cancelled = true;
    late->request.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
    in_time->request.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);

    const auto stopped = waiting_.take_stopped();
    ASSERT_EQ(stopped.size(), 2u);
    EXPECT_EQ(stopped[0].work, cancelled);
    EXPECT_EQ(stopped[0].why, stop_reason::cancelled);
    EXPECT_EQ(cancelled->prompt->source, nullptr);
    EXPECT_EQ(stopped[1].work, late);
    EXPECT_EQ(stopped[1].why, stop_reason::deadline);
    EXPECT_EQ(probe_.waiting, 2);
    EXPECT_TRUE(waiting_.take_stopped().empty());
    EXPECT_EQ(in_order(), (std::vector<request_id>{2, 4}));
    EXPECT_EQ(probe_.waiting, 0);
}

TEST_F(wait_queue_, blocks_on_disk_are_released_first_and_each_once) {
    const job_ptr saved = wait(1, 2 * block, true);
    const job_ptr dirty = wait(2, 2 * block, false);
    wait(3, 0, false);
    EXPECT_TRUE(waiting_.release_saved_blocks(0));
    EXPECT_EQ(blocks_of(saved), 0);
    EXPECT_EQ(saved->prompt->source->tokens.size(), std::size_t{2 * block})
        << "what is to be read again is still known";
    EXPECT_EQ(blocks_of(dirty), 2) << "nowhere else";
    EXPECT_FALSE(waiting_.release_saved_blocks(0));

    EXPECT_TRUE(waiting_.release_blocks(0));
    EXPECT_EQ(blocks_of(dirty), 0);
    EXPECT_FALSE(waiting_.release_blocks(0));
}

TEST_F(wait_queue_, requests_before_the_first_one_named_keep_their_blocks) {
    const job_ptr first = wait(1, block, true);
    const job_ptr second = wait(2, block, true);
    EXPECT_FALSE(waiting_.release_saved_blocks(2));
    EXPECT_FALSE(waiting_.release_blocks(2));
    EXPECT_TRUE(waiting_.release_saved_blocks(1));
    EXPECT_EQ(blocks_of(second), 0);
    EXPECT_FALSE(waiting_.release_saved_blocks(1));
    EXPECT_FALSE(waiting_.release_blocks(1));
    EXPECT_EQ(blocks_of(first), 1);
}

TEST_F(wait_queue_, released_frames_are_free_when_their_agent_has_none_either) {
    const job_ptr work = wait(1, 2 * block, true);
    ASSERT_TRUE(store_->evict(work->prompt->agent));
    EXPECT_GT(pool_.held_count(), 0u);
    EXPECT_TRUE(waiting_.release_saved_blocks(0));
    EXPECT_EQ(pool_.held_count(), 0u);
}

}  // namespace
}  // namespace semantic::engine
