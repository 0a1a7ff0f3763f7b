// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/model/gguf_twin.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>

#include "engine/kernels/kernels.hpp"
#include "engine/model/weights/gguf_blocks.hpp"
#include "storage/files/safetensors.hpp"

namespace semantic::tests {

namespace {

using storage::gguf_type;

namespace json = boost::json;

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t number(const json::object& config, const char* name) {
    return config.at(name).to_number<std::int64_t>();
}

// ---- random weights

/// Random blocks with scales of a sane size, so that the model's numbers stay finite.
class block_maker {
  public:
    explicit block_maker(gguf_type type) : type_(type) {}

    std::string make(std::size_t count) {
        const std::size_t each = storage::find_block_size(type_)->bytes;
        std::string bytes(count * each, '\0');
        for (char& byte : bytes) byte = static_cast<char>(random_() & 255);
        for (std::size_t i = 0; i < count; ++i) set_scales(bytes.data() + i * each);
        return bytes;
    }

  private:
    static void half_at(char* at, double value) {
        const engine::half bits = engine::to_half(static_cast<float>(value));
        std::memcpy(at, &bits, sizeof bits);
    }
    double near(double size) {
        return size * std::uniform_real_distribution<double>(0.5, 1.5)(random_);
    }
    void set_scales(char* block) {
        constexpr double spread = 0.05;  // of the weights
        switch (type_) {
            case gguf_type::q8_0:
                return half_at(block, near(spread / 73.0));
            case gguf_type::q4_0:
            case gguf_type::q5_0:
            case gguf_type::iq4_nl: {
                const double levels = type_ == gguf_type::q4_0   ? 4.6
                                      : type_ == gguf_type::q5_0 ? 9.2
                                                                 : 66.0;
                return half_at(block, near(spread / levels));
            }
            case gguf_type::q4_1:
                half_at(block, near(spread / 4.6));
                return half_at(block + 2, -near(spread / 4.6 * 7.5));
            case gguf_type::q5_1:
                half_at(block, near(spread / 9.2));
                return half_at(block + 2, -near(spread / 9.2 * 15.5));
            case gguf_type::q2_k:
                half_at(block + 80, near(spread / 8.0));
                return half_at(block + 82, near(spread / 8.0));
            case gguf_type::q3_k:
                return half_at(block + 108, near(spread / 40.0));
            case gguf_type::q4_k:
                half_at(block, near(spread / 170.0));
                return half_at(block + 2, near(spread / 25.0));
            case gguf_type::q5_k:
                half_at(block, near(spread / 340.0));
                return half_at(block + 2, near(spread / 25.0));
            case gguf_type::q6_k:
                return half_at(block + 208, near(spread / 1300.0));
            case gguf_type::iq4_xs:
                return half_at(block, near(spread / 1200.0));
            case gguf_type::mxfp4:
                block[0] = static_cast<char>(120 + random_() % 2);
                return;
            default:
                throw std::logic_error("no blocks of this type are made");
        }
    }

    gguf_type type_;
    std::mt19937 random_{17};
};

class weight_maker {
  public:
    weight_maker(model_twin& twin) : twin_(twin), blocks_(twin.type) {}

    void vector(const std::string& name, std::int64_t count, double middle, double spread) {
        twin_tensor& made = twin_.tensors[name];
        made.shape = {count};
        for (std::int64_t i = 0; i < count; ++i) made.values.push_back(draw(middle, spread));
    }
    void matrix(const std::string& name, std::vector<std::int64_t> shape) {
        twin_tensor& made = twin_.tensors[name];
        made.values.resize(static_cast<std::size_t>(count_of(shape)));
        const storage::gguf_block_size* size = storage::find_block_size(twin_.type);
        const bool whole = shape.back() % static_cast<std::int64_t>(size->elements) == 0;
        made.shape = std::move(shape);
        if (engine::find_block_decoder(twin_.type) != nullptr && whole) {
            made.blocks = blocks_.make(made.values.size() / size->elements);
            engine::dequantize(twin_.type, std::as_bytes(std::span(made.blocks)), made.values);
        } else {
            for (float& value : made.values) value = rounded(draw(0.0, 0.05));
        }
    }

