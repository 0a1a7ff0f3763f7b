// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/turn_replay.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <unordered_map>

#include "engine/text/output/calls/json_stream.hpp"
#include "engine/text/output/output_parser.hpp"
#include "engine/text/output/utf8_stream.hpp"
#include "engine/text/output/written_arguments.hpp"
#include "engine/text/template/template_parts.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;

/// A tool call of a turn.
struct spoken_call {
    std::string name;
    std::string written;  // its arguments as text
    bool is_cut = false;  // a limit cut it off; clients may have been shown nothing of it
    std::optional<json::value> arguments{};  // nothing if they are not JSON
};

/// The contents of a turn, however they are written.
struct spoken_turn {
    std::string text;
    std::string thinking;
    std::vector<spoken_call> calls;
};

std::optional<json::value> parsed(std::string_view text) {
    boost::system::error_code error;
    json::value value = json::parse(text, error);
    return error ? std::nullopt : std::optional(std::move(value));
}

void add_call(spoken_turn& to, const std::string& name, const std::string& arguments_json) {
    to.calls.push_back({name, arguments_json, false, parsed(arguments_json)});
}

/// Adds a call that was cut off. Clients that must send an object complete its beginning to one.
void add_cut_call(spoken_turn& to, const spoken_call& begun) {
    const auto object = completed_object(begun.written);
    to.calls.push_back({begun.name, begun.written, true, parsed(object.value_or("{}"))});
}

/// The contents of a client's message.
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

/// Collects the pieces of a turn as clients were shown them.
class shown_turn {
  public:
    void take(const std::vector<answer_piece>& pieces) {
        for (const answer_piece& piece : pieces)
            std::visit([this](const auto& one) { add(one); }, piece);
    }
    spoken_turn finish() {
        close();
        said_.thinking = trimmed(said_.thinking);
        return std::move(said_);
    }

  private:
    void add(const answer_text& piece) { open_ += piece.text; }
    void add(const answer_thinking& piece) { said_.thinking += piece.text; }
    void add(const answer_call_begun& piece) {
        close();
        begun_ = spoken_call{piece.name, {}, true};
    }
    void add(const answer_call_arguments& piece) {
        if (begun_) begun_->written += piece.text;
    }
    void add(const answer_call_dropped&) {
        if (begun_) add_cut_call(said_, *begun_);
        begun_.reset();
    }
    void add(const answer_call& piece) {
        close();
        begun_.reset();
        add_call(said_, piece.name, piece.arguments_json);
    }
    void close() {
        said_.text += trimmed(open_);
        open_.clear();
    }

    spoken_turn said_;
    std::string open_;                  // text up to the next call
    std::optional<spoken_call> begun_;  // a call whose end has not come yet
};

/// Returns: the contents of a turn in each way in which clients may have been shown it. `sampled`:
/// the turn as the model wrote it, without its start; it need not be UTF-8. `has_broken_calls`:
/// the request has calls whose arguments are not JSON.
std::vector<spoken_turn> shown_of(std::string_view sampled, const answer_format& format,
                                  const offered_tools& tools, bool has_broken_calls) {
    utf8_stream characters;
    std::string text = characters.push(sampled);
    text += characters.finish();
    bool is_open = false;  // the parser held something back at the turn's end
    // Parses the turn in pieces of `step` bytes; `was_cut`: it was ended by a limit.
    const auto read = [&](bool was_cut, std::size_t step) {
        auto parser = make_output_parser(format, tools, {.shows_progress = true});
        shown_turn shown;
        for (std::size_t at = 0; at < text.size(); at += step)
            shown.take(parser->push(std::string_view(text).substr(at, step)));
        const std::vector<answer_piece> rest = was_cut ? parser->cut_off() : parser->finish();
        is_open = !rest.empty();
        shown.take(rest);
        return shown.finish();
    };
    const std::size_t whole = std::max<std::size_t>(text.size(), 1);
    std::vector<spoken_turn> ways{read(false, whole)};
    // If a limit ended the turn within a call, the call's beginning was not shown as text.
    if (is_open) ways.push_back(read(true, whole));
    // A call whose arguments turn out to be invalid was shown as a call until then, byte by byte.
    if (has_broken_calls && ways.front().calls.empty() && text.find('{') != std::string::npos)
        ways.push_back(read(false, 1));
    return ways;
}

bool is_same(const json::value& a, const json::value& b);

bool is_same(const json::object& a, const json::object& b) {
    if (a.size() != b.size()) return false;
    return std::ranges::all_of(a, [&](const auto& member) {
        const json::value* other = b.if_contains(member.key());
        return other != nullptr && is_same(member.value(), *other);
    });
}

/// Whether two values are equal; the order of members and the spelling of numbers do not count
/// (clients turn 1.0 into 1).
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

/// JSON without white space outside of strings.
std::string compacted(std::string_view text) {
    json_stream checked;
    std::string out;
    for (const char c : text) checked.push(c, out);
    return out;
}

/// Whether a number in the JSON text `compact` has more digits than a double can hold: then values
/// that compare equal may differ.
bool has_long_number(std::string_view compact) {
    constexpr std::size_t digits_held = 15;
    bool in_string = false;
    std::size_t digits = 0;
    for (std::size_t i = 0; i < compact.size(); ++i) {
        const char c = compact[i];
        if (in_string && c == '\\') ++i;
        if (c == '"') in_string = !in_string;
        const bool is_digit = !in_string && c >= '0' && c <= '9';
        digits = is_digit ? digits + 1 : c == '.' ? digits : 0;
        if (digits > digits_held) return true;
    }
    return false;
}

