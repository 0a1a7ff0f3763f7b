// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/run_registry.hpp"

#include <gtest/gtest.h>

#include "server/coordination/scenario_run.hpp"

namespace semantic::server {
namespace {

using protocol::errc;

const storage::tenant_id nobody_else;
const storage::tenant_id another{*storage::block_hash::from_hex(std::string(32, 'a'))};

run_registry::kept_run named(const std::string& id) {
    auto scenario = protocol::scenarios::parse_scenario(
        "id: one\ntitle: One\nagents: {a: {display_name: Ada}}\n"
        "phases: [{name: p, label: P, agents: [a]}]\n");
    return {id, scenario.value(), "{}"};
}

TEST(run_registry, a_tenant_has_so_many_runs_and_not_one_more) {
    run_registry all;
    for (std::size_t i = 0; i < runs_max; ++i)
        ASSERT_TRUE(all.add(nobody_else, named("r" + std::to_string(i))));
    EXPECT_EQ(all.add(nobody_else, named("more")).error().code, errc::conflict);
    EXPECT_TRUE(all.add(another, named("more")));
    all.remove(std::move(*all.begin(nobody_else, "r0")));
    EXPECT_TRUE(all.add(nobody_else, named("more")));
    EXPECT_EQ(all.all(another).size(), 1u);
}

TEST(run_registry, a_tenants_runs_keep_so_many_bytes_and_not_one_more) {
    run_registry runs;
    run_registry::kept_run first = named("run_1"), second = named("run_2");
    first.request.resize(run_bounds().tenant_bytes - 2 * run_own_bytes -
                         copies_of_scenario *
                             (first.scenario.source.size() + second.scenario.source.size()) -
                         second.request.size());
    run_registry::kept_run more = second;
    more.request += ' ';
    ASSERT_TRUE(runs.add(nobody_else, first));
    EXPECT_EQ(runs.add(nobody_else, more).error().code, errc::conflict);
    EXPECT_TRUE(runs.add(nobody_else, second));
}

TEST(run_registry, all_tenants_runs_keep_so_many_bytes_and_not_one_more) {
    const run_registry::kept_run one = named("run_1");
    const std::size_t bytes =
        run_own_bytes + copies_of_scenario * one.scenario.source.size() + one.request.size();
    run_registry runs({.tenant_bytes = 2 * bytes, .all_bytes = 2 * bytes});
    run_registry::kept_run more = one;
    more.request += ' ';
    ASSERT_TRUE(runs.add(nobody_else, one));
    const auto refused = runs.add(another, more);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, errc::overloaded);
    EXPECT_TRUE(runs.add(another, one));
    runs.remove(std::move(*runs.begin(nobody_else, "run_1")));
    EXPECT_TRUE(runs.add(nobody_else, one)) << "what was removed is not counted";
}

TEST(run_registry, a_run_is_driven_by_one_at_a_time_and_stays_while_it_is) {
    run_registry all;
    ASSERT_TRUE(all.add(nobody_else, named("r")));
    EXPECT_FALSE(all.is_driven(nobody_else, "r"));
    {
        auto driven = all.begin(nobody_else, "r");
        ASSERT_TRUE(driven);
        EXPECT_TRUE(all.is_driven(nobody_else, "r"));
        EXPECT_EQ(all.begin(nobody_else, "r").error().code, errc::conflict);
        EXPECT_FALSE(driven->is_stopped());
        EXPECT_TRUE(all.stop(nobody_else, "r"));
        EXPECT_TRUE(driven->is_stopped());
    }
    auto again = all.begin(nobody_else, "r");
    ASSERT_TRUE(again);
    EXPECT_FALSE(again->is_stopped()) << "that was said to the former one";
}

TEST(run_registry, another_tenants_run_is_none) {
    run_registry all;
    ASSERT_TRUE(all.add(nobody_else, named("r")));
    EXPECT_EQ(all.find(another, "r").error().code, errc::not_found);
    EXPECT_EQ(all.begin(another, "r").error().code, errc::not_found);
    EXPECT_EQ(all.stop(another, "r").error().code, errc::not_found);
}

TEST(run_registry, a_run_comes_back_from_its_record) {
    run_registry all;
    const std::string record = protocol::scenarios::to_record(named("r"));
    ASSERT_TRUE(all.load(nobody_else, record));
    EXPECT_EQ((*all.find(nobody_else, "r"))->scenario.id, "one");
    EXPECT_EQ(all.load(nobody_else, record).error().code, errc::conflict);
    EXPECT_FALSE(all.load(nobody_else, "{}"));
}

TEST(run_registry, what_is_loaded_is_bounded_too) {
    run_registry all;
    for (std::size_t i = 0; i < runs_max; ++i)
        ASSERT_TRUE(
            all.load(nobody_else, protocol::scenarios::to_record(named("r" + std::to_string(i)))));
    const std::string more = protocol::scenarios::to_record(named("more"));
    EXPECT_EQ(all.load(nobody_else, more).error().code, errc::conflict);
    EXPECT_TRUE(all.load(another, more));
}

TEST(run_registry, what_came_of_a_run_is_kept_with_the_lines_that_it_was_read_of) {
    run_registry all;
    ASSERT_TRUE(all.add(nobody_else, named("r")));
    EXPECT_EQ(all.result(nobody_else, "r"), nullptr);
    run_registry::known_result came{{3}};
    came.came.text = "Ahoy";
    all.keep_result(nobody_else, "r",
                    std::make_shared<const run_registry::known_result>(std::move(came)));
    ASSERT_NE(all.result(nobody_else, "r"), nullptr);
    EXPECT_EQ(all.result(nobody_else, "r")->lines, std::vector<std::size_t>{3});
    EXPECT_EQ(all.result(another, "r"), nullptr);
}

TEST(phase_session_id, is_the_same_for_a_phase_of_a_run_and_for_no_other) {
    EXPECT_EQ(phase_session_id("run_1", "yard"), phase_session_id("run_1", "yard"));
    EXPECT_NE(phase_session_id("run_1", "yard"), phase_session_id("run_2", "yard"));
    EXPECT_NE(phase_session_id("run_1", "yard"), phase_session_id("run_1", "verdict"));
    EXPECT_NE(phase_session_id("run_1", "2yard"), phase_session_id("run_12", "yard"));
    EXPECT_EQ(phase_session_id("run_1", "yard").size(), std::string("coord_").size() + 12);
}

}  // namespace
}  // namespace semantic::server
