// SPDX-License-Identifier: Apache-2.0
#include "tests/cost/parsers.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>

#include "engine/grammar/forms/answer_grammar.hpp"
#include "engine/grammar/output_constraint.hpp"
#include "engine/text/jinja/program.hpp"
#include "engine/text/output/output_parser.hpp"
#include "engine/text/output/stop_matcher.hpp"
#include "engine/text/template/chat_template.hpp"
#include "engine/text/template/own_template.hpp"
#include "engine/text/template/template_families.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "protocol/admin.hpp"
#include "protocol/agents/agents.hpp"
#include "protocol/agents/generate.hpp"
#include "protocol/anthropic/messages.hpp"
#include "protocol/coordination/api.hpp"
#include "protocol/coordination/opening.hpp"
#include "protocol/live/dialogue.hpp"
#include "protocol/mcp/message.hpp"
#include "protocol/mcp/tools.hpp"
#include "protocol/ollama/request.hpp"
#include "protocol/openai/chat.hpp"
#include "protocol/openai/completions.hpp"
#include "protocol/responses/conversations.hpp"
#include "protocol/responses/request.hpp"
#include "protocol/responses/socket_message.hpp"
#include "protocol/scenarios/api.hpp"
#include "protocol/scenarios/choice_pattern.hpp"
#include "protocol/scenarios/scenario.hpp"
#include "storage/objects/redis/redis_seal.hpp"
#include "storage/objects/s3_xml.hpp"
#include "tests/engine/text/written_calls.hpp"

