// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/decision.hpp"

#include <algorithm>
#include <map>
#include <string_view>

namespace semantic::protocol::coordination {

namespace {

using counts = std::map<std::string, int>;

/// Returns: the vote of an agent, null where it has none.
const vote* vote_of(const question& asked, int agent) {
    auto found = std::ranges::find(asked.votes, agent, &vote::agent);
    return found == asked.votes.end() ? nullptr : &*found;
}

/// Returns: for each choice how many votes have it as their first.
counts first_places(const question& asked) {
    counts places;
    for (const std::string& choice : asked.choices) places[choice] = 0;
    for (const vote& one : asked.votes) {
        // A vote for what is no choice counts nowhere.
        const auto place = places.find(one.choice);
        if (place != places.end()) ++place->second;
    }
    return places;
}

/// The choices with their numbers of first places, the most first.
std::vector<choice_count> sorted_counts(const question& asked) {
    const counts places = first_places(asked);
    std::vector<choice_count> out;
    for (const std::string& choice : asked.choices) out.push_back({choice, places.at(choice)});
    std::ranges::stable_sort(out, std::ranges::greater{}, &choice_count::votes);
    return out;
}

/// The choice with most votes wins; among equal ones the one that the coordinator voted for.
void decide_by_majority(const question& asked, const voters& electorate, tally& out) {
    if (out.votes == 0) return;
    const int most = out.counts.front().votes;
    const bool is_alone = out.counts.size() == 1 || out.counts[1].votes < most;
    const vote* casting = vote_of(asked, electorate.coordinator);
    const auto equal = [&](const choice_count& c) {
        return casting && c.votes == most && c.choice == casting->choice;
    };
    if (is_alone)
        out.winner = out.counts.front().choice;
    else if (std::ranges::any_of(out.counts, equal))
        out.winner = casting->choice;
    else
        out.is_tied = true;
}

/// Votes of each choice in one count of a run-off, in the question's order of choices.
using places_of_count = std::vector<int>;

/// Returns: for each vote its ranking, best first, as indices of choices. A vote without a ranking
/// has one entry.
std::vector<std::vector<std::size_t>> ballots_of(const question& asked) {
    std::map<std::string_view, std::size_t> place;
    for (std::size_t i = 0; i < asked.choices.size(); ++i) place.emplace(asked.choices[i], i);
    std::vector<std::vector<std::size_t>> ballots;
    for (const vote& one : asked.votes) {
        std::vector<std::size_t>& ballot = ballots.emplace_back();
        const auto add = [&](const std::string& choice) {
            const auto found = place.find(choice);
            if (found != place.end()) ballot.push_back(found->second);
        };
        if (one.ranking.empty()) add(one.choice);
        for (const std::string& choice : one.ranking) add(choice);
    }
    return ballots;
}

/// Returns: which of the choices in `left` drops out of the run-off: the one with the fewest votes
/// in the latest count; among equal ones the one with fewer in the count before, and so on; else
/// the last one. Nothing when all of them are equal in every count. `history`: all counts so far.
std::optional<std::size_t> weakest(const std::vector<std::size_t>& left,
                                   const std::vector<places_of_count>& history) {
    std::vector<std::size_t> lowest = left;
    for (auto count = history.rbegin(); count != history.rend() && lowest.size() > 1; ++count) {
        int fewest = (*count)[lowest.front()];
        for (std::size_t choice : lowest) fewest = std::min(fewest, (*count)[choice]);
        std::erase_if(lowest, [&](std::size_t choice) { return (*count)[choice] > fewest; });
    }
    if (lowest.size() == left.size() && left.size() > 1) return std::nullopt;
    return lowest.back();
}

/// Instant run-off: in each count every ballot counts for its best choice that is left, and the
/// weakest choice drops out, until one has more than half.
void decide_by_run_off(const question& asked, tally& out) {
    if (out.votes == 0) return;
    const auto ballots = ballots_of(asked);
    // For each ballot the position of its best choice that is left.
    std::vector<std::size_t> best(ballots.size(), 0);
    std::vector<bool> is_out(asked.choices.size(), false);
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < asked.choices.size(); ++i) left.push_back(i);
    std::vector<places_of_count> history;
    // Ends: each count drops a choice, and the last one left has more than half.
    while (true) {
        places_of_count& count = history.emplace_back(asked.choices.size(), 0);
        int counted = 0;
        for (std::size_t i = 0; i < ballots.size(); ++i) {
            while (best[i] < ballots[i].size() && is_out[ballots[i][best[i]]]) ++best[i];
            // Nothing that this ballot names is left, so it no longer counts.
            if (best[i] == ballots[i].size()) continue;
            ++count[ballots[i][best[i]]];
            ++counted;
        }
        for (std::size_t choice : left)
            if (2 * count[choice] > counted) out.winner = asked.choices[choice];
        if (out.winner) return;
        const auto loser = weakest(left, history);
        if (!loser) break;
        out.eliminated.push_back(asked.choices[*loser]);
        is_out[*loser] = true;
        std::erase(left, *loser);
    }
    out.is_tied = true;
}

/// A choice wins when all voters have voted, and for the same.
void decide_by_consensus(const question& asked, const voters& electorate, tally& out) {
    // As many votes as voters, and, as is checked below, one of each.
    if (asked.votes.empty() || out.votes != out.voters) return;
    const std::string& first = asked.votes.front().choice;
    const bool all_agree =
        std::ranges::all_of(asked.votes, [&](const vote& v) { return v.choice == first; });
    if (all_agree &&
        std::ranges::all_of(electorate.agents, [&](int a) { return vote_of(asked, a); }))
        out.winner = first;
}

}  // namespace

void measure(question& asked) noexcept {
    // An estimate of what a question or vote takes without its texts.
    constexpr std::size_t own_bytes = 256;
    constexpr std::size_t text_own_bytes = sizeof(std::string);
    const auto texts = [](const std::vector<std::string>& all) {
        std::size_t bytes = 0;
        for (const std::string& each : all) bytes += text_own_bytes + each.size();
        return bytes;
    };
    asked.bytes = own_bytes + asked.text.size() + asked.winner.size() + texts(asked.choices);
    for (const vote& each : asked.votes)
        asked.bytes += own_bytes + each.choice.size() + texts(each.ranking);
}

tally tally_of(const question& asked, decision_mode mode, const voters& electorate) {
    tally out;
    out.counts = sorted_counts(asked);
    out.votes = static_cast<int>(asked.votes.size());
    out.voters = static_cast<int>(electorate.agents.size());
    switch (mode) {
        case decision_mode::none:
            break;
        case decision_mode::majority_vote:
            decide_by_majority(asked, electorate, out);
            break;
        case decision_mode::ranked_choice:
            decide_by_run_off(asked, out);
            break;
        case decision_mode::coordinator_decides:
            if (const vote* casting = vote_of(asked, electorate.coordinator))
                out.winner = casting->choice;
            break;
        case decision_mode::consensus:
            decide_by_consensus(asked, electorate, out);
            break;
    }
    return out;
}

}  // namespace semantic::protocol::coordination
