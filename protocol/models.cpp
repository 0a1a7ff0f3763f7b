// SPDX-License-Identifier: Apache-2.0
#include "protocol/models.hpp"

#include <boost/json.hpp>

#include <algorithm>

#include "protocol/wire/fields.hpp"
#include "protocol/wire/time_text.hpp"

namespace semantic::protocol {

namespace json = boost::json;

namespace {

// The vendor's number.
constexpr std::size_t limit_default = 20;

json::object supported(bool is) { return {{"supported", is}}; }

/// What the model's chat template can render, in whatever shape the request has it.
json::object chat_abilities(const model_card& model) {
    const engine::template_abilities& can = model.chat_abilities;
    return {{"system_text", supported(can.system_text)},
            {"later_system_text", supported(can.later_system_text)},
            {"users_in_a_row", supported(can.users_in_a_row)},
            {"tools", supported(can.tools)},
            {"tool_calls", supported(can.tool_calls)},
            {"parallel_tool_calls", supported(can.parallel_tool_calls)},
            {"tool_results", supported(can.tool_results)},
            {"open_answers", supported(can.open_answers)}};
}

/// The field that the newest vendor SDK reads, and chat_template, which is this server's own.
json::object capabilities(const model_card& model) {
    const json::object no = supported(false);
    const json::object thinks = supported(model.thinks);
    return {{"batch", no},
            {"chat_template", chat_abilities(model)},
            {"citations", no},
            {"code_execution", no},
            {"context_management", no},
            {"effort", json::object{{"supported", model.has_effort},
                                    {"low", supported(model.has_effort)},
                                    {"medium", supported(model.has_effort)},
                                    {"high", supported(model.has_effort)},
                                    {"xhigh", no},
                                    {"max", no}}},
            {"image_input", no},
            {"pdf_input", no},
            {"server_tools",
             json::object{{"supported", false}, {"code_execution", no}, {"web_search", no}}},
            {"structured_outputs", supported(true)},
            {"thinking", json::object{{"supported", model.thinks},
                                      {"types", json::object{{"adaptive", thinks},
                                                             {"between_tools", no},
                                                             {"disabled", supported(true)},
                                                             {"enabled", thinks}}}}}};
}

/// Adds the fields that a server of several models has for each: state, aliases, size of its KV.
void add_state(json::object& object, const model_card& model) {
    if (model.state.empty()) return;
    object["state"] = model.state;
    if (!model.state_reason.empty()) object["state_reason"] = model.state_reason;
    if (!model.aliases.empty()) {
        json::array aliases;
        for (const std::string& each : model.aliases) aliases.push_back(json::string(each));
        object["aliases"] = std::move(aliases);
    }
    // The rest is known once the model's files have been read.
    if (model.kv_bytes_per_token == 0) return;
    object["context_length"] = model.max_input_tokens;
    object["kv_bytes_per_token"] = model.kv_bytes_per_token;
    if (model.agents_4k > 0) object["agents_4k"] = model.agents_4k;
    if (model.agents_16k > 0) object["agents_16k"] = model.agents_16k;
}

/// Returns: the object of one model.
json::object card(const model_card& model) {
    json::object object{
        {"id", model.id},
        {"object", "model"},
        {"type", "model"},
        {"display_name", model.display_name.empty() ? model.id : model.display_name},
        {"created", model.created_unix},
        {"created_at", time_text(model.created_unix)},
        {"owned_by", "semantic"},
        {"lifecycle", "active"},
        {"deprecated_at", nullptr},
        {"retires_at", nullptr},
        {"line", nullptr},
        {"max_input_tokens", model.max_input_tokens},
        {"max_tokens", model.max_tokens},
        {"capabilities", capabilities(model)},
        {"kv_bits", model.kv_bits},
        {"kv_recipe", model.kv_recipe}};
    if (!model.call_format.empty()) {
        object["tool_call_format"] = model.call_format;
        object["thinking_format"] = model.thinking_format;
    }
    if (!model.kv_recipe_reason.empty()) object["kv_recipe_reason"] = model.kv_recipe_reason;
    if (!model.chat_template_reason.empty()) {
        object["chat_template"] = model.chat_template;
        object["chat_template_reason"] = model.chat_template_reason;
    }
    add_state(object, model);
    return object;
}

/// Returns: the position of the model `id`. Errors: bad_value for the query parameter `name`.
result<std::size_t> index_of(const std::vector<model_card>& models, const char* name,
                             const std::string& id) {
    auto found =
        std::find_if(models.begin(), models.end(), [&](const auto& m) { return m.id == id; });
    if (found == models.end()) return bad_parameter(name, "there is no such model");
    return static_cast<std::size_t>(found - models.begin());
}

}  // namespace

result<std::string> models_body(const std::vector<model_card>& models, const models_query& query,
                                const model_entry& entry) {
    auto limit = parse_page_limit(query.limit, limit_default);
    if (!limit) return limit.error();
    if (query.after_id && query.before_id)
        return bad_parameter("before_id", "cannot be given together with after_id");
    std::size_t first = 0;
    std::size_t last = std::min(models.size(), *limit);
    bool has_more = last < models.size();
    if (query.after_id) {
        auto index = index_of(models, "after_id", *query.after_id);
        if (!index) return index.error();
        first = *index + 1;
        last = std::min(models.size(), first + *limit);
        has_more = last < models.size();
    }
    if (query.before_id) {
        auto index = index_of(models, "before_id", *query.before_id);
        if (!index) return index.error();
        last = *index;
        first = last > *limit ? last - *limit : 0;
        has_more = first > 0;
    }
    json::array data, names;
    for (std::size_t i = first; i < last; ++i) {
        data.push_back(card(models[i]));
        names.push_back(entry ? entry(models[i], static_cast<int>(i))
                              : json::object{{"name", models[i].id}, {"model", models[i].id}});
    }
    json::value first_id = first < last ? json::value(models[first].id) : json::value();
    json::value last_id = first < last ? json::value(models[last - 1].id) : json::value();
    return json::serialize(json::object{{"object", "list"},
                                        {"data", std::move(data)},
                                        {"has_more", has_more},
                                        {"first_id", first_id},
                                        {"last_id", last_id},
                                        {"models", std::move(names)}});
}

result<std::string> model_body(const std::vector<model_card>& models, std::string_view id) {
    for (const model_card& model : models) {
        const bool is_alias =
            std::find(model.aliases.begin(), model.aliases.end(), id) != model.aliases.end();
        if (model.id == id || is_alias) return json::serialize(card(model));
    }
    return failure{errc::not_found, "there is no model \"" + std::string(id) + "\"", "model",
                   "model_not_found"};
}

failure no_such_model(std::string_view wanted, std::string_view loaded, std::string_view known) {
    std::string message =
        "there is no model " + quoted(wanted) + " here; this server runs " + quoted(loaded);
    if (!known.empty()) message.append(" and knows ").append(known);
    return {errc::not_found, std::move(message), "model", "model_not_found"};
}

failure model_not_loaded(std::string_view wanted, std::string_view loaded) {
    return {errc::not_found,
            "the model " + quoted(wanted) + " is not loaded; this server runs " + quoted(loaded) +
                " now, until POST /admin/models/swap {\"model_id\": " + quoted(wanted) +
                "} loads the other",
            "model", "model_not_loaded"};
}

}  // namespace semantic::protocol
