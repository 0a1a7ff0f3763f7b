// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/forms/form_builder.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "engine/grammar/forms/code_points.hpp"
#include "engine/grammar/forms/gbnf.hpp"
#include "engine/grammar/forms/held_call_rows.hpp"
#include "engine/grammar/forms/text_pattern.hpp"
#include "engine/grammar/forms/text_up_to.hpp"
#include "engine/grammar/json_grammar.hpp"
#include "engine/grammar/values/json_values.hpp"
#include "engine/text/output/json_text.hpp"
#include "engine/types/exact_json.hpp"

namespace semantic::engine {

namespace {

using symbol = grammar_builder::symbol;
using sequence = grammar_builder::sequence;

class invalid_form : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace

// Builds one grammar. Calls are written in the forms that the parsers of engine/text read.
class form_builder::impl {
  public:
    impl(const form_to_build& form, std::vector<std::string>& not_held,
         storage::work_budget& budget)
        : budget_(budget),
          memory_(budget),
          out_(budget),
          tokenizer_(form.words),
          format_(form.format),
          family_(form.family),
          request_(form.request),
          free_(form.free),
          not_held_(not_held),
          text_(out_, json_spacing::free),
          arguments_(out_, spacing_of(format_.calls), dialect_of(format_.calls), quote()) {
        for (const tool_definition& each : request_.chat.callable_tools())
            tools_.try_emplace(each.name, &each);
    }

    grammar build() {
        sequence all;
        switch (request_.form.what) {
            case output_form::kind::json:
            case output_form::kind::choice:
            case output_form::kind::pattern:
            case output_form::kind::grammar:
                all = text_answer();
                break;
            case output_form::kind::calls:
                all = reasoning() + calls();
                break;
            default:
                all = {free_text_with_calls()};
                break;
        }
        symbol root = out_.any_of({all});
        grammar made = std::move(out_).build(root);
        if (made.rules[made.root].empty())
            throw invalid_form(request_.form.what == output_form::kind::json
                                   ? "no finite answer satisfies the schema"
                                   : "no finite answer has the form");
        budget_.charge_steps(made.rules.size());
        if (request_.form.what == output_form::kind::grammar && recurses_on_the_left(made))
            throw invalid_form("the grammar: a rule begins with itself, which is not supported");
        return made;
    }

  private:
    bool harmony() const { return format_.calls == call_format::harmony; }
    bool llama3() const { return format_.calls == call_format::llama3; }
    static json_dialect dialect_of(call_format format) {
        if (format == call_format::tool_code || format == call_format::lfm2 ||
            format == call_format::olmo)
            return json_dialect::python;
        const bool is_gemma =
            format == call_format::function_gemma || format == call_format::gemma4;
        return is_gemma ? json_dialect::gemma : json_dialect::json;
    }
    static json_spacing spacing_of(call_format format) {
        return dialect_of(format) == json_dialect::gemma ? json_spacing::none
                                                         : json_spacing::templates;
    }
    std::optional<string_mark> quote() {
        if (dialect_of(format_.calls) != json_dialect::gemma) return std::nullopt;
        string_mark made;
        made.spelling = format_.calls == call_format::gemma4 ? "<|\"|>" : "<escape>";
        made.mark = mark(made.spelling);
        const symbol end = text_before(made.spelling, out_.any_of({{}}), false);
        made.any_string = out_.any_of({made.mark + end});
        if (is_control(tokenizer_.find(made.spelling)))
            made.character = one_character_of(out_, {{0, code_point_max}});
        return made;
    }

    bool is_control(token_id id) const { return id >= 0 && tokenizer_.is_special(id); }
    /// A mark of the chat template: a control token if the vocabulary has it as one, otherwise
    /// text.
    sequence mark(std::string_view spelling) {
        const token_id id = tokenizer_.find(spelling);
        return is_control(id) ? sequence{out_.token(id)} : out_.literal(spelling);
    }
    // Requires: the format needs the token. Throws invalid_form if the vocabulary lacks it.
    symbol special(std::string_view spelling) {
        token_id id = tokenizer_.find(spelling);
        if (id < 0) throw invalid_form("the vocabulary has no " + std::string(spelling));
        return out_.token(id);
    }

    symbol any_text() {
        byte_set all;
        return out_.repeat({out_.bytes(all.set())}, 0, -1);
    }
    /// Any text up to the first mark, the mark, and `rest`.
    symbol text_before(std::string_view spelling, symbol rest, bool may_end) {
        // No text spells a control token, so any text may come before one.
        if (!is_control(tokenizer_.find(spelling)))
            return text_up_to(out_, spelling, rest, may_end);
        std::vector<sequence> ways{sequence{any_text()} + mark(spelling) + rest};
        if (may_end) ways.push_back({any_text()});
        return out_.any_of(std::move(ways));
    }

