#include "protocol/coordination/decision.hpp"

#include <algorithm>
#include <map>

namespace semantic::protocol::coordination {

namespace {

using counts = std::map<std::string, int>;

const vote* vote_of(const question& asked, int agent) {
    auto found = std::ranges::find(asked.votes, agent, &vote::agent);
    return found == asked.votes.end() ? nullptr : &*found;
}

counts first_places(const question& asked, const std::vector<std::string>& left) {
    counts of;
    for (const std::string& choice : left) of[choice] = 0;
    for (const vote& one : asked.votes) {
        const std::vector<std::string> alone{one.choice};
        for (const std::string& choice : one.ranking.empty() ? alone : one.ranking) {
            auto place = of.find(choice);
            if (place == of.end()) continue;
            ++place->second;
            break;
        }
    }
    return of;
}

std::vector<choice_count> sorted_counts(const question& asked) {
    const counts of = first_places(asked, asked.choices);
    std::vector<choice_count> out;
    for (const std::string& choice : asked.choices) out.push_back({choice, of.at(choice)});
    std::ranges::stable_sort(out, std::ranges::greater{}, &choice_count::votes);
    return out;
}

void decide_by_majority(const question& asked, const voters& who, tally& out) {
    if (out.votes == 0) return;
    const int most = out.counts.front().votes;
    const bool is_alone = out.counts.size() == 1 || out.counts[1].votes < most;
    const vote* casting = vote_of(asked, who.coordinator);
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

/// Which of those that are left drops out: see tally_of(). Nothing when nothing tells them apart.
std::optional<std::string> weakest(const std::vector<std::string>& left,
                                   const std::vector<counts>& history) {
    std::vector<std::string> lowest = left;
    for (auto count = history.rbegin(); count != history.rend() && lowest.size() > 1; ++count) {
        int fewest = count->at(lowest.front());
        for (const std::string& choice : lowest) fewest = std::min(fewest, count->at(choice));
        std::erase_if(lowest, [&](const std::string& c) { return count->at(c) > fewest; });
    }
    if (lowest.size() == left.size() && left.size() > 1) return std::nullopt;
    return lowest.back();
}

void decide_by_run_off(const question& asked, tally& out) {
    if (out.votes == 0) return;
    std::vector<std::string> left = asked.choices;
    std::vector<counts> history;
    while (true) {
        history.push_back(first_places(asked, left));
        int ballots = 0;
        for (const auto& [choice, votes] : history.back()) ballots += votes;
        for (const auto& [choice, votes] : history.back())
            if (2 * votes > ballots) out.winner = choice;
        if (out.winner) return;
        const auto loser = weakest(left, history);
        if (!loser) break;
        out.eliminated.push_back(*loser);
        std::erase(left, *loser);
    }
    out.is_tied = true;
}

void decide_by_consensus(const question& asked, const voters& who, tally& out) {
    if (asked.votes.empty() || out.votes != out.voters) return;
    const std::string& first = asked.votes.front().choice;
    const bool all_agree =
        std::ranges::all_of(asked.votes, [&](const vote& v) { return v.choice == first; });
    if (all_agree && std::ranges::all_of(who.agents, [&](int a) { return vote_of(asked, a); }))
        out.winner = first;
}

}  // namespace

tally tally_of(const question& asked, decision_mode mode, const voters& who) {
    tally out;
    out.counts = sorted_counts(asked);
    out.votes = static_cast<int>(asked.votes.size());
    out.voters = static_cast<int>(who.agents.size());
    switch (mode) {
        case decision_mode::none:
            break;
        case decision_mode::majority_vote:
            decide_by_majority(asked, who, out);
            break;
        case decision_mode::ranked_choice:
            decide_by_run_off(asked, out);
            break;
        case decision_mode::coordinator_decides:
            if (const vote* casting = vote_of(asked, who.coordinator)) out.winner = casting->choice;
            break;
        case decision_mode::consensus:
            decide_by_consensus(asked, who, out);
            break;
    }
    return out;
}

}  // namespace semantic::protocol::coordination
