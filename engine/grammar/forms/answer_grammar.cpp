#include "engine/grammar/forms/answer_grammar.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "engine/grammar/forms/gbnf.hpp"
#include "engine/grammar/forms/text_pattern.hpp"
#include "engine/grammar/grammar_matcher.hpp"
#include "engine/grammar/json_grammar.hpp"
#include "engine/text/output/json_text.hpp"
#include "engine/text/template/template_families.hpp"

namespace semantic::engine {

namespace {

using symbol = grammar_builder::symbol;
using sequence = grammar_builder::sequence;

constexpr std::size_t recent_max = 32;
// Schemas that are found to be too large one by one, each with a grammar begun anew; then no tool
// that is not strict is held.
constexpr std::size_t free_alone_max = 4;

class invalid_form : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Any text up to the first `mark`, the mark, and `behind`. `may_end`: the text may also end
/// without a mark. The automaton of Knuth, Morris and Pratt, a rule for each of its states.
symbol text_up_to(grammar_builder& out, std::string_view mark, symbol behind, bool may_end) {
    std::vector<symbol> states;
    for (std::size_t i = 0; i < mark.size(); ++i) states.push_back(out.new_rule());
    for (std::size_t state = 0; state < mark.size(); ++state) {
        std::map<std::size_t, byte_set> ways;  // key: the state behind
        for (int byte = 0; byte < 256; ++byte) {
            std::string seen(mark.substr(0, state));
            seen += static_cast<char>(byte);
            std::size_t next = seen.size();
            while (!mark.starts_with(std::string_view(seen).substr(seen.size() - next))) --next;
            ways[next].set(static_cast<std::size_t>(byte));
        }
        if (may_end) out.add(states[state], {});
        for (const auto& [next, bytes] : ways)
            out.add(states[state], {out.bytes(bytes), next < mark.size() ? states[next] : behind});
    }
    return states[0];
}

/// A schema that is not strict and describes too much: its owner's values are free.
struct free_schema {
    std::string owner;  // the tool's name; empty: the answer's own schema
};

// Builds one grammar. The forms of calls are those that engine/text's parsers read.
class form_builder {
  public:
    /// `free`: owners of schemas that are not to be held. `not_held`: takes what of the others that
    /// are not strict is not.
    form_builder(const tokenizer& words, const answer_format& format, std::string_view family,
                 const generation_request& request, const std::set<std::string>& free,
                 std::vector<std::string>& not_held)
        : tokenizer_(words),
          format_(format),
          family_(family),
          request_(request),
          free_(free),
          not_held_(not_held),
          text_(out_, json_spacing::free),
          arguments_(out_, json_spacing::templates) {}

    /// Throws invalid_form, unsupported_schema, free_schema.
    grammar build() && {
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
        if (request_.form.what == output_form::kind::grammar && recurses_on_the_left(made))
            throw invalid_form("the grammar: a rule begins with itself, which is not supported");
        return made;
    }

  private:
    bool harmony() const { return format_.calls == call_format::harmony; }
    bool llama3() const { return format_.calls == call_format::llama3; }
    /// Models that learnt tags are held to JSON between them: their parsers read it too.
    bool hermes() const {
        return format_.calls == call_format::hermes || format_.calls == call_format::qwen_xml ||
               format_.calls == call_format::glm;
    }
    invalid_form no_calls() const {
        return invalid_form("models of the chat template family '" + std::string(family_) +
                            "' have no tool calls that an answer can be held to");
    }

    /// A mark that is a token of its own in some vocabularies, and text in others.
    sequence mark(std::string_view spelling) {
        const token_id id = tokenizer_.find(spelling);
        return id >= 0 ? sequence{out_.token(id)} : out_.literal(std::string(spelling));
    }
    symbol special(std::string_view spelling) {
        token_id id = tokenizer_.find(spelling);
        if (id < 0) throw invalid_form("the vocabulary has no " + std::string(spelling));
        return out_.token(id);
    }

