#include "server/coordination/session_registry.hpp"

#include <gtest/gtest.h>

#include "tests/protocol/coordination/sessions.hpp"

namespace semantic::server {
namespace {

using protocol::errc;
using protocol::coordination::lifecycle;
using protocol::coordination::session;
using protocol::coordination::session_with;
using room = session_registry::room;

const storage::tenant_id nobody_else;
const storage::tenant_id another{*storage::block_hash::from_hex(std::string(32, 'a'))};

session named(const std::string& id) {
    session s = session_with({"participant", "participant"});
    s.id = id;
    return s;
}

TEST(session_registry, a_tenant_has_so_many_sessions_and_not_one_more) {
    session_registry all;
    for (std::size_t i = 0; i < sessions_max; ++i)
        ASSERT_TRUE(all.add(nobody_else, named("s" + std::to_string(i)), {}));
    EXPECT_EQ(all.add(nobody_else, named("more"), {}).error().code, errc::conflict);
    EXPECT_TRUE(all.add(another, named("more"), {}));
    all.remove(std::move(*all.begin(nobody_else, "s0")));
    EXPECT_TRUE(all.add(nobody_else, named("more"), {}));
    EXPECT_EQ(all.ids(another).size(), 1u);
}

TEST(session_registry, a_session_takes_one_turn_at_a_time_and_stays_while_it_does) {
    session_registry all;
    ASSERT_TRUE(all.add(nobody_else, named("s"), {}));
    {
        auto taken = all.begin(nobody_else, "s");
        ASSERT_TRUE(taken);
        EXPECT_EQ(all.begin(nobody_else, "s").error().code, errc::conflict);
    }
    EXPECT_EQ(all.begin(another, "s").error().code, errc::not_found) << "it is not theirs";
    all.remove(std::move(*all.begin(nobody_else, "s")));
    EXPECT_EQ(all.begin(nobody_else, "s").error().code, errc::not_found);
}

TEST(session_registry, a_permanent_agent_has_one_memory_in_all_its_sessions) {
    session_registry all;
    for (const char* id : {"s", "t"}) {
        session s = named(id);
        s.prefix = "p";
        s.agents[0].life = lifecycle::permanent;
        ASSERT_TRUE(all.add(nobody_else, s, {}));
    }
    const auto in = [&](const char* id, int agent, auto work) {
        auto done = all.with(nobody_else, id, [&](const room& r) {
            work(r.memory_of(agent));
            return r.agent_id(agent);
        });
        return *done;
    };
    using protocol::coordination::memory;
    const auto ann = in("s", 0, [](memory& m) { m.exchanges.push_back({"x", "y"}); });
    const auto bob = in("s", 1, [](memory& m) { m.exchanges.push_back({"x", "y"}); });
    EXPECT_EQ(in("t", 0, [](memory& m) { EXPECT_FALSE(m.is_new()); }), ann);
    EXPECT_NE(in("t", 1, [](memory& m) { EXPECT_TRUE(m.is_new()); }), bob);
    EXPECT_EQ(all.remove(std::move(*all.begin(nobody_else, "s"))), std::vector{bob});
    EXPECT_TRUE(all.remembers(ann));
    EXPECT_FALSE(all.remembers(bob));
    EXPECT_EQ(all.forget(nobody_else, {ann}), std::vector<std::string>{"t"});
    EXPECT_FALSE(all.remembers(ann));
}

TEST(session_registry, a_session_knows_what_works_on_its_agents_until_that_has_ended) {
    session_registry all;
    ASSERT_TRUE(all.add(nobody_else, named("s"), {}));
    const auto ended = std::make_shared<std::atomic<bool>>(false);
    const auto runs = [&] {
        return all.with(nobody_else, "s", [](const room& in) { return in.runs().size(); }).value();
    };
    const auto add = [&](const room& in) {
        in.add_run({7, ended});
        return true;
    };
    ASSERT_TRUE(all.with(nobody_else, "s", add));
    EXPECT_EQ(runs(), 1u);
    ended->store(true);
    EXPECT_EQ(runs(), 0u);
}

TEST(session_registry, the_latest_replies_are_kept_for_who_asks_again) {
    session_registry all;
    ASSERT_TRUE(all.add(nobody_else, named("s"), {}));
    for (std::size_t i = 0; i < kept_replies_max + 1; ++i)
        all.keep_reply(nobody_else, "s", "k" + std::to_string(i), "turn", std::to_string(i));
    EXPECT_EQ(**all.reply_to(nobody_else, "s", "k1", "turn"), "1");
    EXPECT_EQ(*all.reply_to(nobody_else, "s", "k0", "turn"), std::nullopt) << "one too many";
    EXPECT_EQ(all.reply_to(nobody_else, "s", "k1", "vote").error().code, errc::conflict);
    EXPECT_EQ(all.reply_to(another, "s", "k1", "turn").error().code, errc::not_found);
}

TEST(session_registry, a_session_comes_back_from_its_record_with_what_its_agents_remember) {
    using protocol::coordination::memory;
    session_registry all;
    session made = named("s");
    made.prefix = "p";
    made.agents[0].life = lifecycle::permanent;
    ASSERT_TRUE(all.add(another, made, {}));
    const auto remember = [&](const room& in) {
        in.memory_of(0).exchanges = {{"x", "y"}, {"z", "w"}};
        in.memory_of(1).exchanges = {{"u", "v"}};
        in.now().max_turns = 7;
        return true;
    };
    ASSERT_TRUE(all.with(another, "s", remember));
    all.keep_reply(another, "s", "k", "turn", "reply");
    const auto record = all.record_of(another, "s");
    ASSERT_TRUE(record);
    EXPECT_EQ(all.record_of(nobody_else, "s"), std::nullopt);

    session_registry later;
    EXPECT_FALSE(later.load(another, record->substr(1)));
    EXPECT_EQ(later.count(another), 0u);
    ASSERT_TRUE(later.load(another, *record));
    EXPECT_EQ(later.load(another, *record).error().code, errc::conflict);
    EXPECT_EQ(later.record_of(another, "s"), record);
    EXPECT_EQ(later.reply_to(another, "s", "k", "turn").value(), "reply");
    EXPECT_EQ(later.count(nobody_else), 0u);
    // An older session of the permanent agent does not take away what it remembers since.
    made.id = "t";
    session_registry before;
    ASSERT_TRUE(before.add(another, made, {}));
    const auto begin = [](const room& in) {
        in.memory_of(0).exchanges = {{"x", "y"}};
        return true;
    };
    ASSERT_TRUE(before.with(another, "t", begin));
    ASSERT_TRUE(later.load(another, *before.record_of(another, "t")));
    const auto exchanges = [](const room& in) { return in.memory_of(0).exchanges.size(); };
    EXPECT_EQ(later.with(another, "t", exchanges).value(), 2u);
}

}  // namespace
}  // namespace semantic::server
