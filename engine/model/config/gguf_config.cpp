// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config/gguf_config.hpp"

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "engine/model/config/families.hpp"
#include "engine/model/config/gguf_fields.hpp"
#include "engine/model/config/gguf_gemma.hpp"
#include "engine/model/config/gguf_hybrid.hpp"

namespace semantic::engine {

namespace {

using storage::errc;
using storage::failure;
using storage::gguf_tensor;
using storage::result;

namespace json = boost::json;

constexpr gguf_architecture architectures[] = {
    {"llama", "llama", true},  // Mistral's too
    {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},
    {"qwen3moe", "qwen3_moe"},
    {"gemma3", "gemma3_text"},
    {"gemma4", "gemma4_text"},
    {"gpt-oss", "gpt_oss"},
    {"deepseek2", "deepseek_v2"},  // GLM-4.7-Flash too: translation::find_type()
    {"mistral3", "ministral3", true},
    {"smollm3", "smollm3", true},
    {"granite", "granite", true},
    {"olmo2", "olmo3"},
    {"exaone4", "exaone4"},
    {"arcee", "arcee", true},
    {"phi3", "phi3"},
    {"seed_oss", "seed_oss"},
    {"glm4moe", "glm4_moe"},
    {"lfm2", "lfm2"},
    {"lfm2moe", "lfm2_moe"},
    {"qwen3next", "qwen3_next"},
    {"qwen35", "qwen3_5_text"},
    {"qwen35moe", "qwen3_5_moe_text"},
    {"granitehybrid", "granitemoehybrid", true},
    {"nemotron_h", "nemotron_h"},
    {"nemotron_h_moe", "nemotron_h"},
};

failure incompatible(std::string text) { return {errc::incompatible, std::move(text)}; }

std::string architecture_names() {
    std::string names;
    for (const gguf_architecture& each : architectures) {
        names.append(names.empty() ? "" : ", ").append(each.name);
    }
    return names;
}

/// Metadata and tensors of one model on their way into a config.json.
class translation {
  public:
    translation(const std::vector<storage::gguf_file>& parts, const gguf_architecture& architecture)
        : parts_(parts),
          architecture_(architecture),
          fields_(parts.front().view(), architecture.name, complaint_),
          type_(find_type()),
          family_(*engine::find_family(type_)) {}

    result<gguf_config> run() {
        config()["model_type"] = type_;
        read_sizes();
        // The readers below need valid sizes.
        if (!complaint_.empty()) return incompatible(complaint_);
        if (family_.latent) {
            read_latent_attention();
        } else if (family_.kinds_differ) {
            rotated_dim_ = read_gguf_gemma4(
                fields_, layers_, [&](const std::string& name) { return tensor(name) != nullptr; },
                config());
        } else {
            read_attention();
        }
        if (is_hybrid()) {
            gguf_hybrid(fields_, type_, as_size_of_layers(), config()).read();
            out_.keys_in_turn = architecture_.name == "qwen35" || architecture_.name == "qwen35moe";
        }
        read_family();
        read_rope();
        read_factors();
        refuse_variants();
        read_stops();
        read_sampling();
        if (!complaint_.empty()) return incompatible(complaint_);
        return std::move(out_);
    }

  private:
    static constexpr std::int64_t gating_softmax = 1, gating_sigmoid = 2;
    static constexpr const char* long_factors = "rope_factors_long.weight";
    static constexpr const char* short_factors = "rope_factors_short.weight";

    json::object& config() { return out_.config; }

    const gguf_tensor* tensor(std::string_view name) const {
        for (const storage::gguf_file& part : parts_) {
            const auto at = part.view().tensors.find(name);
            if (at != part.view().tensors.end()) return &at->second;
        }
        return nullptr;
    }

    void copy(std::string_view key, std::string_view field) {
        if (const auto value = fields_.integer(key)) config()[field] = *value;
    }
    void copy_real(std::string_view key, std::string_view field) {
        if (const auto value = fields_.real(key)) config()[field] = *value;
    }