    // Reasoning comes before what the form is about.
    sequence reasoning() {
        if (format_.thinking == thinking_format::think) {
            symbol closed = out_.any_of({out_.literal("\n\n")});
            symbol thought = text_up_to(out_, "</think>", closed, false);
            const bool thinks = request_.thinking.enabled.value_or(format_.thinks_unless_said);
            // The prompt has opened it.
            if (thinks ? format_.opened.when_on : format_.opened.when_off) return {thought};
            return {out_.any_of({{}, out_.literal("<think>") + thought})};
        }
        if (!harmony()) return {};
        byte_set all;
        symbol text = out_.repeat({out_.bytes(all.set())}, 0, -1);
        sequence thought = sequence{special("<|channel|>")} + out_.literal("analysis") +
                           special("<|message|>") + text + special("<|end|>") +
                           special("<|start|>") + out_.literal("assistant");
        return {out_.any_of({{}, thought})};
    }

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
        return held(text_, parsed(form.schema_json, "schema"), {}, form.is_strict);
    }

    sequence text_answer() {
        const symbol value = text_of_the_form();
        if (request_.text)
            return {value};  // no template is rendered, and none of its forms kept to
        sequence text{value};
        if (harmony())
            text = sequence{special("<|channel|>")} + out_.literal("final") +
                   special("<|message|>") + value;
        if (!request_.form.calls_too) return reasoning() + text;
        return reasoning() + out_.any_of({text, calls()});
    }

    boost::json::value parsed(const std::string& text, const std::string& owner) const {
        boost::system::error_code error;
        boost::json::parse_options options;
        options.max_depth = 256;
        boost::json::value value = boost::json::parse(text, error, {}, options);
        if (error) throw invalid_form(owner + " is not JSON: " + error.message());
        return value;
    }

    const tool_definition& tool(const std::string& name) const {
        for (const tool_definition& tool : request_.chat.tools)
            if (tool.name == name) return tool;
        throw invalid_form("there is no tool '" + name + "'");
    }

    symbol arguments(const tool_definition& tool) {
        if (tool.parameters_json.empty()) return arguments_.any_object();
        try {
            auto schema = parsed(tool.parameters_json, "the schema of its arguments");
            if (boost::json::object* open = schema.if_object(); open && names_no_type(*open))
                open->emplace("type", "object");
            return held(arguments_, schema, tool.name, tool.strict);
        } catch (const std::runtime_error& error) {
            if (tool.strict) throw invalid_form("tool '" + tool.name + "': " + error.what());
            note(tool.name, error.what());
        }
        return arguments_.any_object();
    }
    // Arguments are an object, whether their schema says so or not.
    static bool names_no_type(const boost::json::object& schema) {
        return std::ranges::none_of(
            std::array{"type", "$ref", "anyOf", "oneOf", "allOf", "const", "enum"},
            [&](const char* key) { return schema.contains(key); });
    }

    // What a schema that is not strict says beyond what can be held is left out and noted.
    symbol held(json_grammar& into, const boost::json::value& schema, const std::string& owner,
                bool strict) {
        if (strict) return into.of_schema(schema);
        if (free_.contains(owner)) {
            note(owner, grammar_too_large().what());
            return owner.empty() ? into.any_value() : into.any_object();
        }
        std::vector<std::string> without;
        try {
            const symbol made = into.of_schema(schema, &without);
            for (const std::string& each : without) note(owner, each);
            return made;
        } catch (const grammar_too_large&) {
            throw free_schema{owner};
        }
    }
    void note(const std::string& owner, const std::string& what) {
        not_held_.push_back((owner.empty() ? "" : "tool '" + owner + "': ") + what);
    }

    symbol one_of_the_calls(std::string_view before, std::string_view between,
                            std::string_view behind) {
        std::vector<sequence> ways;
        for (const std::string& name : callable())
            ways.push_back(out_.literal(std::string(before) + quoted(name) + std::string(between)) +
                           arguments(tool(name)) + out_.literal(behind));
        return out_.any_of(std::move(ways));
    }

    std::vector<std::string> callable() const {
        if (!request_.form.tools.empty()) return request_.form.tools;
        std::vector<std::string> names;
        for (const tool_definition& tool : request_.chat.tools) names.push_back(tool.name);
        if (names.empty()) throw invalid_form("there are no tools to call");
        return names;
    }

    symbol llama3_call() { return one_of_the_calls("{\"name\": ", ", \"parameters\": ", "}"); }

    sequence harmony_call() {
        std::vector<sequence> ways;
        for (const std::string& name : callable())
            ways.push_back(out_.literal("commentary to=functions." + name + " ") +
                           special("<|constrain|>") + out_.literal("json") +
                           special("<|message|>") + arguments(tool(name)));
        return {special("<|channel|>"), out_.any_of(std::move(ways))};
    }

