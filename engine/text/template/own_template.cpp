// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/own_template.hpp"

#include <boost/json.hpp>

#include <algorithm>

#include "engine/text/jinja/values/parse_json.hpp"
#include "engine/text/template/call_probe.hpp"
#include "engine/text/template/probe/probe_conversations.hpp"
#include "engine/text/template/sampled_turn_places.hpp"
#include "engine/text/template/template_parts.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

constexpr const char* version = "1";  // of how a conversation becomes variables
constexpr const char* day_by_default = "2024-07-26";

using pairs = std::vector<std::pair<jinja::value, jinja::value>>;

/// A dict of the engine's own making: its keys are few and differ.
jinja::value dict_of(pairs items) {
    jinja::budget enough(1'000'000);
    return jinja::make_dict(std::move(items), enough);
}

/// Text that was read as JSON before.
result<jinja::value> parsed(const result<std::string>& text) {
    if (!text) return text.error();
    if (auto read = jinja::parse_json(*text)) return *std::move(read);
    return failure{errc::bad_value, "it is no JSON, or nested too deeply"};
}

result<jinja::value> tool_value(tool_definition tool) {
    if (tool.parameters_json.empty()) tool.parameters_json = R"({"type":"object","properties":{}})";
    return parsed(tool_text(tool));
}

/// What is no JSON object comes as the text that it is.
jinja::value arguments_value(const tool_call_part& call, arguments_as form) {
    std::string text = arguments_text(call);
    if (form == arguments_as::dict)
        if (auto object = parsed(text); object && object->as_dict() != nullptr)
            return *std::move(object);
    return jinja::content(std::move(text));
}

jinja::value call_value(const tool_call_part& call, arguments_as form) {
    return dict_of({{jinja::written("id"), jinja::content(call.id)},
                    {jinja::written("type"), jinja::written("function")},
                    {jinja::written("function"),
                     dict_of({{jinja::written("name"), jinja::content(call.name)},
                              {jinja::written("arguments"), arguments_value(call, form)}})}});
}

/// What a message says. Where the model said it, control tokens that it wrote stay such.
jinja::value said_in(const template_message& from) {
    const std::size_t at = from.as_sampled.find(from.content);
    if (from.as_sampled.empty() || at == std::string_view::npos)
        return jinja::content(from.content);
    return marked_text(from.content,
                       ranges_within(from.as_sampled_content, at, at + from.content.size()));
}

jinja::value message_value(const template_message& from, std::string_view called,
                           arguments_as form) {
    // The role is one of four words, which templates also write into control tokens.
    pairs items{{jinja::written("role"), jinja::written(std::string(name_of(from.from)))},
                {jinja::written("content"), said_in(from)}};
    if (!from.thinking.empty()) {
        for (const char* name : {"reasoning_content", "thinking"}) {
            items.emplace_back(jinja::written(name), jinja::content(from.thinking));
        }
    }
    std::vector<jinja::value> calls;
    for (const tool_call_part& call : from.calls) calls.push_back(call_value(call, form));
    if (!calls.empty()) {
        items.emplace_back(jinja::written("tool_calls"), jinja::make_list(std::move(calls)));
    }
    if (from.from == role::tool) {
        items.emplace_back(jinja::written("tool_call_id"), jinja::content(from.call_id));
        items.emplace_back(jinja::written("name"), jinja::content(std::string(called)));
    }
    return dict_of(std::move(items));
}

jinja::value messages_value(const std::vector<template_message>& messages, arguments_as form) {
    std::vector<jinja::value> out;
    std::vector<const tool_call_part*> calls;
    for (const template_message& from : messages) {
        for (const tool_call_part& call : from.calls) calls.push_back(&call);
        const auto own = std::find_if(calls.rbegin(), calls.rend(),
                                      [&](const auto* call) { return call->id == from.call_id; });
        out.push_back(message_value(from, own == calls.rend() ? "" : (*own)->name, form));
    }
    return jinja::make_list(std::move(out));
}

