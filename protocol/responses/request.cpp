// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/request.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <utility>

#include "protocol/answer_form.hpp"
#include "protocol/history/summary.hpp"
#include "protocol/openai/common_fields.hpp"
#include "protocol/prompt_form.hpp"
#include "protocol/responses/compaction.hpp"
#include "protocol/responses/input_items.hpp"
#include "protocol/responses/kept_response.hpp"
#include "protocol/responses/tool_list.hpp"
#include "protocol/tools.hpp"
#include "protocol/wire/fields.hpp"
#include "protocol/wire/json.hpp"
#include "protocol/wire/memory_wishes.hpp"
#include "protocol/wire/work_limit.hpp"

namespace semantic::protocol::responses {

namespace json = boost::json;

namespace {

/// Complains of fields for what this server does not do with conversations.
void refuse_what_is_not_kept(const json_cursor& root) {
    if (auto prompt = root.find("prompt"))
        prompt->fail(errc::unsupported, "this server keeps no prompts; send the text");
    auto truncation = root.find("truncation");
    if (truncation && truncation->as_string() != "disabled")
        truncation->fail(errc::unsupported,
                         "nothing is cut from a conversation here; only \"disabled\" is supported");
}

/// Returns: the model's name of a tool that the client names, possibly with a namespace.
std::string named_tool(const json_cursor& named, const response_request& request) {
    const std::string name = string_at(named, "name");
    if (auto space = named.find("namespace"))
        return request.names.flat_of(std::string(space->as_string()), name);
    const auto is_it = [&](const auto& tool) { return tool.name == name; };
    if (std::ranges::any_of(request.chat.callable_tools(), is_it)) return name;
    return request.names.only_flat_of(name).value_or(name);
}

/// Whether the client names a whole namespace of tools.
bool is_namespace(const json_cursor& named) {
    auto type = named.find("type");
    return type && type->value() == "namespace";
}

/// Returns: the model's names of the tools that an entry names: one tool, or all of a namespace.
std::vector<std::string> named_tools(const json_cursor& named, const response_request& request) {
    if (!is_namespace(named)) return {named_tool(named, request)};
    return request.names.flat_names_in(string_at(named, "name"));
}

/// Reads "none", "auto" or "required".
tool_use parse_mode(const json_cursor& field) {
    const std::string_view text = field.as_string();
    if (text == "none") return tool_use::never;
    if (text == "required") return tool_use::always;
    if (text != "auto")
        field.fail(errc::bad_value,
                   R"(must be "none", "auto", "required" or an object, is )" + quoted(text));
    return tool_use::when_wanted;
}

/// Reads {"type": "allowed_tools", "mode", "tools": [{"type", "name"}]}. All tools stay in the
/// prompt, and the form of the answer allows calls of these only.
void parse_allowed(const json_cursor& choice, const response_limits& limits, bool several,
                   response_request& request) {
    const tool_use use = parse_mode(choice.at("mode"));
    const json_cursor list = choice.at("tools");
    std::set<std::string> known;
    for (const engine::tool_definition& tool : request.chat.callable_tools())
        known.insert(tool.name);
    std::set<std::string> allowed;
    std::set<std::string> spaces;
    const std::size_t count = parse_count(list, limits.tools_max);
    for (std::size_t i = 0; i < count; ++i) {
        const json_cursor tool = list.item(i);
        const std::string name = string_at(tool, "name");
        // A namespace that is named again adds nothing, and its tools would be compared once more.
        if (is_namespace(tool) && !spaces.insert(name).second) continue;
        const std::vector<std::string> names = named_tools(tool, request);
        const auto is_known = [&](const std::string& each) { return known.contains(each); };
        if (names.empty() || !std::ranges::all_of(names, is_known))
            tool.at("name").fail(errc::bad_value, "there is no tool " + quoted(name));
        allowed.insert(names.begin(), names.end());
    }
    set_tool_use(request, use, several, std::nullopt, choice);
    if (use == tool_use::always && allowed.empty())
        list.fail(errc::bad_value, "a call is required, and none of the tools may be called");
    if (use == tool_use::always) request.form.tools.assign(allowed.begin(), allowed.end());
    if (use == tool_use::when_wanted && allowed.size() < known.size())
        list.fail(errc::unsupported,
                  "some tools alone may be called only where a call is required; name all of them");
}

/// Reads {"type": "namespace", "name"}: one of the namespace's tools must be called.
void parse_chosen_namespace(const json_cursor& choice, bool several, response_request& request) {
    std::vector<std::string> names = named_tools(choice, request);
    if (names.empty())
        choice.at("name").fail(errc::bad_value,
                               "there is no tool in " + quoted(string_at(choice, "name")));
    set_tool_use(request, tool_use::always, several, std::nullopt, choice);
    request.form.tools = std::move(names);
}

/// Reads tool_choice: whether tools may or must be called, and which.
void parse_tool_choice(const json_cursor& root, const response_limits& limits,
                       response_request& request) {
    const bool several = flag_at(root, "parallel_tool_calls", true);
    auto choice = root.find("tool_choice");
    if (!choice) return set_tool_use(request, tool_use::when_wanted, several, std::nullopt, root);
    if (!choice->value().is_object())
        return set_tool_use(request, parse_mode(*choice), several, std::nullopt, *choice);
    const std::string type = string_at(*choice, "type");
    if (type == "allowed_tools") return parse_allowed(*choice, limits, several, request);
    if (type == "namespace") return parse_chosen_namespace(*choice, several, request);
    if (!is_own_tool(type))
        return choice->at("type").fail(errc::unsupported,
                                       "this server runs no tools itself, such as " + quoted(type));
    // A tool that is chosen by name is called once.
    set_tool_use(request, tool_use::always, false, named_tool(*choice, request), *choice);
}

/// Reads text.format: whether the answer is to be JSON, and of which schema.
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

/// Reads reasoning.effort.
void parse_reasoning(const json_cursor& root, response_request& request) {
    auto reasoning = root.find("reasoning");
    if (!reasoning) return;
    reasoning->as_object();
    if (auto effort = reasoning->find("effort")) request.thinking = openai::parse_effort(*effort);
}

/// Reads `include`: what the reply has in addition to the answer. Unknown entries are ignored.
void parse_include(const json_cursor& root, const response_limits& limits,
                   response_request& request) {
    bool has_scores = false;
    auto list = root.find("include");
    const std::size_t count = list ? parse_count(*list, limits.tools_max) : 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string_view extra = list->item(i).as_string();
        if (extra == "message.output_text.logprobs") has_scores = true;
        if (extra == "reasoning.encrypted_content") request.seals_reasoning = true;
    }
    std::int64_t likeliest = 0;
    if (auto field = root.find("top_logprobs"))
        likeliest = field->as_integer(0, limits.top_logprobs_max);
    if (has_scores || likeliest > 0) request.top_scores = static_cast<int>(likeliest);
}

/// Reads the most tool calls that an answer may have.
void parse_most_calls(const json_cursor& root, response_request& request) {
    auto field = root.find("max_tool_calls");
    if (!field) return;
    // A bound that no answer reaches.
    const auto most = static_cast<std::size_t>(field->as_integer(1, 1'000'000));
    request.tool_calls_max = std::min(request.tool_calls_max.value_or(most), most);
}

/// Returns: all fields that the vendor's response repeats of its request, null where the request
/// has none.
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
    for (std::string_view key :
         {"prompt_cache_key", "prompt_cache_options", "safety_identifier", "user"})
        if (auto field = root.find(key)) fields[key] = field->value();
    return fields;
}

