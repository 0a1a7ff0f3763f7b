// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a model's file headers say about it, read by the loaders that the server uses.
// Thread: one. Blocks.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/config/model_config.hpp"
#include "engine/recipe/calibration.hpp"
#include "server/config/model_path.hpp"
#include "server/eval/command_line.hpp"
#include "server/models/memory_plan.hpp"

namespace semantic::eval {

struct tensor_type {
    std::string name;  // "Q4_K"
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;
    bool is_read = true;  // whether the loader supports it
};

/// What keeping K and V by one recipe costs.
struct kv_cost {
    std::string name;
    int bits = 0;         // of an element on average, without scales
    std::string refused;  // why not; empty where it can
    std::uint64_t bytes_per_token = 0;
    std::uint64_t lasting_bytes_per_token = 0;           // once every window is full
    std::optional<std::uint64_t> agents_4k, agents_16k;  // in the pool; none beyond the context
    std::optional<engine::recipe_score> score;           // of a measured candidate
    std::string not_measured;  // why a recipe was not measured when others were
};

struct tokenizer_facts {
    std::string kind;  // "BPE", or of a GGUF "gpt2, pre qwen2"
    int vocabulary = 0;
    std::string first;  // what it puts in front of a text; empty: nothing
};

struct model_report {
    server::found_model model;
    std::string container;  // "folder of safetensors", "GGUF version 3"
    std::uint64_t files = 0, file_bytes = 0;
    std::vector<tensor_type> types;
    std::uint64_t weight_bytes = 0;     // once packed; 0: not known
    std::vector<std::string> left_out;  // tensors that the loader ignores
    /// The server's memory plan; nothing where the model does not load (`problems` says why).
    std::optional<server::memory_plan> memory;
    std::optional<engine::model_config> config;
    std::optional<tokenizer_facts> tokenizer;
    std::string template_family;   // empty: none
    std::string template_assumed;  // why it is not one of the model's own; else empty
    std::uint64_t pool_bytes = 0;
    std::vector<kv_cost> kv;
    std::string kv_default;             // the recipe that the server takes; empty: not measured
    double measured_seconds = 0.0;      // how long the measurement took, without loading weights
    std::vector<std::string> problems;  // why the server would refuse it; none: it loads
};

/// Reads the files of the model that the options name. `given` has --model, --chat-template,
/// --tokenizer-pre, --weights and --memory-limit-mb. `pool_bytes`: the pool for which capacity is
/// reported. `measure`: also loads the weights and measures what each recipe costs the model.
model_report report_on(const options& given, std::uint64_t pool_bytes, bool measure);

}  // namespace semantic::eval
