// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/record.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>

#include "protocol/coordination/floor.hpp"
#include "protocol/coordination/opening.hpp"
#include "protocol/wire/fields.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::coordination {

namespace json = boost::json;

namespace {

// No bound: this server wrote the record, within its own bounds.
constexpr std::size_t anything = std::numeric_limits<std::size_t>::max();
// Half, so that sums of two numbers do not overflow.
constexpr int count_max = std::numeric_limits<int>::max() / 2;

template <class T>
json::array list_of(const std::vector<T>& items) {
    json::array out;
    for (const T& each : items) out.emplace_back(each);
    return out;
}

json::object to_json(const agent& a) {
    return {{"id", a.id},
            {"name", a.name},
            {"role", a.role},
            {"system_prompt", a.system_prompt},
            {"lifecycle", lifecycle_names[static_cast<std::size_t>(index_of(a.life))]},
            {"lines_read", a.lines_read},
            {"has_entered", a.has_entered},
            {"last_turn", a.last_turn}};
}

json::object to_json(const line& l) {
    return {{"id", l.id},
            {"sender", l.sender},
            {"sender_name", l.sender_name},
            {"text", l.text},
            {"turn", l.turn},
            {"to", l.to},
            {"visible_to", list_of(l.visible_to)},
            {"is_hidden", l.is_hidden},
            {"is_sampled", l.is_sampled}};
}

json::object to_json(const vote& v) {
    return {
        {"id", v.id}, {"agent", v.agent}, {"choice", v.choice}, {"ranking", list_of(v.ranking)}};
}

json::object to_json(const question& q);
json::object to_json(const exchange& e);
json::object to_json(const streamed_turn& t);
json::object to_json(const kept_reply& r);

template <class T>
json::array objects_of(const std::vector<T>& items) {
    json::array out;
    for (const T& each : items) out.emplace_back(to_json(each));
    return out;
}

/// Returns: the items after those that are stored in parts.
template <class T>
std::vector<T> rest_of(const std::vector<T>& items, const std::vector<stored_part>& parts) {
    std::size_t held = 0;
    for (const stored_part& each : parts) held += each.items;
    return {items.begin() + static_cast<std::ptrdiff_t>(std::min(held, items.size())), items.end()};
}

json::object to_json(const question& q) {
    return {{"text", q.text},           {"choices", list_of(q.choices)},
            {"are_fixed", q.are_fixed}, {"votes", objects_of(q.votes)},
            {"ballots", q.ballots},     {"is_closed", q.is_closed},
            {"winner", q.winner}};
}

json::object to_json(const exchange& e) { return {{"read", e.read}, {"said", e.said}}; }

json::object to_json(const streamed_turn& t) {
    return {{"agent", t.agent},
            {"start", t.start},
            {"text", t.text},
            {"sizes", list_of(t.sizes)},
            {"complete", t.complete}};
}

json::object to_json(const kept_reply& r) {
    json::object out{{"key", r.key}, {"what", r.digest}, {"reply", r.reply}};
    if (!r.turns.empty()) out["turns"] = objects_of(r.turns);
    return out;
}

/// Returns: the parts as JSON. One with part_items items is only its name, as in earlier versions.
json::array parts_list(const std::vector<stored_part>& parts) {
    json::array out;
    for (const stored_part& each : parts) {
        if (each.items == part_items)
            out.emplace_back(each.name);
        else
            out.push_back(json::object{{"name", each.name}, {"items", each.items}});
    }
    return out;
}

/// All but what read_session() can count once more, such as the bytes of lines.
json::object to_json(const session& s) {
    const auto word = [](const auto& names, auto value) {
        return names[static_cast<std::size_t>(index_of(value))];
    };
    return {{"format", record_format},
            {"record", "session"},
            {"id", s.id},
            {"topology", word(topology_names, s.form)},
            {"debate_format", word(format_names, s.format)},
            {"decision_mode", word(decision_names, s.decides)},
            {"agents", objects_of(s.agents)},
            {"lines", objects_of(s.lines)},
            {"questions", objects_of(s.questions)},
            {"prefix", s.prefix},
            {"max_turns", s.max_turns},
            {"turn", s.turn},
            {"round", s.round},
            {"place", s.place},
            {"round_start", s.round_start},
            {"whispers_begun", s.whispers_begun},
            {"owes_answer", s.owes_answer},
            {"owed_to", s.owed_to}};
}

json::object to_json(const memory& m) {
    return {{"format", record_format},
            {"record", "memory"},
            {"system", m.system},
            {"has_older", m.has_older},
            {"exchanges", objects_of(m.exchanges)}};
}

// Reading: every field must be there, as to_json() wrote it.

// A field that is missing gives `low` here; the complaint ends the reading.
int integer_at(const json_cursor& object, std::string_view key, int low, int high) {
    const json_cursor field = object.at(key);
    if (!field.ok()) return low;
    return static_cast<int>(field.as_integer(low, high));
}

std::size_t size_at(const json_cursor& object, std::string_view key, std::size_t high) {
    return static_cast<std::size_t>(
        integer_at(object, key, 0, static_cast<int>(std::min(high, std::size_t{count_max}))));
}

bool bool_at(const json_cursor& object, std::string_view key) {
    const json_cursor field = object.at(key);
    return field.ok() && field.as_bool();
}

/// Reads a word of `names` as the value at its index.
template <class Enum, class Names>
Enum enum_at(const json_cursor& object, std::string_view key, const Names& names) {
    const std::string word = string_at(object, key);
    // After an earlier complaint the word is empty, and that is no second one.
    auto found = std::ranges::find(names, word);
    if (object.ok() && found == names.end())
        object.place(key).fail(errc::bad_value, quoted(word) + " is unknown");
    return found == names.end() ? Enum{} : static_cast<Enum>(found - names.begin());
}

/// Reads a list, each item by `read`.
template <class Read>
auto list_at(const json_cursor& object, std::string_view key, Read read) {
    std::vector<decltype(read(object))> out;
    const json_cursor list = object.at(key);
    const std::size_t count = list.ok() ? parse_count(list, anything) : 0;
    for (std::size_t i = 0; i < count && object.ok(); ++i) out.push_back(read(list.item(i)));
    return out;
}

std::vector<std::string> strings_at(const json_cursor& object, std::string_view key) {
    return list_at(object, key, [](const json_cursor& c) { return std::string(c.as_string()); });
}

/// Reads the index of one of `agents` agents, or `nobody`.
int agent_at(const json_cursor& object, std::string_view key, int agents) {
    return integer_at(object, key, nobody, agents - 1);
}

/// Reads an agent of a session, as to_json() wrote it.
agent read_agent(const json_cursor& c) {
    agent a;
    a.id = string_at(c, "id");
    a.name = string_at(c, "name");
    a.role = string_at(c, "role");
    a.system_prompt = string_at(c, "system_prompt");
    a.life = enum_at<lifecycle>(c, "lifecycle", lifecycle_names);
    a.lines_read = size_at(c, "lines_read", count_max);
    a.has_entered = bool_at(c, "has_entered");
    a.last_turn = integer_at(c, "last_turn", nobody, count_max);
    if (c.ok() && !is_name(a.id)) c.place("id").fail(errc::bad_value, "is no agent's id");
    return a;
}

/// Reads a line. `agents`: the number of agents, to check indexes of them. Likewise below.
line read_line(const json_cursor& c, int agents) {
    line l;
    l.id = string_at(c, "id");
    l.sender = agent_at(c, "sender", agents);
    l.sender_name = string_at(c, "sender_name");
    l.text = string_at(c, "text");
    l.turn = integer_at(c, "turn", 0, count_max);
    l.to = agent_at(c, "to", agents);
    l.visible_to = list_at(c, "visible_to", [&](const json_cursor& one) {
        return static_cast<int>(one.as_integer(0, agents - 1));
    });
    if (c.ok() && !std::ranges::is_sorted(l.visible_to))
        c.place("visible_to").fail(errc::bad_value, "must be in ascending order");
    l.is_hidden = bool_at(c, "is_hidden");
    l.is_sampled = bool_at(c, "is_sampled");
    return l;
}

/// Reads a vote; are_votes_of() checks it with its question.
vote read_vote(const json_cursor& c, int agents) {
    vote v;
    v.id = string_at(c, "id");
    v.agent = integer_at(c, "agent", 0, agents - 1);
    v.choice = string_at(c, "choice");
    v.ranking = strings_at(c, "ranking");
    return v;
}

/// Reads a question, and measures it: its bytes are not in the record.
question read_question(const json_cursor& c, int agents) {
    question q;
    q.text = string_at(c, "text");
    q.choices = strings_at(c, "choices");
    q.are_fixed = bool_at(c, "are_fixed");
    q.votes = list_at(c, "votes", [&](const json_cursor& one) { return read_vote(one, agents); });
    q.ballots = integer_at(c, "ballots", 1, count_max);
    q.is_closed = bool_at(c, "is_closed");
    q.winner = string_at(c, "winner");
    measure(q);
    return q;
}

/// Complains of a record of another format or kind.
void check_format(const json_cursor& root, std::string_view kind) {
    if (integer_at(root, "format", 0, count_max) != record_format)
        root.place("format").fail(errc::bad_value, "is another format than this server's");
    if (root.ok() && string_at(root, "record") != kind)
        root.place("record").fail(errc::bad_value, "is no " + std::string(kind));
}

bool is_choice_of(const question& q, const std::string& text) {
    return std::ranges::find(q.choices, text) != q.choices.end();
}

/// Whether vote_of() could have made these votes: each of another agent that may vote, for existing
/// choices.
bool are_votes_of(const session& s, const question& q) {
    std::set<int> voted;
    for (const vote& v : q.votes) {
        const part does = part_of(s.agents[static_cast<std::size_t>(v.agent)].role);
        if (does == part::observer || !voted.insert(v.agent).second) return false;
        if (!is_choice_of(q, v.choice)) return false;
        if (!v.ranking.empty() && v.ranking.front() != v.choice) return false;
        const std::set<std::string> ranked(v.ranking.begin(), v.ranking.end());
        const auto is_known = [&](const std::string& each) { return is_choice_of(q, each); };
        if (ranked.size() != v.ranking.size() || !std::ranges::all_of(ranked, is_known))
            return false;
    }
    const bool has_winner = !q.winner.empty();
    return !has_winner || (q.is_closed && is_choice_of(q, q.winner));
}

/// Complains of questions that no session could have.
void check_questions(const json_cursor& root, const session& s) {
    if (!root.ok()) return;
    std::set<std::string> texts;
    for (const question& q : s.questions) {
        if (!texts.insert(q.text).second)
            root.place("questions").fail(errc::bad_value, "one is asked twice");
        if (!are_votes_of(s, q))
            root.place("questions").fail(errc::bad_value, "has votes that nobody can have cast");
    }
}

/// Checks that the fields of a session fit together: indices are in range, ids are unique.
void check_whole(const json_cursor& root, const session& s) {
    if (!root.ok()) return;
    if (speakers_of(s).empty()) root.place("agents").fail(errc::bad_value, "nobody speaks");
    for (const agent& a : s.agents)
        if (a.lines_read > s.lines.size() || a.last_turn >= s.turn)
            root.place("agents").fail(errc::bad_value, "an agent is ahead of its session");
    for (std::size_t i = 0; i < s.agents.size(); ++i)
        if (s.find(s.agents[i].id) != static_cast<int>(i))
            root.place("agents").fail(errc::bad_value, "two agents have one id");
    if (root.ok() && s.place >= turns_in_round(s))
        root.place("place").fail(errc::bad_value, "is not in the round");
    if ((s.owes_answer == nobody) != (s.owed_to == nobody))
        root.place("owed_to").fail(errc::bad_value, "an answer is owed by somebody, to somebody");
}

/// Returns lines that are stored apart; `agents`: how many agents the session has.
using more_lines = std::function<std::vector<line>(int agents)>;

/// Reads a session; `first`: the lines in front of those of the record, may be empty.
session read_session(const json_cursor& root, const more_lines& first = {}) {
    session s;
    check_format(root, "session");
    s.id = string_at(root, "id");
    s.form = enum_at<topology>(root, "topology", topology_names);
    s.format = enum_at<debate_format>(root, "debate_format", format_names);
    s.decides = enum_at<decision_mode>(root, "decision_mode", decision_names);
    s.agents = list_at(root, "agents", read_agent);
    const auto agents = static_cast<int>(s.agents.size());
    if (first)
        for (line& each : first(agents)) add_line(s, std::move(each));
    for (line& each :
         list_at(root, "lines", [&](const json_cursor& c) { return read_line(c, agents); }))
        add_line(s, std::move(each));
    s.questions =
        list_at(root, "questions", [&](const json_cursor& c) { return read_question(c, agents); });
    s.prefix = string_at(root, "prefix");
    s.max_turns = integer_at(root, "max_turns", 0, count_max);
    s.turn = integer_at(root, "turn", 0, count_max);
    s.round = integer_at(root, "round", 0, s.turn);
    s.place = integer_at(root, "place", 0, s.turn);
    s.round_start = size_at(root, "round_start", s.lines.size());
    s.whispers_begun = integer_at(root, "whispers_begun", 0, s.turn);
    s.owes_answer = agent_at(root, "owes_answer", agents);
    s.owed_to = agent_at(root, "owed_to", agents);
    check_whole(root, s);
    check_questions(root, s);
    return s;
}

exchange read_exchange(const json_cursor& c) {
    exchange e;
    e.read = string_at(c, "read");
    e.said = string_at(c, "said");
    return e;
}

memory read_memory(const json_cursor& root) {
    memory m;
    check_format(root, "memory");
    m.system = string_at(root, "system");
    m.has_older = bool_at(root, "has_older");
    m.exchanges = list_at(root, "exchanges", read_exchange);
    return m;
}

constexpr json_limits no_limits{.bytes_max = anything, .values_max = anything};

/// Reads the items of these parts, each by `read`. `part`: gives the bytes of a part. Complains to
/// `place` where one is missing or incomplete.
template <class Read>
auto parts_of(const json_cursor& place, const std::vector<stored_part>& parts,
              const part_reader& part, Read read) {
    std::vector<decltype(read(place))> all;
    for (const stored_part& each : parts) {
        if (!place.ok()) break;
        const auto bytes = part ? part(each.name) : std::nullopt;
        if (!bytes) {
            place.fail(errc::bad_value, "part " + each.name + " is not there");
            break;
        }
        auto items = read_object(*bytes, no_limits, [&](const json_cursor& root) {
            check_format(root, "part");
            return list_at(root, "items", read);
        });
        const bool is_whole = items && items->size() == each.items;
        if (!is_whole) {
            place.fail(errc::bad_value, "part " + each.name + " is not whole");
            break;
        }
        std::ranges::move(*items, std::back_inserter(all));
    }
    return all;
}

/// Reads the names of parts; a record that has none lacks the field.
std::vector<stored_part> parts_at(const json_cursor& object, std::string_view key) {
    if (!object.find(key)) return {};
    return list_at(object, key, [](const json_cursor& one) {
        // As earlier versions wrote it: a name, and part_items items.
        if (!one.value().is_object()) return stored_part{std::string(one.as_string())};
        return stored_part{string_at(one, "name"), size_at(one, "items", count_max)};
    });
}

/// Reads a turn as it was streamed. Complains where its pieces are not the whole text.
streamed_turn read_streamed(const json_cursor& c, int agents) {
    streamed_turn turn;
    turn.agent = integer_at(c, "agent", 0, agents - 1);
    turn.start = string_at(c, "start");
    turn.text = string_at(c, "text");
    turn.sizes = list_at(c, "sizes", [](const json_cursor& one) {
        return static_cast<std::uint32_t>(one.as_integer(0, count_max));
    });
    turn.complete = string_at(c, "complete");
    // A replay cuts the text by these sizes.
    const std::size_t bytes = std::accumulate(turn.sizes.begin(), turn.sizes.end(), std::size_t{0});
    if (c.ok() && bytes != turn.text.size())
        c.place("sizes").fail(errc::bad_value, "are not those of the text");
    return turn;
}

kept_reply read_reply(const json_cursor& c, int agents) {
    kept_reply kept{string_at(c, "key"), string_at(c, "what"), string_at(c, "reply")};
    if (c.find("turns"))
        kept.turns =
            list_at(c, "turns", [&](const json_cursor& one) { return read_streamed(one, agents); });
    return kept;
}

/// Reads a kept session; lines and exchanges in parts come before those of the record.
kept_session read_kept(const json_cursor& root, const part_reader& part) {
    kept_session s;
    check_format(root, "kept_session");
    s.line_parts = parts_at(root, "line_parts");
    const auto first = [&](int agents) {
        return parts_of(root, s.line_parts, part,
                        [&](const json_cursor& c) { return read_line(c, agents); });
    };
    const json_cursor now = root.at("session");
    if (now.ok()) s.now = read_session(now, first);
    s.memories = list_at(root, "memories", [&](const json_cursor& one) {
        std::pair<std::string, memory> found{string_at(one, "agent"), {}};
        const json_cursor kept = one.at("memory");
        if (!kept.ok()) return found;
        found.second = read_memory(kept);
        found.second.parts = parts_at(one, "parts");
        auto all = parts_of(one, found.second.parts, part, read_exchange);
        std::ranges::move(found.second.exchanges, std::back_inserter(all));
        found.second.exchanges = std::move(all);
        return found;
    });
    const auto agents = static_cast<int>(s.now.agents.size());
    s.replies =
        list_at(root, "replies", [&](const json_cursor& one) { return read_reply(one, agents); });
    return s;
}

template <class T>
std::string part_text(const std::vector<T>& items) {
    return to_text(
        json::object{{"format", record_format}, {"record", "part"}, {"items", objects_of(items)}});
}

}  // namespace

