#include "engine/text/template/own_template.hpp"

#include <boost/json.hpp>

#include <algorithm>

#include "engine/text/template/template_parts.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

constexpr const char* version = "1";  // of how a conversation becomes variables
constexpr const char* default_day = "2024-07-26";

// Texts that no template writes.
constexpr const char* asked = "probe-asked-4d1f";
constexpr const char* answered = "probe-answered-4d1f";
constexpr const char* instructed = "probe-instructed-4d1f";
constexpr const char* argument = "probe-argument-4d1f";
constexpr const char* returned = "probe-returned-4d1f";

using pairs = std::vector<std::pair<jinja::value, jinja::value>>;

/// A dict of the engine's own making: its keys are few and differ.
jinja::value dict_of(pairs items) {
    jinja::budget enough(1'000'000);
    return jinja::make_dict(std::move(items), enough);
}

/// Text that was read as JSON before.
result<jinja::value> parsed(const result<std::string>& text) {
    if (!text) return text.error();
    boost::system::error_code error;
    const boost::json::value json = boost::json::parse(*text, error);
    if (error) return failure{errc::bad_value, error.message()};
    return jinja::from_json(json);
}

result<jinja::value> tool_value(tool_definition tool) {
    if (tool.parameters_json.empty()) tool.parameters_json = R"({"type":"object","properties":{}})";
    return parsed(tool_text(tool));
}

result<jinja::value> call_value(const tool_call_part& call, arguments_as form) {
    const auto text = arguments_text(call);
    auto arguments = form == arguments_as::dict || !text ? parsed(text) : jinja::content(*text);
    if (!arguments) return arguments;
    return dict_of({{jinja::written("id"), jinja::content(call.id)},
                    {jinja::written("type"), jinja::written("function")},
                    {jinja::written("function"),
                     dict_of({{jinja::written("name"), jinja::content(call.name)},
                              {jinja::written("arguments"), *std::move(arguments)}})}});
}

/// What a message says. Where the model said it, control tokens that it wrote stay such.
jinja::value said_in(const template_message& from) {
    const std::size_t at = from.as_sampled.find(from.content);
    if (from.as_sampled.empty() || at == std::string_view::npos)
        return jinja::content(from.content);
    return marked_text(from.content,
                       ranges_within(from.as_sampled_content, at, at + from.content.size()));
}

result<jinja::value> message_value(const template_message& from, std::string_view called,
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
    for (const tool_call_part& call : from.calls) {
        auto one = call_value(call, form);
        if (!one) return one.error();
        calls.push_back(*std::move(one));
    }
    if (!calls.empty()) {
        items.emplace_back(jinja::written("tool_calls"), jinja::make_list(std::move(calls)));
    }
    if (from.from == role::tool) {
        items.emplace_back(jinja::written("tool_call_id"), jinja::content(from.call_id));
        items.emplace_back(jinja::written("name"), jinja::content(std::string(called)));
    }
    return dict_of(std::move(items));
}