    // The answer may begin with reasoning, which the form does not constrain.
    sequence reasoning() {
        if (format_.thinking == thinking_format::none) return {};
        if (format_.thinking == thinking_format::harmony) {
            sequence thought = sequence{special("<|channel|>")} + out_.literal("analysis") +
                               special("<|message|>") + any_text() + special("<|end|>") +
                               special("<|start|>") + out_.literal("assistant");
            return {out_.any_of({{}, thought})};
        }
        const bool is_think = format_.thinking == thinking_format::think;
        symbol closed = out_.any_of({out_.literal(is_think ? "\n\n" : "")});
        symbol thought = text_before(thinking_close_of(format_.thinking), closed, false);
        const bool thinks = request_.thinking.enabled.value_or(format_.thinks_unless_said);
        // The prompt has opened the reasoning already.
        if (thinks ? format_.opened.when_on : format_.opened.when_off) return {thought};
        return {out_.any_of({{}, thinking_open() + thought})};
    }
    /// The beginning of Gemma 4's reasoning: a mark and a word.
    sequence thinking_open() {
        const std::string_view open = thinking_open_of(format_.thinking);
        const std::size_t end = std::min(open.find('>'), open.size() - 1) + 1;
        return mark(open.substr(0, end)) + out_.literal(open.substr(end));
    }

    /// The rule of the answer's text by the request's form: a choice, a pattern, a grammar or a
    /// JSON schema; without any of these, a JSON object.
    symbol text_of_the_form() {
        const output_form& form = request_.form;
        switch (form.what) {
            case output_form::kind::choice: {
                const symbol one = out_.new_rule();
                for (const std::string& each : form.choices) out_.add(one, out_.literal(each));
                return one;
            }
            case output_form::kind::pattern:
                return texts_matching(out_, form.rules);
            case output_form::kind::grammar:
                try {
                    return read_gbnf(out_, form.rules);
                } catch (const invalid_grammar& fault) {
                    throw invalid_form(std::string("the grammar: ") + fault.what());
                }
            default:
                break;
        }
        if (form.schema_json.empty()) return text_.any_object();
        return held(parsed(form.schema_json, "schema"), {}, form.is_strict);
    }

    sequence text_answer() {
        const symbol value = text_of_the_form();
        if (request_.text)
            return {value};  // a raw prompt has no template, and so none of its forms
        sequence text{value};
        if (harmony())
            text = sequence{special("<|channel|>")} + out_.literal("final") +
                   special("<|message|>") + value;
        if (!request_.form.calls_too) return reasoning() + text;
        return reasoning() + out_.any_of({text, calls()});
    }

    boost::json::value parsed(const std::string& text, const std::string& owner) {
        budget_.charge_steps(text.size() / 16);
        exact_json read = read_exact_json(text, {}, boost::json::storage_ptr(&memory_));
        if (read.ec) throw invalid_form(owner + " is not JSON: " + read.ec.message());
        round_but_constants(read.value, budget_);
        return std::move(read.value);
    }

    const tool_definition& tool(const std::string& name) const {
        const auto found = tools_.find(name);
        if (found == tools_.end()) throw invalid_form("there is no tool '" + name + "'");
        return *found->second;
    }

    // The rule of a tool's arguments, by its schema. A non-strict schema that cannot be enforced is
    // noted, and any arguments are allowed.
    symbol arguments(const tool_definition& tool) {
        if (tool.parameters_json.empty()) return arguments_.any_arguments();
        try {
            auto schema = parsed(tool.parameters_json, "the schema of its arguments");
            if (boost::json::object* open = schema.if_object(); open && names_no_type(*open))
                open->emplace("type", "object");
            return held(schema, tool.name, tool.strict);
        } catch (const storage::work_limit_exceeded&) {
            throw;
        } catch (const std::runtime_error& error) {
            if (tool.strict) throw invalid_form("tool '" + tool.name + "': " + error.what());
            note(tool.name, error.what());
        }
        return arguments_.any_arguments();
    }
    // Arguments are an object even if their schema does not say so.
    static bool names_no_type(const boost::json::object& schema) {
        return std::ranges::none_of(
            std::array{"type", "$ref", "anyOf", "oneOf", "allOf", "const", "enum"},
            [&](const char* key) { return schema.contains(key); });
    }

