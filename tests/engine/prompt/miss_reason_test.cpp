// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/miss_reason.hpp"

#include <gtest/gtest.h>

#include "tests/engine/scheduler/bare_batch.hpp"

namespace semantic::engine {
namespace {

using storage::shortfall;

constexpr std::pair<shortfall, miss_reason> reasons[] = {
    {shortfall::none, miss_reason::none},
    {shortfall::evicted, miss_reason::evicted},
    {shortfall::corrupt, miss_reason::corrupt},
    {shortfall::incompatible, miss_reason::incompatible},
    {shortfall::model_changed, miss_reason::model_changed}};

TEST(miss_reason, says_what_became_of_memory_on_disk) {
    for (const auto& [why, reason] : reasons) EXPECT_EQ(reason_of(why), reason);
}

TEST(miss_reason, of_a_prefix_that_cannot_be_read_is_what_the_store_says) {
    for (const auto& [why, reason] : reasons) {
        if (why == shortfall::none) continue;
        tests::bare_batch running(tests::run_options{});
        running.add(1, tests::turn(tests::notes(20)), tests::endless(4, 1));
        running.run_all();
        running.evict(1);
        const job_ptr work = running.go_on_from(1, 2, tests::endless(4, 2));
        running.run_all();
        ASSERT_EQ(running.restoring.size(), 1u);
        running.restored(work, {{}, 0, 0, why, "a file and its fault", 0});
        running.run_all();
        EXPECT_EQ(running.usages[2].why, reason);
        EXPECT_EQ(running.usages[2].detail, "a file and its fault");
        EXPECT_EQ(running.usages[2].reused_tokens, 0);
    }
}

}  // namespace
}  // namespace semantic::engine
