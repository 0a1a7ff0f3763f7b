// SPDX-License-Identifier: Apache-2.0
#include "protocol/answer_form.hpp"

#include <boost/json.hpp>

#include <algorithm>

#include "protocol/wire/fields.hpp"

namespace semantic::protocol {

using kind = engine::output_form::kind;

void set_tool_use(answer_request& request, tool_use use, bool several,
                  const std::optional<std::string>& only, const json_cursor& place) {
    const auto& tools = request.chat.callable_tools();
    // These bound what the reply shows, whatever the model writes.
    if (!several) request.tool_calls_max = 1;
    if (use == tool_use::never) request.tool_calls_max = 0;
    if (use == tool_use::when_wanted) {
        bool any_strict =
            std::any_of(tools.begin(), tools.end(), [](const auto& tool) { return tool.strict; });
        if (any_strict && request.form.what == kind::free) request.form.what = kind::strict_calls;
        request.form.calls_too = request.form.is_of_text() && !tools.empty();
        request.form.several_calls = several;
    }
    if (use != tool_use::always) return;
    if (tools.empty()) place.fail(errc::bad_value, "there are no tools to call");
    if (request.form.is_of_text())
        place.fail(errc::bad_value,
                   request.form.what == kind::json
                       ? "an answer cannot be tool calls and a JSON text at once"
                       : "an answer cannot be tool calls and a text of a given form at once");
    if (only) {
        bool known = std::any_of(tools.begin(), tools.end(),
                                 [&](const auto& tool) { return tool.name == *only; });
        if (!known) place.fail(errc::bad_value, "there is no tool '" + *only + "'");
        request.form.tools = {*only};
    }
    request.form.what = kind::calls;
    request.form.several_calls = several;
}

namespace {

// Each choice is a branch of the grammar that the engine makes of them.
constexpr std::size_t choices_max = 10'000;

/// Reads a JSON schema, which may be an object or a string that contains one.
void read_schema(const json_cursor& field, const request_limits& limits, answer_request& request) {
    if (!field.value().is_string()) return set_json_schema(request, field, true);
    auto parsed = parse_json(field.as_string(), limits.json);
    if (!parsed || !parsed->is_object())
        return field.fail(errc::bad_value, "must be a JSON schema: an object, or one as a string");
    request.form.what = kind::json;
    request.form.schema_json = to_text(*parsed);
}

void read_choices(const json_cursor& field, answer_request& request) {
    request.form.what = kind::choice;
    const std::size_t count = parse_count(field, choices_max);
    for (std::size_t i = 0; i < count; ++i)
        request.form.choices.emplace_back(field.item(i).as_string());
}

/// Reads one form under its name in other servers. Complains where the request has another form
/// already. Returns: false for an unknown name.
bool read_form(std::string_view name, const json_cursor& field, const request_limits& limits,
               answer_request& request) {
    if (request.form.what != kind::free && (name == "json" || name == "regex" || name == "choice" ||
                                            name == "grammar" || name == "json_object"))
        field.fail(errc::bad_value, "an answer has one form, and another field asks for one too");
    if (name == "json") {
        read_schema(field, limits, request);
    } else if (name == "choice") {
        read_choices(field, request);
    } else if (name == "json_object") {
        if (field.as_bool()) request.form.what = kind::json;
    } else if (name == "regex" || name == "grammar") {
        request.form.what = name == "regex" ? kind::pattern : kind::grammar;
        request.form.rules = std::string(field.as_string());
    } else {
        return false;
    }
    return true;
}

/// Whether this is a setting of another server that says how a form is enforced, not which one; it
/// is ignored.
bool says_only_how(std::string_view name) {
    return name == "decoding_backend" || name == "disable_fallback" || name == "backend";
}

/// Whether the value is one that clients send for a field which they do not use.
bool is_unused(const boost::json::value& value) {
    if (const auto* text = value.if_string()) return text->empty();
    if (const auto* list = value.if_array()) return list->empty();
    return value.is_null() || value == false;
}

/// Reads one form, or complains that it is not supported.
void read_form_of(std::string_view name, const json_cursor& field, const request_limits& limits,
                  answer_request& request) {
    if (is_unused(field.value()) || says_only_how(name)) return;
    if (!read_form(name, field, limits, request))
        field.fail(errc::unsupported,
                   "is not supported; an answer can be held to a JSON schema, a regular "
                   "expression, a choice or a grammar in GBNF");
}

}  // namespace

void parse_foreign_forms(const json_cursor& root, const request_limits& limits,
                         answer_request& request) {
    constexpr std::string_view guided = "guided_";
    for (const auto& [key, value] : root.as_object()) {
        const std::string_view name(key.data(), key.size());
        if (value.is_null()) continue;
        if (name.starts_with(guided))
            read_form_of(name.substr(guided.size()), root.at(name), limits, request);
    }
    if (auto wanted = root.find("structured_outputs"))
        for (const auto& [key, value] : wanted->as_object())
            if (!value.is_null()) read_form_of(key, wanted->at(key), limits, request);
    // llama.cpp's own two names.
    if (auto schema = root.find("json_schema")) read_form_of("json", *schema, limits, request);
    if (auto rules = root.find("grammar")) read_form_of("grammar", *rules, limits, request);
}

void set_json_schema(answer_request& request, const json_cursor& schema, bool is_strict) {
    schema.as_object();
    request.form.what = kind::json;
    request.form.schema_json = to_text(schema.value());
    request.form.is_strict = is_strict;
}

}  // namespace semantic::protocol