  private:
    float draw(double middle, double spread) {
        return static_cast<float>(std::normal_distribution<double>(middle, spread)(random_));
    }
    /// To bf16 and f16 alike: 8 bits of mantissa.
    static float rounded(float value) {
        int exponent = 0;
        const float fraction = std::frexp(value, &exponent);
        return std::ldexp(std::nearbyint(fraction * 256.0f) / 256.0f, std::max(exponent, -12));
    }

    model_twin& twin_;
    block_maker blocks_;
    std::mt19937 random_{23};
};

const char* config_of(const std::string& model_type) {
    if (model_type == "llama") return R"({"rope_theta": 10000.0, "num_key_value_heads": 2})";
    if (model_type == "qwen2") return R"({"rope_theta": 1000000.0, "num_key_value_heads": 2})";
    if (model_type == "qwen3")
        return R"({"rope_theta": 1000000.0, "num_key_value_heads": 2, "head_dim": 128})";
    if (model_type == "qwen3_moe")
        return R"({"rope_theta": 1000000.0, "num_key_value_heads": 2, "head_dim": 64,
                   "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256,
                   "norm_topk_prob": true, "decoder_sparse_step": 1})";
    if (model_type == "gemma3_text")
        return R"({"rope_theta": 1000000.0, "num_key_value_heads": 2, "head_dim": 64,
                   "query_pre_attn_scalar": 64, "rope_local_base_freq": 10000.0,
                   "sliding_window": 32, "sliding_window_pattern": 2, "torch_dtype": "bfloat16",
                   "tie_word_embeddings": true,
                   "rope_scaling": {"rope_type": "linear", "factor": 8.0}})";
    if (model_type == "gpt_oss")
        return R"({"rope_theta": 150000.0, "num_key_value_heads": 2, "head_dim": 64,
                   "num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": true,
                   "sliding_window": 32, "intermediate_size": 256,
                   "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "truncate": false,
                                    "original_max_position_embeddings": 64}})";
    if (model_type == "deepseek_v2")
        return R"({"rope_theta": 10000.0, "num_key_value_heads": 4, "q_lora_rank": 256,
                   "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 64,
                   "v_head_dim": 64, "n_routed_experts": 4, "num_experts_per_tok": 2,
                   "moe_intermediate_size": 256, "n_shared_experts": 1,
                   "first_k_dense_replace": 1, "routed_scaling_factor": 2.5,
                   "norm_topk_prob": false,
                   "rope_scaling": {"rope_type": "yarn", "factor": 40.0, "mscale": 0.707,
                                    "mscale_all_dim": 0.707,
                                    "original_max_position_embeddings": 64}})";
    throw std::logic_error("no twin of " + model_type);
}

json::object whole_config(const std::string& model_type) {
    json::object config = json::parse(config_of(model_type)).as_object();
    const json::object shared{{"model_type", model_type},       {"hidden_size", 256},
                              {"intermediate_size", 512},       {"num_hidden_layers", 2},
                              {"num_attention_heads", 4},       {"vocab_size", 160},
                              {"max_position_embeddings", 512}, {"rms_norm_eps", 1e-5},
                              {"tie_word_embeddings", false}};
    for (const auto& [name, value] : shared) config.emplace(name, value);
    return config;
}

void make_attention(weight_maker& make, const json::object& c, const std::string& at) {
    const std::int64_t hidden = number(c, "hidden_size"), heads = number(c, "num_attention_heads");
    const std::int64_t kv = number(c, "num_key_value_heads");
    const std::int64_t dim = c.contains("head_dim") ? number(c, "head_dim") : hidden / heads;
    const std::string type(c.at("model_type").as_string());
    make.matrix(at + "q_proj.weight", {heads * dim, hidden});
    make.matrix(at + "k_proj.weight", {kv * dim, hidden});
    make.matrix(at + "v_proj.weight", {kv * dim, hidden});
    make.matrix(at + "o_proj.weight", {hidden, heads * dim});
    if (type == "qwen2" || type == "gpt_oss") {
        make.vector(at + "q_proj.bias", heads * dim, 0.0, 0.2);
        make.vector(at + "k_proj.bias", kv * dim, 0.0, 0.2);
        make.vector(at + "v_proj.bias", kv * dim, 0.0, 0.2);
    }
    if (type == "gpt_oss") {
        make.vector(at + "o_proj.bias", hidden, 0.0, 0.2);
        make.vector(at + "sinks", heads, 0.0, 1.0);
    }
    if (type.starts_with("qwen3") || type == "gemma3_text") {
        const double middle = type == "gemma3_text" ? 0.0 : 1.0;
        make.vector(at + "q_norm.weight", dim, middle, 0.2);
        make.vector(at + "k_norm.weight", dim, middle, 0.2);
    }
}

