// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/decision.hpp"

#include <gtest/gtest.h>

#include "protocol/coordination/ballot.hpp"
#include "tests/protocol/coordination/sessions.hpp"

namespace semantic::protocol::coordination {
namespace {

using words = std::vector<std::string>;

/// A question with the choices x, y, z, w as far as there are that many, and these votes of agents
/// 0, 1, 2, ...: "x", or "xyz" for a ranking; "-" for none.
question asked_with(std::size_t choices, const words& votes) {
    question asked{"Where to?"};
    for (std::size_t i = 0; i < choices; ++i) asked.choices.emplace_back(1, "xyzw"[i]);
    for (std::size_t i = 0; i < votes.size(); ++i) {
        if (votes[i] == "-") continue;
        vote one{"v", static_cast<int>(i), votes[i].substr(0, 1)};
        for (char c : votes[i]) one.ranking.emplace_back(1, c);
        asked.votes.push_back(one);
    }
    return asked;
}

struct row {
    decision_mode mode;
    words votes;
    std::string winner;  // "" for none
    bool is_tied;
    int choices = 3;
};

TEST(tally, each_mode_decides_in_its_way_and_ties_are_defined) {
    using enum decision_mode;
    for (const row& r : {
             row{none, {"x", "x", "x"}, "", false},
             row{majority_vote, {}, "", false},
             row{majority_vote, {"x", "y", "x"}, "x", false},
             row{majority_vote, {"x", "y", "y", "z", "x"}, "x", false},  // the coordinator's choice
             row{majority_vote, {"z", "y", "y", "x", "x"}, "", true},    // which is none of them
             row{majority_vote, {"-", "y", "x"}, "", true},
             row{coordinator_decides, {"y", "x", "x"}, "y", false},
             row{coordinator_decides, {"-", "x", "x"}, "", false},
             row{consensus, {"x", "x", "x"}, "x", false},
             row{consensus, {"x", "x", "y"}, "", false},
             row{consensus, {"x", "x", "-"}, "", false},
             row{ranked_choice, {}, "", false},
             row{ranked_choice, {"xyz", "xzy", "yxz"}, "x", false},
             // x 2, y 2, z 1: z drops out, and its vote goes to y.
             row{ranked_choice, {"xyz", "xyz", "yxz", "yxz", "zyx"}, "y", false},
             // x 2, y 1, z 1: equal from the start, so that z goes, being last; then y has 2 of 4
             // as x has, and y was weaker before.
             row{ranked_choice, {"xyz", "xyz", "yxz", "zyx"}, "x", false},
             row{ranked_choice, {"xy", "yx"}, "", true, 2},
             row{ranked_choice, {"xyz", "yzx", "zxy"}, "", true},
             // Ballots that name nobody left do not count: z and y go, x has 1 of 1.
             row{ranked_choice, {"x", "x", "y", "z"}, "x", false},
             row{ranked_choice, {"w", "x", "x", "y", "y", "wy"}, "", true, 4},
         }) {
        const auto size = static_cast<int>(std::max<std::size_t>(r.votes.size(), 3));
        voters electorate{{}, 0};
        for (int i = 0; i < size; ++i) electorate.agents.push_back(i);
        const tally out =
            tally_of(asked_with(static_cast<std::size_t>(r.choices), r.votes), r.mode, electorate);
        const std::string shown = ::testing::PrintToString(r.votes) + " by " +
                                  decision_names[static_cast<std::size_t>(index_of(r.mode))];
        EXPECT_EQ(out.winner.value_or(""), r.winner) << shown;
        EXPECT_EQ(out.is_tied, r.is_tied) << shown;
    }
}

TEST(tally, counts_first_places_most_first) {
    const tally out =
        tally_of(asked_with(3, {"y", "zx", "z"}), decision_mode::none, {{0, 1, 2, 3}, 0});
    ASSERT_EQ(out.counts.size(), 3u);
    EXPECT_EQ(out.counts[0].choice, "z");
    EXPECT_EQ(out.counts[0].votes, 2);
    EXPECT_EQ(out.counts[2].choice, "x");
    EXPECT_EQ(out.counts[2].votes, 0);
    EXPECT_EQ(out.votes, 3);
    EXPECT_EQ(out.voters, 4);
}

TEST(tally, a_run_off_says_what_dropped_out) {
    const tally out = tally_of(asked_with(3, {"xyz", "xyz", "yxz", "yxz", "zyx"}),
                               decision_mode::ranked_choice, {{0, 1, 2, 3, 4}, 0});
    EXPECT_EQ(out.eliminated, words{"z"});
}

// A vote of an agent of `s`, put in by its id.
void cast(session& s, const std::string& agent, const std::string& choice, const words& ranking) {
    auto index = put_question(s, "Where to?");
    ASSERT_TRUE(index) << index.error().message;
    auto one = vote_of(s, s.questions[*index], {agent, "Where to?", choice, ranking}, "v");
    ASSERT_TRUE(one) << one.error().message;
    apply(s, voted{*index, *one, "n"});
    settle(s, *index, "t");
}

TEST(ballot, closes_with_the_last_vote_and_all_are_told) {
    session s = session_with({"participant", "moderator", "observer"});
    s.decides = decision_mode::majority_vote;
    cast(s, "a", "sea", {});
    EXPECT_FALSE(s.questions[0].is_closed);
    EXPECT_EQ(missing_voters(s, s.questions[0]), std::vector{1});
    cast(s, "a", "hills", {});
    EXPECT_EQ(s.questions[0].votes.size(), 1u) << "the latest vote of an agent counts";
    cast(s, "b", "sea", {});
    EXPECT_TRUE(s.questions[0].is_closed);
    EXPECT_EQ(s.questions[0].winner, "sea") << "the moderator parts the tie";
    EXPECT_EQ(s.lines.back().text, "Vote on \"Where to?\": sea 1, hills 1. Decided: sea.");
    EXPECT_TRUE(s.lines.back().visible_to.empty());
    EXPECT_EQ(put_question(s, "Where to?").error().code, errc::conflict);
}

TEST(ballot, consensus_is_sought_three_times_and_then_given_up) {
    session s = session_with({"participant", "participant"});
    s.decides = decision_mode::consensus;
    for (int i = 1; i <= consensus_ballots_max; ++i) {
        EXPECT_EQ(s.questions.empty() ? 1 : s.questions[0].ballots, i);
        cast(s, "a", "sea", {});
        cast(s, "b", "hills", {});
    }
    EXPECT_TRUE(s.questions[0].is_closed);
    EXPECT_EQ(s.questions[0].winner, "");
    EXPECT_EQ(s.questions[0].votes.size(), 2u);
    session agreed = session_with({"participant", "participant"});
    agreed.decides = decision_mode::consensus;
    cast(agreed, "a", "sea", {});
    cast(agreed, "b", "hills", {});
    cast(agreed, "a", "sea", {});
    cast(agreed, "b", "sea", {});
    EXPECT_EQ(agreed.questions[0].winner, "sea");
    EXPECT_EQ(agreed.questions[0].ballots, 2);
}

TEST(ballot, the_coordinator_alone_is_waited_for_where_it_decides) {
    session s = session_with({"participant", "moderator"});
    s.decides = decision_mode::coordinator_decides;
    cast(s, "a", "sea", {});
    EXPECT_FALSE(s.questions[0].is_closed);
    cast(s, "b", "hills", {});
    EXPECT_EQ(s.questions[0].winner, "hills");
    s.decides = decision_mode::none;
    ASSERT_TRUE(put_question(s, "When?"));
    EXPECT_FALSE(settle(s, 1, "t")) << "nothing is decided where nothing decides";
}

TEST(ballot, what_cannot_be_voted_is_refused) {
    session s = session_with({"participant", "observer"});
    auto index = put_question(s, "Q", {"x", "y"});
    const auto code = [&](const cast_vote& wish) {
        auto one = vote_of(s, s.questions[*index], wish, "v");
        return one ? errc{} : one.error().code;
    };
    EXPECT_EQ(code({"a", "Q", "x", {}}), errc{});
    EXPECT_EQ(code({"a", "Q", "", {"y", "x"}}), errc{});
    EXPECT_EQ(code({"z", "Q", "x", {}}), errc::not_found);
    EXPECT_EQ(code({"b", "Q", "x", {}}), errc::bad_value) << "observers do not vote";
    EXPECT_EQ(code({"a", "Q", "", {}}), errc::missing_field);
    EXPECT_EQ(code({"a", "Q", "w", {}}), errc::bad_value);
    EXPECT_EQ(code({"a", "Q", "x", {"y", "x"}}), errc::bad_value);
    EXPECT_EQ(code({"a", "Q", "x", {"x", "x"}}), errc::bad_value);
    EXPECT_EQ(put_question(s, "Q", {"x"}).error().code, errc::bad_value);
    EXPECT_TRUE(put_question(s, "Q", {"x", "y"}));
}

TEST(ballot, questions_and_choices_have_bounds) {
    session s = session_with({"participant"});
    for (std::size_t i = 0; i < questions_max; ++i)
        ASSERT_TRUE(put_question(s, "Q" + std::to_string(i)));
    EXPECT_EQ(put_question(s, "one more").error().code, errc::conflict);
    EXPECT_TRUE(put_question(s, "Q0"));
    cast_vote wish{"a", "Q0", "c0", {}};
    for (std::size_t i = 0; i < choices_max; ++i) wish.ranking.push_back("c" + std::to_string(i));
    EXPECT_TRUE(vote_of(s, s.questions[0], wish, "v"));
    wish.ranking.push_back("one more");
    EXPECT_EQ(vote_of(s, s.questions[0], wish, "v").error().code, errc::conflict);
}

TEST(ballot, agents_answers_are_held_to_the_choices_and_read_back) {
    session s = session_with({"participant"});
    auto index = put_question(s, "Q", {"the \"sea\"", "hills"});
    question& asked = s.questions[*index];
    EXPECT_EQ(ballot_for(s, asked).schema_json, R"({"enum":["the \"sea\"","hills"]})");
    EXPECT_EQ(read_ballot(s, asked, 0, R"("the \"sea\"")")->choice, "the \"sea\"");
    EXPECT_EQ(read_ballot(s, asked, 0, R"("the \"s)").error().code, errc::internal);
    s.decides = decision_mode::ranked_choice;
    EXPECT_EQ(ballot_for(s, asked).schema_json,
              R"({"type":"array","items":{"enum":["the \"sea\"","hills"]},"minItems":2,)"
              R"("maxItems":2,"uniqueItems":true})");
    EXPECT_EQ(read_ballot(s, asked, 0, R"(["hills","the \"sea\""])")->ranking,
              (words{"hills", "the \"sea\""}));
    EXPECT_EQ(read_ballot(s, asked, 0, R"([1])").error().code, errc::internal);
    EXPECT_EQ(read_urgency("7"), 7);
    EXPECT_EQ(read_urgency(" 0\n"), 0);
    EXPECT_EQ(read_urgency("99"), 0);
    EXPECT_EQ(read_urgency("no"), 0);
}

TEST(ballot, a_voter_alone_remembers_what_it_voted_for) {
    session s = session_with({"participant", "participant"});
    cast(s, "a", "sea", {});
    EXPECT_EQ(reading_of(s, {}, {0, nobody, "", s.lines.size()}),
              "You voted for \"sea\" on \"Where to?\".");
    EXPECT_EQ(reading_of(s, {}, {1, nobody, "", s.lines.size()}), "It is your turn to speak.");
}

}  // namespace
}  // namespace semantic::protocol::coordination
