// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config/model_config.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <stdexcept>
#include <utility>

#include "engine/model/config/config_fields.hpp"
#include "engine/model/config/families.hpp"
#include "engine/model/config/gguf_config.hpp"
#include "engine/model/config/hybrid_config.hpp"
#include "engine/model/config/layer_list.hpp"
#include "engine/model/config/mixture_config.hpp"
#include "engine/model/config/quantization_config.hpp"
#include "engine/model/config/rope_config.hpp"
#include "storage/files/file.hpp"
#include "storage/files/gguf.hpp"
#include "storage/files/strict_json.hpp"

namespace semantic::engine {

namespace {

using storage::errc;
using storage::failure;
using storage::result;

/// Adds the ids of `eos_token_id`, a number or a list of them. Returns: whether the field was
/// there, even as null.
bool read_eos(fields& source, int vocabulary, std::vector<storage::token_id>& out) {
    const json::value* value = source.raw().if_contains("eos_token_id");
    if (value == nullptr) return false;
    if (value->is_null()) return true;
    const auto add = [&](const json::value& id) {
        if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() >= vocabulary) {
            source.refuse(
                "eos_token_id", *value,
                "token ids below vocab_size " + std::to_string(vocabulary) + " are needed");
            return;
        }
        const auto token = static_cast<storage::token_id>(id.get_int64());
        if (std::find(out.begin(), out.end(), token) == out.end()) out.push_back(token);
    };
    if (value->is_array()) {
        for (const json::value& id : value->get_array()) add(id);
    } else {
        add(*value);
    }
    return true;
}

/// Reads the sampling that the model's makers recommend. If the file has neither do_sample nor a
/// temperature the result has no preference, and not transformers' defaults (greedy, top_k 50):
/// then the request's dialect decides.
sampling_rules read_sampling(fields& source) {
    sampling_rules rules;
    rules.repetition_penalty =
        static_cast<float>(source.real("repetition_penalty", 1.0, 1e-3, 100.0));
    if (!source.has("do_sample") && !source.has("temperature")) return rules;
    rules.temperature = static_cast<float>(source.real_from_0("temperature", 1.0, 100.0));
    if (!source.boolean("do_sample", true)) rules.temperature = 0.0f;
    rules.top_p = static_cast<float>(source.real("top_p", 1.0, 0.0, 1.0));
    rules.min_p = static_cast<float>(source.real_from_0("min_p", 0.0, 1.0));
    rules.top_k = source.integer("top_k", 50, 0, dimension_max);
    return rules;
}

/// sqrt(hidden), rounded to bfloat16 if the model was trained in that.
float read_embedding_scale(fields& source, int hidden) {
    const float exact = std::sqrt(static_cast<float>(hidden));
    if (source.string(source.has("dtype") ? "dtype" : "torch_dtype", "") != "bfloat16")
        return exact;
    std::uint32_t bits = std::bit_cast<std::uint32_t>(exact);
    bits += 0x7fffu + (bits >> 16 & 1u);  // to nearest, ties to even
    return std::bit_cast<float>(bits & 0xffff0000u);
}

/// Reads the numbers and lengths of heads. Complains when they do not fit one another.
void read_attention_shape(fields& source, const family_defaults& family, model_config& out) {
    out.hidden = source.integer("hidden_size", family.hidden, 1, dimension_max);
    out.heads = source.integer("num_attention_heads", family.heads, 1, 4096);
    // A null means as many as heads; only a missing field means the family's number.
    const bool said = family.kv_heads == 0 || source.raw().contains("num_key_value_heads");
    out.kv_heads =
        source.integer("num_key_value_heads", said ? out.heads : family.kv_heads, 1, 4096);
    if (out.heads % out.kv_heads != 0) {
        source.complain("num_key_value_heads is " + std::to_string(out.kv_heads) +
                        ": it must divide num_attention_heads " + std::to_string(out.heads));
    }
    if (!source.has("head_dim") && family.head_dim == 0 && out.hidden % out.heads != 0) {
        source.complain("num_attention_heads is " + std::to_string(out.heads) +
                        ": without head_dim it must divide hidden_size " +
                        std::to_string(out.hidden));
    }
    out.head_dim = source.integer(
        "head_dim", family.head_dim != 0 ? family.head_dim : out.hidden / out.heads, 1, 1024);
    if (out.head_dim % 2 != 0) {
        source.complain("head_dim is " + std::to_string(out.head_dim) +
                        ": rotary embedding needs an even number");
    }
    const double scalar = family.query_scalar == 0.0
                              ? static_cast<double>(out.head_dim)
                              : source.real("query_pre_attn_scalar", family.query_scalar, 0.0, 1e6);
    out.attention_scale = 1.0 / std::sqrt(scalar);
    const bool bias = source.boolean("attention_bias", family.attention_bias);
    out.qkv_bias = bias || family.always_qkv_bias;
    switch (family.o_bias) {
        case output_bias::as_others:
            out.o_bias = bias && !family.always_qkv_bias;
            break;
        case output_bias::never:
            break;
        case output_bias::by_field:
            out.o_bias = source.boolean("attention_out_bias", false);
            break;
    }
    out.joint_qk_norm = family.joint_qk_norm;
    out.qk_norm = family.asks_qk_norm ? source.boolean("use_qk_norm", false) : family.qk_norm;
    out.attention_gate = family.attention_gate && source.boolean("attn_output_gate", true);
    out.sinks = family.sinks;
}

/// Reads the rank of queries: null means that they come from the stream (0), a missing field the
/// default.
int read_query_rank(fields& source, const latent_sizes& missing) {
    if (source.raw().contains("q_lora_rank") && !source.has("q_lora_rank")) return 0;
    return source.integer("q_lora_rank", missing.query_rank, 1, dimension_max);
}

/// Reads the sizes of latent attention (arXiv:2405.04434), where keys and values of all heads are
/// kept as one compressed row.
void read_latent_attention(fields& source, const family_defaults& family, model_config& out) {
    latent_config& latent = out.latent;
    out.hidden = source.integer("hidden_size", family.hidden, 1, dimension_max);
    out.heads = source.integer("num_attention_heads", family.heads, 1, 4096);
    if (source.integer("num_key_value_heads", out.heads, 1, 4096) != out.heads) {
        source.refuse(
            "num_key_value_heads", *source.find("num_key_value_heads"),
            "latent attention has as many as num_attention_heads, " + std::to_string(out.heads));
    }
    const latent_sizes& missing = family.latents;
    latent.rank = source.integer("kv_lora_rank", missing.rank, 1, 4096);
    latent.query_rank = read_query_rank(source, missing);
    latent.plain_dim = source.integer("qk_nope_head_dim", missing.plain_dim, 1, 1024);
    latent.rope_dim = source.integer("qk_rope_head_dim", missing.rope_dim, 2, 1024);
    latent.value_dim = source.integer("v_head_dim", missing.value_dim, 1, 1024);
    if (!source.boolean("rope_interleave", true))
        source.refuse("rope_interleave", false, "supported is true");
    if (latent.rope_dim % 2 != 0) {
        source.complain("qk_rope_head_dim is " + std::to_string(latent.rope_dim) +
                        ": rotary embedding needs an even number");
    }
    out.kv_heads = 1;
    out.head_dim = latent.rope_dim;
    out.attention_scale =
        read_rope_sharpening(source) / std::sqrt(latent.plain_dim + latent.rope_dim);
    out.qkv_bias = out.o_bias = source.boolean("attention_bias", false);
}

void read_mlp(fields& source, const family_defaults& family, model_config& out) {
    out.intermediate = source.integer("intermediate_size", family.intermediate, 1, dimension_max);
    if (family.adjusts_width) out.intermediate = adjusted_width(source, out.intermediate);
    out.activation = family.activation;
    out.mlp_bias = family.may_have_mlp_bias && source.boolean("mlp_bias", false);
    const std::string act = source.string(family.activation_field, family.activation_name);
    if (act != family.activation_name) {
        source.refuse(family.activation_field, json::value(act),
                      std::string("supported is ") + family.activation_name);
    }
}

/// Reads a config.json, with the family's defaults for missing members. What is not supported is
/// complained about.
model_config read_config(fields& source, const family_defaults& family) {
    model_config out;
    for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping"}) {
        if (!source.has(name)) continue;
        if (!family.caps_logits || std::string_view(name).starts_with("attn"))
            source.refuse(name, *source.find(name), "logits are not capped");
        out.logit_cap = static_cast<float>(source.real_from_0(name, 0.0, 1e6));
    }
    // "vision": of pictures alone, which are not read.
    if (const json::value* both = source.find("use_bidirectional_attention");
        both != nullptr && *both != false && *both != "vision")
        source.refuse("use_bidirectional_attention", *both, "supported are false and \"vision\"");