result<jinja::value> tools_value(const std::vector<tool_definition>& tools) {
    std::vector<jinja::value> out;
    for (const tool_definition& tool : tools) {
        auto made = tool_value(tool);
        if (!made) return made.error();
        out.push_back(*std::move(made));
    }
    return out.empty() ? jinja::value() : jinja::make_list(std::move(out));
}

std::string sentence(const jinja::error& e) {
    if (e.kind == jinja::error_kind::raised) return "the model's chat template says: " + e.message;
    return "the model's chat template fails: " + jinja::described(e);
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

jinja::outcome<jinja::rendering> own_template::run(const own_template_input& input,
                                                   const jinja::value& messages,
                                                   const jinja::value& tools,
                                                   std::uint64_t extra_steps) const {
    pairs variables{{jinja::written("documents"), jinja::value()}};
    const auto set = [&](std::string_view name, jinja::value to) {
        const auto is_it = [&](const auto& item) { return item.first.as_text()->bytes() == name; };
        const auto known = std::find_if(variables.begin(), variables.end(), is_it);
        if (known != variables.end())
            known->second = std::move(to);
        else
            variables.emplace_back(jinja::written(std::string(name)), std::move(to));
    };
    const render_options& options = input.options;
    // What a template does without these variables is its own default.
    for (const char* name : {"enable_thinking", "thinking"})
        if (options.thinking) set(name, *options.thinking);
    if (options.reasoning_effort != render_options().reasoning_effort)
        set("reasoning_effort", jinja::content(options.reasoning_effort));
    const auto values = jinja::parse_json(input.values);
    if (const auto* object = values ? values->as_dict() : nullptr)
        for (const auto& [key, item] : object->items) set(key.as_text()->bytes(), item);
    set("messages", messages);
    set("tools", tools.is_none() && wants_tool_list_ ? jinja::make_list({}) : tools);
    set("add_generation_prompt", input.answer_begins);
    set("bos_token", jinja::written(spellings_.bos));
    set("eos_token", jinja::written(spellings_.eos));
    jinja::limits bounds;
    bounds.steps += extra_steps;
    bounds.lists_change = changes_lists_;
    return program_.render(dict_of(std::move(variables)),
                           options.date.empty() ? day_by_default : options.date, bounds);
}

result<own_template> own_template::make(std::string_view source,
                                        const special_spellings& spellings) {
    auto program = jinja::program::parse(source);
    if (!program) {
        return failure{errc::incompatible, "it cannot be read: " + described(program.error())};
    }
    own_template made(*std::move(program));
    made.spellings_ = spellings;
    made.identity_ = std::string("jinja/") + version + "\n" + spellings.bos + "\n" + spellings.eos +
                     "\n" + std::string(source);
    if (auto fits = made.probe(); !fits) return fits.error();
    made.find_turn();
    made.find_answers(source);
    return made;
}

void own_template::find_answers(std::string_view source) {
    answers_ = found_in_template(source);
    const conversation one = probe::with_typed_calls(1);
    const conversation two = probe::with_typed_calls(2);
    const std::string first = tried(one, false), both = tried(two, false);
    if (const auto form = form_of_calls({one, first, turn_begin_}, {two, both, turn_begin_})) {
        // Channels hold calls and reasoning alike.
        const bool had_channels = answers_.calls == call_format::harmony;
        answers_.calls = *form;
        if (*form == call_format::harmony) answers_.thinking = thinking_format::harmony;
        if (had_channels && *form != call_format::harmony)
            answers_.thinking = thinking_format::none;
    }
    if (answers_.thinking == thinking_format::none) return;
    answers_.opened = {opens_thinking(true), opens_thinking(false)};
    answers_.thinks_unless_said = opens_thinking(std::nullopt) == answers_.opened.when_on;
}

/// Whether the generation prompt ends inside of reasoning.
bool own_template::opens_thinking(std::optional<bool> thinking) const {
    render_options options;
    options.thinking = thinking;
    const conversation chat = probe::question();
    const std::vector<template_message> user = *flatten(chat);
    const auto out = run({user, {}, options}, messages_value(user, form_), jinja::value(), 0);
    if (!out) return false;
    const std::string_view open = thinking_open_of(answers_.thinking);
    return !open.empty() && trimmed(out->text).ends_with(open);
}

jinja::outcome<jinja::rendering> own_template::outcome_of(const conversation& chat,
                                                          bool with_prompt) const {
    const std::vector<template_message> messages = *flatten(chat);
    const auto said = messages_value(messages, form_);
    const auto offered = tools_value(chat.tools);
    return run({messages, chat.tools, {}, with_prompt}, said, *offered, 0);
}

/// Empty when the template fails.
std::string own_template::tried(const conversation& chat, bool with_prompt) const {
    auto out = outcome_of(chat, with_prompt);
    return out ? std::move(out->text) : std::string();
}

/// A template that the sandbox stops for changing a list may do so.
void own_template::find_changes_of_lists() {
    for (const conversation& chat : {probe::question(), probe::with_call()}) {
        const auto out = outcome_of(chat, true);
        if (!out && has(out.error().message, "of 'list' object is unsafe")) changes_lists_ = true;
    }
}

result<void> own_template::probe() {
    const conversation chat = probe::question();
    const std::vector<template_message> user = *flatten(chat);
    auto out = run({user, {}, {}}, messages_value(user, form_), jinja::value(), 0);
    if (!out) {
        // Some render conversations with tools alone, and loop over these.
        wants_tool_list_ = true;
        const std::string why = described(out.error());
        out = run({user, {}, {}}, messages_value(user, form_), jinja::value(), 0);
        if (!out) return failure{errc::incompatible, "it fails for one message: " + why};
    }
    find_changes_of_lists();
    if (!has(out->text, probe::asked)) {
        return failure{errc::incompatible, "it leaves out what the user says"};
    }
    if (!spellings_.bos.empty() && out->text.starts_with(spellings_.bos)) bos_ = spellings_.bos;
    // A template that fails here says so to those who ask for it.
    const auto leaves_nothing_out = [](const std::string& text, const char* part) {
        return text.empty() || has(text, part);
    };
    has_system_ = leaves_nothing_out(tried(probe::with_system_text(), true), probe::instructed);
    has_later_system_ =
        leaves_nothing_out(tried(probe::with_later_system_text(), true), probe::instructed);
    const std::string twice = tried(probe::two_questions(), true);
    has_users_in_a_row_ =
        leaves_nothing_out(twice, probe::asked) && leaves_nothing_out(twice, probe::added);
    has_tools_ = leaves_nothing_out(tried(probe::with_tool(), true), probe::tool_name);
    std::string used = tried(probe::with_call(), true);
    if (!has(used, probe::argument)) {
        // Some join the arguments to other text unchanged.
        form_ = arguments_as::text;
        const std::string other = tried(probe::with_call(), true);
        if (has(other, probe::argument)) {
            used = other;
        } else {
            form_ = arguments_as::dict;
        }
    }
    has_calls_ = leaves_nothing_out(used, probe::argument);
    has_results_ = leaves_nothing_out(used, probe::returned);
    return {};
}

/// Compares a prompt with and without its end, and with an answer in its place.
void own_template::find_turn() {
    if (!spellings_.eos.empty()) stop_tokens_.push_back(spellings_.eos);
    const std::string before = tried(probe::question(), false);
    const std::string prompt = tried(probe::question(), true);
    conversation next = probe::with_answer();
    next.messages.push_back(next.messages.front());
    const std::string whole = tried(next, false);
    const std::size_t answer = whole.find(probe::answered);
    if (!before.empty() && prompt.starts_with(before) && answer != std::string::npos &&
        whole.starts_with(before)) {
        const std::string tail = prompt.substr(before.size());
        const std::string turn = whole.substr(before.size(), answer - before.size());
        const auto differ = std::mismatch(tail.begin(), tail.end(), turn.begin(), turn.end());
        turn_begin_.assign(tail.begin(), differ.first);
        // Not a part of a tag that both go on with.
        const std::size_t open = turn_begin_.rfind('<');
        if (open != std::string::npos && turn_begin_.find('>', open) == std::string::npos) {
            turn_begin_.resize(open);
        }
    }
    if (answer == std::string::npos) return;
    const std::string rest = whole.substr(answer + std::string_view(probe::answered).size());
    const std::size_t end = rest.find('>');
    if (rest.starts_with('<') && end != std::string::npos) {
        stop_tokens_.push_back(rest.substr(0, end + 1));
    }
}

result<void> own_template::check(const std::vector<template_message>& messages,
                                 const std::vector<tool_definition>& tools) const {
    const auto missing = [](const char* part) {
        return failure{errc::bad_value,
                       std::string("the model's chat template leaves out ") + part};
    };
    if (!tools.empty() && !has_tools_) return missing("tools");
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const template_message& from = messages[i];
        if (!from.calls.empty() && !has_calls_) return missing("tool calls");
        if (from.from == role::tool && !has_results_) return missing("tool results");
        const bool follows_user = i > 0 && messages[i - 1].from == role::user;
        if (from.from == role::user && follows_user && !has_users_in_a_row_)
            return missing("one of several user messages in a row");
        if (from.from != role::system) continue;
        if (i == 0 && !has_system_) return missing("the system text");
        if (i > 0 && !has_later_system_) return missing("a system text behind the first message");
    }
    return {};
}

