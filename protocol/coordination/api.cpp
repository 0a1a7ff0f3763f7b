// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/api.hpp"

#include <boost/json.hpp>

#include <algorithm>

#include "protocol/coordination/opening.hpp"
#include "protocol/reply_parts.hpp"
#include "protocol/wire/fields.hpp"
#include "protocol/wire/sse.hpp"

namespace semantic::protocol::coordination {

namespace json = boost::json;

namespace {

const agent& agent_at(const session& s, int index) {
    return s.agents[static_cast<std::size_t>(index)];
}

/// Returns: the id of an agent by its index; null for `nobody`.
json::value id_of(const session& s, int index) {
    if (index == nobody) return nullptr;
    return json::value(agent_at(s, index).id);
}

/// Returns: the word of the wire for a value.
template <class Enum, class Names>
const char* word_of(const Names& names, Enum value) {
    return names[static_cast<std::size_t>(index_of(value))];
}

json::array words(const std::vector<std::string>& items) {
    json::array out;
    for (const std::string& each : items) out.emplace_back(each);
    return out;
}

/// The agents as clients see them.
json::array agent_states(const session& s) {
    json::array states;
    for (const agent& each : s.agents)
        states.push_back(json::object{{"agent_id", each.id},
                                      {"display_name", each.name},
                                      {"role", each.role},
                                      {"message_count", each.messages},
                                      {"lifecycle", word_of(lifecycle_names, each.life)}});
    return states;
}

/// The state of the session as clients see it.
json::object status_object(const session& s) {
    return {{"session_id", s.id},
            {"current_turn", s.turn},
            {"current_round", s.round},
            {"is_active", s.is_active()},
            {"next_speaker", id_of(s, next_speaker(s))},
            {"agent_states", agent_states(s)}};
}

/// Returns: a line of the transcript as clients see it.
json::object message_object(const session& s, const line& l) {
    // A line of no agent has a name of its own, or is the system's.
    std::string id = "system", name = l.sender_name.empty() ? "System" : l.sender_name;
    if (l.sender != nobody) {
        id = agent_at(s, l.sender).id;
        name = agent_at(s, l.sender).name;
    }
    json::object out{
        {"message_id", l.id},     {"sender_id", id},
        {"sender_name", name},    {"content", l.text},
        {"turn_number", l.turn},  {"channel_type", l.to == nobody ? "public" : "whisper"},
        {"is_interrupted", false}};
    if (l.to != nobody) out["recipient_id"] = id_of(s, l.to);
    return out;
}

/// Returns: the message of a turn; without an id where nothing was said.
json::object message_object(const session& s, const turn_report& report) {
    // Where nothing was said the session got no line, so the id names none.
    line shown{report.event.text.empty() ? "" : report.event.line_id, report.event.agent};
    shown.text = report.event.text;
    shown.turn = report.turn;
    shown.to = report.event.to;
    return message_object(s, shown);
}

/// What a turn read, reused and computed, in tokens, and how it ended.
json::object usage_object(const turn_report& report) {
    json::object out = memory_object(report.memory_name, report.usage);
    out["read_ahead_tokens"] = report.read_ahead_tokens;
    out["output_tokens"] = report.end.output_tokens;
    out["stop_reason"] = engine::to_string(report.end.why);
    add_ending(out, report.end);
    return out;
}

/// Returns: a question with its votes and their result.
json::object question_object(const session& s, const question& asked) {
    const tally result = tally_in(s, asked);
    json::array votes, counts;
    for (const vote& each : asked.votes)
        votes.push_back(json::object{{"vote_id", each.id},
                                     {"agent_id", id_of(s, each.agent)},
                                     {"choice", each.choice},
                                     {"ranking", words(each.ranking)}});
    for (const choice_count& each : result.counts)
        counts.push_back(json::object{{"choice", each.choice}, {"votes", each.votes}});
    json::value winner;
    if (result.winner) winner = *result.winner;
    return {{"question", asked.text},
            {"choices", words(asked.choices)},
            {"votes", std::move(votes)},
            {"status", asked.is_closed ? "closed" : "open"},
            {"tally",
             {{"counts", std::move(counts)},
              {"votes", result.votes},
              {"voters", result.voters},
              {"winner", std::move(winner)},
              {"tied", result.is_tied},
              {"eliminated", words(result.eliminated)},
              {"ballots", asked.ballots}}}};
}

std::string event_of(std::string_view name, json::object fields) {
    return sse_event(name, to_text(fields));
}

/// `is_round`: for a round, whose speakers the client does not choose.
turn_request read_turn(const json_cursor& root, bool is_round, const request_limits& limits) {
    turn_request out;
    for (const char* key : {"agent_id", "to_agent_id"}) {
        auto field = root.find(key);
        if (!field) continue;
        if (is_round) field->fail(errc::bad_value, "a round has its own order; name it in a turn");
        // One of the two fields that were asked for above.
        (key == std::string_view("agent_id") ? out.wish.agent_id : out.wish.to_agent_id) =
            std::string(field->as_string());
    }
    out.answer.max_tokens =
        parse_max_tokens(root, {"max_tokens"}, limits).value_or(answer_wish{}.max_tokens);
    if (out.answer.max_tokens == 0)
        root.place("max_tokens").fail(errc::bad_value, "a turn says something: at least 1");
    out.answer.sampling = parse_sampling(root, limits, -1);
    out.answer.thinking = flag_at(root, "thinking");
    return out;
}

/// Reads a list of at most `count_max` choices.
std::vector<std::string> parse_words(const json_cursor& list, std::size_t count_max) {
    std::vector<std::string> out;
    const std::size_t count = parse_count(list, count_max);
    for (std::size_t i = 0; i < count && list.ok(); ++i) {
        const json_cursor item = list.item(i);
        out.emplace_back(item.as_string());
        if (out.back().empty()) item.fail(errc::bad_value, "must not be empty");
        if (characters(out.back()) > choice_characters_max)
            item.fail(errc::bad_value,
                      "may have " + std::to_string(choice_characters_max) + " characters");
    }
    return out;
}

/// Reads a vote that the client casts for an agent.
cast_vote read_vote(const json_cursor& root) {
    cast_vote out;
    out.agent_id = string_at(root, "agent_id");
    out.question = text_at(root, "question", question_characters_max, presence::required);
    out.choice = text_at(root, "choice", choice_characters_max, presence::optional);
    if (auto list = root.find("ranking")) out.ranking = parse_words(*list, choices_max);
    return out;
}

/// Reads a question for all agents, with at least two different choices.
decision_request read_decision(const json_cursor& root, const request_limits& limits) {
    decision_request out;
    out.question = text_at(root, "question", question_characters_max, presence::required);
    const json_cursor list = root.at("choices");
    if (list.ok()) out.choices = parse_words(list, choices_max);
    if (root.ok() && out.choices.size() < 2)
        list.fail(errc::bad_value, "must have at least two choices");
    std::vector<std::string> sorted = out.choices;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end())
        list.fail(errc::bad_value, "has a choice twice");
    out.sampling = parse_sampling(root, limits, -1);
    return out;
}

}  // namespace

