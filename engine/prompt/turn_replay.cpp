#include "engine/prompt/turn_replay.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <unordered_map>

#include "engine/text/output/output_parser.hpp"
#include "engine/text/output/utf8_stream.hpp"
#include "engine/text/template/template_parts.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;

struct spoken_call {
    std::string name;
    std::optional<json::value> arguments;  // nothing when they are no JSON
};

/// What a turn says, without how it is written.
struct spoken_turn {
    std::string text;
    std::string thinking;
    std::vector<spoken_call> calls;
};

void add_call(spoken_turn& to, const std::string& name, const std::string& arguments_json) {
    boost::system::error_code error;
    json::value arguments = json::parse(arguments_json, error);
    to.calls.push_back({name, error ? std::nullopt : std::optional(std::move(arguments))});
}

spoken_turn spoken_in(const message& from) {
    spoken_turn said;
    for (const content_part& part : from.parts) {
        if (const auto* text = std::get_if<text_part>(&part)) said.text += trimmed(text->text);
        if (const auto* thought = std::get_if<thinking_part>(&part))
            said.thinking += trimmed(thought->text);
        if (const auto* call = std::get_if<tool_call_part>(&part))
            add_call(said, call->name, call->arguments_json);
    }
    return said;
}

/// `sampled`: what the model wrote, without the start of its turn. What a client was shown of it is
/// UTF-8, whatever bytes were sampled.
spoken_turn spoken_in(std::string_view sampled, const answer_format& format,
                      const offered_tools& tools) {
    utf8_stream characters;
    std::string text = characters.push(sampled);
    text += characters.finish();
    auto parser = make_output_parser(format, tools);
    spoken_turn said;
    std::string open;  // text up to the next call
    const auto close = [&] {
        said.text += trimmed(open);
        open.clear();
    };
    const auto take = [&](const std::vector<answer_piece>& pieces) {
        for (const answer_piece& piece : pieces) {
            if (const auto* shown = std::get_if<answer_text>(&piece)) open += shown->text;
            if (const auto* thought = std::get_if<answer_thinking>(&piece))
                said.thinking += thought->text;
            if (const auto* call = std::get_if<answer_call>(&piece)) {
                close();
                add_call(said, call->name, call->arguments_json);
            }
        }
    };
    take(parser->push(text));
    take(parser->finish());
    close();
    said.thinking = trimmed(said.thinking);
    return said;
}

bool is_same(const json::value& a, const json::value& b);

bool is_same(const json::object& a, const json::object& b) {
    if (a.size() != b.size()) return false;
    return std::ranges::all_of(a, [&](const auto& member) {
        const json::value* other = b.if_contains(member.key());
        return other != nullptr && is_same(member.value(), *other);
    });
}

/// Equal but for the order of members and for how a number is written: clients turn 1.0 into 1.
bool is_same(const json::value& a, const json::value& b) {
    if (a.is_object() && b.is_object()) return is_same(a.get_object(), b.get_object());
    if (a.is_array() && b.is_array())
        return std::ranges::equal(
            a.get_array(), b.get_array(),
            [](const json::value& x, const json::value& y) { return is_same(x, y); });
    if (a.is_number() && b.is_number() && (a.is_double() || b.is_double()))
        return a.to_number<double>() == b.to_number<double>();
    return a == b;
}

bool is_same(const spoken_turn& asked, const spoken_turn& sampled) {
    if (asked.text != sampled.text || asked.calls.size() != sampled.calls.size()) return false;
    if (!asked.thinking.empty() && asked.thinking != sampled.thinking) return false;
    return std::ranges::equal(asked.calls, sampled.calls,
                              [](const spoken_call& a, const spoken_call& b) {
                                  return a.name == b.name && a.arguments && b.arguments &&
                                         is_same(*a.arguments, *b.arguments);
                              });
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}
std::uint64_t mixed(std::uint64_t hash, std::string_view text) {
    return mixed(hash, std::hash<std::string_view>{}(text));
}

