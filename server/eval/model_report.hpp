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
    bool is_read = true;  // or refused
};

/// K and V by one recipe.
struct kv_cost {
    std::string name;
    int bits = 0;         // of an element on average, without scales
    std::string refused;  // why not; empty where it can
    std::uint64_t bytes_per_token = 0;
    std::uint64_t lasting_bytes_per_token = 0;           // once every window is full
    std::optional<std::uint64_t> agents_4k, agents_16k;  // in the pool; none beyond the context
    std::optional<engine::recipe_score> score;           // of a candidate, once any are measured
    std::string not_measured;                            // then: why this one was not; else empty
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
    std::vector<std::string> left_out;  // weight_check
    /// The server's plan for the memory, where it loads the model; else `problems` says why not.
    std::optional<server::memory_plan> memory;
    std::optional<engine::model_config> config;
    std::optional<tokenizer_facts> tokenizer;
    std::string template_family;   // empty: none
    std::string template_assumed;  // why it is not one of the model's own; else empty
    std::uint64_t pool_bytes = 0;
    std::vector<kv_cost> kv;
    std::string kv_default;             // what the server takes; empty: not measured
    double measured_seconds = 0.0;      // what that took, weights apart
    std::vector<std::string> problems;  // what the server would refuse; none: it loads
};

/// `given` has --model, --chat-template, --tokenizer-pre, --weights and --memory-limit-mb.
/// `measure`: loads the weights and reports what each recipe costs the model.
model_report report_on(const options& given, std::uint64_t pool_bytes, bool measure);

}  // namespace semantic::eval