    /// Reads the sizes of the vocabulary, of rows and of the context, and the number of layers.
    void read_sizes() {
        const gguf_tensor* embedding = tensor("token_embd.weight");
        if (embedding == nullptr || embedding->shape.size() != 2) {
            return fields_.complain("there is no matrix token_embd.weight");
        }
        config()["vocab_size"] = embedding->shape[0];
        config()["hidden_size"] = fields_.needed("embedding_length");
        // Layers that predict further tokens are counted, and left out.
        layers_ =
            fields_.needed("block_count") - fields_.integer("nextn_predict_layers").value_or(0);
        // Bounded here, because lists of so many numbers are read before the config is checked.
        if ((is_hybrid() || family_.kinds_differ) && (layers_ < 1 || layers_ > 4096))
            return fields_.complain(fields_.name_of("block_count") + " leaves " +
                                    std::to_string(layers_) + " layers");
        config()["num_hidden_layers"] = layers_;
        config()["max_position_embeddings"] = fields_.needed("context_length");
        if (!is_hybrid() && !family_.kinds_differ) copy("feed_forward_length", "intermediate_size");
        copy_real("attention.layer_norm_rms_epsilon", "rms_norm_eps");
        if (!fields_.has("attention.layer_norm_rms_epsilon"))
            fields_.complain(fields_.name_of("attention.layer_norm_rms_epsilon") + " is missing");
        config()["tie_word_embeddings"] = tensor("output.weight") == nullptr;
        out_.qkv_bias = is_in_a_layer("attn_q.bias");
        out_.o_bias = is_in_a_layer("attn_output.bias");
    }

    /// Whether some layer has the tensor: in a hybrid the first one may be of another kind.
    bool is_in_a_layer(const std::string& name) const {
        for (std::int64_t i = 0; i < (is_hybrid() ? layers_ : 1); ++i)
            if (tensor("blk." + std::to_string(i) + "." + name) != nullptr) return true;
        return false;
    }
    /// One architecture of files serves two families, which differ in how experts are chosen. Files
    /// of GLM-4.7-Flash may lack the key; its sizes decide then. Called by the constructor: only
    /// the members before type_ are set.
    std::string_view find_type() {
        if (architecture_.model_type != "deepseek_v2") return architecture_.model_type;
        const std::int64_t layers = fields_.integer("block_count").value_or(0);
        const gguf_tensor* embedding = tensor("token_embd.weight");
        const bool is_flash = (layers == 47 || layers == 48) && embedding != nullptr &&
                              !embedding->shape.empty() && embedding->shape[0] == 154880;
        const std::int64_t missing = is_flash ? gating_sigmoid : gating_softmax;
        return fields_.integer("expert_gating_func").value_or(missing) == gating_sigmoid
                   ? "glm4_moe_lite"
                   : architecture_.model_type;
    }
    bool is_hybrid() const { return is_hybrid_type(type_); }
    std::size_t as_size_of_layers() const { return static_cast<std::size_t>(layers_); }

    /// Reads the numbers of heads and their length. Complains when keys and values differ in
    /// length.
    void read_attention() {
        const std::int64_t heads = fields_.needed("attention.head_count");
        config()["num_attention_heads"] = heads;
        if (!is_hybrid())
            config()["num_key_value_heads"] =
                fields_.integer("attention.head_count_kv").value_or(heads);
        const std::int64_t hidden = fields_.needed("embedding_length");
        std::int64_t dim = fields_.integer("attention.key_length").value_or(0);
        if (dim == 0 && heads > 0 && hidden % heads == 0) dim = hidden / heads;
        if (dim <= 0)
            return fields_.complain(fields_.name_of("attention.key_length") +
                                    " is missing, and attention.head_count does not divide "
                                    "embedding_length");
        config()["head_dim"] = dim;
        if (fields_.integer("attention.value_length").value_or(dim) != dim) {
            fields_.complain(fields_.name_of("attention.value_length") +
                             " is not attention.key_length, which is not supported");
        }
        rotated_dim_ = dim;
    }