own_template own_template::copy_spelled(const special_spellings& spellings) const {
    own_template other = *this;
    other.spellings_ = spellings;
    return other;
}

result<jinja::rendering> own_template::render_parts(const own_template_input& input,
                                                    bool& hit_limit) const {
    const jinja::value said = messages_value(input.messages, form_);
    auto offered = tools_value(input.tools);
    if (!offered) return offered.error();
    std::uint64_t extra = 0;  // so that a long conversation is no endless template
    for (const template_message& from : input.messages) {
        extra += 2'000 + (from.content.size() + from.thinking.size()) / 2;
        for (const tool_call_part& call : from.calls)
            extra += 2'000 + 2 * call.arguments_json.size();
    }
    for (const tool_definition& tool : input.tools)
        extra += 2'000 + 2 * tool.parameters_json.size();
    extra += 2 * input.values.size();
    auto out = run(input, said, *offered, extra);
    if (out) return *std::move(out);
    hit_limit = out.error().kind == jinja::error_kind::limit;
    return failure{errc::bad_value, sentence(out.error())};
}

/// Each pass renders placeholders for turns and puts the turns in their places; one that has no
/// place is made of its parts in the next pass.
result<jinja::rendering> own_template::render_as_sampled(const own_template_input& input,
                                                         bool& hit_limit) const {
    sampled_turn_places places(input.messages, turn_begin_, stop_tokens_);
    while (!places.empty()) {
        const std::vector<template_message> stand_ins = places.with_stand_ins();
        auto made = render_parts(
            {stand_ins, input.tools, input.options, input.answer_begins, input.values}, hit_limit);
        if (!made) break;
        if (auto whole = places.fill(*made)) return *std::move(whole);
    }
    return render_parts(input, hit_limit);
}

result<jinja::rendering> own_template::render_marked(const own_template_input& input,
                                                     bool& hit_limit) const {
    hit_limit = false;
    if (auto can = check(input.messages, input.tools); !can) return can.error();
    if (auto day = day_of(input.options); !day) return day.error();
    return render_as_sampled(input, hit_limit);
}

}  // namespace semantic::engine