namespace semantic::cost {

namespace {

using namespace semantic::engine;
namespace wire = semantic::protocol;

constexpr int tokens_walked = 60;

const std::string& model() {
    static const std::string made = std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny";
    return made;
}

const tokenizer& words() {
    static const tokenizer made = *tokenizer::load(model());
    return made;
}

const vocabulary_trie& trie() {
    static const vocabulary_trie made(words());
    return made;
}

const std::vector<token_id>& stops() {
    static const std::vector<token_id> made{words().find("<|im_end|>")};
    return made;
}

generation_request held_to(output_form form) {
    generation_request request;
    request.form = std::move(form);
    return request;
}

/// What a request pays for its form.
std::optional<held_form> form_of(const generation_request& request, call_format calls) {
    answer_grammars grammars(words(), answer_format{.calls = calls}, "own");
    auto made = grammars.compile(request);
    if (!made) return std::nullopt;
    return std::move(*made);
}

/// Draws tokens that the form allows, and asks for a mask at each.
void walk(const held_form& form) {
    std::mt19937 random(7);
    std::vector<float> logits(static_cast<std::size_t>(words().vocabulary()));
    try {
        output_constraint constraint(form.program, words(), trie(), stops());
        for (int i = 0; i < tokens_walked; ++i) {
            for (float& logit : logits) logit = static_cast<float>(random() % 1000);
            const auto masked = constraint.masked(logits);
            if (masked.empty()) return;
            const auto best = std::max_element(masked.begin(), masked.end()) - masked.begin();
            if (static_cast<token_id>(best) == stops()[0]) return;
            constraint.take(static_cast<token_id>(best));
        }
    } catch (const grammar_too_large&) {  // as it may be
    }
}

std::function<bool(std::string_view)> form(output_form::kind kind, bool is_strict, bool walks) {
    return [=](std::string_view text) {
        output_form wanted{.what = kind};
        wanted.is_strict = is_strict;
        (kind == output_form::kind::json ? wanted.schema_json : wanted.rules) = text;
        const auto made = form_of(held_to(std::move(wanted)), call_format::hermes);
        if (made && walks) walk(*made);
        return made.has_value();
    };
}

/// Arguments of a call, as models write them.
std::function<bool(std::string_view)> arguments(call_format calls) {
    return [calls](std::string_view schema) {
        generation_request request = held_to({.what = output_form::kind::calls});
        request.chat.tools.push_back({"f", "", std::string(schema)});
        return form_of(request, calls).has_value();
    };
}

/// All of a text in pieces of some bytes, as tokens come.
std::function<bool(std::string_view)> calls(call_format format) {
    return [format](std::string_view text) {
        static const offered_tools tools{written_calls::tools()};
        const auto reading = make_output_parser({.calls = format}, tools, {.shows_progress = true});
        for (std::size_t at = 0; at < text.size(); at += 4) (void)reading->push(text.substr(at, 4));
        (void)reading->finish();
        return true;
    };
}

/// The conversation of a body, as one template prints it, and its tokens.
std::function<bool(std::string_view)> rendering(std::shared_ptr<const chat_template> chat) {
    return [chat](std::string_view body) {
        auto parsed = wire::openai::parse_chat(body);
        if (!parsed) return false;
        const auto text = chat->render_marked(parsed->chat);
        if (!text) return false;
        std::vector<std::uint32_t> ends;
        (void)words().encode(text->bytes(), ends, text->content());
        return true;
    };
}

std::string file(const std::filesystem::path& path) {
    std::ifstream stream(path);
    return {std::istreambuf_iterator<char>(stream), {}};
}

void add_templates(std::vector<parser>& all) {
    for (const template_family& family : template_families()) {
        auto made = chat_template::make(family.name);
        if (!made) continue;
        all.push_back({"render " + std::string(family.name), &openai_bodies(),
                       rendering(std::make_shared<const chat_template>(std::move(*made)))});
    }
    for (const char* name : {"qwen3", "llama3.0", "gemma3"}) {
        const std::string source =
            file(std::filesystem::path(SEMANTIC_SOURCE_DIR) /
                 "tests/golden/chat_templates/sources" / (std::string(name) + ".jinja"));
        auto made = own_template::make(source, {"<s>", "<|im_end|>"});
        if (!made) throw std::runtime_error(std::string(name) + ": " + made.error().what);
        auto own = std::make_shared<const own_template>(std::move(*made));
        all.push_back(
            {std::string("jinja ") + name, &openai_bodies(), [own](std::string_view body) {
                 auto parsed = wire::openai::parse_chat(body);
                 if (!parsed) return false;
                 const auto messages = flatten(parsed->chat);
                 if (!messages) return false;
                 bool hit_limit = false;
                 return own->render_marked({*messages, parsed->chat.tools, {}}, hit_limit)
                     .has_value();
             }});
    }
}

void add_requests(std::vector<parser>& all) {
    using wire::openai::parse_chat;
    const auto add = [&](const char* name, const language& inputs, auto parse) {
        all.push_back({name, &inputs, [parse](std::string_view body) {
                           if constexpr (requires { parse(body).has_value(); })
                               return parse(body).has_value();
                           else
                               return !parse(body).empty();
                       }});
    };
    add("chat completions", openai_bodies(), [](auto body) { return parse_chat(body); });
    add("completions", openai_bodies(), [](auto b) { return wire::openai::parse_completion(b); });
    add("messages", anthropic_bodies(), [](auto b) { return wire::anthropic::parse_messages(b); });
    add("count tokens", anthropic_bodies(),
        [](auto b) { return wire::anthropic::parse_count_tokens(b); });
    add("responses", responses_bodies(), [](auto b) { return wire::responses::parse_response(b); });
    add("conversations", response_items(),
        [](auto b) { return wire::responses::parse_conversation(b, {}); });
    add("items", response_items(), [](auto b) { return wire::responses::parse_items(b, {}); });
    add("socket message", responses_bodies(),
        [](auto b) { return wire::responses::read_socket_message(b); });
    add("ollama chat", ollama_bodies(), [](auto b) { return wire::ollama::parse_chat(b); });
    add("ollama generate", ollama_bodies(), [](auto b) { return wire::ollama::parse_generate(b); });
    add("mcp", mcp_messages(), [](auto b) -> std::optional<wire::mcp::planned_call> {
        auto asked = wire::mcp::parse_message(b, {}, wire::json_limits{});
        const auto* call = std::get_if<wire::mcp::message>(&asked);
        if (call == nullptr) return std::nullopt;
        const auto* arguments = call->params.if_contains("arguments");
        if (arguments == nullptr || !arguments->is_object()) return std::nullopt;
        auto planned = wire::mcp::plan_call("append_to_agent", arguments->get_object());
        if (!planned) return std::nullopt;
        return *std::move(planned);
    });
    add("generate", native_bodies(), [](auto b) { return wire::agents::parse_generate(b); });
    add("opening", session_bodies(), [](auto b) {
        return wire::coordination::parse_opening(b, "s", [] { return std::string("a"); });
    });
    add("turn", native_bodies(), [](auto b) { return wire::coordination::parse_turn(b, true); });
    add("run", native_bodies(), [](auto b) { return wire::scenarios::parse_run(b); });
    add("small bodies", native_bodies(), [](auto b) {
        (void)wire::responses::parse_metadata(b, {});
        (void)wire::ollama::parse_model_name(b);
        (void)wire::agents::parse_name(b);
        (void)wire::agents::parse_change(b);
        (void)wire::agents::parse_fork(b);
        (void)wire::admin::parse_swap(b);
        (void)wire::admin::parse_unload(b);
        (void)wire::admin::parse_seed(b);
        (void)wire::coordination::parse_whisper(b);
        (void)wire::coordination::parse_vote(b);
        return wire::coordination::parse_decision(b);
    });
    add("scenario", scenarios(), [](auto b) { return wire::scenarios::parse_scenario(b); });
    add("scenario, aliases", yaml_texts(),
        [](auto b) { return wire::scenarios::parse_scenario(b); });
    add("choice pattern", expressions(), [](auto pattern) {
        static const std::string said(20'000, 'a');
        const auto made = wire::scenarios::choice_pattern::compile(pattern);
        storage::work_budget budget;
        return made ? made->last_choice(said, budget) : std::string();
    });
    add("live message", native_bodies(), [](auto b) {
        wire::live::dialogue client;
        client.opened(true, {});
        (void)client.said(b, {});
        return std::string("taken");
    });
}

/// What models, files and other machines say.
void add_sources(std::vector<parser>& all) {
    static const jinja::value given = jinja::from_json(boost::json::parse(
        R"({"s": "Grüße 日本 <|im_end|>", "n": -7, "f": 2.5, "l": [3, "b", null, [true]],
            "d": {"a": {"b": "c"}}, "messages": [{"role": "user", "content": "hi"},
            {"role": "assistant", "content": "ho"}], "tools": [{"type": "function"}]})"));
    all.push_back({"jinja source", &templates(), [](std::string_view source) {
                       const auto made = jinja::program::parse(source);
                       return made && made->render(given, "2026-03-09").has_value();
                   }});
    all.push_back({"object list", &object_lists(), [](std::string_view page) {
                       (void)storage::parse_s3_error(page);
                       return storage::parse_s3_list(page, "p/").has_value();
                   }});
    static storage::redis_seal seal;
    seal.set_secret("a secret that all nodes have read");
    all.push_back({"redis message", &contents(), [](std::string_view text) {
                       (void)seal.open("news", text);
                       return seal.open("news", *seal.seal("news", text)).has_value();
                   }});
}

}  // namespace

std::vector<parser> parsers() {
    (void)trie();
    using kind = output_form::kind;
    std::vector<parser> all{
        {"schema, strict", &schemas(), form(kind::json, true, false)},
        {"schema, lenient", &schemas(), form(kind::json, false, false)},
        {"schema, walked", &schemas(), form(kind::json, false, true)},
        {"arguments, json", &schemas(), arguments(call_format::hermes)},
        {"arguments, gemma", &schemas(), arguments(call_format::function_gemma)},
        {"arguments, python", &schemas(), arguments(call_format::tool_code)},
        {"grammar", &grammars(), form(kind::grammar, true, false)},
        {"grammar, walked", &grammars(), form(kind::grammar, true, true)},
        {"expression", &expressions(), form(kind::pattern, true, false)},
        {"expression, walked", &expressions(), form(kind::pattern, true, true)},
        {"tokens", &contents(),
         [](std::string_view text) { return !words().encode(text).empty(); }},
        {"stop strings", &contents(), [](std::string_view text) {
             std::vector<std::string> wanted;
             for (std::size_t i = 0; i < 64; ++i)
                 wanted.emplace_back(text.substr(0, text.size() / 2).substr(0, 1024 - i));
             stop_matcher matcher(std::move(wanted));
             const std::string_view said = text.substr(text.size() / 2);
             for (std::size_t at = 0; at < said.size(); at += 4)
                 (void)matcher.push(said.substr(at, 4));
             return true;
         }}};
    constexpr std::array formats{std::pair{"calls, hermes", call_format::hermes},
                                 std::pair{"calls, qwen", call_format::qwen_xml},
                                 std::pair{"calls, glm", call_format::glm},
                                 std::pair{"calls, llama3", call_format::llama3},
                                 std::pair{"calls, mistral", call_format::mistral},
                                 std::pair{"calls, deepseek", call_format::deepseek},
                                 std::pair{"calls, harmony", call_format::harmony},
                                 std::pair{"calls, functiongemma", call_format::function_gemma},
                                 std::pair{"calls, gemma4", call_format::gemma4},
                                 std::pair{"calls, tool_code", call_format::tool_code}};
    for (const auto& [name, format] : formats) all.push_back({name, &call_texts(), calls(format)});
    add_requests(all);
    add_templates(all);
    add_sources(all);
    add_late_parsers(all);
    return all;
}

}  // namespace semantic::cost