result<jinja::value> messages_value(const std::vector<template_message>& messages,
                                    arguments_as form) {
    std::vector<jinja::value> out;
    std::vector<const tool_call_part*> calls;
    for (const template_message& from : messages) {
        for (const tool_call_part& call : from.calls) calls.push_back(&call);
        const auto own = std::find_if(calls.rbegin(), calls.rend(),
                                      [&](const auto* call) { return call->id == from.call_id; });
        auto made = message_value(from, own == calls.rend() ? "" : (*own)->name, form);
        if (!made) return made.error();
        out.push_back(*std::move(made));
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
    if (e.kind == jinja::error_kind::raised) return "the model's chat template says: " + e.what;
    return "the model's chat template fails: " + jinja::described(e);
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

jinja::outcome<jinja::rendering> own_template::run(const jinja::value& messages,
                                                   const jinja::value& tools,
                                                   const render_options& options,
                                                   std::uint64_t extra_steps,
                                                   bool with_prompt) const {
    const auto spelled = [](const std::string& token) { return jinja::written(token); };
    pairs variables{{jinja::written("messages"), messages},
                    {jinja::written("tools"), tools},
                    {jinja::written("documents"), jinja::value()},
                    {jinja::written("add_generation_prompt"), with_prompt},
                    {jinja::written("bos_token"), spelled(spellings_.bos)},
                    {jinja::written("eos_token"), spelled(spellings_.eos)}};
    // What a template does without being told is its own default.
    const render_options otherwise;
    if (options.thinking != otherwise.thinking) {
        variables.emplace_back(jinja::written("enable_thinking"), options.thinking);
    }
    if (options.reasoning_effort != otherwise.reasoning_effort) {
        variables.emplace_back(jinja::written("reasoning_effort"),
                               jinja::content(options.reasoning_effort));
    }
    jinja::limits bounds;
    bounds.steps += extra_steps;
    return program_.render(dict_of(std::move(variables)),
                           options.date.empty() ? default_day : options.date, bounds);
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
    if (answers_.thinking == thinking_format::none) return;
    answers_.opened = {opens_thinking(true), opens_thinking(false)};
}

/// Whether the generation prompt ends inside of reasoning.
bool own_template::opens_thinking(bool thinking) const {
    render_options options;
    options.thinking = thinking;
    const template_message user{.from = role::user, .content = asked};
    const auto out = run(*messages_value({user}, form_), jinja::value(), options, 0, true);
    if (!out) return false;
    const std::string_view open = thinking_open_of(answers_.thinking);
    return !open.empty() && trimmed(out->text).ends_with(open);
}

/// Empty when the template fails.
std::string own_template::tried(const std::vector<template_message>& messages,
                                const std::vector<tool_definition>& tools, bool with_prompt) const {
    const auto said = messages_value(messages, form_);
    const auto offered = tools_value(tools);
    auto out = run(*said, *offered, {}, 0, with_prompt);
    return out ? std::move(out->text) : std::string();
}

result<void> own_template::probe() {
    const template_message user{.from = role::user, .content = asked};
    auto out = run(*messages_value({user}, form_), jinja::value(), {}, 0, true);
    if (!out) {
        return failure{errc::incompatible, "it fails for one message: " + described(out.error())};
    }
    if (!has(out->text, asked)) {
        return failure{errc::incompatible, "it leaves out what the user says"};
    }
    if (!spellings_.bos.empty() && out->text.starts_with(spellings_.bos)) bos_ = spellings_.bos;
    // A template that fails here says so to those who ask for it.
    const auto leaves_nothing_out = [](const std::string& text, const char* part) {
        return text.empty() || has(text, part);
    };
    const template_message system{.from = role::system, .content = instructed};
    const template_message assistant{.from = role::assistant, .content = answered};
    has_system_ = leaves_nothing_out(tried({system, user}, {}, true), instructed);
    has_later_system_ =
        leaves_nothing_out(tried({user, assistant, system, user}, {}, true), instructed);
    const tool_definition tool{"probe_tool_4d1f", "d", R"({"type":"object","properties":{}})"};
    has_tools_ = leaves_nothing_out(tried({user}, {tool}, true), tool.name.c_str());
    const template_message calling{
        .from = role::assistant,
        .calls = {{"probe0001", tool.name, std::string(R"({"k": ")") + argument + "\"}"}}};
    const template_message result{.from = role::tool, .content = returned, .call_id = "probe0001"};
    std::string used = tried({user, calling, result}, {tool}, true);
    if (!has(used, argument)) {
        // Some join the arguments to other text as they stand.
        form_ = arguments_as::text;
        const std::string other = tried({user, calling, result}, {tool}, true);
        if (has(other, argument)) {
            used = other;
        } else {
            form_ = arguments_as::dict;
        }
    }
    has_calls_ = leaves_nothing_out(used, argument);
    has_results_ = leaves_nothing_out(used, returned);
    return {};
}

/// Compares a prompt with and without its end, and with an answer in its place.
void own_template::find_turn() {
    if (!spellings_.eos.empty()) stop_tokens_.push_back(spellings_.eos);
    const template_message user{.from = role::user, .content = asked};
    const template_message assistant{.from = role::assistant, .content = answered};
    const std::string before = tried({user}, {}, false);
    const std::string prompt = tried({user}, {}, true);
    const std::string whole = tried({user, assistant, user}, {}, false);
    const std::size_t answer = whole.find(answered);
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
    const std::string behind = whole.substr(answer + std::string_view(answered).size());
    const std::size_t end = behind.find('>');
    if (behind.starts_with('<') && end != std::string::npos) {
        stop_tokens_.push_back(behind.substr(0, end + 1));
    }
}

result<void> own_template::check(const std::vector<template_message>& messages,
                                 const std::vector<tool_definition>& tools) const {
    const auto missing = [](const char* what) {
        return failure{errc::bad_value,
                       std::string("the model's chat template leaves out ") + what};
    };
    if (!tools.empty() && !has_tools_) return missing("tools");
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const template_message& from = messages[i];
        if (!from.calls.empty() && !has_calls_) return missing("tool calls");
        if (from.from == role::tool && !has_results_) return missing("tool results");
        if (from.from != role::system) continue;
        if (i == 0 && !has_system_) return missing("the system text");
        if (i > 0 && !has_later_system_) return missing("a system text behind the first message");
    }
    return {};
}

result<jinja::rendering> own_template::render_marked(const std::vector<template_message>& messages,
                                                     const std::vector<tool_definition>& tools,
                                                     const render_options& options) const {
    if (auto can = check(messages, tools); !can) return can.error();
    if (auto day = day_of(options); !day) return day.error();
    auto said = messages_value(messages, form_);
    if (!said) return said.error();
    auto offered = tools_value(tools);
    if (!offered) return offered.error();
    std::uint64_t extra = 0;  // so that a long conversation is no endless template
    for (const template_message& from : messages) extra += 2'000 + from.content.size() / 2;
    for (const tool_definition& tool : tools) extra += 2'000 + 2 * tool.parameters_json.size();
    auto out = run(*said, *offered, options, extra, true);
    if (!out) return failure{errc::bad_value, sentence(out.error())};
    return *std::move(out);
}

result<std::string> own_template::render(const std::vector<template_message>& messages,
                                         const std::vector<tool_definition>& tools,
                                         const render_options& options) const {
    auto out = render_marked(messages, tools, options);
    if (!out) return out.error();
    return std::move(out->text);
}

}  // namespace semantic::engine
