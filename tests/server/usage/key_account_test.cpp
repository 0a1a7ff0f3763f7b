// SPDX-License-Identifier: Apache-2.0
#include "server/usage/key_account.hpp"

#include <gtest/gtest.h>

#include "server/usage/key_accounts.hpp"

namespace semantic::server {
namespace {

using namespace std::chrono_literals;
using protocol::limit_kind;

const key_account::time_point start{1000s};

TEST(key_account, the_request_beyond_the_limit_is_told_when_to_come_back) {
    key_account account("a", {.requests_per_minute = 2}, start);
    EXPECT_FALSE(account.begin(start));
    EXPECT_FALSE(account.begin(start));
    const auto refused = account.begin(start);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->kind, limit_kind::requests);
    EXPECT_EQ(refused->limit, 2u);
    EXPECT_EQ(refused->wait, 30s);
    EXPECT_TRUE(account.begin(start + 29s));
    EXPECT_FALSE(account.begin(start + refused->wait));
}

TEST(key_account, a_refused_request_costs_nothing) {
    key_account account("a", {.requests_per_minute = 60, .concurrent_requests = 1}, start);
    EXPECT_FALSE(account.begin(start));
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(account.begin(start));
    account.end();
    EXPECT_FALSE(account.begin(start));
    const auto report = account.report(start);
    EXPECT_EQ(report.requests, 2u);
    EXPECT_EQ(report.refused[static_cast<std::size_t>(limit_kind::concurrent)], 100u);
    EXPECT_EQ(report.limits.requests->left, 58u);
}

TEST(key_account, tokens_are_let_in_while_any_are_left_and_then_paid_for) {
    key_account account("a", {.tokens_per_minute = 600}, start);
    EXPECT_FALSE(account.begin(start));
    account.count_prompt(900, 5000, start);
    account.count_output(100, start);
    const auto refused = account.begin(start);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->kind, limit_kind::tokens);
    EXPECT_EQ(refused->wait, 41s) << "400 tokens of debt and one to go on with, at 10 a second";
    EXPECT_TRUE(account.begin(start + 40s));
    EXPECT_FALSE(account.begin(start + 41s));
}

TEST(key_account, what_was_remembered_costs_nothing) {
    key_account account("a", {.tokens_per_minute = 10}, start);
    account.count_prompt(0, 1'000'000, start);
    EXPECT_FALSE(account.begin(start));
    EXPECT_EQ(account.report(start).tokens_reused, 1'000'000u);
}

TEST(key_account, a_place_is_free_when_its_request_is_and_only_once) {
    auto account = std::make_shared<key_account>("a", key_limits{.concurrent_requests = 2}, start);
    ASSERT_FALSE(account->begin(start));
    ASSERT_FALSE(account->begin(start));
    EXPECT_TRUE(account->begin(start));
    {
        key_slot first(account), second(account);
        first.release();
        first.release();
        EXPECT_EQ(account->report(start).running, 1u);
    }
    EXPECT_EQ(account->report(start).running, 0u);
}

TEST(key_account, without_limits_all_is_counted_and_nothing_refused) {
    key_account account("a", {}, start);
    for (int i = 0; i < 1000; ++i) EXPECT_FALSE(account.begin(start));
    account.count_output(5, start);
    const auto report = account.report(start);
    EXPECT_EQ(report.requests, 1000u);
    EXPECT_EQ(report.tokens_output, 5u);
    EXPECT_FALSE(report.limits.requests);
    EXPECT_FALSE(report.limits.tokens);
}

TEST(key_accounts, are_named_after_tenants_or_by_place_and_never_after_a_key) {
    config settings;
    settings.api_keys = {"quayside", "harbour"};
    settings.file_keys = {{"lighthouse", "team"}, {"breakwater", "team"}, {"jetty", ""}};
    key_accounts accounts({});
    accounts.open_all(settings);
    std::vector<std::string> names;
    for (const auto& account : accounts.all()) names.push_back(account->name());
    EXPECT_EQ(names, (std::vector<std::string>{"key-1", "key-2", "team", "key-3"}));
    EXPECT_EQ(accounts.account_of("name team"), accounts.all()[2])
        << "keys of one name have one account";
    key_accounts open({});
    open.open_all(config{});
    EXPECT_EQ(open.all().at(0)->name(), "everybody");
}

}  // namespace
}  // namespace semantic::server
