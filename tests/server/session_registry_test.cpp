// SPDX-License-Identifier: Apache-2.0
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
using locked_session = session_registry::locked_session;

const storage::tenant_id nobody_else;
const storage::tenant_id another{*storage::block_hash::from_hex(std::string(32, 'a'))};

session named(const std::string& id) {
    session s = session_with({"participant", "participant"});
    s.id = id;
    return s;
}

/// All that there is to write of a session.
struct written_session {
    std::string head;
    std::set<std::string> parts{};
    std::vector<std::pair<std::string, std::string>> fresh{};
};

std::optional<written_session> record_of(session_registry& all, const storage::tenant_id& tenant,
                                         const std::string& id, std::set<std::string> stored) {
    using namespace protocol::coordination;
    written_session made;
    while (true) {
        auto next = all.next_to_write(tenant, id, stored);
        if (!next) return std::nullopt;
        if (next->head) {
            for (const auto& each : next->head->head.line_parts) made.parts.insert(each.name);
            for (const auto& [agent, memory] : next->head->head.memories)
                for (const auto& each : memory.parts) made.parts.insert(each.name);
            made.head = to_record(next->head->head);
            return made;
        }
        const auto& part = *next->part;
        stored.insert(part.name);
        made.fresh.emplace_back(part.name, part.lines.empty() ? exchanges_part(part.exchanges)
                                                              : lines_part(part.lines));
    }
}

/// Of a session that is too short for parts.
std::string head_of(session_registry& all, const storage::tenant_id& tenant,
                    const std::string& id) {
    auto made = record_of(all, tenant, id, {});
    return made ? made->head : "";
}

/// Returns: the agents that went with it.
std::vector<storage::agent_id> remove(session_registry& from, const storage::tenant_id& tenant,
                                      const std::string& id) {
    auto taken = from.begin(tenant, id);
    const auto agents = from.leave(*taken);
    from.remove(std::move(*taken));
    return agents;
}

using keyed = session_registry::keyed_request;

void keep_reply(session_registry& all, const std::string& id, const std::string& key,
                const std::string& reply, const storage::tenant_id& tenant = nobody_else) {
    ASSERT_TRUE(all.run_locked(tenant, id, [&](const locked_session& r) {
        r.keep_reply({key, "turn", reply});
        return true;
    }));
}

/// Returns: the reply, or "none".
std::string reply_to(session_registry& all, const std::string& id, const keyed& wanted,
                     const storage::tenant_id& tenant = nobody_else) {
    auto found =
        all.run_locked(tenant, id, [&](const locked_session& r) { return r.find_reply(wanted); });
    if (!found) return "refused";
    return *found == nullptr ? "none" : (*found)->reply;
}

TEST(session_registry, a_tenant_has_so_many_sessions_and_not_one_more) {
    session_registry all;
    for (std::size_t i = 0; i < sessions_max; ++i)
        ASSERT_TRUE(all.add(nobody_else, named("s" + std::to_string(i)), {}));
    EXPECT_EQ(all.add(nobody_else, named("more"), {}).error().code, errc::conflict);
    EXPECT_TRUE(all.add(another, named("more"), {}));
    remove(all, nobody_else, "s0");
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
    remove(all, nobody_else, "s");
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
    const auto work_on = [&](const char* id, int agent, auto work) {
        auto done = all.run_locked(nobody_else, id, [&](const locked_session& r) {
            work(r.memory_of(agent));
            return r.agent_id(agent);
        });
        return *done;
    };
    using protocol::coordination::memory;
    const auto ann = work_on("s", 0, [](memory& m) { m.exchanges.push_back({"x", "y"}); });
    const auto bob = work_on("s", 1, [](memory& m) { m.exchanges.push_back({"x", "y"}); });
    EXPECT_EQ(work_on("t", 0, [](memory& m) { EXPECT_FALSE(m.is_new()); }), ann);
    EXPECT_NE(work_on("t", 1, [](memory& m) { EXPECT_TRUE(m.is_new()); }), bob);
    EXPECT_EQ(remove(all, nobody_else, "s"), std::vector{bob});
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
        return all
            .run_locked(nobody_else, "s",
                        [](const locked_session& locked) { return locked.runs().size(); })
            .value();
    };
    const auto add = [&](const locked_session& locked) {
        locked.add_run({7, ended});
        return true;
    };
    ASSERT_TRUE(all.run_locked(nobody_else, "s", add));
    EXPECT_EQ(runs(), 1u);
    ended->store(true);
    EXPECT_EQ(runs(), 0u);
}