    /// Files of 2025 and later name the lengths of a head's own key and value `_mla`; the plain
    /// ones are then those of the latent.
    void read_latent_attention() {
        const std::int64_t heads = fields_.needed("attention.head_count");
        config()["num_attention_heads"] = heads;
        config()["num_key_value_heads"] = heads;
        const std::int64_t query_rank = fields_.integer("attention.q_lora_rank").value_or(0);
        config()["q_lora_rank"] = query_rank == 0 ? json::value() : json::value(query_rank);
        config()["kv_lora_rank"] = fields_.needed("attention.kv_lora_rank");
        const bool newer = fields_.has("attention.key_length_mla");
        rotated_dim_ = fields_.needed("rope.dimension_count");
        const std::int64_t key =
            fields_.needed(newer ? "attention.key_length_mla" : "attention.key_length");
        config()["qk_rope_head_dim"] = rotated_dim_;
        config()["qk_nope_head_dim"] = key - rotated_dim_;
        config()["v_head_dim"] =
            fields_.needed(newer ? "attention.value_length_mla" : "attention.value_length");
        read_routed_experts();
    }

    /// Reads routed experts next to shared ones, after layers without any.
    void read_routed_experts() {
        config()["n_routed_experts"] = fields_.integer("expert_count").value_or(0);
        config()["num_experts_per_tok"] = fields_.needed("expert_used_count");
        config()["moe_intermediate_size"] = fields_.needed("expert_feed_forward_length");
        config()["n_shared_experts"] = fields_.integer("expert_shared_count").value_or(0);
        config()["first_k_dense_replace"] =
            fields_.integer("leading_dense_block_count").value_or(0);
        const double scale = fields_.real("expert_weights_scale").value_or(0.0);
        // Converters write 0 where the model has no scale.
        config()["routed_scaling_factor"] = scale == 0.0 ? 1.0 : scale;
        config()["norm_topk_prob"] = fields_.boolean("expert_weights_norm").value_or(false);
        const std::int64_t groups = fields_.integer("expert_group_count").value_or(1);
        if (groups > 1 && family_.sigmoid_epsilon > 0.0) {
            config()["n_group"] = groups;
            config()["topk_group"] = fields_.needed("expert_group_used_count");
        } else if (groups > 1) {
            config()["topk_method"] = "group_limited_greedy";
            config()["n_group"] = groups;
            config()["topk_group"] = fields_.needed("expert_group_used_count");
        }
    }

    /// The fields that one family's config.json has and others' have not: its experts, its windows,
    /// its scales. A family without a branch has none in its file. Complains of what is
    /// missing. Requires: sizes and attention are in config().
    void read_family() {
        const std::string_view type = type_;
        if (type == "qwen2" || type == "qwen3" || type == "qwen3_moe")
            config()["use_sliding_window"] = false;
        if (type == "qwen3_moe") {
            config()["num_experts"] = fields_.needed("expert_count");
            config()["num_experts_per_tok"] = fields_.needed("expert_used_count");
            config()["moe_intermediate_size"] = fields_.needed("expert_feed_forward_length");
            config()["norm_topk_prob"] = true;
        } else if (type == "gpt_oss") {
            config()["num_local_experts"] = fields_.needed("expert_count");
            config()["num_experts_per_tok"] = fields_.needed("expert_used_count");
            config()["intermediate_size"] = fields_.needed("expert_feed_forward_length");
            config()["sliding_window"] = fields_.needed("attention.sliding_window");
        } else if (type == "gemma3_text") {
            read_gemma();
        } else if (type == "granite") {
            read_multipliers(fields_, config());
        } else if (type == "glm4_moe") {
            read_routed_experts();
            config()["use_qk_norm"] = is_in_a_layer("attn_q_norm.weight");
        } else if (family_.windows == window_rule::all_but_every_nth ||
                   family_.windows == window_rule::every_layer_if_given) {
            read_windows();
        }
        // Files of SmolLM3 do not say which layers have no rope; its row in families.cpp has it.
    }

