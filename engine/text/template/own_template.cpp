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

/// A part of identity(): to be raised when a conversation is handed to templates in other
/// variables, since its prompt then changes.
constexpr const char* version = "1";
/// The template's clock where the request names no day (as yyyy-mm-dd): a fixed one, so that the
/// same conversation renders to the same prompt tomorrow.
constexpr const char* day_by_default = "2024-07-26";

using pairs = std::vector<std::pair<jinja::value, jinja::value>>;

/// Makes a Jinja dict of `items`, whose keys must differ. The budget is never used up: the engine
/// makes only small dicts.
jinja::value dict_of(pairs items) {
    jinja::budget enough(1'000'000);
    return jinja::make_dict(std::move(items), enough);
}

/// Reads the JSON that `text` holds as a Jinja value. Errors: those of `text`; bad_value when it
/// is no JSON, or nested too deeply.
result<jinja::value> parsed(const result<std::string>& text) {
    if (!text) return text.error();
    if (auto read = jinja::parse_json(*text)) return *std::move(read);
    return failure{errc::bad_value, "it is no JSON, or nested too deeply"};
}

/// The dict of a tool as templates expect it, with "type" and "function". A tool without
/// parameters gets the schema of an empty object, because many templates read it unasked.
result<jinja::value> tool_value(tool_definition tool) {
    if (tool.parameters_json.empty()) tool.parameters_json = R"({"type":"object","properties":{}})";
    return parsed(tool_text(tool));
}

/// A call's arguments in the form that the template takes: a dict, or text that the template joins
/// to other text. Arguments that are no JSON object are given as text in both cases.
jinja::value arguments_value(const tool_call_part& call, arguments_as form) {
    std::string text = arguments_text(call);
    if (form == arguments_as::dict)
        if (auto object = parsed(text); object && object->as_dict() != nullptr)
            return *std::move(object);
    return jinja::content(std::move(text));
}

/// The dict of a call as templates expect it, with "id", "type" and "function".
jinja::value call_value(const tool_call_part& call, arguments_as form) {
    return dict_of({{jinja::written("id"), jinja::content(call.id)},
                    {jinja::written("type"), jinja::written("function")},
                    {jinja::written("function"),
                     dict_of({{jinja::written("name"), jinja::content(call.name)},
                              {jinja::written("arguments"), arguments_value(call, form)}})}});
}

/// The message's text as a Jinja value. Text from a request never becomes control tokens. In a
/// turn that the model sampled itself, those bytes that it wrote as control tokens stay such.
jinja::value content_value(const template_message& from) {
    const std::size_t at = from.as_sampled.find(from.content);
    if (from.as_sampled.empty() || at == std::string_view::npos)
        return jinja::content(from.content);
    return marked_text(from.content,
                       ranges_within(from.as_sampled_content, at, at + from.content.size()));
}