TEST(session_registry, the_latest_replies_are_kept_for_who_asks_again) {
    session_registry all;
    ASSERT_TRUE(all.add(nobody_else, named("s"), {}));
    for (std::size_t i = 0; i < kept_replies_max + 1; ++i)
        keep_reply(all, "s", "k" + std::to_string(i), std::to_string(i));
    EXPECT_EQ(reply_to(all, "s", {"k1", "turn"}), "1");
    EXPECT_EQ(reply_to(all, "s", {"k0", "turn"}), "none") << "one too many";
    EXPECT_EQ(reply_to(all, "s", {"k1", "vote"}), "refused");
    EXPECT_EQ(reply_to(all, "s", {"k1", "turn"}, another), "refused");
}

TEST(session_registry, replies_are_kept_in_so_many_bytes_and_the_latest_in_any_case) {
    session_registry all;
    ASSERT_TRUE(all.add(nobody_else, named("s"), {}));
    const std::size_t own = bytes_of(session_registry::kept_reply{"k0", "turn", ""});
    const std::string half(session_replies_bytes_max / 2 - own, 'x');
    keep_reply(all, "s", "k0", half);
    keep_reply(all, "s", "k1", half);
    EXPECT_EQ(reply_to(all, "s", {"k0", "turn"}), half) << "both have a place";
    keep_reply(all, "s", "k2", half + "x");
    EXPECT_EQ(reply_to(all, "s", {"k0", "turn"}), "none");
    EXPECT_EQ(reply_to(all, "s", {"k1", "turn"}), "none") << "by one byte";
    EXPECT_EQ(reply_to(all, "s", {"k2", "turn"}), half + "x");
    const std::string large(2 * session_replies_bytes_max, 'x');
    keep_reply(all, "s", "k3", large);
    EXPECT_EQ(reply_to(all, "s", {"k3", "turn"}), large);
    EXPECT_EQ(reply_to(all, "s", {"k2", "turn"}), "none");
}

TEST(session_registry, replies_of_all_of_a_tenants_sessions_are_bounded_together) {
    session_registry all;
    const std::string one(session_replies_bytes_max, 'x');
    const std::size_t count = tenant_replies_bytes_max / session_replies_bytes_max;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string id = "s" + std::to_string(i);
        ASSERT_TRUE(all.add(nobody_else, named(id), {}));
        keep_reply(all, id, "k", one);
    }
    EXPECT_EQ(reply_to(all, "s0", {"k", "turn"}), "none") << "the oldest has given way";
    EXPECT_EQ(reply_to(all, "s1", {"k", "turn"}), one);
    EXPECT_LT(all.bytes(nobody_else), tenant_replies_bytes_max + 100'000);
}

/// A session with one line that takes this many bytes.
session saying(const std::string& id, std::size_t bytes) {
    session s = named(id);
    apply(s, protocol::coordination::told{"m", std::string(bytes, 'x')});
    return s;
}