    out.family = family.model_type;
    out.vocabulary = source.integer("vocab_size", family.vocabulary, 1, vocabulary_max);
    out.context_tokens_max =
        source.integer("max_position_embeddings", family.context, 1, context_max);
    if (family.latent) {
        read_latent_attention(source, family, out);
    } else {
        read_attention_shape(source, family, out);
    }
    read_mlp(source, family, out);
    read_mixture(source, family, out);
    read_recurrence(source, family, out);
    out.norm_eps =
        static_cast<float>(source.real(family.norm_eps_field, family.norm_eps, 0.0, 1.0));
    out.norm_one_plus = family.norm_one_plus;
    out.pre_norms = family.pre_norms;
    out.value_norm = family.value_norm;
    out.layer_scales = family.layer_scales;
    out.post_norms = family.post_norms;
    if (family.scaled_embedding) out.embedding_scale = read_embedding_scale(source, out.hidden);
    if (family.has_multipliers) read_multipliers(source, out);
    const char* tied = source.has("tie_embedding") ? "tie_embedding" : "tie_word_embeddings";
    out.tied_head = source.boolean(tied, family.tied_head);
    read_layers(source, family, out);
    out.choose_rope(out.context_tokens_max);
    return out;
}

/// The text with Infinity and NaN, which are not JSON, replaced by null, which counts as missing.
std::string without_infinities(std::string_view text) {
    std::string out;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto spells = [&](std::string_view word) {
            return !in_string && text.substr(i).starts_with(word);
        };
        for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
            if (!spells(word)) continue;
            out += "null";
            i += word.size();
            break;
        }
        if (i >= text.size()) break;
        if (in_string && text[i] == '\\' && i + 1 < text.size()) {
            out += text[i++];
        } else if (text[i] == '"') {
            in_string = !in_string;
        }
        out += text[i];
    }
    return out;
}

