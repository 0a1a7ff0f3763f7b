#include "server/coordination/session_registry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

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

/// Of a session that is too short for parts.
std::string head_of(session_registry& of, const storage::tenant_id& tenant, const std::string& id) {
    auto made = of.record_of(tenant, id, {});
    return made ? made->head : "";
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
    ASSERT_TRUE(all.record_of(another, "s", {}));
    const std::string record = head_of(all, another, "s");
    EXPECT_FALSE(all.record_of(nobody_else, "s", {}));

    session_registry later;
    EXPECT_FALSE(later.load(another, record.substr(1)));
    EXPECT_EQ(later.count(another), 0u);
    ASSERT_TRUE(later.load(another, record));
    EXPECT_EQ(later.load(another, record).error().code, errc::conflict);
    EXPECT_EQ(head_of(later, another, "s"), record);
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
    ASSERT_TRUE(later.load(another, head_of(before, another, "t")));
    const auto exchanges = [](const room& in) { return in.memory_of(0).exchanges.size(); };
    EXPECT_EQ(later.with(another, "t", exchanges).value(), 2u);
}

TEST(session_registry, of_a_long_session_a_turn_writes_no_more_than_of_a_short_one) {
    using namespace protocol::coordination;
    session_registry all;
    ASSERT_TRUE(all.add(nobody_else, named("s"), {}));
    std::map<std::string, std::string> parts;
    std::set<std::string> stored;
    std::string head;
    std::size_t most = 0;
    const auto speak = [&](const room& in) {
        auto plan = next_turn(in.now(), {});
        memory& of = in.memory_of(plan->agent);
        const prompt asked = prompt_of(in.now(), of, *plan);
        remember(of, in.now().agents[static_cast<std::size_t>(plan->agent)], asked.reading, "Ahoy");
        apply(in.now(), said{plan->agent, plan->to, plan->reads, "m", "Ahoy"});
        return true;
    };
    for (int turn = 0; turn < 1'000; ++turn) {
        ASSERT_TRUE(all.with(nobody_else, "s", speak));
        auto made = all.record_of(nobody_else, "s", stored);
        ASSERT_TRUE(made);
        ASSERT_LE(made->fresh.size(), 3u) << turn;
        for (auto& [name, bytes] : made->fresh) {
            ASSERT_TRUE(parts.emplace(name, bytes).second) << "it was written before";
            stored.insert(name);
        }
        head = made->head;
        if (turn <= 200) most = std::max(most, head.size());
        // Names of parts alone may add to it.
        ASSERT_LT(head.size(), most + 2'000) << turn;
    }
    EXPECT_EQ(stored.size(), 1'000 / part_items + 2 * (500 / part_items));
    const auto part = [&](const std::string& name) -> std::optional<std::string> {
        const auto found = parts.find(name);
        return found == parts.end() ? std::nullopt : std::optional(found->second);
    };
    session_registry later;
    ASSERT_TRUE(later.load(nobody_else, head, part));
    EXPECT_EQ(head_of(later, nobody_else, "s"), head);
    const auto lines = [](const room& in) {
        return std::pair(in.now().lines.size(), in.memory_of(1).exchanges.size());
    };
    EXPECT_EQ(later.with(nobody_else, "s", lines).value(), std::pair(1'000ul, 500ul));
    EXPECT_TRUE(later.record_of(nobody_else, "s", stored)->fresh.empty()) << "all is there";
    // One that is missing, or has less than it should, is no part.
    for (const std::string& name : stored) {
        session_registry none;
        const auto but = [&](const std::string& each) {
            return each == name ? std::nullopt : part(each);
        };
        EXPECT_FALSE(none.load(nobody_else, head, but));
        const auto cut = [&](const std::string& each) {
            auto bytes = part(each);
            if (each == name) bytes->pop_back();
            return bytes;
        };
        EXPECT_FALSE(none.load(nobody_else, head, cut));
    }
    EXPECT_FALSE(later.load(another, head)) << "without any";
    // What is forgotten needs its parts no more.
    const auto agent = [](const room& in) { return in.agent_id(0); };
    later.forget(nobody_else, {later.with(nobody_else, "s", agent).value()});
    EXPECT_EQ(later.record_of(nobody_else, "s", stored)->parts.size(),
              stored.size() - 500 / part_items);
}

/// Two tenants whose sessions, agents and prefixes have the same names. What is said has the mark
/// of its tenant.
class two_tenants {
  public:
    explicit two_tenants(unsigned seed) : random_(seed) {}

    int run(int sessions) {
        for (int i = 0; i < sessions; ++i) {
            open("s" + std::to_string(i));
            const int steps = below(12);
            for (int step = 0; step < steps; ++step) take_step(below(i + 1));
        }
        restart();
        return checked_;
    }

  private:
    static const storage::tenant_id& tenant(bool first) { return first ? nobody_else : another; }
    static const char* mark(bool first) { return first ? "#1#" : "#2#"; }
    int below(int bound) { return std::uniform_int_distribution(0, bound - 1)(random_); }

    void open(const std::string& id) {
        session made = named(id);
        if (below(2) == 0) made.prefix = "p";
        for (auto& each : made.agents) each.life = static_cast<lifecycle>(below(2));
        for (bool first : {true, false}) ASSERT_TRUE(all_.add(tenant(first), made, {}));
    }

    void take_step(int which) {
        const bool first = below(2) == 0;
        const std::string id = "s" + std::to_string(which);
        const auto turn = [&](const room& in) {
            using namespace protocol::coordination;
            auto plan = next_turn(in.now(), {});
            if (!plan) return false;
            memory& of = in.memory_of(plan->agent);
            const prompt asked = prompt_of(in.now(), of, *plan);
            check(asked.chat.system, first);
            for (const auto& one : asked.chat.messages)
                check(std::get<engine::text_part>(one.parts.at(0)).text, first);
            said event{plan->agent, plan->to, plan->reads, "m", mark(first)};
            event.is_remembered =
                remember(of, in.now().agents[static_cast<std::size_t>(plan->agent)], asked.reading,
                         mark(first));
            apply(in.now(), event);
            return true;
        };
        ASSERT_TRUE(all_.with(tenant(first), id, turn));
        check(head_of(all_, tenant(first), id), first);
    }

    void check(const std::string& text, bool first) {
        ++checked_;
        ASSERT_EQ(text.find(mark(!first)), std::string::npos) << text;
    }

    /// What comes back from records is each one's own, too.
    void restart() {
        session_registry later;
        for (bool first : {true, false})
            for (const std::string& id : all_.ids(tenant(first)))
                ASSERT_TRUE(later.load(tenant(first), head_of(all_, tenant(first), id)));
        for (bool first : {true, false})
            for (const std::string& id : later.ids(tenant(first)))
                check(head_of(later, tenant(first), id), first);
    }

    std::mt19937 random_;
    session_registry all_;
    int checked_ = 0;
};

TEST(session_registry, random_sessions_of_two_tenants_never_mix) {
    constexpr int sessions_of_each = 5;
    int checked = 0;
    for (unsigned seed = 0; seed < 1'000; ++seed) {
        checked += two_tenants(seed).run(sessions_of_each);
        if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
    }
    EXPECT_GT(checked, 100'000) << "or nothing was looked at";
}

}  // namespace
}  // namespace semantic::server