    /// A window, and which layers have it: by a list, or the family's rule. Without a window none.
    void read_windows() {
        const std::int64_t window = fields_.integer("attention.sliding_window").value_or(0);
        config()["sliding_window"] = window > 0 ? json::value(window) : json::value();
        constexpr const char* pattern = "attention.sliding_window_pattern";
        if (!fields_.has(pattern) &&
            (window > 0 || family_.windows != window_rule::all_but_every_nth))
            return;
        const std::vector<std::int64_t> none(static_cast<std::size_t>(layers_), 0);
        json::array kinds;
        for (const std::int64_t slides :
             fields_.integers(pattern, static_cast<std::size_t>(layers_)).value_or(none))
            kinds.push_back(slides != 0 && window > 0 ? "sliding_attention" : "full_attention");
        config()["layer_types"] = std::move(kinds);
    }

    /// Reads what only Gemma models have: sliding windows, their rope, and what scores are divided
    /// by.
    void read_gemma() {
        config()["sliding_window"] = fields_.needed("attention.sliding_window");
        config()["sliding_window_pattern"] =
            fields_.integer("attention.sliding_window_pattern").value_or(6);
        config()["rope_local_base_freq"] = fields_.real("rope.freq_base_swa").value_or(10000.0);
        // No key says what a score is divided by: the 27B alone, of 62 layers, takes another value
        // than the head's length.
        const std::int64_t heads = fields_.needed("attention.head_count");
        config()["query_pre_attn_scalar"] =
            fields_.needed("block_count") == 62 && heads > 0
                ? json::value(fields_.needed("embedding_length") / heads)
                : config()["head_dim"];
        // Trained in bf16: sqrt(hidden) was rounded so.
        config()["torch_dtype"] = "bfloat16";
        for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
            if (fields_.real(cap).value_or(0.0) != 0.0)
                fields_.complain(fields_.name_of(cap) + " is there: logits are not capped");
        }
    }

    /// Reads rope's base, the share of a head that rotates, and how its frequencies are scaled.
    void read_rope() {
        if (family_.kinds_differ) return;  // in each kind's own
        config()["rope_theta"] = fields_.real("rope.freq_base").value_or(10000.0);
        const std::int64_t rotated = fields_.integer("rope.dimension_count").value_or(rotated_dim_);
        if (family_.rope.portion != 1.0 || family_.rope.may_be_partial) {
            if (!is_hybrid())
                config()["partial_rotary_factor"] =
                    static_cast<double>(rotated) / static_cast<double>(rotated_dim_);
        } else if (!is_hybrid() && rotated != rotated_dim_) {
            fields_.complain(fields_.name_of("rope.dimension_count") +
                             " is not the length of a head: partial rotation is not supported");
        }
        if (tensor(long_factors) != nullptr || tensor(short_factors) != nullptr)
            return read_longrope();
        std::string type = fields_.string("rope.scaling.type");
        std::optional<double> factor = fields_.real("rope.scaling.factor");
        if (type.empty() && fields_.has("rope.scale_linear")) {  // files of 2023
            type = "linear";
            factor = fields_.real("rope.scale_linear");
        }
        if (type.empty() || type == "none") return;
        if (type != "linear" && type != "yarn") {
            return fields_.complain(fields_.name_of("rope.scaling.type") + " is \"" + type +
                                    "\": supported are none, linear and yarn");
        }
        json::object scaling{{"rope_type", type}, {"factor", factor.value_or(1.0)}};
        if (type == "yarn") read_yarn(scaling, factor.value_or(1.0));
        config()["rope_scaling"] = std::move(scaling);
    }