/// The same for values that are the same. Nested as deep as what a parser takes.
std::uint64_t hash_of(const json::value& value) {
    if (value.is_number()) return mixed(1, std::hash<double>{}(value.to_number<double>()));
    if (value.is_string()) return mixed(2, std::string_view(value.get_string()));
    std::uint64_t hash = static_cast<std::uint64_t>(value.kind()) + 3;
    if (const bool* flag = value.if_bool()) return mixed(hash, *flag ? 1 : 0);
    if (const json::array* list = value.if_array())
        for (const json::value& each : *list) hash = mixed(hash, hash_of(each));
    if (const json::object* object = value.if_object())
        for (const auto& member : *object)  // in any order
            hash += mixed(hash_of(member.value()), std::string_view(member.key()));
    return hash;
}

/// Of what turns have in common that say the same, so that each is compared with few others.
std::uint64_t hash_of(const spoken_turn& turn) {
    std::uint64_t hash = mixed(turn.calls.size(), turn.text);
    for (const spoken_call& call : turn.calls) {
        hash = mixed(hash, call.name);
        if (call.arguments) hash = mixed(hash, hash_of(*call.arguments));
    }
    return hash;
}

bool read_number(std::string_view& from, std::uint32_t& into, char behind) {
    const auto [at, error] = std::from_chars(from.data(), from.data() + from.size(), into);
    if (error != std::errc()) return false;
    from.remove_prefix(static_cast<std::size_t>(at - from.data()));
    if (from.empty()) return behind == ' ';
    if (from.front() != behind) return false;
    from.remove_prefix(1);
    return true;
}

}  // namespace

std::string encode_turns(std::span<const sampled_turn> turns) {
    if (turns.size() > sampled_turns_max) turns = turns.last(sampled_turns_max);
    std::string note;
    for (const sampled_turn& turn : turns) {
        if (!note.empty()) note += ' ';
        note.append(std::to_string(turn.begin)).append("-").append(std::to_string(turn.end));
    }
    return note;
}

std::vector<sampled_turn> decode_turns(std::string_view note, std::size_t text_bytes) {
    std::vector<sampled_turn> turns;
    std::uint32_t before = 0;
    for (sampled_turn turn; !note.empty() && turns.size() < sampled_turns_max;) {
        if (!read_number(note, turn.begin, '-') || !read_number(note, turn.end, ' ')) break;
        if (turn.begin < before || turn.end < turn.begin || turn.end > text_bytes) break;
        before = turn.end;
        turns.push_back(turn);
    }
    return turns;
}

std::size_t replay_turns(conversation& chat, const marked_text& memory,
                         std::span<const sampled_turn> turns, const chat_template& family) {
    const std::string_view text = memory.bytes();
    const answer_format format = family.answers();
    const offered_tools tools(chat.tools);
    std::vector<spoken_turn> said;
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> places;  // of `said`, by hash
    for (const sampled_turn& turn : turns) {
        std::string_view whole = text.substr(turn.begin, turn.end - turn.begin);
        whole.remove_prefix(std::min(whole.size(), family.turn_begin().size()));
        said.push_back(spoken_in(whole, format, tools));
        places[hash_of(said.back())].push_back(said.size() - 1);
    }
    std::size_t next = 0, found = 0;
    for (message& from : chat.messages) {
        if (from.from != role::assistant) continue;
        const spoken_turn asked = spoken_in(from);
        const auto alike = places.find(hash_of(asked));
        if (alike == places.end()) continue;
        const auto& all = alike->second;
        for (auto at = std::ranges::lower_bound(all, next); at != all.end(); ++at) {
            const std::size_t i = *at;
            if (!is_same(asked, said[i])) continue;
            from.as_sampled = text.substr(turns[i].begin, turns[i].end - turns[i].begin);
            from.as_sampled_content = ranges_within(memory.content(), turns[i].begin, turns[i].end);
            next = i + 1;
            ++found;
            break;
        }
    }
    return found;
}

}  // namespace semantic::engine