TEST(session_registry, a_tenants_sessions_take_so_many_bytes_and_not_one_more) {
    const std::size_t own = bytes_of(saying("s", 0));
    session_registry all({.tenant_bytes = 2 * own + 1'000, .all_bytes = 4 * own + 1'500});
    ASSERT_TRUE(all.add(nobody_else, saying("s", 500), {}));
    const auto refused = all.add(nobody_else, saying("t", 501), {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, errc::conflict) << refused.error().message;
    EXPECT_EQ(all.count(nobody_else), 1u);
    EXPECT_TRUE(all.add(nobody_else, saying("t", 500), {}));
    EXPECT_EQ(all.bytes(nobody_else), 2 * own + 1'000);
    // What is said in them counts as it comes.
    const auto check = [&](std::size_t bytes) {
        return all.run_locked(nobody_else, "s", [&](const locked_session& locked) {
            return locked.check_space(bytes);
        });
    };
    EXPECT_TRUE(check(0));
    EXPECT_EQ(check(1).error().code, errc::conflict);
    // So do those of all tenants together, and nobody is to blame for that.
    EXPECT_TRUE(all.add(another, saying("s", 500), {}));
    EXPECT_EQ(all.add(another, saying("t", 1), {}).error().code, errc::overloaded);
    EXPECT_TRUE(all.add(another, saying("t", 0), {}));
    for (const char* id : {"s", "t"}) remove(all, nobody_else, id);
    EXPECT_EQ(all.bytes(nobody_else), 0u);
}

TEST(session_registry, what_agents_remember_counts_and_gives_way_when_they_are_in_no_session) {
    session_registry all({.tenant_bytes = 100'000});
    session s = named("s");
    s.prefix = "p";
    for (auto& each : s.agents) each.life = lifecycle::permanent;
    ASSERT_TRUE(all.add(nobody_else, s, {}));
    const std::size_t before = all.bytes(nobody_else);
    const auto remember = [](const locked_session& locked) {
        locked.memory_of(0).exchanges.push_back(
            {std::string(40'000, 'x'), std::string(40'000, 'y')});
        return locked.agent_id(0);
    };
    const auto agent = all.run_locked(nobody_else, "s", remember);
    EXPECT_GE(all.bytes(nobody_else), before + 80'000);
    EXPECT_EQ(all.add(nobody_else, saying("t", 30'000), {}).error().code, errc::conflict);
    remove(all, nobody_else, "s");
    EXPECT_TRUE(all.remembers(*agent)) << "it outlives its session";
    EXPECT_TRUE(all.add(nobody_else, saying("t", 30'000), {}));
    EXPECT_FALSE(all.remembers(*agent)) << "and is found in the engine when it comes back";
}

TEST(session_registry, what_is_loaded_is_bounded_as_what_is_opened) {
    session_registry large;
    ASSERT_TRUE(large.add(nobody_else, saying("s", 100'000), {}));
    const std::string head = head_of(large, nobody_else, "s");
    ASSERT_TRUE(large.add(nobody_else, saying("t", 500'000), {}));
    session_registry small({.tenant_bytes = 200'000});
    EXPECT_TRUE(small.load(nobody_else, head));
    std::set<std::string> stored;
    std::map<std::string, std::string> parts;
    const auto all = record_of(large, nobody_else, "t", {});
    for (const auto& [name, bytes] : all->fresh) parts[name] = bytes;
    const auto part = [&](const std::string& name) { return std::optional(parts.at(name)); };
    EXPECT_EQ(small.load(nobody_else, all->head, part).error().code, errc::conflict);
    EXPECT_TRUE(session_registry().load(nobody_else, all->head, part));
    EXPECT_EQ(small.count(nobody_else), 1u);
}

TEST(session_registry, a_long_opening_is_a_few_parts_and_its_head_is_short) {
    using namespace protocol::coordination;
    session_registry all;
    session s = named("s");
    for (int i = 0; i < 20'000; ++i) apply(s, told{"m" + std::to_string(i), "x"});
    const std::size_t bytes = bytes_of(s);
    ASSERT_TRUE(all.add(nobody_else, s, {}));
    const auto made = record_of(all, nobody_else, "s", {});
    ASSERT_TRUE(made);
    EXPECT_LE(made->fresh.size(), bytes / session_registry::part_bytes_max + 1);
    EXPECT_LT(made->head.size(), 20'000u);
    std::map<std::string, std::string> parts(made->fresh.begin(), made->fresh.end());
    session_registry later;
    const auto part = [&](const std::string& name) { return std::optional(parts.at(name)); };
    ASSERT_TRUE(later.load(nobody_else, made->head, part));
    EXPECT_EQ(head_of(later, nobody_else, "s").size(), made->head.size());
    EXPECT_EQ(*later.look(nobody_else, "s", [](const session& now) { return now.lines.size(); }),
              20'000u);
}

TEST(session_registry, of_long_lines_a_head_has_few) {
    using namespace protocol::coordination;
    session_registry all;
    ASSERT_TRUE(all.add(nobody_else, named("s"), {}));
    std::set<std::string> stored;
    for (int i = 0; i < 200; ++i) {
        const auto say = [&](const locked_session& locked) {
            apply(locked.now(), told{"m" + std::to_string(i), std::string(50'000, 'x')});
            return true;
        };
        ASSERT_TRUE(all.run_locked(nobody_else, "s", say));
        const auto made = record_of(all, nobody_else, "s", stored);
        ASSERT_LT(made->head.size(), 400'000u) << i;
        for (const auto& [name, bytes] : made->fresh) {
            ASSERT_LT(bytes.size(), 2 * session_registry::part_bytes_max);
            stored.insert(name);
        }
    }
}

TEST(session_registry, an_equal_request_finds_the_reply_or_the_turn_but_never_neither) {
    session_registry all;
    ASSERT_TRUE(all.add(nobody_else, named("s"), {}));
    const keyed wanted{"k", "turn"};
    {
        auto first = all.begin_once(nobody_else, "s", wanted);
        ASSERT_TRUE(first);
        ASSERT_TRUE(first->turn);
        EXPECT_EQ(all.begin_once(nobody_else, "s", wanted).error().code, errc::conflict)
            << "while it is taken";
        keep_reply(all, "s", "k", "done");
        auto repeated = all.begin_once(nobody_else, "s", wanted);
        ASSERT_TRUE(repeated) << "though the first has not ended yet";
        EXPECT_EQ(repeated->reply->reply, "done");
    }
    auto repeated = all.begin_once(nobody_else, "s", wanted);
    EXPECT_FALSE(repeated->turn);
    EXPECT_EQ(all.begin_once(nobody_else, "s", keyed{"k", "vote"}).error().code, errc::conflict);
}

TEST(session_registry, a_session_that_leaves_takes_no_change_and_is_not_written) {
    session_registry all;
    ASSERT_TRUE(all.add(nobody_else, named("s"), {}));
    const auto change = [](const locked_session&) { return true; };
    {
        auto taken = all.begin(nobody_else, "s");
        all.leave(*taken);
        EXPECT_EQ(all.run_locked(nobody_else, "s", change).error().code, errc::conflict);
        EXPECT_EQ(all.next_to_write(nobody_else, "s", {}).error().code, errc::conflict);
        EXPECT_TRUE(all.status(nobody_else, "s")) << "it is still there";
    }
    EXPECT_TRUE(all.run_locked(nobody_else, "s", change)) << "it stays, if it could not be erased";
    EXPECT_TRUE(all.next_to_write(nobody_else, "s", {}));
}

TEST(session_registry, a_session_comes_back_from_its_record_with_what_its_agents_remember) {
    using protocol::coordination::memory;
    session_registry all;
    session made = named("s");
    made.prefix = "p";
    made.agents[0].life = lifecycle::permanent;
    ASSERT_TRUE(all.add(another, made, {}));
    const auto remember = [&](const locked_session& locked) {
        locked.memory_of(0).exchanges = {{"x", "y"}, {"z", "w"}};
        locked.memory_of(1).exchanges = {{"u", "v"}};
        locked.now().max_turns = 7;
        return true;
    };
    ASSERT_TRUE(all.run_locked(another, "s", remember));
    keep_reply(all, "s", "k", "reply", another);
    ASSERT_TRUE(record_of(all, another, "s", {}));
    const std::string record = head_of(all, another, "s");
    EXPECT_FALSE(record_of(all, nobody_else, "s", {}));

    session_registry later;
    EXPECT_FALSE(later.load(another, record.substr(1)));
    EXPECT_EQ(later.count(another), 0u);
    ASSERT_TRUE(later.load(another, record));
    EXPECT_EQ(later.load(another, record).error().code, errc::conflict);
    EXPECT_EQ(head_of(later, another, "s"), record);
    EXPECT_EQ(reply_to(later, "s", {"k", "turn"}, another), "reply");
    EXPECT_EQ(later.count(nobody_else), 0u);
    // An older session of the permanent agent does not take away what it remembers since.
    made.id = "t";
    session_registry before;
    ASSERT_TRUE(before.add(another, made, {}));
    const auto begin = [](const locked_session& locked) {
        locked.memory_of(0).exchanges = {{"x", "y"}};
        return true;
    };
    ASSERT_TRUE(before.run_locked(another, "t", begin));
    ASSERT_TRUE(later.load(another, head_of(before, another, "t")));
    const auto exchanges = [](const locked_session& locked) {
        return locked.memory_of(0).exchanges.size();
    };
    EXPECT_EQ(later.run_locked(another, "t", exchanges).value(), 2u);
}

TEST(session_registry, of_a_long_session_a_turn_writes_no_more_than_of_a_short_one) {
    using namespace protocol::coordination;
    session_registry all;
    ASSERT_TRUE(all.add(nobody_else, named("s"), {}));
    std::map<std::string, std::string> parts;
    std::set<std::string> stored;
    std::string head;
    std::size_t most = 0;
    const auto speak = [&](const locked_session& locked) {
        auto plan = next_turn(locked.now(), {});
        memory& known = locked.memory_of(plan->agent);
        const prompt asked = prompt_of(locked.now(), known, *plan);
        remember(known, locked.now().agents[static_cast<std::size_t>(plan->agent)], asked.reading,
                 "Ahoy");
        apply(locked.now(), said{plan->agent, plan->to, plan->reads, "m", "Ahoy"});
        return true;
    };
    for (int turn = 0; turn < 1'000; ++turn) {
        ASSERT_TRUE(all.run_locked(nobody_else, "s", speak));
        auto made = record_of(all, nobody_else, "s", stored);
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
    const auto lines = [](const locked_session& locked) {
        return std::pair(locked.now().lines.size(), locked.memory_of(1).exchanges.size());
    };
    EXPECT_EQ(later.run_locked(nobody_else, "s", lines).value(), std::pair(1'000ul, 500ul));
    EXPECT_TRUE(record_of(later, nobody_else, "s", stored)->fresh.empty()) << "all is there";
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
    const auto agent = [](const locked_session& locked) { return locked.agent_id(0); };
    later.forget(nobody_else, {later.run_locked(nobody_else, "s", agent).value()});
    EXPECT_EQ(record_of(later, nobody_else, "s", stored)->parts.size(),
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

    void take_step(int number) {
        const bool first = below(2) == 0;
        const std::string id = "s" + std::to_string(number);
        const auto turn = [&](const locked_session& locked) {
            using namespace protocol::coordination;
            auto plan = next_turn(locked.now(), {});
            if (!plan) return false;
            memory& known = locked.memory_of(plan->agent);
            const prompt asked = prompt_of(locked.now(), known, *plan);
            check(asked.chat.system, first);
            for (const auto& one : asked.chat.messages)
                check(std::get<engine::text_part>(one.parts.at(0)).text, first);
            said event{plan->agent, plan->to, plan->reads, "m", mark(first)};
            event.is_remembered =
                remember(known, locked.now().agents[static_cast<std::size_t>(plan->agent)],
                         asked.reading, mark(first));
            apply(locked.now(), event);
            return true;
        };
        ASSERT_TRUE(all_.run_locked(tenant(first), id, turn));
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
