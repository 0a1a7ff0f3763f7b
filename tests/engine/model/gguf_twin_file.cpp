// SPDX-License-Identifier: Apache-2.0
// The GGUF side of a twin: names, order of rows and metadata as llama.cpp's converter writes them.

#include <cmath>
#include <cstring>

#include "engine/kernels/kernels.hpp"
#include "tests/engine/model/gguf_twin.hpp"

namespace semantic::tests {

namespace {

using storage::gguf_type;

namespace json = boost::json;

std::int64_t number(const json::object& config, const char* name) {
    return config.at(name).to_number<std::int64_t>();
}

/// Rows of 4 bytes an element or of whole blocks.
struct gguf_rows {
    gguf_type type;
    std::vector<std::uint64_t> dimensions;  // the row's length first
    std::string bytes;
};

class converter {
  public:
    explicit converter(const model_twin& twin)
        : twin_(twin), type_(twin.config.at("model_type").as_string()) {}

    gguf_writer run() {
        architecture_ = type_ == "qwen3_moe"     ? "qwen3moe"
                        : type_ == "gemma3_text" ? "gemma3"
                        : type_ == "gpt_oss"     ? "gpt-oss"
                        : type_ == "deepseek_v2" ? "deepseek2"
                        : type_ == "mistral"     ? "llama"
                                                 : type_;
        write_metadata();
        for (const auto& [name, tensor] : twin_.tensors) write_tensor(name, tensor);
        for (auto& [name, rows] : stacks_) write(name, rows);
        return std::move(out_);
    }

  private:
    const json::object& config() const { return twin_.config; }
    const json::value* find(const char* name) const {
        const json::value* value = config().if_contains(name);
        return value == nullptr || value->is_null() ? nullptr : value;
    }
    void key(const char* name, std::int64_t value) {
        out_.pair(architecture_ + "." + name, static_cast<std::uint32_t>(value));
    }
    void key(const char* name, double value) {
        out_.pair(architecture_ + "." + name, storage::gguf_value_type::f32,
                  gguf_writer::raw(static_cast<float>(value)));
    }
    void key(const char* name, const std::string& value) {
        out_.pair(architecture_ + "." + name, value);
    }
    void flag(const char* name, bool value) {
        out_.pair(architecture_ + "." + name, storage::gguf_value_type::boolean,
                  gguf_writer::raw(static_cast<std::uint8_t>(value)));
    }
    std::int64_t head_dim() const {
        return find("head_dim") != nullptr
                   ? number(config(), "head_dim")
                   : number(config(), "hidden_size") / number(config(), "num_attention_heads");
    }
    const json::object* rope_object(const char* kind) const {
        const json::value* joint = find("rope_parameters");
        if (joint == nullptr) return nullptr;
        const json::value* inner = joint->as_object().if_contains(kind);
        return inner != nullptr ? &inner->as_object() : &joint->as_object();
    }

    void write_metadata() {
        out_.pair("general.architecture", architecture_);
        key("block_count", number(config(), "num_hidden_layers"));
        key("context_length", number(config(), "max_position_embeddings"));
        key("embedding_length", number(config(), "hidden_size"));
        key("feed_forward_length", number(config(), "intermediate_size"));
        key("attention.layer_norm_rms_epsilon", config().at("rms_norm_eps").to_number<double>());
        key("attention.head_count", number(config(), "num_attention_heads"));
        if (type_ == "deepseek_v2") {
            write_latent_keys();
        } else {
            key("attention.head_count_kv", number(config(), "num_key_value_heads"));
            key("attention.key_length", head_dim());
            key("attention.value_length", head_dim());
        }
        write_mixture_keys();
        if (type_ == "gemma3_text" || type_ == "gpt_oss")
            key("attention.sliding_window", number(config(), "sliding_window"));
        if (const json::value* every = find("sliding_window_pattern"))
            key("attention.sliding_window_pattern", every->to_number<std::int64_t>());
        write_rope_keys();
    }

