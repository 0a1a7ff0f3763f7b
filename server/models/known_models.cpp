// SPDX-License-Identifier: Apache-2.0
#include "server/models/known_models.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/model/capacity.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/weights/weights.hpp"
#include "engine/recipe/calibration.hpp"
#include "engine/text/gguf/tokenizer_kind.hpp"
#include "engine/text/template/chat_template.hpp"
#include "engine/text/template/template_probe.hpp"
#include "server/models/memory_plan.hpp"
#include "storage/files/gguf.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::server {

namespace {

/// Fills in the KV layout and capacity. Where the recipe is chosen by a measurement at the first
/// load, the smallest possible one is shown.
void describe_kv(engine::model_info& info, const engine::model_config& model,
                 const config& settings, std::uint64_t pool_bytes) {
    const std::string& name = settings.kv_bits != "auto" ? settings.kv_bits : settings.kv_recipe;
    auto recipe = storage::find_kv_recipe(name);
    if (!recipe) {
        recipe = engine::candidate_recipes(model, settings.block_tokens).front().recipe;
        info.kv_recipe_reason = "the smallest that it may be: it is measured at the first load";
    }
    const auto layout = engine::make_kv_layout(model, *recipe, settings.block_tokens);
    info.layers = static_cast<int>(model.layers.size());
    info.head_dim = layout.k(0).dim;
    info.block_tokens = layout.block_tokens();
    info.kv_recipe = storage::name_of(layout.recipe());
    info.kv_bits = layout.recipe().mean_bits();
    info.kv_bytes_per_token = layout.bytes_per_token();
    info.pool_bytes = settings.cache_budget_mb > 0
                          ? static_cast<std::uint64_t>(settings.cache_budget_mb) << 20
                          : pool_bytes;
    const std::uint64_t states = engine::kept_state_bytes(model);
    info.pool_agents_4k = engine::conversations_in(layout, 4096, info.pool_bytes, states);
    info.pool_agents_16k = engine::conversations_in(layout, 16384, info.pool_bytes, states);
}

/// Fills in the chat template and what it can do.
void describe_chat(engine::model_info& info, const engine::chat_template& chat) {
    info.chat_template = chat.family();
    info.chat_template_reason = chat.assumed();
    info.answers = chat.answers();
    info.chat_abilities = engine::abilities_of(chat);
}

/// Why a GGUF file whose configuration can be read will still not load: the first tensor, or the
/// kind of tokenizer, that is not supported. Empty: nothing in its header prevents it.
std::string unread_in_gguf(const std::string& path, const engine::model_config& model,
                           const config& settings) {
    if (!storage::is_gguf_path(path)) return {};
    const auto form = engine::find_weight_form(settings.weights);
    if (const auto weights =
            engine::model_weights::check(path, model, form.value_or(engine::weight_form::native));
        !weights)
        return weights.error().what;
    const auto parts = storage::open_gguf(path);
    if (!parts) return parts.error().what;
    const bool is_auto = settings.tokenizer_pre == "auto";
    const auto words = engine::kind_of_gguf_tokenizer(parts->front().view(),
                                                      is_auto ? "" : settings.tokenizer_pre);
    return words ? std::string() : path + ": " + words.error().what;
}

}  // namespace

model_facts read_facts(const registered_model& model, const config& settings,
                       std::uint64_t pool_bytes) try {
    model_facts facts;
    facts.fault = model.fault;
    facts.info.id = model.name;
    if (!facts.fault.empty() || model.path.empty()) return facts;
    const auto read = engine::model_config::load(model.path);
    if (!read) return {read.error().what, {}};
    if (std::string why = unread_in_gguf(model.path, *read, settings); !why.empty())
        return {std::move(why), {}};
    const bool is_auto = settings.chat_template == "auto";
    auto chat = engine::chat_template::load(model.path, is_auto ? "" : settings.chat_template);
    if (!chat) return {chat.error().what, {}};
    facts.info.family = read->family;
    facts.info.kv_heads = read->kv_heads;
    facts.info.vocabulary = read->vocabulary;
    facts.info.context_tokens_max = read->context_tokens_max;
    if (settings.context_tokens > 0)
        facts.info.context_tokens_max =
            std::min(facts.info.context_tokens_max, settings.context_tokens);
    describe_chat(facts.info, *chat);
    describe_kv(facts.info, *read, settings, pool_bytes);
    return facts;
} catch (const std::exception& error) {
    return {error.what(), {}};
}

known_models::known_models(registry models, config settings)
    : models_(std::move(models)), settings_(std::move(settings)) {}

config known_models::settings_of(std::size_t model) const {
    return with_settings(settings_, models_.at(model).settings);
}

model_facts known_models::facts(std::size_t model, std::uint64_t pool_bytes) {
    {
        std::lock_guard lock(mutex_);
        if (const auto at = facts_.find(model); at != facts_.end()) return at->second;
    }
    model_facts read = read_facts(models_.at(model), settings_of(model), pool_bytes);
    // A fault is not remembered: the file may be repaired before the next question.
    // Nor are facts without the pool's size, since the capacities in them are not right.
    if (!read.fault.empty() || pool_bytes == 0) return read;
    std::lock_guard lock(mutex_);
    return facts_.emplace(model, std::move(read)).first->second;
}

std::string known_models::fault(std::size_t model, const std::vector<std::size_t>& others,
                                std::uint64_t pool) const {
    const registered_model& entry = models_.at(model);
    const config settings = settings_of(model);
    std::string why = read_facts(entry, settings, 0).fault;
    if (!why.empty() || entry.path.empty()) return why;
    const auto plan = plan_for({entry.path, settings}, planned(others), pool);
    return plan ? std::string() : plan.error().what;
}

std::string fault_of_model(const known_models& models, engine_slots& engines, std::size_t model,
                           std::size_t slot) {
    std::vector<std::size_t> others = engines.models_beside(slot);
    std::erase(others, model);
    const engine_lease engine = engines.look();
    // The pool that several models share stays as large as it is.
    const std::uint64_t pool = engines.size() > 1 && engine ? engine->info().pool_bytes : 0;
    return models.fault(model, others, pool);
}

std::vector<planned_model> known_models::planned(const std::vector<std::size_t>& models) const {
    std::vector<planned_model> all;
    for (const std::size_t each : models)
        if (!models_.at(each).path.empty())
            all.push_back({models_.at(each).path, settings_of(each)});
    return all;
}

void known_models::was_loaded(std::size_t model, const engine::model_info& info) {
    std::lock_guard lock(mutex_);
    failures_.erase(model);
    facts_[model] = {{}, info};
}

void known_models::has_failed(std::size_t model, std::string why) {
    std::lock_guard lock(mutex_);
    failures_[model] = std::move(why);
}

std::string known_models::failure(std::size_t model) const {
    std::lock_guard lock(mutex_);
    const auto at = failures_.find(model);
    return at == failures_.end() ? std::string() : at->second;
}

}  // namespace semantic::server