/// Parses the text of a file. Errors: incompatible if it is not a JSON object.
result<json::object> parse_object(const std::string& file, std::string_view text) {
    auto value = storage::parse_strict_json(text);
    if (!value && text.find("Infinity") != std::string_view::npos)
        value = storage::parse_strict_json(without_infinities(text));
    if (!value) return failure{errc::incompatible, file + ": " + value.error().what};
    if (!value->is_object()) return failure{errc::incompatible, file + " is not a JSON object"};
    return std::move(value->get_object());
}

failure incompatible_model(std::string text) { return {errc::incompatible, std::move(text)}; }

}  // namespace

const char* to_string(weight_form form) noexcept {
    switch (form) {
        case weight_form::native:
            return "native";
        case weight_form::q8:
            return "q8";
        case weight_form::q4:
            return "q4";
    }
    return "";
}

std::optional<weight_form> find_weight_form(std::string_view name) noexcept {
    for (const weight_form form : {weight_form::native, weight_form::q8, weight_form::q4}) {
        if (name == to_string(form)) return form;
    }
    return std::nullopt;
}

namespace {

std::string unknown_type(const std::string& field, const std::string& type) {
    std::string known;
    for (const family_defaults& each : model_families())
        known += (known.empty() ? "" : ", ") + std::string(each.model_type);
    const std::string missing(missing_mechanism(type));
    return "config.json: " + field + " is \"" + type + "\"" + missing +
           (missing.empty() ? ": " : "; ") + "supported are " + known;
}

/// The configuration in config.json (`root`) and generation_config.json (`generation`, may be
/// null). Errors: incompatible; the message begins with the name of the file.
result<model_config> parse_objects(const json::object& root, const json::object* generation) {
    std::string complaint;
    fields source(root, "", complaint);
    const std::string model_type = source.string("model_type", "");
    const family_defaults* family = find_family(model_type);
    if (family == nullptr) return incompatible_model(unknown_type("model_type", model_type));
    // Of a multimodal model only the language model runs; the token ids that end a turn may be
    // given outside.
    const json::object nothing;
    const json::object* inside = &source.raw();
    if (family->text_model_type != nullptr) {
        inside = source.object("text_config");
        if (inside == nullptr) inside = &nothing;
        fields text(*inside, "text_config.", complaint);
        const std::string said = text.string("model_type", family->text_model_type);
        family = find_family(said);
        if (family == nullptr)
            return incompatible_model(unknown_type("text_config.model_type", said));
    }
    const bool nested = inside != &source.raw();
    fields text(*inside, nested ? "text_config." : "", complaint);
    model_config out = read_config(text, *family);
    read_quantization(source, out);
    bool said = read_eos(source, out.vocabulary, out.eos_tokens);
    if (nested && !said) said = read_eos(text, out.vocabulary, out.eos_tokens);
    if (!complaint.empty()) return incompatible_model("config.json: " + complaint);

    if (generation != nullptr) {
        fields more(*generation, "", complaint);
        said = read_eos(more, out.vocabulary, out.eos_tokens) || said;
        out.sampling = read_sampling(more);
        if (!complaint.empty()) return incompatible_model("generation_config.json: " + complaint);
    }
    if (!said && family->eos >= 0 && family->eos < out.vocabulary)
        out.eos_tokens.push_back(family->eos);
    return out;
}

/// Reads the configuration of a GGUF file. Biases are as its tensors say, not as the family
/// assumes; norms are stored with their whole factor there (no 1 + weight).
result<model_config> load_gguf(const std::string& path) {
    const auto parts = storage::open_gguf(path);
    if (!parts) return parts.error();
    const auto read = read_gguf_config(*parts);
    if (!read) return failure{read.error().code, path + ": " + read.error().what};
    auto out = parse_objects(read->config, &read->generation);
    if (!out) {
        return failure{out.error().code, path + ": its metadata as a " + out.error().what};
    }
    out->norm_one_plus = false;
    out->recurrence.keys_in_turn = read->keys_in_turn;
    // Tensors of latent attention have other names: its biases are as the config says.
    if (out->latent.rank == 0) {
        out->qkv_bias = read->qkv_bias;
        out->o_bias = read->o_bias;
    }
    // Divisors of longrope are in the config that was parsed; a file has one kind or the other.
    // Where kinds of layers have ropes of their own, the file's is that of layers without window.
    const bool is_for_all = !find_family(out->family)->kinds_differ;
    for (layer_config& layer : out->layers)
        if ((is_for_all || layer.window == 0) && !read->rope_factors.empty())
            layer.rope.divisors = read->rope_factors;
    return out;
}

}  // namespace