/// Whether a client's call `asked` repeats the call `sampled`. Arguments with long numbers have to
/// be written alike.
bool is_same(const spoken_call& asked, const spoken_call& sampled) {
    if (asked.name != sampled.name) return false;
    if (sampled.is_cut && asked.written == sampled.written) return true;
    if (!asked.arguments || !sampled.arguments) return false;
    if (!is_same(*asked.arguments, *sampled.arguments)) return false;
    const std::string written = compacted(asked.written);
    return !has_long_number(written) || sampled.is_cut || written == compacted(sampled.written);
}

/// Whether a client's turn `asked` repeats the turn `sampled`. Calls that were cut off may be
/// missing from it: replies that are not streamed leave them out.
bool is_same(const spoken_turn& asked, const spoken_turn& sampled) {
    if (asked.text != sampled.text) return false;
    if (!asked.thinking.empty() && asked.thinking != sampled.thinking) return false;
    auto call = asked.calls.begin();
    for (const spoken_call& each : sampled.calls) {
        if (call != asked.calls.end() && is_same(*call, each))
            ++call;
        else if (!each.is_cut)
            return false;
    }
    return call == asked.calls.end();
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}
std::uint64_t mixed(std::uint64_t hash, std::string_view text) {
    return mixed(hash, std::hash<std::string_view>{}(text));
}

/// A hash that is equal for values for which is_same() is true. Recursion is as deep as the value,
/// which the parser limits. Each kind of value begins with another number, so that 0 and false
/// differ.
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

/// A hash that is equal for turns that are the same except for missing calls.
std::uint64_t text_hash_of(const spoken_turn& turn) { return mixed(0, turn.text); }

/// A hash that is equal for turns for which is_same() is true, so that a turn is compared with few
/// others. Leaves out the reasoning, which a client may leave out, too.
std::uint64_t hash_of(const spoken_turn& turn) {
    std::uint64_t hash = mixed(turn.calls.size(), turn.text);
    for (const spoken_call& call : turn.calls) {
        hash = mixed(hash, call.name);
        if (call.arguments) hash = mixed(hash, hash_of(*call.arguments));
    }
    return hash;
}

/// Removes a number and the delimiter after it from the front of `from`; at the end of the text no
/// blank is needed. Returns: false if there is none.
bool read_number(std::string_view& from, std::uint32_t& number, char delimiter) {
    const auto [at, error] = std::from_chars(from.data(), from.data() + from.size(), number);
    if (error != std::errc()) return false;
    from.remove_prefix(static_cast<std::size_t>(at - from.data()));
    if (from.empty()) return delimiter == ' ';
    if (from.front() != delimiter) return false;
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

namespace {

/// Whether the conversation has calls whose arguments are not JSON.
bool has_broken_calls(const conversation& chat) {
    const auto is_broken = [](const content_part& part) {
        const auto* call = std::get_if<tool_call_part>(&part);
        return call != nullptr && !parsed(call->arguments_json);
    };
    return std::ranges::any_of(chat.messages, [&](const message& from) {
        return std::ranges::any_of(from.parts, is_broken);
    });
}

}  // namespace

namespace {

/// The tools of the whole conversation, deferred ones included: an earlier turn may have called a
/// tool that cannot be called now.
offered_tools known_tools(const conversation& chat) {
    if (chat.deferred_tools.empty()) return offered_tools(chat.tools);
    std::vector<tool_definition> all = chat.tools;
    all.insert(all.end(), chat.deferred_tools.begin(), chat.deferred_tools.end());
    return offered_tools(all);
}

}  // namespace

std::size_t replay_turns(conversation& chat, const marked_text& memory,
                         std::span<const sampled_turn> turns, const chat_template& family) {
    const std::string_view text = memory.bytes();
    const answer_format format = family.answers();
    const offered_tools tools = known_tools(chat);
    const bool is_broken = has_broken_calls(chat);
    std::vector<std::vector<spoken_turn>> said;
    // Indices into `said`, ascending, by hash_of() of the turn; by text_hash_of() for turns with a
    // call that was cut off, which may be missing from the client's message.
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> indices;
    for (const sampled_turn& turn : turns) {
        std::string_view whole = text.substr(turn.begin, turn.end - turn.begin);
        whole.remove_prefix(std::min(whole.size(), family.turn_begin().size()));
        said.push_back(shown_of(whole, format, tools, is_broken));
        for (const spoken_turn& shown : said.back()) {
            const bool is_cut =
                std::ranges::any_of(shown.calls, [](const auto& call) { return call.is_cut; });
            auto& bucket = indices[is_cut ? text_hash_of(shown) : hash_of(shown)];
            if (bucket.empty() || bucket.back() != said.size() - 1)
                bucket.push_back(said.size() - 1);
        }
    }
    std::size_t next = 0, found = 0;
    for (message& from : chat.messages) {
        if (from.from != role::assistant) continue;
        const spoken_turn asked = spoken_in(from);
        const auto is_it = [&](const spoken_turn& shown) { return is_same(asked, shown); };
        std::optional<std::size_t> first;
        for (const std::uint64_t hash : {hash_of(asked), text_hash_of(asked)}) {
            const auto alike = indices.find(hash);
            if (alike == indices.end()) continue;
            const auto& all = alike->second;
            const auto begin = std::ranges::lower_bound(all, next);
            const auto same = std::find_if(begin, all.end(), [&](std::size_t i) {
                return std::ranges::any_of(said[i], is_it);
            });
            if (same != all.end() && (!first || *same < *first)) first = *same;
        }
        if (!first) continue;
        const sampled_turn& turn = turns[*first];
        from.as_sampled = text.substr(turn.begin, turn.end - turn.begin);
        from.as_sampled_content = ranges_within(memory.content(), turn.begin, turn.end);
        next = *first + 1;
        ++found;
    }
    return found;
}

}  // namespace semantic::engine