    // Parts of a non-strict schema that cannot be enforced are left out and noted.
    symbol held(const boost::json::value& schema, const std::string& owner, bool strict) {
        const bool is_text = owner.empty();
        const auto made_of = [&](std::vector<std::string>* not_held) {
            return is_text ? text_.of_schema(schema, not_held)
                           : arguments_.arguments_of_schema(schema, not_held);
        };
        if (strict) return made_of(nullptr);
        if (free_.contains(owner)) {
            note(owner, grammar_too_large().what());
            return is_text ? text_.any_value() : arguments_.any_arguments();
        }
        std::vector<std::string> without;
        try {
            const symbol made = made_of(&without);
            for (const std::string& each : without) note(owner, each);
            return made;
        } catch (const grammar_too_large&) {
            // The caller builds again, with this owner in free_.
            throw free_schema{owner};
        }
    }
    void note(const std::string& owner, const std::string& message) {
        budget_.charge_bytes(owner.size() + message.size() + sizeof(std::string));
        not_held_.push_back((owner.empty() ? "" : "tool '" + owner + "': ") + message);
    }

    /// One call to any of the tools; written(name) is a call to the tool of that name.
    template <class Written>
    symbol one_of_the_calls(Written written) {
        std::vector<sequence> ways;
        for (const std::string& name : callable()) ways.push_back(written(name));
        return out_.any_of(std::move(ways));
    }
    symbol call_object(std::string_view arguments_key) {
        return one_of_the_calls([&](const std::string& name) {
            return out_.literal("{\"name\": " + quoted(name) + ", \"" + std::string(arguments_key) +
                                "\": ") +
                   arguments(tool(name)) + out_.literal("}");
        });
    }

    std::vector<std::string> callable() const {
        if (!request_.form.tools.empty()) return request_.form.tools;
        std::vector<std::string> names;
        for (const tool_definition& tool : request_.chat.callable_tools())
            names.push_back(tool.name);
        if (names.empty()) throw invalid_form("there are no tools to call");
        return names;
    }

    sequence harmony_call() {
        symbol call = one_of_the_calls([&](const std::string& name) {
            return out_.literal("commentary to=functions." + name + " ") +
                   special("<|constrain|>") + out_.literal("json") + special("<|message|>") +
                   arguments(tool(name));
        });
        return {special("<|channel|>"), call};
    }

    /// How calls are written: `mark` begins them amid text; after it come `first`, any number of
    /// `again`, and `end`.
    struct marked_calls {
        std::string_view mark;
        sequence first, again, end{};
        bool each_has_mark = false;
    };
    /// How calls are written in the model's format: the mark that begins them, and rules for the
    /// calls, what separates them and what ends them.
    marked_calls calls_behind_mark() {
        if (const held_call_row* row = find_held_call_row(format_.calls)) return calls_of(*row);
        switch (format_.calls) {
            case call_format::deepseek:
                return deepseek_calls();
            case call_format::function_gemma:
                return gemma_calls("<start_function_call>", "<end_function_call>");
            case call_format::gemma4:
                return gemma_calls("<|tool_call>", "<tool_call|>");
            case call_format::tool_code:
                return {"```tool_code\n",
                        {python_call()},
                        out_.literal("\n") + python_call(),
                        out_.literal("\n```")};
            case call_format::olmo:
                return {"<function_calls>",
                        {python_call()},
                        out_.literal("\n") + python_call(),
                        mark("</function_calls>")};
            case call_format::lfm2:
                return {"<|tool_call_start|>", out_.literal("[") + python_call(),
                        out_.literal(", ") + python_call(),
                        out_.literal("]") + mark("<|tool_call_end|>")};
            default:
                break;
        }
        throw invalid_form("models of the chat template family '" + std::string(family_) +
                           "' have no tool calls that an answer can be held to");
    }
    symbol python_call() {
        return one_of_the_calls(
            [&](const std::string& name) { return out_.literal(name) + arguments(tool(name)); });
    }