    void write_latent_keys() {
        const std::int64_t rank = number(config(), "kv_lora_rank");
        const std::int64_t rope = number(config(), "qk_rope_head_dim");
        const std::int64_t whole = number(config(), "qk_nope_head_dim") + rope;
        const std::int64_t value = number(config(), "v_head_dim");
        const bool apart = twin_.latent_apart;
        key("attention.head_count_kv",
            apart ? std::int64_t{1} : number(config(), "num_attention_heads"));
        if (find("q_lora_rank") != nullptr)
            key("attention.q_lora_rank", number(config(), "q_lora_rank"));
        key("attention.kv_lora_rank", rank);
        key("attention.key_length", apart ? rank + rope : whole);
        key("attention.value_length", apart ? rank : value);
        if (apart) {
            key("attention.key_length_mla", whole);
            key("attention.value_length_mla", value);
        }
        key("rope.dimension_count", rope);
        key("leading_dense_block_count", number(config(), "first_k_dense_replace"));
        key("expert_shared_count", number(config(), "n_shared_experts"));
        key("expert_weights_scale", config().at("routed_scaling_factor").to_number<double>());
        flag("expert_weights_norm", false);
        key("expert_gating_func", std::int64_t{1});
    }

    void write_mixture_keys() {
        const char* names[] = {"num_experts", "num_local_experts", "n_routed_experts"};
        for (const char* name : names) {
            if (find(name) == nullptr) continue;
            key("expert_count", number(config(), name));
            key("expert_used_count", number(config(), "num_experts_per_tok"));
            key("expert_feed_forward_length",
                number(config(), find("moe_intermediate_size") != nullptr ? "moe_intermediate_size"
                                                                          : "intermediate_size"));
            return;
        }
    }

    void write_rope_keys() {
        const json::object* joint = rope_object("full_attention");
        const json::object& rope = joint != nullptr ? *joint : config();
        key("rope.freq_base", rope.at("rope_theta").to_number<double>());
        const json::object* scaling = joint != nullptr ? joint
                                      : find("rope_scaling") != nullptr
                                          ? &config().at("rope_scaling").as_object()
                                          : nullptr;
        if (scaling == nullptr) return;
        const std::string type(scaling->at("rope_type").as_string());
        if (type == "llama3") return write_factors(*scaling, rope.at("rope_theta"));
        if (type == "default") return;
        key("rope.scaling.type", type);
        key("rope.scaling.factor", scaling->at("factor").to_number<double>());
        if (const json::value* context = scaling->if_contains("original_max_position_embeddings"))
            key("rope.scaling.original_context_length", context->to_number<std::int64_t>());
        if (const json::value* weight = scaling->if_contains("mscale_all_dim"))
            key("rope.scaling.yarn_log_multiplier", 0.1 * weight->to_number<double>());
    }

    /// What each frequency is divided by, in place of Llama 3's four numbers.
    void write_factors(const json::object& scaling, const json::value& theta) {
        const double context = scaling.at("original_max_position_embeddings").to_number<double>();
        const double factor = scaling.at("factor").to_number<double>();
        const double low = scaling.at("low_freq_factor").to_number<double>();
        const double high = scaling.at("high_freq_factor").to_number<double>();
        std::string bytes;
        for (std::int64_t i = 0; i < head_dim() / 2; ++i) {
            const double turns =
                context /
                (2.0 * 3.14159265358979323846 *
                 std::pow(theta.to_number<double>(),
                          2.0 * static_cast<double>(i) / static_cast<double>(head_dim())));
            const double smooth = (turns - low) / (high - low);
            const double divisor = turns < low    ? factor
                                   : turns > high ? 1.0
                                                  : 1.0 / ((1.0 - smooth) / factor + smooth);
            bytes += gguf_writer::raw(static_cast<float>(divisor));
        }
        out_.tensor("rope_freqs.weight", {static_cast<std::uint64_t>(head_dim() / 2)}, 0, bytes);
    }