    /// Reads YaRN's parameters, as members of rope_scaling. `factor`: by which the context was
    /// lengthened.
    void read_yarn(json::object& scaling, double factor) {
        if (const auto context = fields_.integer("rope.scaling.original_context_length"))
            scaling["original_max_position_embeddings"] = *context;
        if (const auto fast = fields_.real("rope.scaling.yarn_beta_fast"))
            scaling["beta_fast"] = *fast;
        if (const auto slow = fields_.real("rope.scaling.yarn_beta_slow"))
            scaling["beta_slow"] = *slow;
        if (type_ == "gpt_oss") scaling["truncate"] = false;
        if (const auto growth = fields_.real("attention.temperature_scale");
            growth && *growth != 0.0)
            scaling["llama_4_scaling_beta"] = *growth;
        if (const auto amplitude = fields_.real("rope.scaling.yarn_attn_factor"))
            scaling["attention_factor"] = *amplitude;
        if (const auto weight = fields_.real("rope.scaling.yarn_log_multiplier"); weight) {
            // A tenth of mscale_all_dim, and as a float: 0.0707 means 0.707. mscale is the same in
            // all published models, so that cosines and sines keep their amplitude.
            const double all = std::nearbyint(*weight * 1e7) / 1e6;
            scaling["mscale"] = all;
            scaling["mscale_all_dim"] = all;
        }
        if (const auto amplitude = fields_.real("rope.scaling.attn_factor");
            amplitude && *amplitude != 1.0)
            scaling["attention_factor"] = *amplitude * (0.1 * std::log(factor) + 1.0);
    }

    /// Llama 3's scaling comes as a tensor that every frequency is divided by.
    void read_factors() {
        if (tensor("rope_freqs.weight") != nullptr)
            out_.rope_factors = factors_in("rope_freqs.weight", rotated_dim_ / 2);
    }

    /// The numbers of a tensor of rope factors, one for each pair of a head's elements. Empty, with
    /// a complaint, when it has others than that many numbers above 0.
    std::vector<float> factors_in(const std::string& name, std::int64_t pairs) {
        const gguf_tensor* held = tensor(name);
        const auto count = static_cast<std::size_t>(pairs);
        if (held == nullptr || held->type != storage::gguf_type::f32 ||
            held->bytes.size() != count * sizeof(float)) {
            fields_.complain("tensor " + name + " does not hold " + std::to_string(count) +
                             " F32 values, one for each pair of a head's elements");
            return {};
        }
        std::vector<float> factors(count);
        std::memcpy(factors.data(), held->bytes.data(), held->bytes.size());
        for (const float factor : factors) {
            if (std::isfinite(factor) && factor > 0.0f) continue;
            fields_.complain("tensor " + name + " holds " + std::to_string(factor) +
                             ": factors above 0 are needed");
            return {};
        }
        return factors;
    }

    /// Phi's: factors for short contexts and for long ones, and one amplitude.
    void read_longrope() {
        if (type_ != "phi3") {
            return fields_.complain(
                "tensor " +
                std::string(tensor(long_factors) != nullptr ? long_factors : short_factors) +
                " is there: rope factors for two lengths of context are not "
                "supported in this architecture");
        }
        const std::int64_t rotated = fields_.integer("rope.dimension_count").value_or(rotated_dim_);
        const auto list = [&](const char* name) {
            json::array out;
            for (const float factor : factors_in(name, rotated / 2)) out.push_back(factor);
            return out;
        };
        json::object scaling{{"rope_type", "longrope"}};
        scaling["long_factor"] = list(long_factors);
        scaling["short_factor"] = list(short_factors);
        scaling["original_max_position_embeddings"] =
            fields_.needed("rope.scaling.original_context_length");
        if (const auto amplitude = fields_.real("rope.scaling.attn_factor"))
            scaling["attention_factor"] = *amplitude;
        config()["rope_scaling"] = std::move(scaling);
    }