    /// How calls are written in a format that a row of the table describes.
    marked_calls calls_of(const held_call_row& row) {
        // Only the first mark of `open` ends text; the rest of it follows.
        const std::size_t end = mark_end(row.open);
        const sequence rest = spelled(row.open.substr(end));
        symbol named{};
        if (row.written_as == held_call_row::body::object)
            named = call_object("arguments");
        else
            named = one_of_the_calls([&](const std::string& name) {
                return out_.literal(name) + spelled(row.name_end) + arguments(tool(name));
            });
        const sequence call = spelled(row.before) + named + spelled(row.end);
        return {row.open.substr(0, end), rest + call, spelled(row.separator) + call,
                spelled(row.close), row.each_is_a_section};
    }
    /// The length of the mark that `text` begins with, in brackets; that of `text` if none ends.
    static std::size_t mark_end(std::string_view text) {
        const std::size_t end = text.find(text.front() == '[' ? ']' : '>');
        return end == std::string_view::npos ? text.size() : end + 1;
    }
    /// A text in which marks are written as control tokens if the vocabulary has these.
    sequence spelled(std::string_view text) {
        sequence made;
        while (!text.empty()) {
            std::size_t end = 1;
            if (text.front() == '#') {
                byte_set digits;
                for (unsigned char c = '0'; c <= '9'; ++c) digits.set(c);
                made = made + out_.repeat({out_.bytes(digits)}, 1, 4);
            } else if (text.front() == '<' || text.front() == '[') {
                end = mark_end(text);
                if (!is_control(tokenizer_.find(text.substr(0, end)))) end = 1;
                made = made + mark(text.substr(0, end));
            } else {
                made = made + out_.literal(text.substr(0, end));
            }
            text.remove_prefix(end);
        }
        return made;
    }

    // DeepSeek V3 and R1 write the type of a call and put its arguments into a fence; V3.1 does
    // not.
    marked_calls deepseek_calls() {
        const sequence separator = mark("<｜tool▁sep｜>");
        const symbol call = one_of_the_calls([&](const std::string& name) {
            const sequence given{arguments(tool(name))};
            return sequence{
                out_.any_of({out_.literal("function") + separator +
                                 out_.literal(name + "\n```json\n") + given + out_.literal("\n```"),
                             out_.literal(name) + separator + given})};
        });
        const sequence end = mark("<｜tool▁call▁end｜>");
        const sequence whole = mark("<｜tool▁call▁begin｜>") + call + end;
        const symbol between = out_.any_of({{}, out_.literal("\n")});
        return {"<｜tool▁calls▁begin｜>", whole, sequence{between} + whole,
                mark("<｜tool▁calls▁end｜>")};
    }

    marked_calls gemma_calls(std::string_view open, std::string_view close) {
        const symbol named = one_of_the_calls([&](const std::string& name) {
            return out_.literal("call:" + name) + arguments(tool(name));
        });
        const sequence call = sequence{named} + mark(close);
        return {open, call, mark(open) + call, {}, true};
    }

    // In Llama 3 and in Harmony a call ends the turn, so there is only one.
    sequence calls() {
        if (llama3()) return {call_object("parameters")};
        if (harmony()) return harmony_call();
        const marked_calls form = calls_behind_mark();
        const int more = request_.form.several_calls ? -1 : 0;
        return mark(form.mark) + form.first + out_.repeat(form.again, 0, more) + form.end;
    }

    // Free text; but a call that begins has to be completed.
    symbol free_text_with_calls() {
        if (llama3()) {
            // In Llama 3 an answer that begins with a brace is a call.
            byte_set other;
            other.set();
            other.reset('{');
            return out_.any_of({{}, {call_object("parameters")}, {out_.bytes(other), any_text()}});
        }
        if (harmony()) {
            sequence said = sequence{special("<|channel|>")} + out_.literal("final") +
                            special("<|message|>") + any_text();
            symbol end = out_.any_of({said, harmony_call()});
            return out_.any_of({reasoning() + end});
        }
        const marked_calls form = calls_behind_mark();
        symbol rest = out_.new_rule();
        sequence calls = form.first;
        if (!form.each_has_mark) calls = calls + out_.repeat(form.again, 0, -1) + form.end;
        symbol after_mark = out_.any_of({calls + rest});
        out_.add(rest, {text_before(form.mark, after_mark, true)});
        return rest;
    }

    storage::work_budget& budget_;
    charged_memory memory_;  // of schemas
    grammar_builder out_;
    const tokenizer& tokenizer_;
    const answer_format format_;
    const std::string_view family_;
    const generation_request& request_;
    const std::set<std::string>& free_;
    std::vector<std::string>& not_held_;
    std::unordered_map<std::string_view, const tool_definition*>
        tools_;               // by name; the first one of each
    json_grammar text_;       // writes values in the answer's text
    json_grammar arguments_;  // writes the arguments of calls
};

form_builder::form_builder(const form_to_build& form, std::vector<std::string>& not_held,
                           storage::work_budget& budget)
    : impl_(std::make_unique<impl>(form, not_held, budget)) {}

form_builder::~form_builder() = default;

grammar form_builder::build() { return impl_->build(); }

}  // namespace semantic::engine