    gguf_rows rows_of(const twin_tensor& t) const {
        gguf_rows rows;
        rows.type = t.blocks.empty() ? float_type(t) : twin_.type;
        for (auto extent = t.shape.rbegin(); extent != t.shape.rend(); ++extent)
            rows.dimensions.push_back(static_cast<std::uint64_t>(*extent));
        rows.bytes = t.blocks.empty() ? float_bytes(t, rows.type) : t.blocks;
        return rows;
    }
    gguf_type float_type(const twin_tensor& t) const {
        const bool floats = twin_.type == gguf_type::f16 || twin_.type == gguf_type::bf16;
        return floats && (t.shape.size() > 2 || (t.shape.size() == 2 && t.shape[0] > 8))
                   ? twin_.type
                   : gguf_type::f32;
    }
    static std::string float_bytes(const twin_tensor& t, gguf_type type) {
        std::string bytes;
        for (const float value : t.values) {
            if (type == gguf_type::f32) {
                bytes += gguf_writer::raw(value);
            } else if (type == gguf_type::bf16) {
                std::uint32_t bits;
                std::memcpy(&bits, &value, sizeof bits);
                bytes += gguf_writer::raw(static_cast<std::uint16_t>(bits >> 16));
            } else {
                bytes += gguf_writer::raw(engine::to_half(value));
            }
        }
        return bytes;
    }

    /// llama.cpp turns neighbours together in this family: rows of a head go by turns from its two
    /// halves.
    void permute(gguf_rows& rows, std::int64_t heads) const {
        const auto count = static_cast<std::size_t>(
            rows.dimensions.size() > 1 ? rows.dimensions[1] : rows.dimensions[0]);
        const std::size_t each = rows.bytes.size() / count;
        const std::size_t dim = count / static_cast<std::size_t>(heads);
        std::string to;
        for (std::size_t row = 0; row < count; ++row) {
            const std::size_t in_head = row % dim;
            const std::size_t from = row - in_head + in_head / 2 + in_head % 2 * (dim / 2);
            to += rows.bytes.substr(from * each, each);
        }
        rows.bytes = to;
    }

    void write(const std::string& name, const gguf_rows& rows) {
        out_.tensor(name, rows.dimensions, static_cast<std::uint32_t>(rows.type), rows.bytes);
    }

    void write_tensor(std::string name, const twin_tensor& tensor) {
        const auto ends = [&](const char* tail) { return name.ends_with(tail); };
        gguf_rows rows = rows_of(tensor);
        if (type_ == "gemma3_text" && ends("norm.weight")) {
            rows.bytes.clear();
            for (const float value : tensor.values) rows.bytes += gguf_writer::raw(value + 1.0f);
        }
        if (architecture_ == "llama" && name.find(".q_proj.") != name.npos)
            permute(rows, number(config(), "num_attention_heads"));
        if (architecture_ == "llama" && name.find(".k_proj.") != name.npos)
            permute(rows, number(config(), "num_key_value_heads"));
        if (name == "model.embed_tokens.weight") return write("token_embd.weight", rows);
        if (name == "model.norm.weight") return write("output_norm.weight", rows);
        if (name == "lm_head.weight") return write("output.weight", rows);
        const std::size_t dot = name.find('.', std::strlen("model.layers."));
        const std::string number_text =
            name.substr(std::strlen("model.layers."), dot - std::strlen("model.layers."));
        write_layer_tensor("blk." + number_text + ".", name.substr(dot + 1), tensor, rows);
    }

