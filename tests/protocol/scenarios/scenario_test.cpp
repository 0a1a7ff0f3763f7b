#include "protocol/scenarios/scenario.hpp"

#include <gtest/gtest.h>

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

std::string with(const std::string& from, const std::string& to) {
    std::string text = small;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

scenario parsed(const std::string& text) {
    auto made = parse_scenario(text);
    EXPECT_TRUE(made) << made.error().what;
    return made ? *made : scenario{};
}

/// The phase's session, in which each speaks in turn.
coordination::session talk(const scenario& of, const phase& which, const phases_done& done,
                           const std::vector<std::string>& lines, const std::string& prefix = "p") {
    int number = 0;
    auto id = [&] { return "m" + std::to_string(++number); };
    auto remembers = [](const coordination::agent&) { return false; };
    auto s = coordination::open_session(opening_of(of, which, "s", prefix, done), remembers, id);
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
        const char *from, *to, *what;
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
        const auto made = parse_scenario(with(r.from, r.to));
        ASSERT_FALSE(made) << r.to;
        EXPECT_TRUE(made.error().what.starts_with(r.what)) << made.error().what;
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
        parsed(with("{display_name: Owner}", "{display_name: Owner, role: judge}"));
    const auto alone = said(one, "A fee low.", "Hm.");
    ASSERT_EQ(alone.choices.size(), 1u);
    EXPECT_EQ(alone.choices[0].first, "Pilot");
    EXPECT_EQ(alone.worth, std::nullopt);
}

TEST(scenario, those_that_are_shipped_are_whole) {
    int count = 0;
    for (const auto& each :
         std::filesystem::directory_iterator(std::string(SEMANTIC_SOURCE_DIR) + "/etc/scenarios")) {
        if (each.path().extension() != ".yaml") continue;
        std::ifstream file(each.path());
        const auto made = parse_scenario(std::string(std::istreambuf_iterator<char>(file), {}));
        EXPECT_TRUE(made) << each.path() << ": " << made.error().what;
        ++count;
    }
    EXPECT_GE(count, 4);
}

}  // namespace
}  // namespace semantic::protocol::scenarios