result<model_config> model_config::parse(std::string_view config_json,
                                         std::string_view generation_config_json) {
    const auto root = parse_object("config.json", config_json);
    if (!root) return root.error();
    if (generation_config_json.empty()) return parse_objects(*root, nullptr);
    const auto generation = parse_object("generation_config.json", generation_config_json);
    if (!generation) return generation.error();
    return parse_objects(*root, &*generation);
}

result<model_config> model_config::load(const std::string& model) {
    if (storage::is_gguf_path(model)) return load_gguf(model);
    constexpr std::uint64_t bytes_max = 16u << 20;
    storage::file_system& files = storage::posix_file_system();
    auto config = storage::read_whole(files, model + "/config.json", bytes_max);
    if (!config) return config.error();
    // Only this file may be missing.
    auto generation = storage::read_whole(files, model + "/generation_config.json", bytes_max);
    if (!generation && generation.error().code != errc::not_found) return generation.error();
    auto parsed = parse(*config, generation ? std::string_view(*generation) : std::string_view());
    if (!parsed) return failure{parsed.error().code, model + "/" + parsed.error().what};
    return parsed;
}

int model_config::kv_layers() const {
    int count = 0;
    for (int i = 0; i < static_cast<int>(layers.size()); ++i) count += stores_kv(i);
    return count;
}

int model_config::kv_layer(int layer) const {
    const layer_config& each = layers[static_cast<std::size_t>(layer)];
    if (each.mixer != mixer_kind::attention) return -1;
    int before = 0;
    for (int i = 0; i < (each.kv_source < 0 ? layer : each.kv_source); ++i) before += stores_kv(i);
    return before;
}

bool model_config::has_uniform_heads() const {
    return std::all_of(layers.begin(), layers.end(), [&](const layer_config& layer) {
        return kv_heads_of(layer) == kv_heads && head_dim_of(layer) == head_dim;
    });
}