std::string to_record(const session& s) { return to_text(to_json(s)); }

std::string to_record(const memory& m) { return to_text(to_json(m)); }

std::string lines_part(const std::vector<line>& lines) { return part_text(lines); }

std::string exchanges_part(const std::vector<exchange>& exchanges) { return part_text(exchanges); }

std::string to_record(const kept_head& head) {
    json::array kept;
    for (const auto& [name, one] : head.memories) {
        json::object object{{"agent", name}, {"memory", to_json(one)}};
        if (!one.parts.empty()) object["parts"] = parts_list(one.parts);
        kept.push_back(std::move(object));
    }
    json::array replies;
    for (const auto& each : head.replies) replies.push_back(to_json(*each));
    json::object out{{"format", record_format},
                     {"record", "kept_session"},
                     {"session", to_json(head.now)},
                     {"memories", std::move(kept)},
                     {"replies", std::move(replies)}};
    if (!head.line_parts.empty()) out["line_parts"] = parts_list(head.line_parts);
    return to_text(out);
}

std::string to_record(const kept_session& s) {
    kept_head head{s.now, s.line_parts, s.memories};
    head.now.lines = rest_of(s.now.lines, s.line_parts);
    for (auto& [name, one] : head.memories) one.exchanges = rest_of(one.exchanges, one.parts);
    for (const kept_reply& each : s.replies)
        head.replies.push_back(std::make_shared<const kept_reply>(each));
    return to_record(head);
}

result<session> session_of(std::string_view record) {
    return read_object(record, no_limits,
                       [](const json_cursor& root) { return read_session(root); });
}

result<memory> memory_of(std::string_view record) {
    return read_object(record, no_limits, read_memory);
}

result<kept_session> kept_session_of(std::string_view record, const part_reader& part) {
    return read_object(record, no_limits,
                       [&](const json_cursor& root) { return read_kept(root, part); });
}

}  // namespace semantic::protocol::coordination
