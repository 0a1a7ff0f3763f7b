// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/open_choices.hpp"

#include <gtest/gtest.h>

namespace semantic::engine {
namespace {

open_choices::prompt_end prompt_of(request_id id, int choices, std::size_t blocks) {
    auto work = std::make_shared<job>();
    work->id = id;
    work->request.choices = choices;
    return {work, std::vector<storage::kv_block_parts>(blocks), {0.5f}, 7};
}

TEST(open_choices, requests_start_their_choices_one_after_the_other) {
    open_choices open;
    open.add(prompt_of(1, 3, 1));
    open.add(prompt_of(2, 2, 1));
    std::vector<std::pair<request_id, int>> started;
    while (!open.empty()) {
        started.emplace_back(open.front().work->id, open.front().next);
        open.started();
    }
    EXPECT_EQ(started, (std::vector<std::pair<request_id, int>>{{1, 1}, {1, 2}, {2, 1}}))
        << "choice 0 made the prompt and is not among them";
}

TEST(open_choices, a_request_that_ends_leaves_with_all_its_choices) {
    open_choices open;
    open.add(prompt_of(1, 3, 1));
    open.add(prompt_of(2, 2, 1));
    const job_ptr first = open.front().work;
    EXPECT_TRUE(open.drop(first));
    EXPECT_FALSE(open.drop(first));
    EXPECT_EQ(open.front().work->id, 2u);
}

TEST(open_choices, released_blocks_are_given_back_once_and_the_choices_still_start) {
    open_choices open;
    open.add(prompt_of(1, 2, 0));
    open.add(prompt_of(2, 2, 2));
    EXPECT_TRUE(open.release_blocks());
    EXPECT_FALSE(open.release_blocks());
    EXPECT_FALSE(open.front().has_prompt());
    open.started();
    EXPECT_FALSE(open.front().has_prompt());
    EXPECT_EQ(open.front().next, 1);
}

}  // namespace
}  // namespace semantic::engine
