// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/ballot.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>
#include <set>

#include "protocol/wire/fields.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::coordination {

namespace json = boost::json;

namespace {

bool has_choice(const question& asked, const std::string& choice) {
    return std::ranges::find(asked.choices, choice) != asked.choices.end();
}

json::array json_of(const std::vector<std::string>& items) {
    json::array out;
    for (const std::string& each : items) out.emplace_back(each);
    return out;
}

/// Returns: each choice with its number of votes, as "red 2, blue 1".
std::string counted(const tally& votes) {
    std::string out;
    for (const choice_count& each : votes.counts)
        out += (out.empty() ? "" : ", ") + each.choice + " " + std::to_string(each.votes);
    return out;
}

/// Returns: the announcement that closes a vote.
std::string outcome_text(const question& asked, const tally& votes) {
    const std::string head = "Vote on \"" + asked.text + "\": " + counted(votes) + ". ";
    if (votes.winner) return head + "Decided: " + *votes.winner + ".";
    return head + (votes.is_tied ? "A tie: nothing is decided." : "Nothing is decided.");
}

/// Whether all agents have voted whose votes the mode needs.
bool is_complete(const session& s, const question& asked) {
    return s.decides != decision_mode::none && missing_voters(s, asked).empty();
}

/// Returns: the JSON value that an answer is; null where it is none.
json::value value_of(std::string_view answer) {
    auto parsed = parse_json(answer, json_limits{});
    return parsed ? std::move(*parsed) : json::value();
}

failure no_ballot() { return fail(errc::internal, "an agent's vote was cut off"); }

}  // namespace

voters voters_of(const session& s) { return {speakers_of(s), coordinator_of(s)}; }

tally tally_in(const session& s, const question& asked) {
    return tally_of(asked, s.decides, voters_of(s));
}

result<std::size_t> put_question(session& s, const std::string& text,
                                 const std::vector<std::string>& choices) {
    auto found = std::ranges::find(s.questions, text, &question::text);
    if (found == s.questions.end()) {
        if (s.questions.size() >= questions_max)
            return fail(errc::conflict,
                        "a session may have " + std::to_string(questions_max) + " questions");
        question asked{text};
        asked.choices = choices;
        asked.are_fixed = !choices.empty();
        measure(asked);
        s.questions.push_back(std::move(asked));
        return s.questions.size() - 1;
    }
    if (found->is_closed)
        return fail(errc::conflict, "the vote on " + quoted(text) + " is closed", "question");
    if (!choices.empty() && found->choices != choices)
        return fail(errc::bad_value, "choices: the question was put with others", "choices");
    return static_cast<std::size_t>(found - s.questions.begin());
}

result<vote> vote_of(const session& s, const question& asked, const cast_vote& wish,
                     std::string vote_id) {
    const int agent = s.find(wish.agent_id);
    if (agent == nobody)
        return fail(errc::not_found, "agent_id: no agent " + wish.agent_id + " in session " + s.id,
                    "agent_id");
    if (part_of(s.agents[static_cast<std::size_t>(agent)].role) == part::observer)
        return fail(errc::bad_value, "agent_id: " + wish.agent_id + " is an observer", "agent_id");
    vote one{std::move(vote_id), agent, wish.choice, wish.ranking};
    // A ranking contains the choice, which is its best.
    if (one.choice.empty() && !one.ranking.empty()) one.choice = one.ranking.front();
    if (one.choice.empty())
        return fail(errc::missing_field, "choice: required, unless there is a ranking", "choice");
    if (!one.ranking.empty() && one.ranking.front() != one.choice)
        return fail(errc::bad_value, "ranking: must begin with the choice", "ranking");
    if (std::set<std::string>(one.ranking.begin(), one.ranking.end()).size() != one.ranking.size())
        return fail(errc::bad_value, "ranking: has something twice", "ranking");
    // A question without fixed choices gets those that are voted for.
    std::set<std::string> all(asked.choices.begin(), asked.choices.end());
    const std::vector<std::string> alone{one.choice};
    for (const std::string& each : one.ranking.empty() ? alone : one.ranking) {
        if (asked.are_fixed && !has_choice(asked, each))
            return fail(errc::bad_value, "choice: " + quoted(each) + " cannot be voted for",
                        "choice");
        all.insert(each);
    }
    if (all.size() > choices_max)
        return fail(errc::conflict,
                    "a question may have " + std::to_string(choices_max) + " choices", "choice");
    // How many bytes the vote adds, at most.
    question with_it{asked.text, {}, false, {one}};
    with_it.choices = one.ranking;  // at worst all of them are new
    measure(with_it);
    std::size_t bytes = with_it.bytes;
    for (const question& each : s.questions) bytes += each.bytes;
    if (bytes > questions_bytes_max)
        return fail(errc::conflict, "the questions of a session and their votes may take " +
                                        std::to_string(questions_bytes_max) + " bytes");
    return one;
}