    void write_layer_tensor(const std::string& layer, const std::string& name,
                            const twin_tensor& tensor, gguf_rows& rows) {
        const std::size_t end = name.rfind('.');
        const std::string stem = name.substr(0, end), kind = name.substr(end);
        if (name == "self_attn.sinks") return write(layer + "attn_sinks.weight", rows);
        if (stem == "self_attn.kv_b_proj" && twin_.latent_apart)
            return write_latent_parts(layer, tensor);
        if (stem.find("experts.") != stem.npos && stem.find("shared_") == stem.npos)
            return write_expert(layer, stem, kind, tensor, rows);
        static const std::map<std::string, std::string> names = {
            {"input_layernorm", "attn_norm"},
            {"pre_feedforward_layernorm", "ffn_norm"},
            {"post_feedforward_layernorm", "post_ffw_norm"},
            {"self_attn.q_proj", "attn_q"},
            {"self_attn.k_proj", "attn_k"},
            {"self_attn.v_proj", "attn_v"},
            {"self_attn.o_proj", "attn_output"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"},
            {"self_attn.q_a_proj", "attn_q_a"},
            {"self_attn.q_a_layernorm", "attn_q_a_norm"},
            {"self_attn.q_b_proj", "attn_q_b"},
            {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
            {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
            {"self_attn.kv_b_proj", "attn_kv_b"},
            {"mlp.gate_proj", "ffn_gate"},
            {"mlp.up_proj", "ffn_up"},
            {"mlp.down_proj", "ffn_down"},
            {"mlp.gate", "ffn_gate_inp"},
            {"mlp.router", "ffn_gate_inp"},
            {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
            {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
            {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
        };
        if (stem == "post_attention_layernorm") {
            const bool own = type_ == "gemma3_text" || type_ == "gpt_oss";
            return write(layer + (own ? "post_attention_norm" : "ffn_norm") + kind, rows);
        }
        write(layer + names.at(stem) + kind, rows);
    }

    /// A head's keys are expanded by a matrix of its own, which is transposed, and its values.
    void write_latent_parts(const std::string& layer, const twin_tensor& t) {
        const std::int64_t heads = number(config(), "num_attention_heads");
        const std::int64_t plain = number(config(), "qk_nope_head_dim");
        const std::int64_t value = number(config(), "v_head_dim"), rank = t.shape[1];
        const auto at = [&](std::int64_t row, std::int64_t column) {
            return t.values[static_cast<std::size_t>(row * rank + column)];
        };
        gguf_rows keys{gguf_type::f32, {}, {}}, values{twin_.type, {}, {}};
        const std::size_t each = t.blocks.size() / static_cast<std::size_t>(t.shape[0]);
        if (t.blocks.empty()) values.type = gguf_type::f32;
        for (std::int64_t head = 0; head < heads; ++head) {
            const std::int64_t first = head * (plain + value);
            for (std::int64_t i = 0; i < rank; ++i) {
                for (std::int64_t j = 0; j < plain; ++j)
                    keys.bytes += gguf_writer::raw(at(first + j, i));
            }
            for (std::int64_t row = first + plain; row < first + plain + value; ++row) {
                if (!t.blocks.empty()) {
                    values.bytes += t.blocks.substr(static_cast<std::size_t>(row) * each, each);
                    continue;
                }
                for (std::int64_t j = 0; j < rank; ++j)
                    values.bytes += gguf_writer::raw(at(row, j));
            }
        }
        const auto u = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
        keys.dimensions = {u(plain), u(rank), u(heads)};
        values.dimensions = {u(rank), u(value), u(heads)};
        write(layer + "attn_k_b.weight", keys);
        write(layer + "attn_v_b.weight", values);
    }

    /// "mlp.experts.3.gate_proj" joins the others; "mlp.experts.gate_proj" has them all.
    void write_expert(const std::string& layer, const std::string& stem, const std::string& kind,
                      const twin_tensor& tensor, gguf_rows& rows) {
        const std::string projection = stem.substr(stem.rfind('.') + 1);  // gate_proj
        const std::string part = projection.substr(0, projection.find('_'));
        const std::string name = layer + "ffn_" + part + "_exps" + kind;
        if (stem == "mlp.experts." + projection) {
            if (kind == ".bias") {
                const auto experts =
                    static_cast<std::uint64_t>(number(config(), "num_local_experts"));
                rows.dimensions = {static_cast<std::uint64_t>(tensor.shape[0]) / experts, experts};
            }
            return write(name, rows);
        }
        if (twin_.gate_up_merged && part != "down") return merge(layer, stem, rows);
        gguf_rows& stack = stacks_[name];
        if (stack.bytes.empty()) {
            stack = {rows.type, rows.dimensions, ""};
            stack.dimensions.push_back(0);
        }
        stack.dimensions.back() += 1;
        stack.bytes += rows.bytes;  // in the order of their names: fewer than ten experts
    }

    /// Of each expert its gates, then its ups.
    void merge(const std::string& layer, const std::string& stem, const gguf_rows& rows) {
        const std::string name = layer + "ffn_gate_up_exps.weight";
        gguf_rows& stack = stacks_[name];
        if (stack.bytes.empty())
            stack = {rows.type, {rows.dimensions[0], 2 * rows.dimensions[1], 0}, ""};
        if (stem.ends_with("gate_proj")) stack.dimensions.back() += 1;
        stack.bytes += rows.bytes;
    }

    const model_twin& twin_;
    std::string type_, architecture_;
    gguf_writer out_;
    std::map<std::string, gguf_rows> stacks_;
};

}  // namespace

gguf_writer gguf_of(const model_twin& twin) { return converter(twin).run(); }

}  // namespace semantic::tests
