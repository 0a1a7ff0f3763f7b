// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/prefill_turns.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace semantic::engine {
namespace {

const storage::tenant_id one{{1, 0}}, two{{2, 0}}, three{{3, 0}};

std::vector<request_id> take_turns(prefill_turns& turns, const std::vector<sequence_view>& running,
                                   int count) {
    std::vector<request_id> order;
    for (int i = 0; i < count; ++i) {
        const std::size_t index = turns.choose(running).value();
        turns.take(running, index);
        order.push_back(running[index].id);
    }
    return order;
}

sequence_view prompt(request_id id, const storage::tenant_id& tenant) {
    sequence_view made{id, 0, 9000, false};
    made.tenant = tenant;
    return made;
}

TEST(prefill_turns, prompts_of_a_tenant_take_turns_chunk_by_chunk) {
    prefill_turns turns;
    EXPECT_EQ(take_turns(turns, {prompt(5, one), prompt(2, one), prompt(9, one)}, 6),
              (std::vector<request_id>{2, 5, 9, 2, 5, 9}));
}

TEST(prefill_turns, tenants_take_turns_however_many_prompts_each_has) {
    prefill_turns turns;
    EXPECT_EQ(take_turns(turns,
                         {prompt(1, one), prompt(2, one), prompt(3, one), prompt(4, two),
                          prompt(5, two), prompt(6, three)},
                         9),
              (std::vector<request_id>{1, 4, 6, 2, 5, 6, 3, 4, 6}));
}

TEST(prefill_turns, a_tenant_that_sends_one_prompt_after_another_takes_no_other_ones_turn) {
    prefill_turns turns;
    int of_one = 0;
    for (request_id next = 10; next < 30; ++next) {
        // Its prompt before this one still has its answer.
        std::vector<sequence_view> running{prompt(1, one), prompt(next - 1, two),
                                           prompt(next, two)};
        running[1].decoding = true;
        of_one += take_turns(turns, running, 1).front() == 1 ? 1 : 0;
    }
    EXPECT_EQ(of_one, 10);
}

TEST(prefill_turns, a_tenant_of_which_nothing_runs_is_forgotten) {
    prefill_turns turns;
    take_turns(turns, {prompt(1, one), prompt(2, two)}, 2);
    take_turns(turns, {prompt(1, one)}, 1);
    // Known still, the second one would come after the third.
    EXPECT_EQ(take_turns(turns, {prompt(7, two), prompt(8, three)}, 2),
              (std::vector<request_id>{7, 8}));
}

TEST(prefill_turns, what_decodes_waits_or_has_nothing_to_read_gets_no_chunk) {
    std::vector<sequence_view> running{prompt(1, one), prompt(2, one), prompt(3, one)};
    running[0].decoding = true;
    running[1].waits = true;
    running[2].pending = 0;
    EXPECT_EQ(prefill_turns().choose(running), std::nullopt);
    EXPECT_EQ(prefill_turns().choose({}), std::nullopt);
}

}  // namespace
}  // namespace semantic::engine