/// The dict of a message as templates expect it. `called`: for a tool result, the name of the tool
/// that was called, or empty when no call is known for it.
jinja::value message_value(const template_message& from, std::string_view called,
                           arguments_as form) {
    // The role is one of four words, which templates also write into control tokens.
    pairs items{{jinja::written("role"), jinja::written(std::string(name_of(from.from)))},
                {jinja::written("content"), content_value(from)}};
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

/// The list of all messages. A tool result gets the name of the tool from the last call before it
/// (or in the same message) with the same id.
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

/// The list of all tools, or none where there are no tools. Errors: bad_value from a tool whose
/// parameters are no JSON object.
result<jinja::value> tools_value(const std::vector<tool_definition>& tools) {
    std::vector<jinja::value> out;
    for (const tool_definition& tool : tools) {
        auto made = tool_value(tool);
        if (!made) return made.error();
        out.push_back(*std::move(made));
    }
    return out.empty() ? jinja::value() : jinja::make_list(std::move(out));
}

/// The error message for a failed rendering: either the template refused the conversation by
/// raise_exception(), whose message is given, or it failed at some line.
std::string sentence(const jinja::error& e) {
    if (e.kind == jinja::error_kind::raised) return "the model's chat template says: " + e.message;
    return "the model's chat template fails: " + jinja::described(e);
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

/// Runs the template with the variables that Hugging Face's library gives it, and those of the
/// request.
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
    // A variable is set only where the request chose a value: the template's own default holds
    // where it is undefined.
    for (const char* name : {"enable_thinking", "thinking"})
        if (options.thinking) set(name, *options.thinking);
    // The effort by default means that the request chose none.
    if (options.reasoning_effort != render_options().reasoning_effort)
        set("reasoning_effort", jinja::content(options.reasoning_effort));
    const auto values = jinja::parse_json(input.values);
    if (const auto* object = values ? values->as_dict() : nullptr)
        for (const auto& [key, item] : object->items) set(key.as_text()->bytes(), item);
    // Set last, so that no variable of the request replaces them.
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

/// Finds in which format the model writes reasoning and calls: first by words in the template's
/// source, then, for calls, by rendering known calls and reading them back.
void own_template::find_answers(std::string_view source) {
    answers_ = found_in_template(source);
    const conversation one = probe::with_typed_calls(1);
    const conversation two = probe::with_typed_calls(2);
    const std::string first = tried(one, false), both = tried(two, false);
    if (const auto form = form_of_calls({one, first, turn_begin_}, {two, both, turn_begin_})) {
        // In Harmony calls and reasoning come in channels, so that either both have its form or
        // neither.
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

/// Whether the prompt for an answer ends with the tag that opens reasoning, so that the model's
/// answer begins inside of it. `thinking`: the request's switch, or nothing for no switch. False
/// when the template fails.
bool own_template::opens_thinking(std::optional<bool> thinking) const {
    render_options options;
    options.thinking = thinking;
    const conversation chat = probe::question();
    // flatten() refuses no probe conversation, here and below.
    const std::vector<template_message> user = *flatten(chat);
    const auto out = run({user, {}, options}, messages_value(user, form_), jinja::value(), 0);
    if (!out) return false;
    const std::string_view open = thinking_open_of(answers_.thinking);
    return !open.empty() && trimmed(out->text).ends_with(open);
}

/// Renders a probe conversation without any checks. `with_prompt`: with the generation prompt, the
/// words that begin the assistant's turn.
jinja::outcome<jinja::rendering> own_template::outcome_of(const conversation& chat,
                                                          bool with_prompt) const {
    const std::vector<template_message> messages = *flatten(chat);
    const auto said = messages_value(messages, form_);
    const auto offered = tools_value(chat.tools);
    // The tools of probes are valid.
    return run({messages, chat.tools, {}, with_prompt}, said, *offered, 0);
}

/// The text that a probe conversation renders to; empty when the template fails.
std::string own_template::tried(const conversation& chat, bool with_prompt) const {
    auto out = outcome_of(chat, with_prompt);
    return out ? std::move(out->text) : std::string();
}

/// The Jinja sandbox normally forbids templates to change a list. A template that needs it fails
/// with this error for a probe conversation, and is allowed it from then on.
void own_template::find_changes_of_lists() {
    for (const conversation& chat : {probe::question(), probe::with_call()}) {
        const auto out = outcome_of(chat, true);
        if (!out && has(out.error().message, "of 'list' object is unsafe")) changes_lists_ = true;
    }
}

/// Renders probe conversations to learn what the template can express, and sets the has_… members,
/// form_, bos_ and wants_tool_list_. Errors: incompatible when it fails for a single question of
/// the user, or leaves the question out.
result<void> own_template::probe() {
    const conversation chat = probe::question();
    const std::vector<template_message> user = *flatten(chat);
    auto out = run({user, {}, {}}, messages_value(user, form_), jinja::value(), 0);
    if (!out) {
        // Some templates loop over `tools` without asking whether there are any: they get an empty
        // list instead of none.
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
    // An empty text means that the template failed, which counts as no omission: a request for it
    // gets the template's own error. check() refuses only what the template would drop without
    // one.
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
        // Given a dict, the template did not print the argument: it may be one of those that take
        // the arguments as text and join them to other text.
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

/// Finds the text that begins an assistant's turn (turn_begin_) and the tokens that end it
/// (stop_tokens_). Three renderings are compared: the question alone, the question with the
/// generation prompt, and the question with an answer and another question. The turn begins with
/// what the last two have in common after the question; it ends with the tag that follows the
/// answer. Leaves turn_begin_ empty where the renderings do not match.
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
        // Where the two differ within a tag, such as "<a" of "<ab>" and "<ac>", the tag's begin is
        // cut off.
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

/// Errors: bad_value, naming the part, when the template would leave out a part of the conversation
/// without an error (see probe()).
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

/// Renders the messages from their parts. Errors: bad_value with the template's error. `hit_limit`:
/// set when it exceeded the limits of a run.
result<jinja::rendering> own_template::render_parts(const own_template_input& input,
                                                    bool& hit_limit) const {
    const jinja::value said = messages_value(input.messages, form_);
    auto offered = tools_value(input.tools);
    if (!offered) return offered.error();
    // Steps beyond the fixed limit, by the conversation's size: the limit is there to stop endless
    // loops, not long conversations.
    std::uint64_t extra = 0;
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

/// Renders the conversation so that the turns that the model sampled come out byte for byte as they
/// were sampled. Each pass renders a placeholder in the place of each such turn and replaces it by
/// the turn's text. A turn whose placeholder the rendering does not show where expected is rendered
/// from its parts in the next pass, like any other message. When no turn is left, or the template
/// fails with placeholders, the messages are rendered as they are.
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
