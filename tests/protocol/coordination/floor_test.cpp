// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/floor.hpp"

#include <gtest/gtest.h>

#include "tests/protocol/coordination/sessions.hpp"

namespace semantic::protocol::coordination {
namespace {

using roles = std::vector<std::string>;

std::string order_of(const session& s, int round) {
    std::string letters;
    for (const slot& each : speaking_order(s, round))
        letters += s.agents[static_cast<std::size_t>(each.agent)].id;
    return letters;
}

TEST(speaking_order, each_format_has_its_own) {
    struct row {
        debate_format format;
        roles members;
        std::string first, second;  // rounds
    };
    using enum debate_format;
    for (const row& r : {
             row{free_form, {"participant", "moderator", "judge"}, "abc", "abc"},
             row{free_form, {"participant", "observer", "critic"}, "ac", "ac"},
             row{structured, {"critic", "participant", "moderator", "participant"}, "cbda", "cbda"},
             row{socratic, {"participant", "moderator", "participant"}, "babc", "babc"},
             row{socratic, {"participant", "critic"}, "ba", "ba"},
             row{socratic, {"participant", "participant", "participant"}, "abac", "abac"},
             row{socratic, {"participant"}, "a", "a"},
             row{devils_advocate, {"critic", "participant", "participant"}, "bca", "bca"},
             row{devils_advocate, {"participant", "participant"}, "ab", "ab"},
             row{parliamentary,
                 {"participant", "participant", "moderator", "participant"},
                 "cabd",
                 "cbad"},
             row{parliamentary, {"participant", "critic", "observer"}, "ab", "ba"},
         }) {
        const session s = session_with(r.members, topology::round_robin, r.format);
        const std::string shown = format_names[static_cast<std::size_t>(index_of(r.format))] +
                                  std::string(" ") + std::to_string(r.members.size());
        EXPECT_EQ(order_of(s, 0), r.first) << shown;
        EXPECT_EQ(order_of(s, 1), r.second) << shown;
    }
}

TEST(speaking_order, cues_say_what_the_format_asks_for) {
    session s = session_with({"participant", "participant"}, topology::round_robin,
                             debate_format::structured);
    s.max_turns = 6;
    EXPECT_EQ(speaking_order(s, 0)[0].cue, "State your position.");
    EXPECT_EQ(speaking_order(s, 1)[0].cue, "Answer the strongest point against you.");
    EXPECT_EQ(speaking_order(s, 2)[0].cue, "Close with your final word.");
    // A record may have a round as late as this.
    EXPECT_EQ(speaking_order(s, 1 << 30)[0].cue, "Close with your final word.");
    s.max_turns = 0;
    EXPECT_EQ(speaking_order(s, 9)[0].cue, "Answer the strongest point against you.");
    s.format = debate_format::parliamentary;
    EXPECT_EQ(speaking_order(s, 0)[0].cue, "Speak for the motion.");
    EXPECT_EQ(speaking_order(s, 0)[1].cue, "Speak against the motion.");
    s.format = debate_format::socratic;
    EXPECT_EQ(speaking_order(s, 0)[0].cue, "Ask Bob one question.");
    s.format = debate_format::free_form;
    EXPECT_EQ(speaking_order(s, 0)[0].cue, "");
}

TEST(next_turn, each_topology_gives_the_floor_in_its_way) {
    struct row {
        topology form;
        roles members;
        std::string spoke;
    };
    using enum topology;
    for (const row& r : {
             row{turn_by_turn, {"participant", "participant", "participant"}, "abcabca"},
             row{turn_by_turn, {"participant", "observer", "participant"}, "acacaca"},
             row{round_robin, {"participant", "participant", "participant"}, "abcabca"},
             row{broadcast, {"participant", "participant", "participant"}, "abcabca"},
             // a to b, who answers; b to c, who answers; c to a, who answers
             row{whisper, {"participant", "participant", "participant"}, "abbccaa"},
             row{whisper, {"participant", "participant"}, "abbaabb"},
             // Nobody said how much it wants to: the one that was silent longest.
             row{interrupt, {"participant", "participant", "participant"}, "abcabca"},
             row{interrupt, {"participant"}, "aaaaaaa"},
         }) {
        session s = session_with(r.members, r.form);
        EXPECT_EQ(speakers(s, 7), r.spoke)
            << topology_names[static_cast<std::size_t>(index_of(r.form))] << " "
            << r.members.size();
    }
}

TEST(next_turn, whoever_wants_most_interrupts_and_nobody_speaks_twice_in_a_row) {
    session s = session_with({"participant", "participant", "participant"}, topology::interrupt);
    EXPECT_EQ(urgency_candidates(s), (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(next_turn(s, {}, urgencies{1, 2, 9})->agent, 2);
    EXPECT_EQ(next_turn(s, {}, urgencies{4, 9, 9})->agent, 1) << "the first of equals";
    take_turn(s, *next_turn(s, {}, urgencies{0, 0, 5}), "me!");
    EXPECT_EQ(urgency_candidates(s), (std::vector<int>{0, 1}));
    take_turn(s, *next_turn(s, {}, urgencies{3, 0}), "no, me");
    EXPECT_EQ(urgency_candidates(s), (std::vector<int>{1, 2}));
    EXPECT_EQ(next_turn(s, {}, urgencies{5, 5})->agent, 1) << "b has never spoken";
    EXPECT_EQ(next_speaker(s), nobody) << "nobody knows yet";
}

TEST(next_turn, a_broadcast_is_answered_by_all_from_where_the_round_began) {
    session s = session_with({"participant", "participant", "observer", "participant"},
                             topology::broadcast);
    apply(s, told{"m0", "What now?"});
    s.round_start = 1;
    for (const turn_plan& plan : rest_of_round(s)) {
        EXPECT_EQ(plan.reads, 1u);
        EXPECT_EQ(reading_of(s, {}, plan), "What now?");
        take_turn(s, plan, "go");
    }
    EXPECT_EQ(s.round, 1);
    auto next = next_turn(s, {});
    EXPECT_EQ(reading_of(s, {}, *next), "Bob: go\nDan: go") << "its own answer it has";
}

TEST(next_turn, the_last_turns_of_a_broadcast_are_no_more_than_there_may_be) {
    session s = session_with({"participant", "participant", "participant"}, topology::broadcast);
    s.max_turns = 5;
    speakers(s, 3);
    EXPECT_EQ(rest_of_round(s).size(), 2u);
    speakers(s, 1);
    EXPECT_EQ(rest_of_round(s).size(), 1u);
    speakers(s, 1);
    EXPECT_TRUE(rest_of_round(s).empty());
    EXPECT_FALSE(s.is_active());
    EXPECT_EQ(next_turn(s, {}).error().code, errc::conflict);
    EXPECT_EQ(next_speaker(s), nobody);
}

TEST(next_turn, a_client_may_name_the_speaker_where_the_topology_leaves_it_open) {
    session s = session_with({"participant", "participant", "observer"}, topology::turn_by_turn);
    EXPECT_EQ(next_turn(s, {"b", {}})->agent, 1);
    EXPECT_EQ(next_turn(s, {"x", {}}).error().code, errc::not_found);
    EXPECT_EQ(next_turn(s, {"c", {}}).error().code, errc::bad_value);
    EXPECT_EQ(next_turn(s, {"a", "b"}).error().code, errc::bad_value);
    for (topology form : {topology::round_robin, topology::broadcast, topology::interrupt}) {
        s.form = form;
        EXPECT_EQ(next_turn(s, {"a", {}})->agent, 0);
        EXPECT_EQ(next_turn(s, {"b", {}}).error().code, errc::conflict);
    }
    s.form = topology::whisper;
    EXPECT_EQ(next_turn(s, {"b", {}})->to, 0) << "the next one behind it";
    EXPECT_EQ(next_turn(s, {"a", "c"})->to, 2);
    EXPECT_EQ(next_turn(s, {"a", "a"}).error().code, errc::bad_value);
    EXPECT_EQ(next_turn(s, {"a", "x"}).error().code, errc::not_found);
    take_turn(s, *next_turn(s, {"b", "a"}), "psst");
    EXPECT_EQ(next_turn(s, {"b", {}}).error().code, errc::conflict) << "a owes an answer";
    EXPECT_EQ(next_turn(s, {{}, "c"}).error().code, errc::conflict) << "to b";
    EXPECT_EQ(next_turn(s, {"a", "b"})->to, 1);
}

TEST(next_turn, a_whisper_to_one_that_does_not_speak_needs_no_answer) {
    session s = session_with({"participant", "participant", "observer"}, topology::whisper);
    take_turn(s, *next_turn(s, {"a", "c"}), "psst");
    EXPECT_EQ(s.owes_answer, nobody);
    apply(s, whispered{1, 0, "w", "you there?"});
    EXPECT_EQ(next_turn(s, {})->agent, 0);
    EXPECT_EQ(next_turn(s, {})->to, 1);
    EXPECT_EQ(next_turn(s, {})->cue, "Answer Bob in private; nobody else hears it.");
}

TEST(rounds, end_when_every_place_was_taken) {
    session s = session_with({"participant", "moderator", "participant"}, topology::round_robin,
                             debate_format::socratic);
    EXPECT_EQ(turns_in_round(s), 4);
    speakers(s, 3);
    EXPECT_EQ(s.round, 0);
    EXPECT_EQ(s.place, 3);
    speakers(s, 1);
    EXPECT_EQ(s.round, 1);
    EXPECT_EQ(s.place, 0);
    EXPECT_EQ(s.round_start, 4u);
}

TEST(rounds, a_session_takes_no_turn_beyond_the_lines_it_may_have) {
    session s = session_with({"participant", "participant"});
    s.lines.resize(lines_max - 1);
    EXPECT_TRUE(next_turn(s, {}));
    s.lines.resize(lines_max);
    EXPECT_EQ(next_turn(s, {}).error().code, errc::conflict);
}

TEST(rounds, a_turn_that_passes_counts_and_says_nothing) {
    session s = session_with({"participant", "participant"});
    take_turn(s, *next_turn(s, {}), "");
    EXPECT_TRUE(s.lines.empty());
    EXPECT_EQ(s.turn, 1);
    EXPECT_EQ(next_turn(s, {})->agent, 1);
}

TEST(turn_behind_next, is_who_speaks_then_in_the_same_round_or_the_next_one) {
    session s = session_with({"participant", "participant", "observer"}, topology::round_robin);
    apply(s, told{"m", "Talk."});
    auto following = turn_behind_next(s, true);
    ASSERT_TRUE(following);
    EXPECT_EQ(following->agent, 1);
    EXPECT_EQ(following->reads, 1u);
    speakers(s, 1);
    EXPECT_FALSE(turn_behind_next(s, true)) << "the round is over then";
    EXPECT_EQ(turn_behind_next(s, false)->agent, 0);
    s.max_turns = 2;
    EXPECT_FALSE(turn_behind_next(s, false)) << "the session is over then";
    s.max_turns = 3;
    EXPECT_TRUE(turn_behind_next(s, false));
}

TEST(turn_behind_next, is_nobodys_where_no_order_says_so) {
    for (topology form : {topology::broadcast, topology::whisper, topology::interrupt})
        EXPECT_FALSE(turn_behind_next(session_with({"participant", "participant"}, form), false));
    EXPECT_FALSE(turn_behind_next(session_with({"participant"}), false)) << "the same agent's";
}

}  // namespace
}  // namespace semantic::protocol::coordination
