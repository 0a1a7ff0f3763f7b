// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/session.hpp"

#include <algorithm>

#include "protocol/coordination/floor.hpp"

namespace semantic::protocol::coordination {

namespace {

agent& agent_at(session& s, int index) { return s.agents[static_cast<std::size_t>(index)]; }

bool can_answer(const session& s, int index) {
    return part_of(s.agents[static_cast<std::size_t>(index)].role) != part::observer;
}

/// Returns: the two agents in ascending order, as line::visible_to wants them.
std::vector<int> between(int a, int b) { return {std::min(a, b), std::max(a, b)}; }

void add_choice(question& asked, const std::string& choice) {
    if (std::ranges::find(asked.choices, choice) == asked.choices.end())
        asked.choices.push_back(choice);
}

}  // namespace

part part_of(std::string_view role) noexcept {
    if (role == "moderator") return part::moderator;
    if (role == "critic") return part::critic;
    if (role == "observer") return part::observer;
    return part::participant;
}

int session::find(std::string_view agent_id) const noexcept {
    auto found = std::ranges::find(agents, agent_id, &agent::id);
    return found == agents.end() ? nobody : static_cast<int>(found - agents.begin());
}

bool may_see(const line& spoken, int agent) noexcept {
    return spoken.visible_to.empty() || std::ranges::binary_search(spoken.visible_to, agent);
}

std::size_t bytes_of(const line& spoken) noexcept {
    return line_own_bytes + spoken.id.size() + spoken.sender_name.size() + spoken.text.size() +
           spoken.visible_to.size() * sizeof(int);
}

void add_line(session& s, line spoken) {
    s.line_bytes += bytes_of(spoken);
    for (std::size_t i = 0; i < s.agents.size(); ++i)
        if (!spoken.is_hidden && may_see(spoken, static_cast<int>(i))) ++s.agents[i].messages;
    s.lines.push_back(std::move(spoken));
}

/// Agents keep their counts of messages, although the copy has no lines; line_bytes is 0.
session without_lines(const session& s) {
    // Field by field, so that the lines are never copied; line_bytes stays 0.
    session copy;
    copy.id = s.id;
    copy.form = s.form;
    copy.format = s.format;
    copy.decides = s.decides;
    copy.agents = s.agents;
    copy.questions = s.questions;
    copy.prefix = s.prefix;
    copy.max_turns = s.max_turns;
    copy.turn = s.turn;
    copy.round = s.round;
    copy.place = s.place;
    copy.round_start = s.round_start;
    copy.whispers_begun = s.whispers_begun;
    copy.owes_answer = s.owes_answer;
    copy.owed_to = s.owed_to;
    return copy;
}

std::size_t bytes_of(const session& s) noexcept {
    std::size_t bytes = s.id.size() + s.prefix.size() + s.line_bytes;
    for (const agent& each : s.agents)
        bytes += agent_own_bytes + each.id.size() + each.name.size() + each.role.size() +
                 each.system_prompt.size();
    for (const question& each : s.questions) bytes += each.bytes;
    return bytes;
}

std::vector<const line*> transcript(const session& s, int viewer) {
    std::vector<const line*> shown;
    for (const line& each : s.lines)
        if (!each.is_hidden && may_see(each, viewer)) shown.push_back(&each);
    return shown;
}

std::vector<int> speakers_of(const session& s) {
    std::vector<int> speakers;
    for (std::size_t i = 0; i < s.agents.size(); ++i)
        if (part_of(s.agents[i].role) != part::observer) speakers.push_back(static_cast<int>(i));
    return speakers;
}

int coordinator_of(const session& s) {
    const std::vector<int> speakers = speakers_of(s);
    for (int each : speakers)
        if (part_of(s.agents[static_cast<std::size_t>(each)].role) == part::moderator) return each;
    return speakers.empty() ? nobody : speakers.front();
}

void apply(session& s, const said& event) {
    agent& speaker = agent_at(s, event.agent);
    // An empty answer takes its turn and leaves no line.
    if (!event.text.empty()) {
        line spoken{event.line_id, event.agent};
        spoken.text = event.text;
        spoken.turn = s.turn;
        spoken.is_sampled = true;
        if (event.to != nobody) {
            spoken.to = event.to;
            spoken.visible_to = between(event.agent, event.to);
        }
        add_line(s, std::move(spoken));
    }
    if (event.is_remembered) apply(s, heard{event.agent, event.reads});
    speaker.last_turn = s.turn;
    // The hearer of a whisper owes an answer; an answer itself is owed none.
    if (s.form == topology::whisper) {
        const bool answers = s.owes_answer == event.agent;
        if (!answers) ++s.whispers_begun;
        // An answer is not answered in turn, or two agents would whisper for ever.
        const bool is_heard = !answers && !event.text.empty() && can_answer(s, event.to);
        s.owes_answer = is_heard ? event.to : nobody;
        s.owed_to = is_heard ? event.agent : nobody;
    }
    ++s.turn;
    ++s.place;
    if (s.place < turns_in_round(s)) return;
    ++s.round;
    s.place = 0;
    s.round_start = s.lines.size();
}

void apply(session& s, const heard& event) {
    agent& reader = agent_at(s, event.agent);
    reader.lines_read = event.reads;
    reader.has_entered = true;
}

void apply(session& s, const whispered& event) {
    line spoken{event.line_id, event.from};
    spoken.text = event.text;
    spoken.turn = s.turn;
    spoken.to = event.to;
    spoken.visible_to = between(event.from, event.to);
    add_line(s, std::move(spoken));
    if (s.form != topology::whisper || !can_answer(s, event.to)) return;
    s.owes_answer = event.to;
    s.owed_to = event.from;
}

void apply(session& s, const told& event) {
    line spoken{event.line_id};
    spoken.text = event.text;
    spoken.turn = s.turn;
    add_line(s, std::move(spoken));
}

void apply(session& s, const voted& event) {
    question& asked = s.questions[event.question];
    // An agent's newest vote replaces its earlier one.
    std::erase_if(asked.votes, [&](const vote& v) { return v.agent == event.ballot.agent; });
    add_choice(asked, event.ballot.choice);
    for (const std::string& choice : event.ballot.ranking) add_choice(asked, choice);
    asked.votes.push_back(event.ballot);
    line note{event.line_id};
    note.text = "You voted for \"" + event.ballot.choice + "\" on \"" + asked.text + "\".";
    note.turn = s.turn;
    note.visible_to = {event.ballot.agent};
    note.is_hidden = true;
    add_line(s, std::move(note));
    measure(asked);
}

}  // namespace semantic::protocol::coordination
