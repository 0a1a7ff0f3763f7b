// SPDX-License-Identifier: Apache-2.0
#include "protocol/scenarios/scenario.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "protocol/coordination/memory.hpp"
#include "protocol/scenarios/phase_opening.hpp"

namespace semantic::protocol::scenarios {
namespace {

const std::string small = R"yaml(id: harbour
title: Harbour
agents:
  pilot: {display_name: Pilot, lifecycle: permanent, system_prompt: "You guide ships."}
  owner: {display_name: Owner}
phases:
  - name: talks
    label: Talks
    agents: [pilot, owner]
    initial_prompt: Agree a fee.
    auto_rounds: 2
  - name: ruling
    label: Ruling
    agents: [owner, pilot]
    topology: broadcast
    max_turns: 3
    per_agent_prompt_templates:
      pilot: "Before: ${talks.messages[pilot]}"
      owner: "Before: ${talks.messages[owner]}."
outcome: {type: parse_choice, pattern: "(?i)fee (\\w+)", choices: [low, high]}
payoff: {labels: [low, high], matrix: [["a", "b"], ["c", "d"]]}
unknown: ignored
)yaml";

std::string replaced(const std::string& from, const std::string& to) {
    std::string text = small;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

scenario parsed(const std::string& text) {
    auto made = parse_scenario(text);
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : scenario{};
}

/// The phase's session, in which each speaks in turn.
coordination::session talk(const scenario& scenario, const phase& phase, const phases_done& done,
                           const std::vector<std::string>& lines, const std::string& prefix = "p") {
    int number = 0;
    auto id = [&] { return "m" + std::to_string(++number); };
    auto remembers = [](const coordination::agent&) { return false; };
    auto s =
        coordination::open_session(opening_of(scenario, phase, "s", prefix, done), remembers, id);
    for (const std::string& each : lines) {
        const auto plan = coordination::next_turn(s, {});
        EXPECT_TRUE(plan);
        apply(s, coordination::said{plan->agent, plan->to, plan->reads, id(), each});
    }
    return s;
}

TEST(scenario, every_field_arrives) {
    const scenario made = parsed(small);
    EXPECT_EQ(made.id, "harbour");
    ASSERT_EQ(made.agents.size(), 2u);
    EXPECT_EQ(made.agents[0].life, coordination::lifecycle::permanent);
    EXPECT_EQ(made.agents[0].system_prompt, "You guide ships.");
    ASSERT_EQ(made.phases.size(), 2u);
    EXPECT_EQ(made.phases[0].form, coordination::topology::round_robin);
    EXPECT_EQ(made.phases[0].rounds, 2);
    EXPECT_EQ(made.phases[1].rounds, 3) << "unless it is said";
    EXPECT_EQ(made.phases[1].form, coordination::topology::broadcast);
    EXPECT_EQ(made.phases[1].max_turns, 3);
    EXPECT_EQ(made.phases[1].own_templates.size(), 2u);
    EXPECT_EQ(made.end->choices.size(), 2u);
    EXPECT_EQ(made.worth->matrix[1][0], "c");
}

TEST(scenario, what_is_wrong_is_said_with_its_line) {
    struct row {
        const char *from, *to, *message;
    };
    for (const row& r : {
             row{"id: harbour", "id: Harbour", "line 1: id must be"},
             row{"title: Harbour\n", "", "line 1: title is missing"},
             row{"display_name: Owner", "role: judge", "line 5: agents.owner: display_name is"},
             row{"display_name: Owner", "display_name: Pilot", "line 5: agents.owner: there is an"},
             row{"{display_name: Owner}", "{display_name: O, role: clown}",
                 "line 5: agents.owner.role: must be one of participant, "},
             row{"agents: [pilot, owner]", "agents: [pilot, bob]",
                 "line 9: phases[0].agents[1]: there is no agent bob"},
             row{"agents: [pilot, owner]", "agents: [pilot, pilot]",
                 "line 9: phases[0].agents[1]: agent pilot is there twice"},
             row{"auto_rounds: 2", "auto_rounds: 51", "line 11: phases[0].auto_rounds: must be"},
             row{"auto_rounds: 2", "auto_rounds: two", "line 11: phases[0].auto_rounds: must be"},
             row{"topology: broadcast", "topology: ring", "line 15: phases[1].topology: must be"},
             row{"name: ruling", "name: talks", "line 12: phases[1]: there is another phase talks"},
             row{"${talks.messages[pilot]}", "${later.messages[pilot]}",
                 "line 18: phases[1].per_agent_prompt_templates.pilot: there is no earlier phase"},
             row{"${talks.messages[pilot]}", "${talks.messages[bob]}",
                 "line 18: phases[1].per_agent_prompt_templates.pilot: there is no agent bob"},
             row{"pattern: \"(?i)fee (\\\\w+)\"", "pattern: \"fee (\"",
                 "line 20: outcome: pattern is no expression"},
             row{"pattern: \"(?i)fee (\\\\w+)\"", "pattern: \"fee\"",
                 "line 20: outcome: pattern n"},
             row{"[\"c\", \"d\"]", "[\"c\"]", "line 21: payoff.matrix[1]: must have a cell for"},
             row{"title: Harbour", "title: [", "line "},
         }) {
        const auto made = parse_scenario(replaced(r.from, r.to));
        ASSERT_FALSE(made) << r.to;
        EXPECT_TRUE(made.error().message.starts_with(r.message)) << made.error().message;
    }
}

TEST(scenario, hostile_text_is_refused_and_nothing_else_happens) {
    for (const std::string& text :
         {std::string(), std::string("[]"), std::string("just text"), std::string("a: &a [*a]"),
          std::string(100'000, '['), std::string(scenario_bytes_max + 1, ' '),
          std::string("\0\xff\xfe", 3), std::string("phases: {a: b}"), std::string("id: {}")})
        EXPECT_FALSE(parse_scenario(text)) << text.substr(0, 20);
    for (std::size_t cut = 0; cut < small.size(); ++cut) parse_scenario(small.substr(0, cut));
}

TEST(scenario, references_are_found_where_they_are_whole) {
    EXPECT_EQ(references_in("a ${x.messages[y-1]} ${z.messages[w]}").size(), 2u);
    for (const char* none : {"${x.messages[y]", "${.messages[y]}", "${x.messages[]}", "$x", "${",
                             "${x.lines[y]}", "{x.messages[y]}"})
        EXPECT_TRUE(references_in(none).empty()) << none;
}

TEST(phase_opening, quotes_a_phase_to_who_was_not_there_and_nothing_to_who_remembers_it) {
    const scenario made = parsed(small);
    phases_done done;
    done.emplace("talks", talk(made, made.phases[0], {}, {"Nine.", "Five."}));
    const auto opened = opening_of(made, made.phases[1], "s2", "p", done);
    ASSERT_EQ(opened.own_prompts.size(), 2u);
    EXPECT_EQ(opened.own_prompts[0].second, "Before: ") << "it has the talks in its memory";
    EXPECT_EQ(opened.own_prompts[1].second, "Before: Pilot: Nine.\nYou: Five..");
    EXPECT_EQ(opened.made.agents[1].id, "scn_harbour_pilot");
    EXPECT_EQ(coordination::memory_name(opened.made, opened.made.agents[1]),
              "persist_p_scn_harbour_pilot");
    // Without memories all is quoted.
    const auto cold = opening_of(made, made.phases[1], "s2", "", done);
    EXPECT_EQ(cold.own_prompts[0].second, "Before: You: Nine.\nOwner: Five.");
    const auto early = opening_of(made, made.phases[1], "s2", "", {});
    EXPECT_EQ(early.own_prompts[0].second, "Before: (no messages yet)");
}

TEST(result, is_read_from_what_was_said_last) {
    const scenario made = parsed(small);
    const auto said = [&](const char* owner, const char* pilot) {
        return result_of(made, {{"ruling", talk(made, made.phases[1], {}, {owner, pilot})}});
    };
    const auto both = said("I say fee LOW, no: fee High", "A fee low.");
    ASSERT_EQ(both.choices.size(), 2u);
    EXPECT_EQ(both.choices[0], std::pair(std::string("Owner"), std::string("high")));
    EXPECT_EQ(both.worth, "c");
    EXPECT_EQ(both.text, "A fee low.");
    EXPECT_EQ(said("fee none", "fee low").worth, std::nullopt);
    EXPECT_EQ(said("Hm.", "Hm.").choices.size(), 0u);
    EXPECT_EQ(said(std::string(1'000'000, 'x').c_str(), "fee low").choices.size(), 1u);
}

TEST(result, has_what_a_participant_chose_before_and_nothing_of_who_only_comments) {
    const auto said = [](const scenario& made, const char* owner, const char* pilot) {
        phases_done done;
        done.emplace("talks", talk(made, made.phases[0], {}, {"Fee low.", "Fee high."}));
        done.emplace("ruling", talk(made, made.phases[1], {}, {owner, pilot}));
        return result_of(made, done);
    };
    const scenario two = parsed(small);
    EXPECT_EQ(said(two, "Hm.", "Hm.").worth, "c") << "the owner's high, the pilot's low";
    EXPECT_EQ(said(two, "A fee low.", "Hm.").worth, "a");
    const scenario one =
        parsed(replaced("{display_name: Owner}", "{display_name: Owner, role: judge}"));
    const auto alone = said(one, "A fee low.", "Hm.");
    ASSERT_EQ(alone.choices.size(), 1u);
    EXPECT_EQ(alone.choices[0].first, "Pilot");
    EXPECT_EQ(alone.worth, std::nullopt);
}

/// Two phases: in the first a0 and a1 talk; the second quotes that so often to each of `agents`.
std::string quoting(std::size_t times, int agents) {
    std::string names, all;
    for (int i = 0; i < agents; ++i) {
        const std::string key = "a" + std::to_string(i);
        names += "  " + key + ": {display_name: N" + key + "}\n";
        all += (i == 0 ? "" : ", ") + key;
    }
    std::string text = "id: x\ntitle: t\nagents:\n" + names +
                       "phases:\n  - {name: p, label: l, agents: [a0, a1], initial_prompt: Talk.}\n"
                       "  - {name: q, label: l, agents: [" +
                       all + "], initial_prompt_template: '";
    for (std::size_t i = 0; i < times; ++i) text += "${p.messages[a0]}";
    return text + "'}\n";
}

TEST(phase_opening, what_is_quoted_has_a_prompts_bound_and_the_earliest_lines_are_left_out) {
    const scenario made = parsed(quoting(2'700, 30));
    phases_done done;
    const auto said = [&](std::size_t characters) {
        done.clear();
        done.emplace(
            "p", talk(made, made.phases[0], {}, {"first", std::string(characters, 'x'), "last"}));
        return opening_of(made, made.phases[1], "s", "", done);
    };
    const auto begin = std::chrono::steady_clock::now();
    const auto opened = said(1'000);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
    ASSERT_EQ(opened.own_prompts.size(), 30u);
    for (const auto& [reader, text] : opened.own_prompts)
        ASSERT_LE(coordination::characters(text), coordination::prompt_characters_max);
    const auto whole = [&](const std::string& text) {
        return text.find("You: first") != std::string::npos;
    };
    EXPECT_TRUE(whole(opened.own_prompts[0].second)) << "as often as there is a place";
    said(200'000);
    // One phase alone: as much as fits is whole, and with one character more it is not.
    const scenario once = parsed(quoting(1, 2));
    const auto quote = [&](std::size_t characters) {
        done.clear();
        done.emplace(
            "p", talk(once, once.phases[0], {}, {"first", std::string(characters, 'x'), "last"}));
        return opening_of(once, once.phases[1], "s", "", done).own_prompts[0].second;
    };
    const std::size_t others = quote(1).size() - 1;
    const std::size_t note = std::string("(earlier messages are left out)\n").size();
    const std::size_t most = coordination::prompt_characters_max - others - note;
    EXPECT_TRUE(whole(quote(most)));
    const std::string cut = quote(most + 1);
    EXPECT_FALSE(whole(cut));
    EXPECT_TRUE(cut.starts_with("(earlier messages are left out)\n")) << cut.substr(0, 50);
    EXPECT_TRUE(cut.ends_with("You: last"));
}

TEST(scenario, what_is_counted_is_counted_before_it_is_put_together) {
    const std::string head = small.substr(0, small.find("outcome:"));
    const auto list_of = [](std::size_t count, const std::string& item) {
        std::string list = "[";
        for (std::size_t i = 0; i < count; ++i) list += (i == 0 ? "" : ", ") + item;
        return list + "]";
    };
    const auto square = [&](std::size_t count) {
        return head + "payoff: {labels: " + list_of(count, "x") +
               ", matrix: " + list_of(count, list_of(count, "x")) + "}\n";
    };
    EXPECT_TRUE(parse_scenario(square(30))) << parse_scenario(square(30)).error().message;
    EXPECT_NE(parse_scenario(square(31)).error().message.find("may have 30 entries"),
              std::string::npos);
    // Keys, values and lists: the root, a key, a list, and its items, of which one is too many.
    const auto nodes = [&](std::size_t count) {
        return parse_scenario("more: " + list_of(count - 3, "x") + "\n");
    };
    EXPECT_NE(nodes(scenario_nodes_max).error().message.find("missing"), std::string::npos);
    EXPECT_NE(nodes(scenario_nodes_max + 1).error().message.find("may have 20000 keys"),
              std::string::npos);
    const auto brackets = [](std::size_t count) {
        return parse_scenario("id: '" + std::string(count, '[') + "'\n").error().message;
    };
    EXPECT_EQ(brackets(scenario_nodes_max).find("may have 20000 keys"), std::string::npos);
    EXPECT_NE(brackets(scenario_nodes_max + 1).find("may have 20000 keys"), std::string::npos);
}

TEST(scenario, anchors_and_aliases_are_refused_whatever_they_stand_for) {
    for (const char* text : {"more: &x [a]\n", "more: [*x]\n", "more: &x [*x]\n"}) {
        const auto made = parse_scenario(small + text);
        ASSERT_FALSE(made) << text;
        EXPECT_TRUE(made.error().message.starts_with("line ")) << made.error().message;
    }
    std::string bomb =
        small.substr(0, small.find("outcome:")) + "payoff:\n  labels: [a, b]\n  matrix: [&r [";
    for (int i = 0; i < 3'000; ++i) bomb += "x,";
    bomb += "x]";
    for (int i = 0; i < 3'000; ++i) bomb += ",*r";
    const auto begin = std::chrono::steady_clock::now();
    const auto made = parse_scenario(bomb + "]\n");
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().message.find("anchors and aliases are not taken"), std::string::npos);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST(scenario, those_that_are_shipped_are_whole) {
    int count = 0;
    for (const auto& each :
         std::filesystem::directory_iterator(std::string(SEMANTIC_SOURCE_DIR) + "/etc/scenarios")) {
        if (each.path().extension() != ".yaml") continue;
        std::ifstream file(each.path());
        const auto made = parse_scenario(std::string(std::istreambuf_iterator<char>(file), {}));
        EXPECT_TRUE(made) << each.path() << ": " << made.error().message;
        ++count;
    }
    EXPECT_GE(count, 4);
}

}  // namespace
}  // namespace semantic::protocol::scenarios
