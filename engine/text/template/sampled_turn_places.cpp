// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/sampled_turn_places.hpp"

#include <algorithm>

namespace semantic::engine {

namespace {

// The placeholder for the turn of the message with this index. Should a client's text contain it,
// no harm is done: it counts only at the head of an assistant's turn (see place_of()).
std::string mark_of(std::size_t message) {
    return "sampled-turn-9a3e51c7d4-" + std::to_string(message) + ".";
}

}  // namespace

sampled_turn_places::sampled_turn_places(const std::vector<template_message>& messages,
                                         std::string_view turn_begin,
                                         const std::vector<std::string>& stop_tokens)
    : messages_(messages), turn_begin_(turn_begin), stop_tokens_(stop_tokens) {
    for (std::size_t i = 0; i < messages.size() && !turn_begin.empty(); ++i)
        if (messages[i].as_sampled.starts_with(turn_begin)) turns_.push_back({i, mark_of(i)});
}

std::vector<template_message> sampled_turn_places::with_stand_ins() const {
    std::vector<template_message> all = messages_;
    for (const turn& one : turns_) {
        template_message& from = all[one.message];
        from.content = one.mark;
        from.texts = {one.mark};
        from.thinking.clear();  // it is in the turn
        from.as_sampled = {};
        from.as_sampled_content = {};
    }
    return all;
}

/// The position in `made` of the first stop token at or after byte `from` that is the template's
/// and not text of the request: there a turn with calls ends. npos when there is none.
std::size_t sampled_turn_places::end_of_calls(const marked_text& made, std::size_t from) const {
    std::size_t end = std::string::npos;
    for (const std::string& stop : stop_tokens_) {
        std::size_t at = made.bytes().find(stop, from);
        while (at != std::string::npos &&
               !ranges_within(made.content(), at, at + stop.size()).empty())
            at = made.bytes().find(stop, at + 1);
        end = std::min(end, at);
    }
    return end;
}

std::optional<text_range> sampled_turn_places::place_of(const turn& one, const marked_text& made,
                                                        std::size_t from_byte) const {
    const std::string_view text = made.bytes();
    const std::size_t mark = text.find(one.mark, from_byte);
    if (mark == std::string::npos) return std::nullopt;
    const template_message& from = messages_[one.message];
    const auto begin = find_turn(text.substr(0, mark), made.content(), turn_begin_);
    // The sampled turn must begin with the same bytes as the rendered one up to the placeholder;
    // otherwise the template writes something else than the model did, and there is no place.
    if (!begin || *begin < from_byte ||
        !from.as_sampled.starts_with(text.substr(*begin, mark - *begin)))
        return std::nullopt;
    const std::size_t mark_end = mark + one.mark.size();
    const std::size_t end = from.calls.empty() ? mark_end : end_of_calls(made, mark_end);
    if (end == std::string::npos) return std::nullopt;
    return text_range{*begin, end};
}

std::optional<jinja::rendering> sampled_turn_places::fill(const jinja::rendering& made) {
    const marked_text whole(made.text, made.content);
    marked_text out;
    std::size_t done = 0;
    std::vector<turn> placed;
    for (const turn& one : turns_) {
        const auto place = place_of(one, whole, done);
        if (!place) continue;
        const template_message& from = messages_[one.message];
        out.append(whole, done, place->begin);
        out.append(marked_text(std::string(from.as_sampled),
                               {from.as_sampled_content.begin(), from.as_sampled_content.end()}));
        done = place->end;
        placed.push_back(one);
    }
    const bool all = placed.size() == turns_.size();
    turns_ = std::move(placed);
    if (!all) return std::nullopt;
    out.append(whole, done, whole.size());
    return jinja::rendering{out.bytes(), out.content()};
}

}  // namespace semantic::engine
