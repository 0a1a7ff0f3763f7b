// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/forms/answer_grammar.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/grammar/forms/form_builder.hpp"
#include "engine/grammar/grammar_matcher.hpp"
#include "engine/grammar/output_constraint.hpp"
#include "engine/text/template/template_families.hpp"

namespace semantic::engine {

namespace {

// Bounds of the cache of grammars: their number, and about their bytes including the keys.
constexpr std::size_t recent_max = 32;
constexpr std::size_t recent_bytes_max = std::size_t{32} << 20;
// Non-strict schemas that are too large are set free one by one, each time building the grammar
// again; after so many all non-strict tools are set free.
constexpr std::size_t free_alone_max = 4;

// The parts of a request on which its form depends, as one text.
std::string key_of(const generation_request& request) {
    std::string key;
    auto add = [&](const std::string& part) { key += std::to_string(part.size()) + ':' + part; };
    add(std::to_string(static_cast<int>(request.form.what)));
    add(request.form.schema_json);
    add(request.form.rules);
    add(request.text ? "raw" : "");
    for (const std::string& each : request.form.choices) add(each);
    add(request.form.is_strict ? "strict" : "free");
    const auto& thinks = request.thinking.enabled;
    add(!thinks ? "unsaid" : *thinks ? "thinks" : "");
    add(request.form.several_calls ? "several" : "one");
    add(request.form.calls_too ? "calls too" : "");
    for (const std::string& name : request.form.tools) add(name);
    if (request.form.is_of_text() && !request.form.calls_too) return key;
    for (const tool_definition& tool : request.chat.callable_tools()) {
        add(tool.name);
        add(tool.parameters_json);
        add(tool.strict ? "strict" : "free");
    }
    return key;
}

}  // namespace

request_part part_of(const output_form& form) {
    if (form.what == output_form::kind::json) return request_part::form;
    return form.is_of_text() ? request_part::unsaid : request_part::tools;
}

namespace {

/// The name of a form in error messages.
std::string subject_of(const output_form& form) {
    switch (form.what) {
        case output_form::kind::choice:
            return "the choices";
        case output_form::kind::pattern:
            return "the expression";
        case output_form::kind::grammar:
            return "the grammar";
        case output_form::kind::calls:
        case output_form::kind::strict_calls:
            return "the tools";
        case output_form::kind::free:
        case output_form::kind::json:
            break;
    }
    return "the schema";
}

std::string given_up(const output_form& form, const std::exception& why) {
    return subject_of(form) + ": " + why.what();
}

}  // namespace

failed failure_of(const std::exception& error, const output_form& form) {
    const bool is_forms = dynamic_cast<const grammar_too_large*>(&error) != nullptr ||
                          dynamic_cast<const unwritable_form*>(&error) != nullptr;
    if (!is_forms) return {failure_kind::internal, error.what()};
    return {failure_kind::bad_request, given_up(form, error), {}, part_of(form)};
}

namespace {

// The notice for a client whose tools are never called.
constexpr const char* calls_not_recognised =
    "tools: calls are not recognised, because the model's chat template writes them in no form "
    "that is known here: a call comes as text (tool_call_format is none)";

answer_format format_of(std::string_view family) {
    const template_family* found = find_template_family(family);
    return found == nullptr ? answer_format() : found->answers;
}

}  // namespace

answer_grammars::answer_grammars(const tokenizer& words, const answer_format& format,
                                 std::string_view family)
    : tokenizer_(words), format_(format), family_(family) {}

answer_grammars::answer_grammars(const tokenizer& words, std::string_view family)
    : answer_grammars(words, format_of(family), family) {}

std::optional<held_form> answer_grammars::free_form(const generation_request& request) const {
    const bool has_calls = format_.calls != call_format::none;
    const bool calls_may_come = request.form.what == output_form::kind::strict_calls;
    if (request.form.what != output_form::kind::free && (has_calls || !calls_may_come))
        return std::nullopt;
    held_form free;
    if (!has_calls && !request.chat.callable_tools().empty())
        free.not_held.emplace_back(calls_not_recognised);
    return free;
}

std::optional<held_form> answer_grammars::find(const generation_request& request) {
    if (auto free = free_form(request)) return free;
    // compile() refuses a form for an answer that goes on after a given beginning.
    if (request.chat.end != prompt_end::answer_begins) return std::nullopt;
    return find(key_of(request));
}

std::optional<held_form> answer_grammars::find(const std::string& key) {
    std::lock_guard lock(mutex_);
    if (!vocabulary_) return std::nullopt;
    const auto found = std::ranges::find(recent_, key, &known::key);
    if (found == recent_.end()) return std::nullopt;
    recent_.splice(recent_.begin(), recent_, found);
    return held_form{found->program->rules, found->program, vocabulary_, found->not_held};
}

void answer_grammars::keep(known made) {
    std::lock_guard lock(mutex_);
    recent_.push_front(std::move(made));
    std::size_t bytes = 0, count = 0;
    const auto is_too_much = [&](const known& each) {
        bytes += each.key.size() + each.program->memory_bytes();
        // The newest one stays, however large it is.
        return ++count > 1 && (count > recent_max || bytes > recent_bytes_max);
    };
    recent_.erase(std::ranges::find_if(recent_, is_too_much), recent_.end());
}

std::shared_ptr<const vocabulary_trie> answer_grammars::vocabulary() {
    std::lock_guard making(vocabulary_mutex_);
    if (!vocabulary_) {
        auto made = std::make_shared<const vocabulary_trie>(tokenizer_);
        std::lock_guard lock(mutex_);
        vocabulary_ = std::move(made);
    }
    // Written under both locks, so that either is enough to read it.
    return vocabulary_;
}

storage::result<held_form> answer_grammars::compile(const generation_request& request) {
    if (auto free = free_form(request)) return *std::move(free);
    if (request.chat.end != prompt_end::answer_begins)
        return storage::failure{storage::errc::bad_value,
                                "an answer that must have a form has to begin anew"};
    std::string key = key_of(request);
    if (auto found = find(key)) return std::move(*found);
    // Compiled without a lock: equal requests may do the same work at once.
    storage::work_budget own(
        {.deadline = request.deadline.value_or(storage::work_budget::clock::time_point::max())});
    auto made = made_of(request, request.budget ? *request.budget : own);
    if (!made) return made.error();
    made->key = std::move(key);
    held_form form{made->program->rules, made->program, vocabulary(), made->not_held};
    keep(std::move(*made));
    return form;
}

/// Compiles the request's form. When the schema of a tool is too large, it is tried again with that
/// tool's arguments as any JSON; after several such tools, with those of all tools. Errors: those
/// of a form that cannot be read, or of the budget.
storage::result<answer_grammars::known> answer_grammars::made_of(const generation_request& request,
                                                                 storage::work_budget& budget) {
    using storage::work_limit_exceeded;
    std::set<std::string> free;
    try {
        for (;;) try {
                known made;
                form_builder builder({tokenizer_, format_, family_, request, free}, made.not_held,
                                     budget);
                auto rules = std::make_shared<const grammar>(builder.build());
                budget.charge_steps(rules->memory_bytes / 64);
                const storage::charged_bytes of_program(budget, rules->memory_bytes);
                made.program = std::make_shared<const grammar_program>(
                    std::move(rules), output_constraint::outlook_bytes);
                // Computes the start of the automaton: if the answer may begin in too many ways the
                // request is refused here.
                grammar_matcher(made.program).start();
                return made;
            } catch (const free_schema& too_large) {
                free.insert(too_large.owner);
                if (free.size() > free_alone_max)
                    for (const tool_definition& tool : request.chat.callable_tools())
                        free.insert(tool.name);
            }
    } catch (const grammar_too_large& error) {
        return storage::failure{storage::errc::bad_value, given_up(request.form, error)};
    } catch (const work_limit_exceeded& error) {
        const bool is_too_much = error.exceeded() == work_limit_exceeded::limit::steps ||
                                 error.exceeded() == work_limit_exceeded::limit::bytes;
        if (!is_too_much) throw;
        return storage::failure{storage::errc::bad_value, given_up(request.form, error)};
    } catch (const std::runtime_error& error) {
        return storage::failure{storage::errc::bad_value, error.what()};
    }
}

}  // namespace semantic::engine