void make_latent(weight_maker& make, const json::object& c, const std::string& at) {
    const std::int64_t hidden = number(c, "hidden_size"), heads = number(c, "num_attention_heads");
    const std::int64_t rank = number(c, "kv_lora_rank"), query = number(c, "q_lora_rank");
    const std::int64_t plain = number(c, "qk_nope_head_dim"), rope = number(c, "qk_rope_head_dim");
    const std::int64_t value = number(c, "v_head_dim");
    make.matrix(at + "q_a_proj.weight", {query, hidden});
    make.vector(at + "q_a_layernorm.weight", query, 1.0, 0.2);
    make.matrix(at + "q_b_proj.weight", {heads * (plain + rope), query});
    make.matrix(at + "kv_a_proj_with_mqa.weight", {rank + rope, hidden});
    make.vector(at + "kv_a_layernorm.weight", rank, 1.0, 0.2);
    make.matrix(at + "kv_b_proj.weight", {heads * (plain + value), rank});
    make.matrix(at + "o_proj.weight", {hidden, heads * value});
}

void make_mlp(weight_maker& make, const std::string& at, std::int64_t inner, std::int64_t hidden) {
    make.matrix(at + "gate_proj.weight", {inner, hidden});
    make.matrix(at + "up_proj.weight", {inner, hidden});
    make.matrix(at + "down_proj.weight", {hidden, inner});
}

void make_experts(weight_maker& make, const json::object& c, const std::string& at) {
    const std::int64_t hidden = number(c, "hidden_size");
    if (c.contains("num_local_experts")) {  // stacks, as MLX has them
        const std::int64_t experts = number(c, "num_local_experts");
        const std::int64_t inner = number(c, "intermediate_size");
        make.vector(at + "router.bias", experts, 0.0, 0.2);
        make.matrix(at + "experts.gate_proj.weight", {experts, inner, hidden});
        make.matrix(at + "experts.up_proj.weight", {experts, inner, hidden});
        make.matrix(at + "experts.down_proj.weight", {experts, hidden, inner});
        for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
            const std::int64_t rows = std::string(name) == "down_proj" ? hidden : inner;
            const std::string bias = at + "experts." + name + ".bias";
            make.vector(bias, experts * rows, 0.0, 0.1);
        }
        return;
    }
    const bool shared = c.contains("n_shared_experts");
    const std::int64_t experts = number(c, shared ? "n_routed_experts" : "num_experts");
    const std::int64_t inner = number(c, "moe_intermediate_size");
    for (std::int64_t i = 0; i < experts; ++i)
        make_mlp(make, at + "experts." + std::to_string(i) + ".", inner, hidden);
    if (shared)
        make_mlp(make, at + "shared_experts.", inner * number(c, "n_shared_experts"), hidden);
}

/// Routers are floats in files of all makers.
void make_router(model_twin& twin, const std::string& name, std::int64_t experts) {
    std::mt19937 random(29);
    twin_tensor& made = twin.tensors[name];
    made.shape = {experts, number(twin.config, "hidden_size")};
    for (std::int64_t i = 0; i < count_of(made.shape); ++i)
        made.values.push_back(
            static_cast<float>(std::normal_distribution<double>(0.0, 0.3)(random)));
}

void make_layer(model_twin& twin, weight_maker& make, const std::string& at, bool mixture) {
    const json::object& c = twin.config;
    const std::string type(c.at("model_type").as_string());
    const double middle = type == "gemma3_text" ? 0.0 : 1.0;
    const auto norm = [&](const char* name) {
        make.vector(at + name + "_layernorm.weight", number(c, "hidden_size"), middle, 0.2);
    };
    norm("input");
    norm("post_attention");
    if (type == "gemma3_text") {
        norm("pre_feedforward");
        norm("post_feedforward");
    }
    if (type == "deepseek_v2") {
        make_latent(make, c, at + "self_attn.");
    } else {
        make_attention(make, c, at + "self_attn.");
    }
    if (!mixture)
        return make_mlp(make, at + "mlp.", number(c, "intermediate_size"),
                        number(c, "hidden_size"));
    make_experts(make, c, at + "mlp.");
    if (type == "gpt_oss") {
        make_router(twin, at + "mlp.router.weight", number(c, "num_local_experts"));
    } else {
        make_router(twin, at + "mlp.gate.weight",
                    number(c, type == "qwen3_moe" ? "num_experts" : "n_routed_experts"));
    }
}

