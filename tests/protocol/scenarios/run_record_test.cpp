// SPDX-License-Identifier: Apache-2.0
#include "protocol/scenarios/run_record.hpp"

#include <gtest/gtest.h>

#include "protocol/scenarios/api.hpp"

namespace semantic::protocol::scenarios {
namespace {

constexpr const char* yaml = R"(id: two
title: "Two \"friends\""
agents: {a: {display_name: Ada}, b: {display_name: Bob}}
phases: [{name: one, label: One, agents: [a, b], auto_rounds: 1}]
)";

TEST(run_record, comes_back_as_it_was) {
    const kept_run run{"run_1", *parse_scenario(yaml), R"({"temperature": 0})"};
    const std::string record = to_record(run);
    const auto again = kept_run_of(record);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(to_record(*again), record);
    EXPECT_EQ(again->scenario.source, yaml);
    EXPECT_EQ(again->scenario.phases.front().name, "one");
    EXPECT_EQ(again->request, run.request);
}

TEST(run_record, that_is_not_whole_is_refused) {
    const std::string record = to_record({"run_1", *parse_scenario(yaml), ""});
    for (std::size_t bytes = 0; bytes < record.size(); ++bytes)
        ASSERT_FALSE(kept_run_of(record.substr(0, bytes))) << bytes;
    struct row {
        const char *from, *to;
    };
    for (const row& r :
         {row{"\"format\":1", "\"format\":0"}, row{"\"format\":1", "\"format\":2"},
          row{"scenario_run", "session"}, row{"run_1", "run/1"}, row{"[a, b]", "[a, c]"}}) {
        std::string other = record;
        other.replace(other.find(r.from), std::string(r.from).size(), r.to);
        EXPECT_FALSE(kept_run_of(other)) << r.to;
    }
}

TEST(run_body, says_how_far_a_run_is) {
    run_state state{"run_1", "two", true, {{"one", "coord_1", 3, true, true}, {"two", "coord_2"}}};
    EXPECT_EQ(run_body(state),
              R"({"run_id":"run_1","scenario":"two","status":"running","phases":[)"
              R"({"phase":"one","session_id":"coord_1","status":"complete","turns":3},)"
              R"({"phase":"two","session_id":"coord_2","status":"waiting","turns":0}]})");
    state.is_driven = false;
    state.phases[1].is_begun = true;
    EXPECT_NE(run_body(state).find(R"("status":"stopped")"), std::string::npos);
    EXPECT_NE(run_body(state).find(R"("status":"begun")"), std::string::npos);
    state.came = run_result{{{"Ada", "silence"}}, "So be it.", "one year each"};
    EXPECT_NE(run_body(state).find(R"("status":"complete")"), std::string::npos);
    EXPECT_NE(
        run_body(state).find(R"("outcome":{"choices":{"Ada":"silence"},"summary":"So be it."},)"
                             R"("payoff":"one year each")"),
        std::string::npos);
}

TEST(parse_run, tells_what_is_remembered) {
    const auto plain = parse_run("{}");
    ASSERT_TRUE(plain);
    EXPECT_TRUE(plain->is_persistent);
    EXPECT_FALSE(plain->rereads);
    EXPECT_TRUE(parse_run(R"({"reread": true})")->rereads);
    EXPECT_FALSE(parse_run(R"({"persistent": false})")->is_persistent);
    EXPECT_FALSE(parse_run(R"({"reread": 1})"));
}

}  // namespace
}  // namespace semantic::protocol::scenarios
