// SPDX-License-Identifier: Apache-2.0
#include "protocol/scenarios/choice_pattern.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace semantic::protocol::scenarios {
namespace {

std::string last_of(const char* pattern, const std::string& text) {
    auto compiled = choice_pattern::compile(pattern);
    EXPECT_TRUE(compiled) << pattern;
    storage::work_budget budget;
    return compiled ? compiled->last_choice(text, budget) : std::string();
}

TEST(choice_pattern, finds_the_group_of_the_last_match) {
    EXPECT_EQ(last_of("(?i)choose (\\w+)", "I choose silence. No: I Choose betrayal."), "betrayal");
    EXPECT_EQ(last_of("choose (\\w+)", "I Choose silence."), "");
    EXPECT_EQ(last_of("x*(y?)", "xxé"), "");
    EXPECT_EQ(last_of("(é)", "caf\xc3\xa9 \xff \xc3\xa9"), "\xc3\xa9");
}

TEST(choice_pattern, of_more_matches_than_the_limit_the_last_ones_are_not_looked_at) {
    std::string text;
    for (int i = 1; i <= choice_pattern::matches_max; ++i) text += "n" + std::to_string(i) + " ";
    EXPECT_EQ(last_of("n(\\d+)", text), std::to_string(choice_pattern::matches_max));
    EXPECT_EQ(last_of("n(\\d+)", text + "n0"), std::to_string(choice_pattern::matches_max));
}

TEST(choice_pattern, what_is_no_expression_or_has_no_group_is_refused) {
    for (const char* pattern : {"fee (", "fee", "(?:fee)", "[a-"})
        EXPECT_FALSE(choice_pattern::compile(pattern)) << pattern;
}

TEST(choice_pattern, hostile_expressions_and_long_texts_find_nothing_soon) {
    const std::string text(4'000, 'a');
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(last_of("((a+)+)+b", text), "");
    EXPECT_EQ(last_of("(a|aa|aaa)*b", text), "");
    EXPECT_EQ(last_of("(.*)*(.*)*(.*)*(.*)*c", text), "");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(choice_pattern, all_places_of_all_texts_together_cost_no_more_than_the_budget) {
    // At none of 4,000 places is it much, and PCRE2's own limit is for one of them.
    const std::string text(4'000, 'a');
    const auto compiled = choice_pattern::compile("(?:a|a|a){1,6}(b)");
    ASSERT_TRUE(compiled);
    constexpr std::uint64_t steps = 50'000;
    storage::work_budget budget({.steps = steps});
    EXPECT_EQ(compiled->last_choice(text + "b", budget), "");
    EXPECT_EQ(budget.steps(), steps);
    EXPECT_EQ(compiled->last_choice("ab", budget), "") << "nothing is left of it";
    storage::work_budget fresh({.steps = steps});
    EXPECT_EQ(compiled->last_choice("ab", fresh), "b");
}

}  // namespace
}  // namespace semantic::protocol::scenarios