// ---- the folder

std::string shaped(const std::string& name, const twin_tensor& t, std::vector<std::int64_t>& out) {
    out = t.shape;
    if (name.find("experts.") != name.npos && name.ends_with("proj.bias") && t.shape.size() == 1)
        out = {4, t.shape[0] / 4};
    return {reinterpret_cast<const char*>(t.values.data()), t.values.size() * sizeof(float)};
}

void widen_file(const std::string& path, std::map<std::string, twin_tensor>& tensors) {
    const auto file = storage::safetensors_file::open(path);
    if (!file) throw std::runtime_error(file.error().what);
    for (const auto& [name, view] : file->view().tensors) {
        twin_tensor& tensor = tensors[name];
        tensor.shape = view.shape;
        const std::size_t each = storage::dtype_bytes(view.type);
        for (std::size_t at = 0; at < view.bytes.size(); at += each) {
            float value = 0.0f;
            if (each == sizeof value) {
                std::memcpy(&value, view.bytes.data() + at, each);
            } else {
                std::uint16_t bits;
                std::memcpy(&bits, view.bytes.data() + at, sizeof bits);
                value = view.type == storage::dtype::f16 ? engine::to_float(bits)
                                                         : engine::bfloat_to_float(bits);
            }
            tensor.values.push_back(value);
        }
    }
}

}  // namespace

model_twin random_twin(const std::string& model_type, gguf_type type) {
    model_twin twin;
    twin.config = whole_config(model_type);
    twin.type = type;
    weight_maker make(twin);
    const std::int64_t hidden = number(twin.config, "hidden_size");
    const std::int64_t vocabulary = number(twin.config, "vocab_size");
    make.matrix("model.embed_tokens.weight", {vocabulary, hidden});
    const bool dense_first = model_type == "deepseek_v2";
    const bool mixture =
        model_type == "qwen3_moe" || model_type == "gpt_oss" || model_type == "deepseek_v2";
    for (std::int64_t i = 0; i < number(twin.config, "num_hidden_layers"); ++i) {
        make_layer(twin, make, "model.layers." + std::to_string(i) + ".",
                   mixture && !(dense_first && i == 0));
    }
    make.vector("model.norm.weight", hidden, model_type == "gemma3_text" ? 0.0 : 1.0, 0.2);
    if (!twin.config.at("tie_word_embeddings").as_bool())
        make.matrix("lm_head.weight", {vocabulary, hidden});
    return twin;
}

model_twin published_twin(const std::string& directory) {
    model_twin twin;
    std::ifstream file(directory + "/config.json");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    twin.config = json::parse(text).as_object();
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        const std::string name = entry.path().filename();
        if (name.starts_with("model") && name.ends_with(".safetensors"))
            widen_file(entry.path(), twin.tensors);
    }
    return twin;
}

void write_folder(const model_twin& twin, const std::string& directory) {
    std::vector<storage::tensor_to_write> list;
    std::vector<std::string> bytes;
    bytes.reserve(twin.tensors.size());
    for (const auto& [name, tensor] : twin.tensors) {
        std::vector<std::int64_t> shape;
        bytes.push_back(shaped(name, tensor, shape));
        list.push_back({name, storage::dtype::f32, shape, std::as_bytes(std::span(bytes.back()))});
    }
    std::string file = storage::safetensors_header(list, {});
    for (const std::string& each : bytes) file += each;
    write_bytes(directory + "/model.safetensors", file);
    write_bytes(directory + "/config.json", json::serialize(twin.config));
}

void write_bytes(const std::string& path, const std::string& bytes) {
    std::ofstream out(path, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) throw std::runtime_error(path + " could not be written");
}

}  // namespace semantic::tests
