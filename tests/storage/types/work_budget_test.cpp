// SPDX-License-Identifier: Apache-2.0
#include "storage/types/work_budget.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace semantic::storage {
namespace {

using limit = work_limit_exceeded::limit;

limit limit_of(auto&& work) {
    try {
        work();
    } catch (const work_limit_exceeded& e) {
        return e.exceeded();
    }
    throw std::logic_error("no limit was exceeded");
}

TEST(work_budget, takes_all_its_steps_and_not_one_more) {
    work_budget budget({.steps = 10'000});
    budget.charge_steps(9'999);
    budget.charge_steps();
    EXPECT_EQ(limit_of([&] { budget.charge_steps(); }), limit::steps);
    EXPECT_EQ(limit_of([&] { budget.charge_steps(); }), limit::steps) << "and it stays so";
    for (int i = 0; i < 3; ++i) {
        work_budget one_by_one({.steps = 10'000});
        for (int step = 0; step < 10'000; ++step) one_by_one.charge_steps();
        EXPECT_EQ(limit_of([&] { one_by_one.charge_steps(); }), limit::steps);
    }
}

TEST(work_budget, counts_that_would_overflow_are_over_the_limit) {
    work_budget budget({.steps = 10'000});
    budget.charge_steps(5'000);
    EXPECT_EQ(limit_of([&] { budget.charge_steps(~std::uint64_t{0}); }), limit::steps);
    EXPECT_EQ(limit_of([&] { budget.charge_bytes(~std::size_t{0}); }), limit::bytes);
}

TEST(work_budget, takes_all_its_bytes_and_not_one_more) {
    work_budget budget({.bytes = 1'000});
    budget.charge_bytes(1'000);
    EXPECT_EQ(limit_of([&] { budget.charge_bytes(1); }), limit::bytes);
    budget.release_bytes(1);
    budget.charge_bytes(1);
    {
        work_budget other({.bytes = 1'000});
        charged_bytes some(other, 600);
        EXPECT_EQ(limit_of([&] { charged_bytes more(other, 401); }), limit::bytes);
        EXPECT_EQ(other.bytes(), 600U);
    }
    EXPECT_EQ(budget.bytes_peak(), 1'000U);
}

TEST(work_budget, ends_at_its_deadline_and_when_it_is_cancelled) {
    work_budget late({.deadline = work_budget::clock::now() - std::chrono::seconds(1)});
    EXPECT_EQ(limit_of([&] { late.charge_steps(); }), limit::deadline);
    work_budget budget;
    budget.charge_steps();
    budget.cancel();
    EXPECT_EQ(limit_of([&] { budget.check(); }), limit::cancelled);
    EXPECT_EQ(limit_of([&] { budget.charge_steps(5'000); }), limit::cancelled);
}

TEST(work_budget, says_which_limit_it_was) {
    work_budget budget({.steps = 7, .bytes = std::size_t{2} << 20});
    try {
        budget.charge_steps(8);
        FAIL();
    } catch (const work_limit_exceeded& e) {
        EXPECT_STREQ(e.what(), "it takes more work than the 7 steps that one request may");
    }
    try {
        budget.charge_bytes(std::size_t{3} << 20);
        FAIL();
    } catch (const work_limit_exceeded& e) {
        EXPECT_STREQ(e.what(), "it takes more memory than the 2 MiB that one request may");
    }
}

}  // namespace
}  // namespace semantic::storage
