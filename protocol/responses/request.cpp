#include "protocol/responses/request.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <utility>

#include "protocol/answer_form.hpp"
#include "protocol/openai/common_fields.hpp"
#include "protocol/prompt_form.hpp"
#include "protocol/responses/input_items.hpp"
#include "protocol/responses/kept_response.hpp"
#include "protocol/tools.hpp"
#include "protocol/wire/fields.hpp"
#include "protocol/wire/json.hpp"
#include "protocol/wire/work_limit.hpp"

namespace semantic::protocol::responses {

namespace json = boost::json;

namespace {

void refuse_what_is_not_kept(const json_cursor& root) {
    if (auto prompt = root.find("prompt"))
        prompt->fail(errc::unsupported, "this server keeps no prompts; send the text");
    auto truncation = root.find("truncation");
    if (truncation && truncation->as_string() != "disabled")
        truncation->fail(errc::unsupported,
                         "nothing is cut from a conversation here; only \"disabled\" is supported");
}

bool is_own_tool(std::string_view type) { return type == "function" || type == "custom"; }

/// A tool that takes a text, as a function with one argument.
engine::tool_definition parse_text_tool(const json_cursor& tool, const response_limits& limits) {
    engine::tool_definition definition = parse_function(
        tool, "parameters",
        R"({"type":"object","properties":{"input":{"type":"string"}},"required":["input"],)"
        R"("additionalProperties":false})",
        limits);
    auto format = tool.find("format");
    if (!format || string_at(*format, "type") != "grammar") return definition;
    // The grammar says how the text is written; the model is told, since no other form holds it.
    definition.description += "\n\nThe input follows this grammar (" +
                              string_at(*format, "syntax") + "):\n" +
                              string_at(*format, "definition");
    return definition;
}

/// The tools that a client runs. Those of the vendor's servers are named in `left_out`.
void parse_tool_list(const json_cursor& root, const response_limits& limits,
                     response_request& request) {
    auto list = root.find("tools");
    const std::size_t count = list ? parse_count(*list, limits.tools_max) : 0;
    for (std::size_t i = 0; i < count && list->ok(); ++i) {
        const json_cursor tool = list->item(i);
        const std::string type = string_at(tool, "type");
        if (!is_own_tool(type)) {
            request.left_out.push_back(type);
            continue;
        }
        const bool takes_text = type == "custom";
        engine::tool_definition definition =
            takes_text ? parse_text_tool(tool, limits)
                       : parse_function(tool, "parameters", R"({"type":"object","properties":{}})",
                                        limits);
        if (std::ranges::find(request.chat.tools, definition.name,
                              &engine::tool_definition::name) != request.chat.tools.end())
            tool.at("name").fail(errc::bad_value, "tool names must be unique, found " +
                                                      quoted(definition.name) + " twice");
        if (takes_text) request.text_tools.insert(definition.name);
        request.chat.tools.push_back(std::move(definition));
    }
}

tool_use parse_mode(const json_cursor& field) {
    const std::string_view text = field.as_string();
    if (text == "none") return tool_use::never;
    if (text == "required") return tool_use::always;
    if (text != "auto")
        field.fail(errc::bad_value,
                   R"(must be "none", "auto", "required" or an object, is )" + quoted(text));
    return tool_use::when_wanted;
}

/// {"type": "allowed_tools", "mode", "tools": [{"type", "name"}]}: all stay in the prompt, and
/// calls are held to those.
void parse_allowed(const json_cursor& choice, const response_limits& limits, bool several,
                   response_request& request) {
    const tool_use use = parse_mode(choice.at("mode"));
    const json_cursor list = choice.at("tools");
    std::set<std::string> allowed;
    const std::size_t count = parse_count(list, limits.tools_max);
    for (std::size_t i = 0; i < count; ++i) {
        const json_cursor tool = list.item(i);
        const std::string name = string_at(tool, "name");
        if (std::ranges::find(request.chat.tools, name, &engine::tool_definition::name) ==
            request.chat.tools.end())
            tool.at("name").fail(errc::bad_value, "there is no tool " + quoted(name));
        allowed.insert(name);
    }
    set_tool_use(request, use, several, std::nullopt, choice);
    if (use == tool_use::always && allowed.empty())
        list.fail(errc::bad_value, "a call is required, and none of the tools may be called");
    if (use == tool_use::always) request.form.tools.assign(allowed.begin(), allowed.end());
    if (use == tool_use::when_wanted && allowed.size() < request.chat.tools.size())
        list.fail(errc::unsupported,
                  "some tools alone may be called only where a call is required; name all of them");
}

void parse_tool_choice(const json_cursor& root, const response_limits& limits,
                       response_request& request) {
    const bool several = flag_at(root, "parallel_tool_calls", true);
    auto choice = root.find("tool_choice");
    if (!choice) return set_tool_use(request, tool_use::when_wanted, several, std::nullopt, root);
    if (!choice->value().is_object())
        return set_tool_use(request, parse_mode(*choice), several, std::nullopt, *choice);
    const std::string type = string_at(*choice, "type");
    if (type == "allowed_tools") return parse_allowed(*choice, limits, several, request);
    if (!is_own_tool(type))
        return choice->at("type").fail(errc::unsupported,
                                       "this server runs no tools itself, such as " + quoted(type));
    set_tool_use(request, tool_use::always, false, string_at(*choice, "name"), *choice);
}

void parse_text_form(const json_cursor& root, response_request& request) {
    auto text = root.find("text");
    auto format = text ? text->find("format") : std::nullopt;
    if (!format) return;
    const std::string type = string_at(*format, "type");
    if (type == "text") return;
    if (type == "json_object") {
        request.form.what = engine::output_form::kind::json;
    } else if (type == "json_schema") {
        set_json_schema(request, format->at("schema"), flag_at(*format, "strict"));
    } else {
        format->at("type").fail(errc::bad_value,
                                R"(must be "text", "json_object" or "json_schema")");
    }
}

void parse_reasoning(const json_cursor& root, response_request& request) {
    auto reasoning = root.find("reasoning");
    if (!reasoning) return;
    reasoning->as_object();
    if (auto effort = reasoning->find("effort")) request.thinking = openai::parse_effort(*effort);
}

/// What the reply is to carry beside the answer; what this server has nothing of is left out.
void parse_include(const json_cursor& root, const response_limits& limits,
                   response_request& request) {
    bool has_scores = false;
    auto list = root.find("include");
    const std::size_t count = list ? parse_count(*list, limits.tools_max) : 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string_view what = list->item(i).as_string();
        if (what == "message.output_text.logprobs") has_scores = true;
        if (what == "reasoning.encrypted_content") request.seals_reasoning = true;
    }
    std::int64_t likeliest = 0;
    if (auto field = root.find("top_logprobs"))
        likeliest = field->as_integer(0, limits.top_logprobs_max);
    if (has_scores || likeliest > 0) request.top_scores = static_cast<int>(likeliest);
}

/// The most calls of tools that an answer may have.
void parse_most_calls(const json_cursor& root, response_request& request) {
    auto field = root.find("max_tool_calls");
    if (!field) return;
    const auto most = static_cast<std::size_t>(field->as_integer(1, 1'000'000));
    request.tool_calls_max = std::min(request.tool_calls_max.value_or(most), most);
}

/// Every field that the vendor's response has of its request, null where there is none.
json::object repeated_fields(const json_cursor& root) {
    const auto said = [&](std::string_view key, json::value otherwise) -> json::value {
        auto field = root.find(key);
        return field ? field->value() : std::move(otherwise);
    };
    json::object fields{
        {"instructions", said("instructions", nullptr)},
        {"max_output_tokens", said("max_output_tokens", nullptr)},
        {"max_tool_calls", said("max_tool_calls", nullptr)},
        {"metadata", said("metadata", json::object())},
        {"parallel_tool_calls", said("parallel_tool_calls", true)},
        {"previous_response_id", said("previous_response_id", nullptr)},
        {"reasoning", said("reasoning", json::object{{"effort", nullptr}, {"summary", nullptr}})},
        {"service_tier", "default"},
        {"store", said("store", true)},
        {"temperature", said("temperature", nullptr)},
        {"text", said("text", json::object{{"format", json::object{{"type", "text"}}}})},
        {"tool_choice", said("tool_choice", "auto")},
        {"tools", said("tools", json::array())},
        {"top_logprobs", said("top_logprobs", 0)},
        {"top_p", said("top_p", nullptr)},
        {"truncation", "disabled"}};
    for (std::string_view key : {"prompt_cache_key", "safety_identifier", "user"})
        if (auto field = root.find(key)) fields[key] = field->value();
    return fields;
}

/// What stands before the request's own items; empty: nothing does.
earlier_items parse_previous(const json_cursor& root, const previous_items& before,
                             response_request& request) {
    auto field = root.find("previous_response_id");
    if (!field) return {};
    request.previous = std::string(field->as_string());
    if (request.previous.empty()) return {};
    return {*field, [&before, id = request.previous](const item_reader& read) -> result<void> {
                if (!before) return previous_not_found(id);
                return before(id, read);
            }};
}

/// Likewise of a conversation, named by its id or as {"id"}.
earlier_items parse_conversation(const json_cursor& root, const previous_items& in_conversation,
                                 response_request& request) {
    auto field = root.find("conversation");
    if (!field) return {};
    request.conversation =
        std::string(field->value().is_string() ? field->as_string() : field->at("id").as_string());
    if (!request.previous.empty())
        field->fail(errc::bad_value, "goes with no previous_response_id: each is a conversation");
    if (request.conversation.empty()) field->fail(errc::bad_value, "must not be empty");
    return {*field,
            [&in_conversation, id = request.conversation](const item_reader& read) -> result<void> {
                if (!in_conversation) return conversation_not_found(id);
                return in_conversation(id, read);
            }};
}

/// Whether it is kept, and made while nobody waits for it.
void parse_keeping(const json_cursor& root, response_request& request) {
    request.is_kept = flag_at(root, "store", true);
    request.in_background = flag_at(root, "background");
    if (request.in_background && !request.is_kept)
        root.at("background")
            .fail(errc::bad_value, "needs store: true, for the response is asked for by its id");
    request.generates = flag_at(root, "generate", true);
}

/// What is kept of the request, once all of it was found to be right.
void keep_input(const json_cursor& root, const kept_sources& kept, response_request& request) {
    if (kept.ids == nullptr || !root.ok()) return;
    const auto input = root.find("input");
    request.input = named_items_text(input ? input->value() : json::value(), kept.item_of,
                                     *kept.ids, kept.budget);
}

void check_repeated(const json_cursor& root, std::string_view body, const response_limits& limits,
                    const response_request& request) {
    if (body.size() <= limits.repeated_bytes_max) return;
    if (to_text(request.repeated).size() <= limits.repeated_bytes_max) return;
    root.fail(errc::body_too_large,
              "what a response repeats of its request (instructions, tools, text, metadata and "
              "others) may have " +
                  std::to_string(limits.repeated_bytes_max) + " bytes");
}

response_request parse_root(const json_cursor& root, std::string_view body,
                            const response_limits& limits, const kept_sources& kept,
                            std::optional<engine::prompt_excess>& excess) {
    response_request request;
    request.model = bounded_at(root, "model", limits.id_bytes_max);
    refuse_foreign_fields(root);
    refuse_what_is_not_kept(root);
    constexpr const char* is_new = "an answer is a new message here";
    refuse_field(root, "continue_final_message", is_new);
    if (auto begins = root.find("add_generation_prompt"); begins && !begins->as_bool())
        begins->fail(errc::unsupported, is_new);
    request.max_tokens =
        parse_max_tokens(root, {"max_output_tokens"}, limits).value_or(limits.max_tokens_max);
    request.ending = parse_ending(root, request.max_tokens, limits);
    request.sampling = parse_sampling(root, limits, std::numeric_limits<std::int64_t>::min());
    request.stream = flag_at(root, "stream");
    earlier_items earlier = parse_previous(root, kept.before, request);
    earlier_items said = parse_conversation(root, kept.in_conversation, request);
    if (said.hand_over) earlier = std::move(said);
    parse_keeping(root, request);
    read_input input = parse_input(root, earlier, kept, request.generates, limits);
    request.chat = std::move(input.chat);
    excess = input.excess;
    parse_tool_list(root, limits, request);
    parse_reasoning(root, request);
    parse_template_values(root, request.thinking, request.chat);
    parse_include(root, limits, request);
    parse_text_form(root, request);
    parse_foreign_forms(root, limits, request);
    parse_tool_choice(root, limits, request);
    parse_most_calls(root, request);
    request.repeated = repeated_fields(root);
    check_repeated(root, body, limits, request);
    keep_input(root, kept, request);
    return request;
}

}  // namespace

result<response_request> parse_response(std::string_view body, const response_limits& limits,
                                        const kept_sources& kept) {
    std::optional<engine::prompt_excess> excess;
    const auto read = [&](const json_cursor& root) {
        return parse_root(root, body, limits, kept, excess);
    };
    try {
        auto request = read_object(body, limits.json, read);
        if (request || request.error().code != errc::prompt_too_long) return request;
        failure too_long = request.error();
        too_long.excess = excess;
        return too_long;
    } catch (const storage::work_limit_exceeded& reached) {
        return from_work_limit(reached);
    }
}

}  // namespace semantic::protocol::responses
