// SPDX-License-Identifier: Apache-2.0
#include "protocol/ollama/models.hpp"

#include <boost/json.hpp>

#include <algorithm>

#include "protocol/ollama/request.hpp"
#include "protocol/wire/json.hpp"
#include "protocol/wire/time_text.hpp"

namespace semantic::protocol::ollama {

namespace json = boost::json;

namespace {

constexpr std::size_t digest_digits = 64;

/// A model does not expire: this server keeps it until a request changes it.
constexpr std::int64_t expires_unix = 253'370'764'800;  // year 9999

/// Returns: 64 hex digits made from the fingerprint, since clients expect a SHA-256.
std::string digest_of(const listed_model& model) {
    std::string digits = model.fingerprint.substr(0, digest_digits);
    digits.resize(digest_digits, '0');
    return digits;
}

json::object details_of(const listed_model& model) {
    json::array families;
    if (!model.family.empty()) families.push_back(json::string(model.family));
    return {{"parent_model", ""},     {"format", ""},
            {"family", model.family}, {"families", std::move(families)},
            {"parameter_size", ""},   {"quantization_level", ""}};
}

json::object head_of(const listed_model& model) {
    return {{"name", model.card.id},
            {"model", model.card.id},
            {"modified_at", time_text(model.card.created_unix)},
            {"size", model.weight_bytes},
            {"digest", digest_of(model)},
            {"details", details_of(model)}};
}

json::array capabilities_of(const model_card& card) {
    json::array can{"completion"};
    if (card.chat_abilities.tools && card.call_format != "none") can.push_back("tools");
    if (card.thinks) can.push_back("thinking");
    return can;
}

/// Returns: facts about the model. Their keys begin with the architecture, as those of a GGUF file
/// do.
json::object facts_of(const listed_model& model) {
    json::object facts{{"general.architecture", model.family}};
    const auto add = [&](const char* key, int value) {
        // 0 where the model's files do not say.
        if (value > 0) facts[model.family + "." + key] = value;
    };
    add("context_length", model.card.max_input_tokens);
    add("block_count", model.layers);
    add("attention.head_count_kv", model.kv_heads);
    add("attention.key_length", model.head_dim);
    add("vocab_size", model.vocabulary);
    return facts;
}

}  // namespace

std::string tags_body(const std::vector<listed_model>& models) {
    json::array list;
    for (const listed_model& each : models)
        // A client could only choose a failed model to get its error.
        if (each.card.state != "failed") list.push_back(head_of(each));
    return to_text(json::object{{"models", std::move(list)}});
}

std::string running_body(const std::vector<listed_model>& models) {
    json::array list;
    for (const listed_model& each : models) {
        if (!each.is_loaded()) continue;
        json::object one = head_of(each);
        // Ollama's list of running models has no such field.
        one.erase("modified_at");
        one["size"] = each.memory_bytes;
        one["size_vram"] = 0;
        one["expires_at"] = time_text(expires_unix);
        one["context_length"] = each.card.max_input_tokens;
        list.push_back(std::move(one));
    }
    return to_text(json::object{{"models", std::move(list)}});
}

const listed_model* find(const std::vector<listed_model>& models, std::string_view name) {
    for (const std::string_view wanted : {name, without_latest(name)}) {
        const auto found = std::ranges::find_if(models, [&](const listed_model& each) {
            return each.card.id == wanted ||
                   std::ranges::find(each.card.aliases, wanted) != each.card.aliases.end();
        });
        if (found != models.end()) return &*found;
    }
    return nullptr;
}

failure no_model(std::string_view name) {
    return {errc::not_found, "model '" + std::string(name) + "' not found", "model"};
}

result<std::string> show_body(const std::vector<listed_model>& models, std::string_view name) {
    const listed_model* model = find(models, name);
    if (model == nullptr) return no_model(name);
    json::object body{{"modelfile", ""},
                      {"parameters", ""},
                      {"template", model->card.chat_template},
                      {"details", details_of(*model)},
                      {"model_info", facts_of(*model)},
                      {"capabilities", capabilities_of(model->card)},
                      {"modified_at", time_text(model->card.created_unix)}};
    return to_text(std::move(body));
}

}  // namespace semantic::protocol::ollama