    /// What changes the arithmetic and is not computed here.
    void refuse_variants() {
        if (!fields_.boolean("attention.causal").value_or(true))
            fields_.complain(fields_.name_of("attention.causal") +
                             " is false: this is no model that "
                             "generates text");
        const bool mixture =
            config().contains("num_experts_per_tok") || config().contains("top_k_experts");
        if (const std::int64_t experts = fields_.integer("expert_count").value_or(0);
            experts > 0 && !mixture) {
            fields_.complain(fields_.name_of("expert_count") + " is " + std::to_string(experts) +
                             ": mixtures of this architecture are not supported");
        }
        const std::int64_t gating = fields_.integer("expert_gating_func").value_or(0);
        const std::int64_t known = family_.sigmoid_epsilon > 0.0 ? gating_sigmoid : gating_softmax;
        if (type_ != "gpt_oss" && !is_hybrid() && gating != 0 && gating != known) {
            fields_.complain(fields_.name_of("expert_gating_func") + " is " +
                             std::to_string(gating) + ": supported is " +
                             (known == gating_sigmoid ? "2, sigmoid" : "1, softmax"));
        }
        for (const char* scale : {"logit_scale", "embedding_scale", "residual_scale"}) {
            if (family_.has_multipliers) break;
            if (const auto value = fields_.real(scale); value && *value != 1.0 && *value != 0.0)
                fields_.complain(fields_.name_of(scale) + " is there, which is not supported");
        }
    }

    /// Reads the tokens that end an answer.
    void read_stops() {
        json::array ids;
        for (const char* name : {"eos", "eot", "eom"}) {
            const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
            const auto id = fields_.real_at(key);
            if (!id) continue;
            if (*id < 0 || *id >= static_cast<double>(config()["vocab_size"].to_number<double>())) {
                return fields_.complain(key + " is not a token of token_embd.weight's rows");
            }
            ids.push_back(static_cast<std::int64_t>(*id));
        }
        if (!ids.empty()) config()["eos_token_id"] = std::move(ids);
    }

    /// The makers' preference, where the converter wrote it down.
    void read_sampling() {
        const std::pair<const char*, const char*> rows[] = {
            {"temp", "temperature"},
            {"top_p", "top_p"},
            {"min_p", "min_p"},
            {"penalty_repeat", "repetition_penalty"},
        };
        for (const auto& [key, field] : rows) {
            if (const auto value = fields_.real_at("general.sampling." + std::string(key)))
                out_.generation[field] = *value;
        }
        if (const auto top_k = fields_.real_at("general.sampling.top_k"); top_k && *top_k >= 0)
            out_.generation["top_k"] = static_cast<std::int64_t>(*top_k);
    }

    const std::vector<storage::gguf_file>& parts_;
    const gguf_architecture& architecture_;
    std::string complaint_;  // the first one; empty: none
    gguf_fields fields_;
    const std::string_view type_;  // model_type
    const family_defaults& family_;
    std::int64_t layers_ = 0;
    std::int64_t rotated_dim_ = 0;  // elements of a head that rotate
    gguf_config out_;
};

}  // namespace

const gguf_architecture* find_architecture(std::string_view name) {
    for (const gguf_architecture& each : architectures) {
        if (each.name == name) return &each;
    }
    return nullptr;
}

result<gguf_config> read_gguf_config(const std::vector<storage::gguf_file>& parts) {
    const auto& metadata = parts.front().view().metadata;
    const auto at = metadata.find("general.architecture");
    const auto* name = at == metadata.end() ? nullptr : std::get_if<std::string_view>(&at->second);
    if (name == nullptr) return incompatible("general.architecture is missing");
    const gguf_architecture* found = find_architecture(*name);
    if (found == nullptr) {
        const std::string missing(missing_mechanism(*name));
        return incompatible("general.architecture is \"" + std::string(*name) + "\"" + missing +
                            (missing.empty() ? ": " : "; ") + "supported are " +
                            architecture_names());
    }
    return translation(parts, *found).run();
}

}  // namespace semantic::engine