/// Reads previous_response_id. Returns: the items that come before the request's own; empty where
/// there are none.
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

/// Reads `conversation`, an id or {"id"}. Returns: the items that come before the request's own;
/// empty where there are none.
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

/// Reads whether the response is kept by its id, and whether it is made in the background.
void parse_keeping(const json_cursor& root, response_request& request) {
    request.is_kept = flag_at(root, "store", true);
    request.in_background = flag_at(root, "background");
    if (request.in_background && !request.is_kept)
        root.at("background")
            .fail(errc::bad_value, "needs store: true, for the response is asked for by its id");
    request.generates = flag_at(root, "generate", true);
    auto options = root.find("prompt_cache_options");
    if (options && flag_at(*options, "prewarm")) request.generates = false;
}

/// Whether the item is a summary, or asks for one.
bool is_compaction(const json::value& item) {
    const json::object* object = item.if_object();
    const json::value* type = object != nullptr ? object->if_contains("type") : nullptr;
    return type != nullptr && (*type == "compaction" || *type == "compaction_trigger");
}

/// Reads prompt_cache_options.comparison_response_id and compares with that response. Requires:
/// request.repeated is set.
void parse_comparison(const json_cursor& root, const response_limits& limits,
                      const kept_sources& kept, response_request& request) {
    auto options = root.find("prompt_cache_options");
    auto field = options ? options->find("comparison_response_id") : std::nullopt;
    if (!field || !root.ok()) return;
    request.compared.emplace();
    const std::string id = parse_bounded(*field, limits.id_bytes_max);
    auto earlier = kept.response_of ? kept.response_of(id) : std::nullopt;
    if (!earlier) return;
    auto input = root.find("input");
    const json::array* items = input ? input->value().if_array() : nullptr;
    const bool compacts = items != nullptr && std::ranges::any_of(*items, is_compaction);
    request.compared = compare_with(*earlier, request.model, request.repeated, compacts);
}