void model_config::choose_rope(int tokens) {
    for (layer_config& layer : layers)
        if (!layer.rope.short_divisors.empty() && tokens <= layer.rope.original_context)
            layer.rope.divisors = layer.rope.short_divisors;
}

std::string model_config::rope_identity() const {
    for (const layer_config& layer : layers)
        if (!layer.rope.short_divisors.empty())
            return layer.rope.divisors == layer.rope.short_divisors ? "rope=short"
                                                                    : "rope=long factors";
    return "";
}

std::vector<state_region> model_config::state_regions() const {
    std::vector<state_region> regions;
    std::size_t end = 0;
    for (const layer_config& layer : layers) {
        state_region region{end, end, end};
        if (is_recurrent(layer.mixer)) {
            const bool has_matrices = layer.mixer != mixer_kind::short_convolution;
            region.columns += has_matrices ? recurrence.matrix_floats() * sizeof(float) : 0;
            region.end = region.columns + convolution.column_floats() * sizeof(float);
            end = region.end = (region.end + 63) / 64 * 64;
        }
        regions.push_back(region);
    }
    return regions;
}

std::size_t model_config::state_bytes() const {
    return layers.empty() ? 0 : state_regions().back().end;
}

std::string model_config::state_identity() const {
    if (state_bytes() == 0) return "";
    // A letter for each layer.
    std::string kinds;
    for (const layer_config& layer : layers) {
        switch (layer.mixer) {
            case mixer_kind::delta_rule:
                kinds += 'd';
                break;
            case mixer_kind::state_space:
                kinds += 's';
                break;
            case mixer_kind::short_convolution:
                kinds += 'c';
                break;
            case mixer_kind::attention:
            case mixer_kind::none:
                kinds += '-';
                break;
        }
    }
    return "state=1 f32 layers=" + kinds + " matrices=" + std::to_string(recurrence.value_heads) +
           "x" + std::to_string(recurrence.key_dim) + "x" + std::to_string(recurrence.value_dim) +
           " columns=" + std::to_string(convolution.taps > 0 ? convolution.taps - 1 : 0) + "x" +
           std::to_string(convolution.channels);
}

result<std::vector<std::string>> parse_weight_index(std::string_view index_json) {
    auto root = storage::parse_strict_json(index_json);
    if (!root) return root.error();
    const json::value* map =
        root->is_object() ? root->get_object().if_contains("weight_map") : nullptr;
    if (map == nullptr || !map->is_object() || map->get_object().empty()) {
        return failure{errc::corrupt, "there is no weight_map in it"};
    }
    std::set<std::string> names;
    for (const auto& [tensor, file] : map->get_object()) {
        const std::string name = file.is_string() ? std::string(file.get_string()) : std::string();
        // A separator or a NUL could lead out of the folder.
        if (name.empty() || name.find_first_of(std::string("/\\\0", 3)) != std::string::npos) {
            return failure{errc::corrupt, "weight_map." + std::string(tensor) + " is " +
                                              shown(file) +
                                              ": the name of a file in the same folder is needed"};
        }
        names.insert(name);
    }
    return std::vector<std::string>(names.begin(), names.end());
}

kv_default default_kv(const model_config& config) {
    if (config.latent.rank > 0) return {8, "its attention is latent"};
    if (config.qkv_bias) return {8, "its keys have a bias"};
    return {};
}

storage::kv_layout make_kv_layout(const model_config& config, storage::kv_recipe recipe,
                                  int block_tokens) {
    std::vector<storage::kv_layer> layers;
    for (const layer_config& layer : config.layers) {
        // The f16 rows between a step's first and last group are there while their layer runs.
        if (layer.kv_source >= 0 && recipe.wide_tail > 0)
            throw std::invalid_argument("keys that several layers read have no wide tail");
        if (layer.mixer != mixer_kind::attention || layer.kv_source >= 0) continue;
        const latent_config& latent = config.latent;
        if (latent.rank > 0) {
            const int values = latent.stored_rank();
            // One head for all; its value is the beginning of its key.
            layers.push_back({1, values + latent.stored_rope(), values, layer.window, true});
        } else {
            const int dim = config.head_dim_of(layer);
            layers.push_back({config.kv_heads_of(layer), dim, dim, layer.window});
        }
    }
    return storage::kv_layout(std::move(layers), recipe, block_tokens, config.state_bytes());
}

}  // namespace semantic::engine