std::vector<int> missing_voters(const session& s, const question& asked) {
    std::vector<int> missing = speakers_of(s);
    if (s.decides == decision_mode::coordinator_decides) missing = {coordinator_of(s)};
    std::erase_if(missing, [&](int agent) {
        return std::ranges::find(asked.votes, agent, &vote::agent) != asked.votes.end();
    });
    return missing;
}

bool settle(session& s, std::size_t index, const std::string& line_id) {
    question& asked = s.questions[index];
    if (asked.is_closed || !is_complete(s, asked)) return false;
    const tally votes = tally_in(s, asked);
    const bool votes_again = s.decides == decision_mode::consensus && !votes.winner &&
                             asked.ballots < consensus_ballots_max;
    if (votes_again) {
        // The votes are dropped: all are asked again.
        apply(s, told{line_id, "Vote on \"" + asked.text + "\": " + counted(votes) +
                                   ". There is no agreement yet: all vote again."});
        asked.votes.clear();
        ++asked.ballots;
        measure(asked);
        return true;
    }
    asked.is_closed = true;
    asked.winner = votes.winner.value_or("");
    measure(asked);
    apply(s, told{line_id, outcome_text(asked, votes)});
    return true;
}

held_question ballot_for(const session& s, const question& asked) {
    std::string choices;
    for (const std::string& each : asked.choices)
        choices += (choices.empty() ? "" : ", ") + json::serialize(json::string(each));
    const std::string head = "Vote on: " + asked.text + "\nChoices: " + choices + ".\n";
    const json::object one_of{{"enum", json_of(asked.choices)}};
    if (s.decides != decision_mode::ranked_choice)
        return {head + "Answer with your choice alone, in quotes.", to_text(one_of)};
    return {head + "Answer with a JSON list of all choices, the best first.",
            to_text(json::object{{"type", "array"},
                                 {"items", one_of},
                                 {"minItems", asked.choices.size()},
                                 {"maxItems", asked.choices.size()},
                                 {"uniqueItems", true}})};
}

result<cast_vote> read_ballot(const session& s, const question& asked, int agent,
                              std::string_view answer) {
    cast_vote cast{s.agents[static_cast<std::size_t>(agent)].id, asked.text, {}};
    const json::value value = value_of(answer);
    if (const json::string* choice = value.if_string()) {
        cast.choice = std::string(*choice);
        return cast;
    }
    // The schema leaves a text or a list, so anything else was cut off.
    if (!value.is_array() || value.get_array().empty()) return no_ballot();
    for (const json::value& each : value.get_array()) {
        if (!each.is_string()) return no_ballot();
        cast.ranking.emplace_back(each.get_string());
    }
    cast.choice = cast.ranking.front();
    return cast;
}

held_question urgency_question() {
    return {"How much do you want to speak now? Answer with a number from 0 (not at all) to " +
                std::to_string(urgency_max) + " (at once).",
            to_text(json::object{{"type", "integer"}, {"minimum", 0}, {"maximum", urgency_max}})};
}

int read_urgency(std::string_view answer) {
    int felt = 0;
    // An answer that is no such number counts as no wish to speak.
    const std::size_t begin = std::min(answer.find_first_not_of(" \n"), answer.size());
    answer.remove_prefix(begin);
    const auto [end, error] = std::from_chars(answer.data(), answer.data() + answer.size(), felt);
    return error == std::errc{} && felt >= 0 && felt <= urgency_max ? felt : 0;
}

}  // namespace semantic::protocol::coordination
