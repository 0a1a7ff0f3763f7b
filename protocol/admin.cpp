// SPDX-License-Identifier: Apache-2.0
#include "protocol/admin.hpp"

#include <boost/json.hpp>

#include <limits>

#include "protocol/wire/fields.hpp"
#include "protocol/wire/sse.hpp"

namespace semantic::protocol::admin {

namespace json = boost::json;

namespace {

constexpr std::size_t model_bytes_max = 4'096;  // a path

}  // namespace

result<std::optional<std::uint64_t>> parse_seed(std::string_view body, const json_limits& limits) {
    return read_object(body, limits, [](const json_cursor& root) {
        std::optional<std::uint64_t> seed;
        const json_cursor field = root.at("seed");
        if (!field.value().is_null())
            seed = static_cast<std::uint64_t>(
                field.as_integer(0, std::numeric_limits<std::int64_t>::max()));
        return seed;
    });
}

std::string seed_body(std::optional<std::uint64_t> seed) {
    json::value shown;
    if (seed) shown = *seed;
    return to_text(json::object{{"status", "ok"}, {"seed", std::move(shown)}});
}

result<swap_request> parse_unload(std::string_view body, const json_limits& limits) {
    if (body.empty()) return swap_request();
    return read_object(body, limits, [](const json_cursor& root) {
        swap_request request;
        for (const char* name : {"model", "model_id"})
            if (root.find(name)) request.model = bounded_at(root, name, model_bytes_max);
        if (auto field = root.find("timeout_seconds"))
            request.timeout_seconds = field->as_number(1, 300);
        return request;
    });
}

result<swap_request> parse_swap(std::string_view body, const json_limits& limits) {
    return read_object(body, limits, [](const json_cursor& root) {
        swap_request request;
        const bool is_short = !root.find("model_id") && root.find("model");
        request.model = bounded_at(root, is_short ? "model" : "model_id", model_bytes_max);
        if (auto field = root.find("timeout_seconds"))
            request.timeout_seconds = field->as_number(1, 300);
        request.stream = flag_at(root, "stream");
        return request;
    });
}

std::string current_body(const loaded_model& model) {
    return to_text(json::object{{"model_id", model.id},
                                {"n_layers", model.layers},
                                {"n_kv_heads", model.kv_heads},
                                {"head_dim", model.head_dim},
                                {"block_tokens", model.block_tokens}});
}

std::string no_current_body() {
    json::object body;
    for (const char* name : {"model_id", "n_layers", "n_kv_heads", "head_dim", "block_tokens"})
        body[name] = nullptr;
    return to_text(body);
}

std::string unloaded_body(std::string_view model) {
    const std::string message =
        model.empty() ? "no model was loaded" : std::string(model) + " is unloaded";
    return to_text(json::object{{"status", "success"}, {"model_id", model}, {"message", message}});
}

std::string available_body(const std::vector<std::string>& models) {
    json::array list;
    for (const std::string& model : models) list.push_back(json::string(model));
    return to_text(json::object{{"models", std::move(list)}});
}

std::string swapped_body(std::string_view old_model, std::string_view new_model) {
    std::string message = "this model is loaded already";
    if (old_model.empty())
        message = std::string(new_model) + " is loaded";
    else if (old_model != new_model)
        message = "Model swapped from " + std::string(old_model) + " to " + std::string(new_model);
    return to_text(json::object{{"status", "success"},
                                {"old_model_id", old_model},
                                {"new_model_id", new_model},
                                {"message", std::move(message)}});
}

std::string step_body(const swap_step& now) {
    json::object body{{"phase", now.phase}};
    if (!now.model.empty()) body["model"] = now.model;
    if (!now.target.empty()) body["target"] = now.target;
    if (!now.stage.empty()) {
        body["stage"] = now.stage;
        body["fraction"] = now.fraction;
    }
    if (!now.why.empty()) body["why"] = now.why;
    return to_text(body);
}

std::string step_event(const swap_step& now) { return sse_event("phase", step_body(now)); }

std::string swapped_event(std::string_view old_model, std::string_view new_model) {
    return sse_event("swapped", swapped_body(old_model, new_model));
}

std::string cleared_body(const clearing& done) {
    const auto frames = std::to_string(done.frames);
    std::string message = "Cleared " + std::to_string(done.on_disk) +
                          " agents (hot: " + std::to_string(done.hot) + ", pool frames: " + frames +
                          ")";
    if (done.kept > 0) message += "; " + std::to_string(done.kept) + " answer requests and stay";
    return to_text(json::object{{"status", "success"},
                                {"hot_cleared", done.hot},
                                {"disk_cleared", done.on_disk},
                                {"pool_cleared", done.frames},
                                {"kept", done.kept},
                                {"message", std::move(message)}});
}

}  // namespace semantic::protocol::admin
