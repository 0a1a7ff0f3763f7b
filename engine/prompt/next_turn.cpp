// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/next_turn.hpp"

#include <algorithm>
#include <charconv>

#include "engine/text/output/output_parser.hpp"

namespace semantic::engine {

namespace {

// A mark that is rendered in place of the answer (or message): the wanted text comes after it. The
// first occurrence counts, because only the template itself writes text before it, never the new
// messages.
constexpr std::string_view answer_mark = "the-answer-8f41c6d29b";

/// The names of the tool calls in an answer's text.
std::vector<std::string> call_names(const chat_template& family, std::string_view said) {
    const auto parser = make_output_parser(family.answers(), offered_tools::any());
    std::vector<answer_piece> pieces = parser->push(said);
    for (answer_piece& piece : parser->finish()) pieces.push_back(std::move(piece));
    std::vector<std::string> names;
    for (const answer_piece& piece : pieces)
        if (const auto* call = std::get_if<answer_call>(&piece)) names.push_back(call->name);
    return names;
}

/// The ids of the tool results at the beginning of `more`; if there are any the answer had calls.
std::vector<std::string> result_ids(const std::vector<message>& more) {
    std::vector<std::string> ids;
    for (const message& one : more) {
        if (one.from != role::tool) break;
        for (const content_part& part : one.parts)
            if (const auto* found = std::get_if<tool_result_part>(&part))
                ids.push_back(found->tool_call_id);
    }
    return ids;
}

/// A message that is rendered in place of the answer: it has the mark, and calls for `results`.
message stand_in(const chat_template& family, std::string_view said,
                 const std::vector<std::string>& results) {
    message answer{role::assistant, {}};
    if (results.empty()) {
        answer.parts.push_back(text_part{std::string(answer_mark)});
        return answer;
    }
    const std::vector<std::string> names = call_names(family, said);
    const std::string arguments = "{\"" + std::string(answer_mark) + "\": 0}";
    // If the template allows one call a message, all results belong to that one.
    const bool has_one = !family.shape().parallel_calls;
    for (std::size_t i = 0; i < (has_one ? 1 : results.size()); ++i) {
        // A client may send more results than the model made calls: the last name is repeated.
        std::string name = names.empty() ? "tool" : names[std::min(i, names.size() - 1)];
        answer.parts.push_back(tool_call_part{results[i], std::move(name), arguments});
    }
    return answer;
}

/// Where the turn that contains the mark ends.
std::size_t end_of_turn(const chat_template& family, std::string_view text, std::size_t mark) {
    std::size_t end = text.size();
    for (const std::string& stop : family.stop_tokens()) end = std::min(end, text.find(stop, mark));
    return end;
}

// A field is written as its length in bytes, a colon and its bytes. take_field() reads one from the
// front of `from`; false if there is none.
void append_field(std::string& to, std::string_view field) {
    to.append(std::to_string(field.size())).append(":").append(field);
}

bool take_field(std::string_view& from, std::string& field) {
    std::size_t size = 0;
    auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), size);
    const auto digits = static_cast<std::size_t>(end - from.data());
    if (error != std::errc{} || digits == from.size() || *end != ':') return false;
    from.remove_prefix(digits + 1);
    if (size > from.size()) return false;
    field = from.substr(0, size);
    from.remove_prefix(size);
    return true;
}

}  // namespace

storage::result<marked_text> render_after_answer(const chat_template& family, std::string_view said,
                                                 const conversation& later,
                                                 const render_options& options,
                                                 std::vector<std::string>* changes) {
    const std::vector<message>& more = later.messages;
    const std::vector<std::string> results = result_ids(more);
    conversation chat;
    chat.end = later.end;
    chat.template_values = later.template_values;
    // A conversation begins with a user's message; nothing before the mark is used.
    chat.messages.push_back({role::user, {text_part{"-"}}});
    chat.messages.push_back(stand_in(family, said, results));
    chat.messages.insert(chat.messages.end(), more.begin(), more.end());
    auto rendered = family.render_marked(chat, options, changes);
    if (!rendered) return rendered.error();
    const std::string& text = rendered->bytes();
    // Each of several calls has the mark: the text continues after the last one of the turn.
    std::size_t mark = text.find(answer_mark);
    if (mark == std::string::npos)
        return storage::failure{storage::errc::not_found,
                                "the chat template leaves out what the model said last, so nothing "
                                "can be put behind it; send the whole conversation"};
    for (std::size_t i = 1; i < results.size(); ++i) {
        const std::size_t next = text.find(answer_mark, mark + 1);
        if (next >= end_of_turn(family, text, mark)) break;
        mark = next;
    }
    const std::size_t end =
        results.empty() ? mark + answer_mark.size() : end_of_turn(family, text, mark);
    return rendered->part(end, text.size());
}

storage::result<marked_text> render_after_message(const chat_template& family,
                                                  const conversation& more,
                                                  const render_options& options,
                                                  std::vector<std::string>* changes) {
    conversation chat = more;
    chat.messages.insert(chat.messages.begin(),
                         {role::user, {text_part{std::string(answer_mark)}}});
    auto rendered = family.render_marked(chat, options, changes);
    if (!rendered) return rendered.error();
    const std::size_t mark = rendered->bytes().find(answer_mark);
    if (mark == std::string::npos)
        return storage::failure{storage::errc::not_found,
                                "the chat template leaves out the message that was read last, so "
                                "nothing can be put behind it; send the whole conversation"};
    return rendered->part(mark + answer_mark.size(), rendered->size());
}

std::string encode_tools(const std::vector<tool_definition>& tools) {
    std::string text;
    for (const tool_definition& tool : tools) {
        append_field(text, tool.name);
        append_field(text, tool.description);
        append_field(text, tool.parameters_json);
        append_field(text, tool.strict ? "strict" : "");
    }
    return text;
}

std::vector<tool_definition> decode_tools(std::string_view text) {
    std::vector<tool_definition> tools;
    while (!text.empty()) {
        tool_definition tool;
        std::string strict;
        if (!take_field(text, tool.name) || !take_field(text, tool.description) ||
            !take_field(text, tool.parameters_json) || !take_field(text, strict))
            return {};
        tool.strict = !strict.empty();
        tools.push_back(std::move(tool));
    }
    return tools;
}

}  // namespace semantic::engine