/// Sets what is kept of the request. Called last, when all of the request was found to be right.
void keep_input(const json_cursor& root, const kept_sources& kept, response_request& request) {
    if (kept.ids == nullptr || !root.ok()) return;
    const auto input = root.find("input");
    request.input = named_items_text(input ? input->value() : json::value(), kept.item_of,
                                     *kept.ids, kept.budget);
}

/// Complains where the repeated fields are too long, since every event of a stream may have them.
void check_repeated(const json_cursor& root, std::string_view body, const response_limits& limits,
                    const response_request& request) {
    // What is repeated is a part of the body, so most requests need no measuring.
    if (body.size() <= limits.repeated_bytes_max) return;
    if (to_text(request.repeated).size() <= limits.repeated_bytes_max) return;
    root.fail(errc::body_too_large,
              "what a response repeats of its request (instructions, tools, text, metadata and "
              "others) may have " +
                  std::to_string(limits.repeated_bytes_max) + " bytes");
}

/// Reads context_management: [{"type": "compaction", "compact_threshold"}]. Without a threshold it
/// is three quarters of the context; of several entries the lowest counts. Entries of other types
/// are left out by name.
void parse_context_management(const json_cursor& root, const response_limits& limits,
                              left_out_names& left_out, response_request& request) {
    auto list = root.find("context_management");
    const std::size_t count = list ? parse_count(*list, limits.tools_max) : 0;
    for (std::size_t i = 0; i < count && list->ok(); ++i) {
        const json_cursor entry = list->item(i);
        const std::string type = string_at(entry, "type");
        if (type != "compaction") {
            left_out.add(type);
            continue;
        }
        auto field = entry.find("compact_threshold");
        int above = limits.context_tokens_max / 4 * 3;
        if (field) above = static_cast<int>(field->as_integer(1, std::numeric_limits<int>::max()));
        if (above > 0)
            request.compacts_above = std::min(request.compacts_above.value_or(above), above);
    }
}

/// Where the last item is {"type": "compaction_trigger"}, the answer becomes a summary of the
/// conversation. The tools stay in the prompt, so that the memory of the conversation matches.
void parse_compaction_trigger(const json_cursor& root, response_request& request) {
    auto input = root.find("input");
    const json::array* items = input ? input->value().if_array() : nullptr;
    if (items == nullptr || items->empty() || !root.ok()) return;
    const auto type = input->item(items->size() - 1).find("type");
    if (!type || type->value() != "compaction_trigger") return;
    request.compacts = true;
    request.compacts_above.reset();
    ask_for_summary(request, summary_question());
}

/// Reads the whole body. `excess`: set where the conversation is too long for the model.
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
    // One of the two at most: both together are a complaint.
    if (said.hand_over) earlier = std::move(said);
    parse_keeping(root, request);
    left_out_names left_out;
    tool_list_reader tools(limits, request.text_tools, request.names, left_out);
    tool_roster roster(tools.read(root));
    request.searches_tools = tools.has_search();
    read_input input = parse_input(
        root, {earlier, kept, request.names, left_out, roster, &tools, request.generates}, limits);
    request.chat = std::move(input.chat);
    excess = input.excess;
    roster.hand_over(request.chat);
    parse_context_management(root, limits, left_out, request);
    request.left_out = left_out.take();
    parse_reasoning(root, request);
    parse_template_values(root, request.thinking, request.chat);
    parse_include(root, limits, request);
    parse_text_form(root, request);
    parse_foreign_forms(root, limits, request);
    parse_tool_choice(root, limits, request);
    parse_most_calls(root, request);
    parse_compaction_trigger(root, request);
    request.memory = parse_memory_policy(root, parse_prompt_cache_options(root));
    request.repeated = repeated_fields(root);
    parse_comparison(root, limits, kept, request);
    check_repeated(root, body, limits, request);
    keep_input(root, kept, request);
    return request;
}

}  // namespace

std::string input_tokens_body(int input_tokens) {
    return R"({"object":"response.input_tokens","input_tokens":)" + std::to_string(input_tokens) +
           "}";
}

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
        // A cursor's complaint has no place for the numbers.
        too_long.excess = excess;
        return too_long;
    } catch (const storage::work_limit_exceeded& reached) {
        return from_work_limit(reached);
    }
}

}  // namespace semantic::protocol::responses
