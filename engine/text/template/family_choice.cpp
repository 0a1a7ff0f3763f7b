// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/family_choice.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "engine/text/template/probe/probe_conversations.hpp"

namespace semantic::engine {

namespace {

// As many conversations must be rendered alike before a family counts as the template's. Where
// either of the two refuses a conversation, it proves nothing.
constexpr std::size_t alike_min = 6;

/// A conversation and options that are rendered both by a model's own template and by a family.
struct comparison {
    conversation chat;
    render_options options{};
    /// Template variables as a JSON object: templates without a clock take the day from one.
    std::string_view values{};
};

message said(role from, const char* text) { return {from, {text_part{text}}}; }

/// Turns of all roles with white space around their texts, quotes and letters of other scripts.
std::vector<conversation> plain_conversations() {
    const char* odd = "  \n It's <b>\"bold\"</b> & é 日本 \\ \t\n";
    conversation turns;
    turns.messages = {said(role::user, odd), said(role::assistant, odd), said(role::user, odd)};
    conversation instructed = turns;
    instructed.system = odd;
    conversation answered = probe::with_answer();
    answered.messages.push_back(said(role::user, ""));
    conversation thought = turns;
    thought.messages[1].parts = {thinking_part{"\nhm\n"}, text_part{"So."}};
    thought.messages.push_back({role::assistant, {thinking_part{"again"}, text_part{"\nYes."}}});
    conversation tagged = turns;
    tagged.messages[1] = said(role::assistant, "<think>\nhm\n</think>\n\nSo.");
    tagged.messages.push_back(said(role::assistant, "<think>a</think>b"));
    conversation begun = probe::question();
    begun.end = prompt_end::messages;
    return {probe::question(),
            probe::with_system_text(),
            probe::with_two_system_texts(),
            probe::with_later_system_text(),
            probe::two_questions(),
            probe::two_answers(),
            probe::answer_first(),
            turns,
            instructed,
            answered,
            thought,
            tagged,
            begun};
}

/// Turns with tools, calls and results, next to texts and reasoning.
std::vector<conversation> conversations_with_tools() {
    const std::vector<tool_definition> tools{
        {"get_weather", "Gets the \"weather\".\nNow & <here>.",
         R"({"type":"object","properties":{"city":{"type":"string","description":"Which"},)"
         R"("days":{"type":"integer","default":1},"unit":{"type":"string","enum":["c","f"]}},)"
         R"("required":["city"]})"},
        {"clock", "Tells the time.", R"({"type":"object","properties":{}})"}};
    const tool_call_part call{"probe0001", "get_weather", R"({"city":"Perth é <b>","days":2})"};
    const tool_call_part next{"probe0002", "clock", "{}"};
    const message result{role::tool, {tool_result_part{"probe0001", "sunny \"x\"\n"}}};
    const message other{role::tool, {tool_result_part{"probe0002", R"({"at": "9:00"})"}}};
    conversation offered = probe::question();
    offered.tools = tools;
    conversation instructed = offered;
    instructed.system = "Be brief.";
    conversation called = offered;
    called.messages.push_back({role::assistant, {call}});
    called.messages.push_back(result);
    conversation thought = offered;
    thought.messages.push_back({role::assistant, {thinking_part{"I look."}, call}});
    thought.messages.push_back(result);
    conversation answered = called;
    answered.messages.push_back(said(role::assistant, "Sunny."));
    answered.messages.push_back(said(role::user, "And?"));
    conversation spoken = instructed;
    spoken.messages.push_back({role::assistant, {text_part{"Let me see."}, call}});
    spoken.messages.push_back(result);
    conversation twice = offered;
    twice.messages.push_back({role::assistant, {call, next}});
    twice.messages.push_back(result);
    twice.messages.push_back(other);
    conversation untold = called;
    untold.tools.clear();
    return {offered, instructed, called, thought, answered, spoken, twice, untold};
}

/// All conversations with default options, and a few with a day, an effort and the switch for
/// reasoning set.
std::vector<comparison> all_comparisons() {
    std::vector<comparison> all;
    for (conversation& chat : plain_conversations()) all.push_back({std::move(chat)});
    for (conversation& chat : conversations_with_tools()) all.push_back({std::move(chat)});
    render_options told;
    told.date = "2025-11-03";
    constexpr std::string_view day = R"({"date_string":"03 Nov 2025"})";
    told.reasoning_effort = "high";
    for (const bool thinks : {true, false}) {
        told.thinking = thinks;
        all.push_back({probe::with_system_text(), told, day});
        all.push_back({probe::with_call(), told, day});
    }
    return all;
}

/// The text that the model's own template makes of `one`; nothing when it fails. `messages`: those
/// of `one.chat`, flattened.
std::optional<std::string> rendered_by(const own_template& own, const comparison& one,
                                       const std::vector<template_message>& messages) {
    bool hit_limit = false;
    auto made = own.render_marked({messages, one.chat.tools, one.options,
                                   one.chat.end == prompt_end::answer_begins, one.values},
                                  hit_limit);
    if (!made) return std::nullopt;
    return std::move(made->text);
}

/// The text that the family's renderer makes of `one`; nothing when it refuses. The renderer always
/// ends with the begin of an answer, which is cut off where `one` asks for none.
std::optional<std::string> rendered_by(const template_family& family, const comparison& one,
                                       const std::vector<template_message>& messages) {
    auto made = family.render({messages, one.chat.tools, one.options, family});
    if (!made) return std::nullopt;
    const std::string& text = made->bytes();
    if (one.chat.end == prompt_end::answer_begins) return text;
    // Where the answer's begin is not found, the text is empty, unlike the template's.
    return text.substr(0, find_turn(text, made->content(), family.turn_begin).value_or(0));
}

/// Whether no comparison comes out differently, and at least alike_min come out the same.
bool renders_alike(const own_template& own, const template_family& family,
                   const std::vector<comparison>& comparisons) {
    std::size_t alike = 0;
    for (const comparison& one : comparisons) {
        const auto messages = flatten(one.chat);
        if (!messages) continue;
        const auto expected = rendered_by(own, one, *messages);
        const auto got = rendered_by(family, one, *messages);
        if (!expected || !got) continue;
        if (*expected != *got) return false;
        ++alike;
    }
    return alike >= alike_min;
}

}  // namespace

const template_family* find_family_rendering_as(const own_template& own,
                                                const template_source& source) {
    const std::vector<comparison> comparisons = all_comparisons();
    for (const template_family& family : template_families()) {
        // A family's last stop token is the one that ends a text.
        const own_template spelled = own.copy_spelled(
            {source.bos.empty() ? std::string(family.bos) : source.bos,
             source.eos.empty() ? std::string(family.stop_tokens.back()) : source.eos});
        if (renders_alike(spelled, family, comparisons)) return &family;
    }
    return nullptr;
}

}  // namespace semantic::engine
