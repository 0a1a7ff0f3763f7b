// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/call_probe.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <vector>

#include "engine/text/output/output_parser.hpp"
#include "engine/text/template/probe/probe_conversations.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;

// These forms are tried before the others. When two parsers read the calls equally well, the first
// wins. Parsers of tagged arguments also read JSON between the same marks, so the form that has
// only JSON (hermes) must come before theirs.
constexpr std::array tried_first{call_format::harmony, call_format::llama3, call_format::hermes};

std::vector<const tool_call_part*> calls_in(const conversation& chat) {
    std::vector<const tool_call_part*> calls;
    for (const message& from : chat.messages)
        for (const content_part& part : from.parts)
            if (const auto* call = std::get_if<tool_call_part>(&part)) calls.push_back(call);
    return calls;
}

/// The assistant's turn with the calls, cut out of the rendering: the text after the question and
/// before the first result, without what begins the turn. Empty when the question is not printed.
std::string_view written_turn(const rendered_calls& made) {
    std::string_view text = made.text;
    const std::size_t question = text.find(probe::asked);
    if (question == std::string_view::npos) return {};
    text.remove_prefix(question + std::string_view(probe::asked).size());
    text = text.substr(0, text.find(probe::returned));
    const std::size_t begin =
        made.turn_begin.empty() ? std::string_view::npos : text.find(made.turn_begin);
    if (begin != std::string_view::npos) text.remove_prefix(begin + made.turn_begin.size());
    return text;
}

/// The turn after its </think>, or the whole turn without one: some templates print empty
/// reasoning in front of a call.
std::string_view without_thinking(std::string_view turn) {
    constexpr std::string_view close = "</think>";
    const std::size_t found = turn.find(close);
    return found == std::string_view::npos ? turn : turn.substr(found + close.size());
}

/// Whether the parser read the call that was given to the template; arguments are compared as JSON.
bool is_same(const answer_call& read, const tool_call_part& given) {
    boost::system::error_code error;
    const json::value a = json::parse(read.arguments_json, error);
    if (error) return false;
    const json::value b = json::parse(given.arguments_json, error);
    return !error && read.name == given.name && a == b;
}

/// Parses `turn` with the parser of `format`. Returns: how many bytes it took for text rather than
/// calls (the fewer, the better the format fits), or nothing when it did not read all calls of
/// `chat` back.
std::optional<std::size_t> text_left(call_format format, std::string_view turn,
                                     const conversation& chat) {
    answer_format answers;
    answers.calls = format;
    if (format == call_format::harmony) answers.thinking = thinking_format::harmony;
    const auto parser = make_output_parser(answers, offered_tools(chat.tools));
    std::vector<answer_piece> pieces = parser->push(turn);
    for (answer_piece& piece : parser->finish()) pieces.push_back(std::move(piece));
    const std::vector<const tool_call_part*> given = calls_in(chat);
    std::size_t count = 0, left = 0;
    for (const answer_piece& piece : pieces) {
        if (const auto* text = std::get_if<answer_text>(&piece)) left += text->text.size();
        const auto* call = std::get_if<answer_call>(&piece);
        if (call == nullptr) continue;
        if (count == given.size() || !is_same(*call, *given[count])) return std::nullopt;
        ++count;
    }
    if (count != given.size()) return std::nullopt;
    return left;
}

/// How many bytes of the turn in a rendering are left as text by the parser of `format`, with or
/// without the turn's reasoning; nothing when the calls are not read back either way.
std::optional<std::size_t> text_left(call_format format, const rendered_calls& made) {
    const std::string_view turn = written_turn(made);
    const auto left = text_left(format, turn, made.chat);
    return left ? left : text_left(format, without_thinking(turn), made.chat);
}

}  // namespace

bool writes_calls(const rendered_calls& made) {
    const std::string_view turn = written_turn(made);
    const std::string_view argument = probe::argument;
    std::size_t count = 0;
    for (std::size_t at = turn.find(argument); at != std::string_view::npos;
         at = turn.find(argument, at + 1))
        ++count;
    // More are no fault: a template may print an argument twice.
    return count >= calls_in(made.chat).size();
}

bool reads_back(call_format format, const rendered_calls& made) {
    return text_left(format, made).has_value();
}

std::optional<call_format> form_of_calls(const rendered_calls& one, const rendered_calls& two) {
    if (!writes_calls(one)) return std::nullopt;
    // Templates that render only one call per message raise an error over the second conversation
    // or leave calls out: then the first one decides alone.
    const bool has_two = writes_calls(two);
    call_format best = call_format::none;
    std::size_t least = 0;
    const auto consider = [&](call_format format) {
        const auto first = text_left(format, one);
        const auto second = first && has_two ? text_left(format, two) : first;
        if (!second) return;
        const std::size_t left = *first + *second;
        if (best != call_format::none && left >= least) return;
        best = format;
        least = left;
    };
    for (const call_format format : tried_first) consider(format);
    // Those of tried_first come again here, which changes nothing: they do not leave less.
    for (const call_format format : call_formats()) consider(format);
    return best;
}

}  // namespace semantic::engine