result<turn_request> parse_turn(std::string_view body, bool is_round,
                                const request_limits& limits) {
    if (is_white_space(body)) return turn_request{};
    return read_object(body, limits.json,
                       [&](const json_cursor& root) { return read_turn(root, is_round, limits); });
}

result<whisper_request> parse_whisper(std::string_view body, const json_limits& limits) {
    return read_object(body, limits, [](const json_cursor& root) {
        return whisper_request{
            string_at(root, "from_agent_id"), string_at(root, "to_agent_id"),
            text_at(root, "content", whisper_characters_max, presence::required)};
    });
}

result<whispered> whisper_in(const session& s, const whisper_request& wish, std::string line_id) {
    const int from = s.find(wish.from);
    const int to = s.find(wish.to);
    if (from == nobody)
        return fail(errc::not_found, "from_agent_id: no agent " + wish.from + " in session " + s.id,
                    "from_agent_id");
    if (to == nobody)
        return fail(errc::not_found, "to_agent_id: no agent " + wish.to + " in session " + s.id,
                    "to_agent_id");
    if (from == to)
        return fail(errc::bad_value, "to_agent_id: nobody whispers to itself", "to_agent_id");
    if (!s.is_active() || s.is_full())
        return fail(errc::conflict, "Session " + s.id + " is not active");
    return whispered{from, to, std::move(line_id), wish.text};
}

