// SPDX-License-Identifier: Apache-2.0
#pragma once
// GET /v1/models and /v1/models/{id}: one object that both vendors' SDKs accept. Pure.

#include <boost/json/object.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/template_abilities.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol {

struct model_card {
    std::string id;
    std::string display_name;
    std::int64_t created_unix = 0;
    int max_input_tokens = 0;
    int max_tokens = 0;                  // that a request may ask for
    bool thinks = false;                 // reasoning can be switched on
    bool has_effort = false;             // reasoning has steps
    int kv_bits = 0;                     // of a stored key or value
    std::string kv_recipe{};             // how K and V are kept, by name
    std::string kv_recipe_reason{};      // what was measured, where nobody chose it; else empty
    std::string call_format{};           // how it writes tool calls: "hermes"; "none"
    std::string thinking_format{};       // and reasoning: "think"; "none"
    std::string chat_template{};         // the family: "chatml"
    std::string chat_template_reason{};  // why it is not one of the model's own; else empty
    engine::template_abilities chat_abilities{};
    std::string state{};         // "loaded", "loading", "available", "failed"; empty: not shown
    std::string state_reason{};  // why it failed; else empty
    std::vector<std::string> aliases{};
    std::uint64_t kv_bytes_per_token = 0;  // 0: not known, nor the two after it
    std::uint64_t agents_4k = 0;           // conversations of 4,096 tokens that the pool holds
    std::uint64_t agents_16k = 0;
};

/// Makes what another client's own list (`models`) has of one model. `position`: of the model in
/// the whole list.
using model_entry = std::function<boost::json::object(const model_card& model, int position)>;

/// Query parameters, percent-decoded; absent ones are empty optionals.
struct models_query {
    std::optional<std::string> limit;      // 1..1000, default 20
    std::optional<std::string> after_id;   // the page after this model
    std::optional<std::string> before_id;  // the page in front of this model
};

/// Returns: {"object":"list","data":[…],"has_more":…,"first_id":…,"last_id":…,"models":[…]}, one
/// page. `models` has what `entry` makes of each model, without `entry` only the names, where
/// clients of llama.cpp and Ollama look for them. Errors: bad_value naming the query parameter.
result<std::string> models_body(const std::vector<model_card>& models, const models_query& query,
                                const model_entry& entry = {});
/// Returns: the object of the model with this id or alias. Errors: not_found.
result<std::string> model_body(const std::vector<model_card>& models, std::string_view id);
/// The error for a model name that a server which is strict about names does not know. `known`: the
/// names of all models, as a list; empty where the loaded one is the only one.
failure no_such_model(std::string_view wanted, std::string_view loaded, std::string_view known);
/// The error for a model that the server knows but does not have loaded.
failure model_not_loaded(std::string_view wanted, std::string_view loaded);

}  // namespace semantic::protocol
