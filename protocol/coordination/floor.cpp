// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/floor.hpp"

#include <algorithm>

namespace semantic::protocol::coordination {

namespace {

part part_at(const session& s, int index) {
    return part_of(s.agents[static_cast<std::size_t>(index)].role);
}

/// Returns: the speakers with this part.
std::vector<int> those_with(const session& s, part wanted) {
    std::vector<int> found;
    for (int each : speakers_of(s))
        if (part_at(s, each) == wanted) found.push_back(each);
    return found;
}

const std::string& name_of(const session& s, int index) {
    return s.agents[static_cast<std::size_t>(index)].name;
}

/// The order of a debate: moderators, participants, critics, each with a cue for the opening,
/// middle or closing round.
std::vector<slot> structured_order(const session& s, int round) {
    // The turns that the session has had after this round.
    const auto turns = (std::int64_t{round} + 1) * std::int64_t(speakers_of(s).size());
    const bool is_last = s.max_turns > 0 && turns >= s.max_turns;
    std::string cue =
        round == 0 ? "State your position." : "Answer the strongest point against you.";
    std::string lead = round == 0 ? "Open the debate." : "Lead the debate on.";
    if (is_last && round > 0) {
        cue = "Close with your final word.";
        lead = "Open the closing round.";
    }
    std::vector<slot> order;
    for (int each : those_with(s, part::moderator)) order.push_back({each, lead});
    for (int each : those_with(s, part::participant)) order.push_back({each, cue});
    for (int each : those_with(s, part::critic)) order.push_back({each, cue});
    return order;
}

/// One agent, a moderator or critic if there is one, asks every other speaker a question, which is
/// answered at once.
std::vector<slot> socratic_order(const session& s) {
    const std::vector<int> speakers = speakers_of(s);
    // A session has a speaker: check_rules() in opening.cpp.
    int questioner = speakers.front();
    for (part each : {part::critic, part::moderator})
        if (auto found = those_with(s, each); !found.empty()) questioner = found.front();
    std::vector<slot> order;
    for (int each : speakers) {
        if (each == questioner) continue;
        order.push_back({questioner, "Ask " + name_of(s, each) + " one question."});
        order.push_back({each, "Answer the question."});
    }
    // Nobody else speaks, and a round has a turn.
    if (order.empty()) order.push_back({questioner, "Ask one question."});
    return order;
}

/// All speak, and at last the advocates argue against what was said: the critics, or the last
/// speaker where there is none.
std::vector<slot> advocate_order(const session& s) {
    std::vector<int> advocates = those_with(s, part::critic);
    if (advocates.empty()) advocates = {speakers_of(s).back()};
    std::vector<slot> order;
    for (int each : speakers_of(s))
        if (std::ranges::find(advocates, each) == advocates.end()) order.push_back({each});
    for (int each : advocates) order.push_back({each, "Argue against what was said."});
    return order;
}

/// Speeches for and against the motion alternate; every other round begins with those against.
/// Participants are assigned to the two sides in turn; critics are against.
std::vector<slot> parliamentary_order(const session& s, int round) {
    std::vector<int> in_favour, against;
    const std::vector<int> participants = those_with(s, part::participant);
    for (std::size_t i = 0; i < participants.size(); ++i)
        (i % 2 == 0 ? in_favour : against).push_back(participants[i]);
    for (int each : those_with(s, part::critic)) against.push_back(each);
    std::vector<slot> order;
    for (int each : those_with(s, part::moderator)) order.push_back({each, "Give the floor."});
    const bool reply = round % 2 == 1;
    for (std::size_t i = 0; i < std::max(in_favour.size(), against.size()); ++i)
        for (bool is_for : {!reply, reply}) {
            const std::vector<int>& side = is_for ? in_favour : against;
            const char* cue = is_for ? "Speak for the motion." : "Speak against the motion.";
            if (i < side.size()) order.push_back({side[i], cue});
        }
    return order;
}

/// Whether the topology lets agents speak in the order of the debate format.
bool follows_order(const session& s) {
    return s.form != topology::whisper && s.form != topology::interrupt;
}

failure not_active(const session& s) {
    return fail(errc::conflict, "Session " + s.id + " is not active");
}

/// Returns: the agent that a wish names; `path`: the field, for the message. Errors: not_found.
result<int> wished(const session& s, const std::string& id, const char* path) {
    const int found = s.find(id);
    if (found == nobody)
        return fail(errc::not_found, std::string(path) + ": no agent " + id + " in session " + s.id,
                    path);
    return found;
}

/// Returns: the speaker that a wish names. Errors: not_found; bad_value for an observer.
result<int> wished_speaker(const session& s, const std::string& id) {
    auto found = wished(s, id, "agent_id");
    if (found && part_at(s, *found) == part::observer)
        return fail(errc::bad_value, "agent_id: " + id + " is an observer and does not speak",
                    "agent_id");
    return found;
}

/// Returns: the cue for a whisper to agent `to`. `answers`: it answers one.
std::string whisper_cue(const session& s, int to, bool answers) {
    return (answers ? "Answer " : "Say something to ") + name_of(s, to) +
           " in private; nobody else hears it.";
}

/// Returns: the next turn in the topology whisper, without regard to any wish: an answer that is
/// owed, else the next speaker to the one after it.
turn_plan whisper_in_order(const session& s) {
    const std::vector<int> speakers = speakers_of(s);
    turn_plan plan;
    if (s.owes_answer != nobody) {
        plan.agent = s.owes_answer;
        plan.to = s.owed_to;
    } else {
        const auto begun = static_cast<std::size_t>(s.whispers_begun);
        plan.agent = speakers[begun % speakers.size()];
        // Another one: a session of this topology has two speakers at least.
        plan.to = speakers[(begun + 1) % speakers.size()];
    }
    plan.cue = whisper_cue(s, plan.to, s.owes_answer != nobody);
    return plan;
}

/// Returns: a turn of the agent that wants to speak most; among equal ones of the one that has been
/// silent longest.
turn_plan most_urged(const session& s, urgencies felt) {
    const std::vector<int> candidates = urgency_candidates(s);
    // Without an answer from all, the missing ones count as no wish to speak.
    felt.resize(candidates.size(), 0);
    std::size_t best = 0;
    const auto silent_since = [&](std::size_t i) {
        return s.agents[static_cast<std::size_t>(candidates[i])].last_turn;
    };
    for (std::size_t i = 1; i < candidates.size(); ++i) {
        const bool is_longer_silent = felt[i] == felt[best] && silent_since(i) < silent_since(best);
        if (felt[i] > felt[best] || is_longer_silent) best = i;
    }
    return {candidates[best]};
}

/// Returns: `plan`, the next turn in order, changed as the client wishes. Errors: as next_turn().
result<turn_plan> wished_turn(const session& s, turn_plan plan, const turn_wish& wish) {
    if (wish.to_agent_id && s.form != topology::whisper)
        return fail(errc::bad_value, "to_agent_id: only the topology whisper has it",
                    "to_agent_id");
    if (wish.agent_id) {
        auto speaker = wished_speaker(s, *wish.agent_id);
        if (!speaker) return speaker.error();
        const bool may_choose = s.form == topology::turn_by_turn ||
                                (s.form == topology::whisper && s.owes_answer == nobody);
        if (*speaker != plan.agent && !may_choose)
            return fail(errc::conflict, "it is not the turn of agent " + *wish.agent_id,
                        "agent_id");
        // Another speaker: the cue and the hearer were those of the turn in order.
        if (*speaker != plan.agent) plan = {*speaker};
    }
    if (s.form != topology::whisper) return plan;
    if (wish.to_agent_id) {
        auto to = wished(s, *wish.to_agent_id, "to_agent_id");
        if (!to) return to.error();
        if (s.owes_answer != nobody && *to != s.owed_to)
            return fail(errc::conflict, "it is the turn of an answer to another agent",
                        "to_agent_id");
        plan.to = *to;
    }
    if (plan.to == nobody) {  // the one after the speaker
        const std::vector<int> speakers = speakers_of(s);
        const auto at = std::ranges::find(speakers, plan.agent) - speakers.begin();
        plan.to = speakers[(static_cast<std::size_t>(at) + 1) % speakers.size()];
    }
    if (plan.to == plan.agent)
        return fail(errc::bad_value, "to_agent_id: nobody whispers to itself", "to_agent_id");
    plan.cue = whisper_cue(s, plan.to, s.owes_answer != nobody);
    return plan;
}

}  // namespace

std::vector<slot> speaking_order(const session& s, int round) {
    switch (s.format) {
        case debate_format::structured:
            return structured_order(s, round);
        case debate_format::socratic:
            return socratic_order(s);
        case debate_format::devils_advocate:
            return advocate_order(s);
        case debate_format::parliamentary:
            return parliamentary_order(s, round);
        case debate_format::free_form:
            break;
    }
    std::vector<slot> order;
    for (int each : speakers_of(s)) order.push_back({each});
    return order;
}

int turns_in_round(const session& s) {
    const std::size_t turns =
        follows_order(s) ? speaking_order(s, s.round).size() : speakers_of(s).size();
    return static_cast<int>(turns);
}

std::vector<int> urgency_candidates(const session& s) {
    std::vector<int> candidates = speakers_of(s);
    if (candidates.size() < 2 || s.turn == 0) return candidates;
    std::erase_if(candidates, [&](int each) {
        return s.agents[static_cast<std::size_t>(each)].last_turn == s.turn - 1;
    });
    return candidates;
}

result<turn_plan> next_turn(const session& s, const turn_wish& wish,
                            const std::optional<urgencies>& felt) {
    if (!s.is_active()) return not_active(s);
    if (s.is_full())
        return fail(errc::conflict, "Session " + s.id + " has " + std::to_string(lines_max) +
                                        " lines, and no room for more");
    turn_plan plan;
    if (s.form == topology::whisper) {
        plan = whisper_in_order(s);
    } else if (s.form == topology::interrupt) {
        plan = most_urged(s, felt.value_or(urgencies{}));
    } else {
        slot next = speaking_order(s, s.round)[static_cast<std::size_t>(s.place)];
        plan = {next.agent, nobody, std::move(next.cue)};
    }
    auto chosen = wished_turn(s, std::move(plan), wish);
    if (!chosen) return chosen;
    chosen->reads = s.form == topology::broadcast ? s.round_start : s.lines.size();
    return chosen;
}

std::vector<turn_plan> rest_of_round(const session& s) {
    std::vector<turn_plan> plans;
    auto first = next_turn(s, {});
    // A session that is over has no further turns.
    if (!first) return plans;
    plans.push_back(std::move(*first));
    if (s.form != topology::broadcast) return plans;
    std::vector<slot> order = speaking_order(s, s.round);
    const int left = s.max_turns == 0 ? static_cast<int>(order.size()) : s.max_turns - s.turn;
    for (auto i = static_cast<std::size_t>(s.place) + 1; i < order.size(); ++i) {
        if (static_cast<int>(plans.size()) >= left) break;
        plans.push_back({order[i].agent, nobody, std::move(order[i].cue), s.round_start});
    }
    return plans;
}

std::optional<turn_plan> turn_behind_next(const session& s, bool in_round) {
    if (s.form != topology::turn_by_turn && s.form != topology::round_robin) return std::nullopt;
    if (s.max_turns > 0 && s.turn + 1 >= s.max_turns) return std::nullopt;
    std::vector<slot> order = speaking_order(s, s.round);
    const auto here = static_cast<std::size_t>(s.place);
    const int speaker = order[here].agent;
    std::size_t following = here + 1;
    if (following == order.size()) {
        if (in_round) return std::nullopt;
        order = speaking_order(s, s.round + 1);
        following = 0;
    }
    // Its memory changes with the turn that comes first.
    if (order[following].agent == speaker) return std::nullopt;
    return turn_plan{order[following].agent, nobody, std::move(order[following].cue),
                     s.lines.size()};
}

int next_speaker(const session& s) {
    if (s.form == topology::interrupt) return nobody;
    auto plan = next_turn(s, {});
    return plan ? plan->agent : nobody;
}

}  // namespace semantic::protocol::coordination