result<cast_vote> parse_vote(std::string_view body, const json_limits& limits) {
    return read_object(body, limits, read_vote);
}

result<decision_request> parse_decision(std::string_view body, const request_limits& limits) {
    return read_object(body, limits.json,
                       [&](const json_cursor& root) { return read_decision(root, limits); });
}

std::string created_body(const session& s) {
    return to_text(json::object{{"session_id", s.id},
                                {"agents", agent_states(s)},
                                {"topology", word_of(topology_names, s.form)},
                                {"debate_format", word_of(format_names, s.format)},
                                {"decision_mode", word_of(decision_names, s.decides)},
                                {"status", "active"}});
}

std::string status_body(const session& s) { return to_text(status_object(s)); }

messages_body::messages_body(session names, int viewer)
    : names_(std::move(names)),
      viewer_(viewer),
      body_("{\"session_id\":" + to_text(json::value(names_.id)) + ",\"messages\":[") {}

void messages_body::add(std::span<const line> lines) {
    for (const line& each : lines) {
        if (each.is_hidden || !may_see(each, viewer_)) continue;
        if (count_++ > 0) body_ += ',';
        body_ += to_text(message_object(names_, each));
    }
}

std::string messages_body::finish() { return std::move(body_) + "]}"; }

std::string turn_body(const session& s, const turn_report& report) {
    return to_text(json::object{{"message", message_object(s, report)},
                                {"session_status", status_object(s)},
                                {"semantic", usage_object(report)}});
}

std::string round_body(const session& s, std::span<const turn_report> reports) {
    json::array messages, usages;
    for (const turn_report& each : reports) {
        messages.push_back(message_object(s, each));
        usages.push_back(usage_object(each));
    }
    return to_text(json::object{{"messages", std::move(messages)},
                                {"session_status", status_object(s)},
                                {"semantic", std::move(usages)}});
}

std::string whisper_body(const session& s) {
    return to_text(json::object{{"message", message_object(s, s.lines.back())}});
}

std::string vote_body(const session& s, const vote& one, const question& asked) {
    return to_text(json::object{{"vote_id", one.id},
                                {"agent_id", id_of(s, one.agent)},
                                {"choice", one.choice},
                                {"decision", question_object(s, asked)}});
}

std::string votes_body(const session& s) {
    json::array questions;
    for (const question& each : s.questions) questions.push_back(question_object(s, each));
    return to_text(json::object{{"session_id", s.id},
                                {"decision_mode", word_of(decision_names, s.decides)},
                                {"questions", std::move(questions)}});
}

std::string decision_body(const session& s, const question& asked) {
    return to_text(json::object{{"decision", question_object(s, asked)},
                                {"session_status", status_object(s)}});
}

std::string turn_start_event(const session& s, const turn_plan& plan, int turn) {
    json::object fields{{"agent_id", id_of(s, plan.agent)},
                        {"agent_name", agent_at(s, plan.agent).name},
                        {"turn", turn}};
    if (plan.to != nobody) fields["recipient_id"] = id_of(s, plan.to);
    return event_of("turn_start", std::move(fields));
}

std::string token_event(const shown_agent& speaker, std::string_view text,
                        std::string_view so_far) {
    return event_of("token", {{"agent_id", speaker.id},
                              {"agent_name", speaker.name},
                              {"text", text},
                              {"accumulated", so_far}});
}

std::string turn_complete_event(const session& s, const turn_report& report) {
    return event_of("turn_complete", {{"agent_id", id_of(s, report.event.agent)},
                                      {"agent_name", agent_at(s, report.event.agent).name},
                                      {"content", report.event.text},
                                      {"turn", report.turn},
                                      {"message", message_object(s, report)},
                                      {"session_status", status_object(s)},
                                      {"semantic", usage_object(report)}});
}

std::string round_complete_event(const session& s) {
    return event_of("round_complete",
                    {{"status", "complete"}, {"session_status", status_object(s)}});
}

std::string ping_event() { return event_of("ping", {}); }

}  // namespace semantic::protocol::coordination