    // The call is what ends the turn in Llama 3 and in Harmony: there is one.
    sequence calls() {
        if (llama3()) return {llama3_call()};
        if (harmony()) return harmony_call();
        if (format_.calls == call_format::mistral) return mistral_calls();
        if (!hermes()) throw no_calls();
        symbol call =
            one_of_the_calls("<tool_call>\n{\"name\": ", ", \"arguments\": ", "}\n</tool_call>");
        int more = request_.form.several_calls ? -1 : 0;
        return sequence{call} + out_.repeat(out_.literal("\n") + call, 0, more);
    }

    sequence mistral_calls() {
        symbol call = one_of_the_calls("{\"name\": ", ", \"arguments\": ", "}");
        int more = request_.form.several_calls ? -1 : 0;
        return mark("[TOOL_CALLS]") + out_.literal("[") + sequence{call} +
               out_.repeat(out_.literal(", ") + call, 0, more) + out_.literal("]");
    }

    // Text as the model likes; only what begins a call must go on as one.
    symbol free_text_with_calls() {
        if (llama3()) {
            byte_set other;
            other.set();
            byte_set any = other;
            other.reset('{');
            return out_.any_of(
                {{}, {llama3_call()}, {out_.bytes(other), out_.repeat({out_.bytes(any)}, 0, -1)}});
        }
        if (harmony()) {
            byte_set all;
            symbol text = out_.repeat({out_.bytes(all.set())}, 0, -1);
            sequence said = sequence{special("<|channel|>")} + out_.literal("final") +
                            special("<|message|>") + text;
            symbol end = out_.any_of({said, harmony_call()});
            return out_.any_of({reasoning() + end});
        }
        if (!hermes()) throw no_calls();
        symbol rest = out_.new_rule();
        symbol call = one_of_the_calls("\n{\"name\": ", ", \"arguments\": ", "}\n</tool_call>");
        symbol behind = out_.any_of({{call, rest}});
        out_.add(rest, {text_up_to(out_, "<tool_call>", behind, true)});
        return rest;
    }

    grammar_builder out_;
    const tokenizer& tokenizer_;
    const answer_format format_;
    const std::string_view family_;
    const generation_request& request_;
    const std::set<std::string>& free_;
    std::vector<std::string>& not_held_;
    json_grammar text_;
    json_grammar arguments_;
};

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
    for (const tool_definition& tool : request.chat.tools) {
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

storage::result<held_form> answer_grammars::of(const generation_request& request) {
    if (request.form.what == output_form::kind::free) return held_form{};
    if (request.chat.end != prompt_end::answer_begins)
        return storage::failure{storage::errc::bad_value,
                                "an answer that must have a form has to begin anew"};
    auto made = rules_of(request);
    if (!made) return made.error();
    if (!vocabulary_) vocabulary_ = std::make_shared<const vocabulary_trie>(tokenizer_);
    return held_form{(*made)->rules, vocabulary_, (*made)->not_held};
}

storage::result<const answer_grammars::known*> answer_grammars::rules_of(
    const generation_request& request) {
    std::string key = key_of(request);
    auto found = std::find_if(recent_.begin(), recent_.end(),
                              [&](const known& entry) { return entry.key == key; });
    if (found != recent_.end()) {
        recent_.splice(recent_.begin(), recent_, found);
        return &recent_.front();
    }
    std::set<std::string> free;
    try {
        for (;;) try {
                known made{key, {}, {}};
                made.rules = std::make_shared<const grammar>(
                    form_builder(tokenizer_, format_, family_, request, free, made.not_held)
                        .build());
                // Goes through all that the answer may begin with. Too much of that is the
                // request's fault, and is told here.
                const grammar_matcher beginning(made.rules);
                recent_.push_front(std::move(made));
                if (recent_.size() > recent_max) recent_.pop_back();
                return &recent_.front();
            } catch (const free_schema& too_large) {
                free.insert(too_large.owner);
                if (free.size() > free_alone_max)
                    for (const tool_definition& tool : request.chat.tools) free.insert(tool.name);
            }
    } catch (const std::runtime_error& error) {
        return storage::failure{storage::errc::bad_value, error.what()};
    }
}

}  // namespace semantic::engine
