// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/queue/wait_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/engine/prompt/stored_prompts.hpp"

namespace semantic::engine {
namespace {

constexpr int block = 256;

class wait_queue_ : public tests::stored_prompts {
  protected:
    /// A request that goes on from a memory of `tokens` tokens of its own; 0: from none.
    job_ptr wait(request_id id, int tokens, bool saved, const storage::tenant_id& tenant = {}) {
        auto work = std::make_shared<job>();
        work->id = id;
        work->request.tenant = tenant;
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
        while (const job_ptr next = waiting_.find_next([](const job&) { return true; })) {
            ids.push_back(next->id);
            waiting_.take(next);
        }
        return ids;
    }

    engine_probe probe_;
    wait_queue waiting_{*store_, probe_};
};

TEST_F(wait_queue_, who_is_cancelled_leaves_without_its_blocks_and_no_other_moves) {
    const job_ptr cancelled = wait(1, block, false);
    wait(2, block, false);
    wait(3, 0, false);
    cancelled->cancelled = true;

    EXPECT_EQ(waiting_.take_cancelled(), std::vector{cancelled});
    EXPECT_EQ(cancelled->prompt->source, nullptr);
    EXPECT_EQ(probe_.waiting, 2);
    EXPECT_TRUE(waiting_.take_cancelled().empty());
    EXPECT_EQ(in_order(), (std::vector<request_id>{2, 3}));
    EXPECT_EQ(probe_.waiting, 0);
}

TEST_F(wait_queue_, a_deadline_counts_from_where_the_request_begins) {
    using std::chrono::steady_clock;
    const job_ptr late = wait(1, 0, false);
    late->submitted = steady_clock::now() - std::chrono::seconds(10);
    late->request.deadline = steady_clock::now() - std::chrono::seconds(1);
    EXPECT_TRUE(waiting_.take_cancelled().empty());
    late->begin(steady_clock::now());
    EXPECT_EQ(late->wants_to_stop(), std::nullopt) << "9 s are left";
    late->request.deadline = *late->request.deadline - std::chrono::seconds(9);
    EXPECT_EQ(late->wants_to_stop(), stop_reason::deadline);
}

TEST_F(wait_queue_, says_how_many_begin_before_each) {
    std::vector<job_ptr> all;
    const storage::tenant_id second = store_->tenant("second"), third = store_->tenant("third");
    for (request_id id : {1, 2, 3, 4}) all.push_back(wait(id, 0, false));
    for (request_id id : {5, 6}) all.push_back(wait(id, 0, false, second));
    all.push_back(wait(7, 0, false, third));
    std::map<request_id, int> before;
    for (const job_ptr& each : all) before[each->id] = waiting_.count_before(*each);
    const auto order = in_order();
    for (int i = 0; i < static_cast<int>(order.size()); ++i)
        EXPECT_EQ(before[order[static_cast<std::size_t>(i)]], i);
}

TEST_F(wait_queue_, blocks_on_disk_are_released_first_and_each_once) {
    const job_ptr saved = wait(1, 2 * block, true);
    const job_ptr dirty = wait(2, 2 * block, false);
    wait(3, 0, false);
    EXPECT_TRUE(waiting_.release_saved_blocks(nullptr));
    EXPECT_EQ(blocks_of(saved), 0);
    EXPECT_EQ(saved->prompt->source->tokens.size(), std::size_t{2 * block})
        << "what is to be read again is still known";
    EXPECT_EQ(blocks_of(dirty), 2) << "nowhere else";
    EXPECT_FALSE(waiting_.release_saved_blocks(nullptr));

    EXPECT_TRUE(waiting_.release_blocks(nullptr));
    EXPECT_EQ(blocks_of(dirty), 0);
    EXPECT_FALSE(waiting_.release_blocks(nullptr));
}

TEST_F(wait_queue_, the_request_that_is_spared_keeps_its_blocks) {
    const job_ptr first = wait(1, block, true);
    const job_ptr second = wait(2, block, true);
    EXPECT_TRUE(waiting_.release_saved_blocks(first.get()));
    EXPECT_EQ(blocks_of(second), 0);
    EXPECT_FALSE(waiting_.release_saved_blocks(first.get()));
    EXPECT_FALSE(waiting_.release_blocks(first.get()));
    EXPECT_EQ(blocks_of(first), 1);
}

TEST_F(wait_queue_, tenants_take_turns_and_each_keeps_its_order) {
    for (request_id id : {1, 2, 3, 4}) wait(id, 0, false);
    const storage::tenant_id second = store_->tenant("second"), third = store_->tenant("third");
    wait(5, 0, false, second);
    wait(6, 0, false, second);
    wait(7, 0, false, third);
    EXPECT_EQ(in_order(), (std::vector<request_id>{1, 5, 7, 2, 6, 3, 4}));
}

TEST_F(wait_queue_, a_tenant_that_comes_back_waits_for_the_turn_of_every_other_once) {
    const storage::tenant_id busy{}, calm = store_->tenant("calm");
    for (request_id id : {1, 2, 3}) wait(id, 0, false, busy);
    wait(4, 0, false, calm);
    const auto any = [](const job&) { return true; };
    waiting_.take(waiting_.find_next(any));
    ASSERT_EQ(waiting_.find_next(any)->id, 4u);
    waiting_.take(waiting_.find_next(any));
    wait(5, 0, false, calm);
    EXPECT_EQ(in_order(), (std::vector<request_id>{2, 5, 3}));
}

TEST_F(wait_queue_, who_may_not_begin_is_passed_over_and_takes_no_turn) {
    for (request_id id : {1, 2}) wait(id, 0, false);
    wait(3, 0, false, store_->tenant("other"));
    const auto not_first = [](const job& work) { return work.id != 1; };
    EXPECT_EQ(waiting_.find_next(not_first)->id, 2u);
    EXPECT_EQ(waiting_.find_next(not_first)->id, 2u) << "one that does not fit stays the next";
    EXPECT_EQ(waiting_.find_next([](const job& work) { return work.id == 3; })->id, 3u);
    EXPECT_EQ(waiting_.find_next([](const job&) { return false; }), nullptr);
    EXPECT_EQ(in_order(), (std::vector<request_id>{1, 3, 2}));
}

TEST_F(wait_queue_, released_frames_are_free_when_their_agent_has_none_either) {
    const job_ptr work = wait(1, 2 * block, true);
    ASSERT_TRUE(store_->evict(work->prompt->agent));
    EXPECT_GT(pool_.held_count(), 0u);
    EXPECT_TRUE(waiting_.release_saved_blocks(nullptr));
    EXPECT_EQ(pool_.held_count(), 0u);
}

}  // namespace
}  // namespace semantic::engine
