// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the Ollama API says of models: GET /api/tags, GET /api/ps, POST /api/show. Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/models.hpp"

namespace semantic::protocol::ollama {

/// A model with what these clients ask for in addition to its card. What is not known is 0 or
/// empty.
struct listed_model {
    model_card card;
    std::string family;       // "qwen2"
    std::string fingerprint;  // hex digits
    std::uint64_t weight_bytes = 0;
    std::uint64_t memory_bytes = 0;  // of a loaded one: weights and pool
    int layers = 0;
    int kv_heads = 0;
    int head_dim = 0;
    int vocabulary = 0;

    bool is_loaded() const { return card.state.empty() || card.state == "loaded"; }
};

/// GET /api/tags: every model that can answer; those that failed to load are left out.
std::string tags_body(const std::vector<listed_model>& models);
/// GET /api/ps: the loaded models.
std::string running_body(const std::vector<listed_model>& models);
/// POST /api/show: a model by name or alias, with or without ":latest". Errors: not_found, in the
/// words that clients look for.
result<std::string> show_body(const std::vector<listed_model>& models, std::string_view name);
/// Returns: the model of that name or alias, or null.
const listed_model* find(const std::vector<listed_model>& models, std::string_view name);
/// The error for a name that no model has.
failure no_model(std::string_view name);

}  // namespace semantic::protocol::ollama
