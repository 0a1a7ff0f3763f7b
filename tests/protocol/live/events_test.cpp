// SPDX-License-Identifier: Apache-2.0
// What watchers see of events, and what is kept from others.

#include "protocol/live/events.hpp"

#include <gtest/gtest.h>

#include "protocol/live/state.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::live {
namespace {

storage::tenant_id tenant(std::uint8_t number) {
    storage::tenant_id made;
    made.salt.bytes[0] = number;
    return made;
}

storage::agent_id agent(const char* name, std::uint8_t owner = 0) {
    return storage::agent_id::parse(name).value().owned_by(tenant(owner));
}

engine::request_admitted miss(std::uint8_t owner) {
    engine::request_admitted event{7, agent("ada", owner)};
    event.usage.why = engine::miss_reason::system_changed;
    event.usage.difference = engine::text_difference{5, 0, "hello pirate", "hello nurse"};
    return event;
}

std::string text_of(std::vector<engine::activity> all, const viewpoint& from) {
    return to_text(events_of(all, from));
}

const viewpoint admin{};
const viewpoint own{tenant(1)};

TEST(live_events, show_a_tenant_only_its_own) {
    const std::vector<engine::activity> all{{{}, miss(1)}, {{}, miss(2)}};
    EXPECT_EQ(events_of(all, own).size(), 1u);
    EXPECT_EQ(events_of(all, admin).size(), 2u);
    EXPECT_EQ(events_of(all, viewpoint{tenant(3)}).size(), 0u);
}

TEST(live_events, show_the_texts_of_a_miss_to_its_owner_and_to_no_admin) {
    const std::string shown = text_of({{{}, miss(1)}}, own);
    EXPECT_NE(shown.find(R"("remembered":"hello pirate","sent":"hello nurse")"), shown.npos);
    EXPECT_NE(shown.find(R"("miss_reason":"system_changed")"), shown.npos);
    const std::string to_admin = text_of({{{}, miss(1)}}, admin);
    EXPECT_EQ(to_admin.find("pirate"), to_admin.npos);
    EXPECT_NE(to_admin.find(R"("tenant":"01000000")"), to_admin.npos);
}

TEST(live_events, name_every_kind) {
    const auto one = agent("ada");
    const std::vector<engine::activity> all{
        {{}, engine::request_arrived{1, {}, one, 2}},
        {{}, engine::request_admitted{1, one}},
        {{}, engine::first_token_made{1, one}},
        {{}, engine::request_ended{1, {}, one, "end_turn"}},
        {{}, engine::request_ended{1, {}, std::nullopt, "no", true}},
        {{}, engine::memory_saved{one}},
        {{}, engine::memory_restored{one}},
        {{}, engine::memory_left{one, storage::memory_fate::lost}},
        {{}, engine::agent_changed{one, engine::agent_changed::change::forked}},
    };
    std::vector<std::string> names;
    for (const auto& each : events_of(all, admin)) names.emplace_back(each.at("event").as_string());
    EXPECT_EQ(names, (std::vector<std::string>{"queued", "admitted", "first_token", "finished",
                                               "failed", "saved", "restored", "lost", "forked"}));
}

TEST(live_events, name_the_parent_of_a_fork) {
    using change = engine::agent_changed::change;
    const std::vector<engine::activity> all{
        {{}, engine::agent_changed{agent("bob"), change::forked, agent("ada")}},
        {{}, engine::agent_changed{agent("ada"), change::erased}},
    };
    const auto shown = events_of(all, admin);
    EXPECT_EQ(shown.at(0).at("parent"), "ada");
    EXPECT_FALSE(shown.at(1).as_object().contains("parent"));
}

TEST(live_events, show_of_the_last_step_who_decoded_and_whose_chunk_it_ran) {
    engine::step_run step;
    step.shares = {{1, agent("ada", 1), 1, true},
                   {2, agent("bob", 1), 64, false},
                   {3, agent("eve", 2), 1, true}};
    const std::vector<engine::activity> all{{{}, engine::step_run{}}, {{}, step}};
    EXPECT_EQ(to_text(step_of(all, own)),
              R"({"steps":2,"took_ms":0.0,"decoding":[{"request":1,"agent":"ada"}],)"
              R"("chunk":{"request":2,"agent":"bob","tokens":64},"others":1})");
    EXPECT_TRUE(step_of({}, own).is_null());
}

TEST(live_events, tell_whether_a_tenants_agents_may_have_changed) {
    const std::vector<engine::activity> step{{{}, engine::step_run{}}};
    EXPECT_FALSE(touches(step, admin));
    const std::vector<engine::activity> saved{{{}, engine::memory_saved{agent("a", 2)}}};
    EXPECT_TRUE(touches(saved, admin));
    EXPECT_FALSE(touches(saved, own));
}

TEST(live_state, snapshots_have_everything_and_deltas_what_has_changed) {
    shown_state before;
    before.agents = std::make_shared<shown_agents>(
        shown_agents{{"a", R"({"agent_id":"a"})"}, {"b", R"({"agent_id":"b"})"}});
    before.gauges = "1";
    EXPECT_EQ(snapshot_message(before, {}, 3),
              R"({"type":"snapshot","seq":3,"model":null,"gauges":1,)"
              R"("agents":[{"agent_id":"a"},{"agent_id":"b"}],"sessions":[],"runs":[],)"
              R"("nodes":[],"recent":[]})");
    shown_state now = before;
    EXPECT_EQ(delta_message(before, now, {}, 4), "");
    now.agents =
        std::make_shared<shown_agents>(shown_agents{{"a", R"({"agent_id":"a","tokens":1})"}});
    now.runs = "[1]";
    now.nodes = "[2]";
    EXPECT_EQ(delta_message(before, now, {}, 4),
              R"({"type":"delta","seq":4,"agents":{"changed":[{"agent_id":"a","tokens":1}],)"
              R"("gone":[{"agent_id":"b"}]},"runs":[1],"nodes":[2]})");
    happened news;
    news.missed = 2;
    EXPECT_EQ(delta_message(now, now, news, 5), R"({"type":"delta","seq":5,"missed":2})");
}

TEST(live_state, gauges_count_each_miss_reason_by_its_name) {
    engine::engine_probe work;
    work.misses[static_cast<std::size_t>(engine::miss_reason::evicted)] = 4;
    work.inter_token.observe(0.002);
    work.tokens_drafted[0] = 5;
    work.tokens_drafted[1] = 4;
    work.drafts_taken[1] = 3;
    const std::string text = gauges_text(work, {}, {100, 40, 1, 2, 3, 7});
    EXPECT_NE(text.find(R"("evicted":4)"), text.npos);
    EXPECT_NE(text.find(R"("inter_token":{"count":1,"sum_ms":2.0})"), text.npos);
    EXPECT_NE(text.find(R"("pool_bytes":100,"pool_held_bytes":40,"pool_state_bytes":7)"),
              text.npos);
    EXPECT_NE(text.find(R"("tokens_drafted":9,"drafts_taken":3)"), text.npos) << "of all sources";
    EXPECT_EQ(text.find(R"("none")"), text.npos);
}

}  // namespace
}  // namespace semantic::protocol::live
