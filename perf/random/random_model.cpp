// SPDX-License-Identifier: Apache-2.0
#include "perf/random/random_model.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "storage/files/safetensors.hpp"

namespace semantic::perf {

namespace {

namespace json = boost::json;
using storage::dtype;

constexpr std::array geometries{
    model_geometry{"135m", 30, 576, 1536, 9, 3, 64, 49152, 1e5},
    model_geometry{"1b", 16, 2048, 8192, 32, 8, 64, 128256, 5e5},
    model_geometry{"3b", 28, 3072, 8192, 24, 8, 128, 128256, 5e5},
};

/// A matrix, or a norm's weights where `rows` is 0.
struct shape {
    std::string name;
    int rows, cols;
};

std::vector<shape> shapes_of(const model_geometry& g) {
    const int q = g.heads * g.head_dim, kv = g.kv_heads * g.head_dim;
    std::vector<shape> all{{"model.embed_tokens", g.vocabulary, g.hidden}};
    for (int layer = 0; layer < g.layers; ++layer) {
        const std::string prefix = "model.layers." + std::to_string(layer) + ".";
        all.push_back({prefix + "input_layernorm", 0, g.hidden});
        all.push_back({prefix + "self_attn.q_proj", q, g.hidden});
        all.push_back({prefix + "self_attn.k_proj", kv, g.hidden});
        all.push_back({prefix + "self_attn.v_proj", kv, g.hidden});
        all.push_back({prefix + "self_attn.o_proj", g.hidden, q});
        all.push_back({prefix + "post_attention_layernorm", 0, g.hidden});
        all.push_back({prefix + "mlp.gate_proj", g.intermediate, g.hidden});
        all.push_back({prefix + "mlp.up_proj", g.intermediate, g.hidden});
        all.push_back({prefix + "mlp.down_proj", g.hidden, g.intermediate});
    }
    all.push_back({"model.norm", 0, g.hidden});
    return all;
}

/// The tensors that hold a matrix of `bits`, in the order of the file.
std::vector<storage::tensor_to_write> tensors_of(const shape& s, int bits) {
    if (s.rows == 0) return {{s.name + ".weight", dtype::bf16, {s.cols}, {}}};
    if (bits == 16) return {{s.name + ".weight", dtype::bf16, {s.rows, s.cols}, {}}};
    return {{s.name + ".weight", dtype::u32, {s.rows, s.cols * bits / 32}, {}},
            {s.name + ".scales", dtype::f16, {s.rows, s.cols / engine::group_size}, {}},
            {s.name + ".biases", dtype::f16, {s.rows, s.cols / engine::group_size}, {}}};
}

/// Rounded to nearest even. Requires: finite.
engine::bfloat to_bfloat(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return static_cast<engine::bfloat>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

class weight_file {
  public:
    weight_file(const std::string& path, int bits, unsigned seed)
        : path_(path), out_(path, std::ios::binary), bits_(bits), random_(seed) {}

    void write_header(const std::vector<shape>& shapes) {
        std::vector<storage::tensor_to_write> tensors;
        for (const shape& s : shapes) {
            for (auto& tensor : tensors_of(s, bits_)) tensors.push_back(std::move(tensor));
        }
        const std::string header =
            storage::safetensors_header(tensors, {{"format", bits_ == 16 ? "pt" : "mlx"}});
        write(std::span(header));
    }

    void write_weights(const shape& s) {
        const auto cols = static_cast<std::size_t>(s.cols);
        if (s.rows == 0) {
            const std::vector<engine::bfloat> ones(cols, to_bfloat(1.0f));
            return write(std::span(ones));
        }
        std::vector<float> row(cols);
        std::vector<engine::bfloat> plain(cols);
        const std::size_t row_bytes = cols * static_cast<std::size_t>(bits_) / 8;
        const std::size_t groups = cols / engine::group_size;
        const std::size_t packed_rows = bits_ == 16 ? 0 : static_cast<std::size_t>(s.rows);
        std::vector<std::byte> words(packed_rows * row_bytes);
        std::vector<engine::half> scales(packed_rows * groups), biases(packed_rows * groups);
        for (std::size_t r = 0; r < static_cast<std::size_t>(s.rows); ++r) {
            for (float& x : row) x = normal_(random_);
            if (bits_ == 16) {
                std::transform(row.begin(), row.end(), plain.begin(), to_bfloat);
                write(std::span(plain));
            } else {
                // The affine rule and the order of elements are those of K and V.
                kernels_.quantize_kv(row.data(), s.cols, bits_, engine::kv_rounding::mlx,
                                     words.data() + r * row_bytes, scales.data() + r * groups,
                                     biases.data() + r * groups);
            }
        }
        write(std::span(words));
        write(std::span(scales));
        write(std::span(biases));
    }

    void close() {
        out_.close();
        if (!out_) throw std::runtime_error("cannot write " + path_);
    }

  private:
    template <class T>
    void write(std::span<T> data) {
        out_.write(reinterpret_cast<const char*>(data.data()),
                   static_cast<std::streamsize>(data.size_bytes()));
        if (!out_) throw std::runtime_error("cannot write " + path_);
    }

    std::string path_;
    std::ofstream out_;
    const int bits_;
    std::mt19937_64 random_;
    std::normal_distribution<float> normal_{0.0f, 0.02f};
    const engine::kernel_table& kernels_ = *engine::find_kernels("auto");
};

std::string read_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const std::string& path, const std::string& text) {
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (!out) throw std::runtime_error("cannot write " + path);
}

std::string config_of(const random_model_options& options) {
    const model_geometry& g = options.geometry;
    json::object config{{"architectures", {"LlamaForCausalLM"}},
                        {"model_type", "llama"},
                        {"hidden_size", g.hidden},
                        {"intermediate_size", g.intermediate},
                        {"num_hidden_layers", g.layers},
                        {"num_attention_heads", g.heads},
                        {"num_key_value_heads", g.kv_heads},
                        {"head_dim", g.head_dim},
                        {"vocab_size", g.vocabulary},
                        {"hidden_act", "silu"},
                        {"rms_norm_eps", 1e-5},
                        {"rope_theta", g.rope_theta},
                        {"max_position_embeddings", 131072},
                        {"tie_word_embeddings", true},
                        {"bos_token_id", nullptr},
                        {"eos_token_id", 2},
                        {"torch_dtype", "bfloat16"}};
    if (options.bits != 16) {
        config["quantization"] =
            json::object{{"group_size", engine::group_size}, {"bits", options.bits}};
    }
    return json::serialize(config) + "\n";
}

/// tokenizer.json with a text for every id below `vocabulary`.
std::string tokenizer_of(const std::string& path, int vocabulary) {
    json::value whole = json::parse(read_text(path));
    json::object& words = whole.at("model").at("vocab").as_object();
    if (static_cast<int>(words.size()) > vocabulary) {
        throw std::runtime_error(path + " has more tokens than the model's vocabulary");
    }
    for (int id = static_cast<int>(words.size()); id < vocabulary; ++id) {
        words["w" + std::to_string(id)] = id;
    }
    return json::serialize(whole);
}

}  // namespace

std::span<const model_geometry> known_geometries() noexcept { return geometries; }

void write_random_model(const random_model_options& options, const std::string& to) {
    std::filesystem::create_directories(to);
    write_text(to + "/config.json", config_of(options));
    write_text(to + "/tokenizer.json",
               tokenizer_of(options.tokenizer + "/tokenizer.json", options.geometry.vocabulary));
    write_text(to + "/tokenizer_config.json",
               read_text(options.tokenizer + "/tokenizer_config.json"));
    const std::vector<shape> shapes = shapes_of(options.geometry);
    weight_file file(to + "/model.safetensors", options.bits, options.seed);
    file.write_header(shapes);
    for (const shape& s : shapes) file.write_weights(s);
    file.close();
}

}  // namespace semantic::perf
