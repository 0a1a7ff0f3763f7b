#include "perf/inside/random_hybrid.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "storage/files/gguf.hpp"

namespace semantic::perf {

namespace {

namespace json = boost::json;
using storage::gguf_type;
using storage::gguf_value_type;

constexpr std::array hybrids{
    hybrid_geometry{"qwen3.5-4b", 32, 4, 2560, 9216, 16, 4, 256, 16, 32, 128, 248320},
};

constexpr std::size_t super_block = 256, q4_k_bytes = 144, q6_k_bytes = 210;
constexpr int alignment = 32, taps = 4;

template <class T>
std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

std::string text_bytes(std::string_view text) {
    return raw(std::uint64_t{text.size()}) + std::string(text);
}

/// How a tensor's values come about.
enum class filling {
    normal,  // deviation 1 / sqrt(row)
    ones,    // a norm's weights
    decay,   // minus 0.02 to 8
};

struct tensor_plan {
    std::string name;
    std::vector<std::uint64_t> extents;  // the row's length first
    gguf_type type;
    filling values = filling::normal;

    std::uint64_t count() const {
        std::uint64_t all = 1;
        for (const std::uint64_t each : extents) all *= each;
        return all;
    }
    std::uint64_t bytes() const {
        if (type == gguf_type::f32) return count() * sizeof(float);
        return count() / super_block * (type == gguf_type::q4_k ? q4_k_bytes : q6_k_bytes);
    }
};

std::vector<tensor_plan> plan_tensors(const hybrid_geometry& g) {
    std::vector<tensor_plan> all;
    const auto matrix = [&](const std::string& name, int row, int rows,
                            gguf_type type = gguf_type::q4_k) {
        all.push_back({name + ".weight",
                       {static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(rows)},
                       type});
    };
    const auto vector = [&](const std::string& name, int length, filling values) {
        all.push_back({name, {static_cast<std::uint64_t>(length)}, gguf_type::f32, values});
    };
    const int keys = g.key_heads * g.state_dim, values = g.value_heads * g.state_dim;
    matrix("token_embd", g.hidden, g.vocabulary, gguf_type::q6_k);
    vector("output_norm.weight", g.hidden, filling::ones);
    for (int layer = 0; layer < g.layers; ++layer) {
        const std::string at = "blk." + std::to_string(layer) + ".";
        vector(at + "attn_norm.weight", g.hidden, filling::ones);
        vector(at + "post_attention_norm.weight", g.hidden, filling::ones);
        if ((layer + 1) % g.attention_every == 0) {
            matrix(at + "attn_q", g.hidden, 2 * g.heads * g.head_dim);  // and its gate
            matrix(at + "attn_k", g.hidden, g.kv_heads * g.head_dim);
            matrix(at + "attn_v", g.hidden, g.kv_heads * g.head_dim);
            matrix(at + "attn_output", g.heads * g.head_dim, g.hidden);
            vector(at + "attn_q_norm.weight", g.head_dim, filling::ones);
            vector(at + "attn_k_norm.weight", g.head_dim, filling::ones);
        } else {
            matrix(at + "attn_qkv", g.hidden, 2 * keys + values);
            matrix(at + "attn_gate", g.hidden, values);
            matrix(at + "ssm_alpha", g.hidden, g.value_heads, gguf_type::f32);
            matrix(at + "ssm_beta", g.hidden, g.value_heads, gguf_type::f32);
            matrix(at + "ssm_conv1d", taps, 2 * keys + values, gguf_type::f32);
            vector(at + "ssm_a", g.value_heads, filling::decay);
            vector(at + "ssm_dt.bias", g.value_heads, filling::normal);
            vector(at + "ssm_norm.weight", g.state_dim, filling::ones);
            matrix(at + "ssm_out", values, g.hidden);
        }
        matrix(at + "ffn_gate", g.hidden, g.intermediate);
        matrix(at + "ffn_up", g.hidden, g.intermediate);
        matrix(at + "ffn_down", g.intermediate, g.hidden);
    }
    return all;
}

class metadata {
  public:
    void add(const std::string& key, std::uint32_t value) {
        put(key, gguf_value_type::u32, raw(value));
    }
    void add(const std::string& key, float value) { put(key, gguf_value_type::f32, raw(value)); }
    void add(const std::string& key, std::string_view value) {
        put(key, gguf_value_type::string, text_bytes(value));
    }
    void add(const std::string& key, gguf_value_type element, std::uint64_t length,
             const std::string& values) {
        put(key, gguf_value_type::array,
            raw(static_cast<std::uint32_t>(element)) + raw(length) + values);
    }
    std::uint64_t count = 0;
    std::string bytes;

  private:
    void put(const std::string& key, gguf_value_type type, const std::string& value) {
        bytes += text_bytes(key) + raw(static_cast<std::uint32_t>(type)) + value;
        ++count;
    }
};

json::value read_json(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    return json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

void add_words(metadata& out, const std::string& folder, int vocabulary) {
    constexpr std::uint32_t plain = 1, control = 3;
    const json::value whole = read_json(folder + "/tokenizer.json");
    const json::object& known = whole.at("model").at("vocab").as_object();
    const auto size = static_cast<std::size_t>(vocabulary);
    if (known.size() > size)
        throw std::runtime_error(folder + " has more tokens than the model's vocabulary");
    std::vector<std::string> words(size);
    for (const auto& [word, id] : known) words.at(id.to_number<std::size_t>()) = word;
    for (std::size_t id = 0; id < size; ++id)
        if (words[id].empty()) words[id] = "w" + std::to_string(id);
    std::vector<std::uint32_t> kinds(size, plain);
    for (const json::value& each : whole.at("added_tokens").as_array())
        kinds.at(each.at("id").to_number<std::size_t>()) = control;
    std::string texts, types, merges;
    for (const std::string& each : words) texts += text_bytes(each);
    for (const std::uint32_t each : kinds) types += raw(each);
    const json::array& pairs = whole.at("model").at("merges").as_array();
    for (const json::value& each : pairs)
        merges += text_bytes(std::string(each.at(0).as_string()) + " " +
                             std::string(each.at(1).as_string()));
    out.add("tokenizer.ggml.model", std::string_view("gpt2"));
    out.add("tokenizer.ggml.pre", std::string_view("qwen35"));
    out.add("tokenizer.ggml.tokens", gguf_value_type::string, size, texts);
    out.add("tokenizer.ggml.token_type", gguf_value_type::i32, size, types);
    out.add("tokenizer.ggml.merges", gguf_value_type::string, pairs.size(), merges);
    out.add("tokenizer.ggml.eos_token_id", known.at("<|im_end|>").to_number<std::uint32_t>());
    out.add("tokenizer.chat_template",
            read_json(folder + "/tokenizer_config.json").at("chat_template").as_string());
}

void add_sizes(metadata& out, const hybrid_geometry& g) {
    const auto number = [&](const char* key, int value) {
        out.add(std::string("qwen35.") + key, static_cast<std::uint32_t>(value));
    };
    out.add("general.architecture", std::string_view("qwen35"));
    out.add("general.name", g.name);
    number("block_count", g.layers);
    number("context_length", 262144);
    number("embedding_length", g.hidden);
    number("feed_forward_length", g.intermediate);
    number("attention.head_count", g.heads);
    number("attention.head_count_kv", g.kv_heads);
    number("attention.key_length", g.head_dim);
    number("attention.value_length", g.head_dim);
    number("full_attention_interval", g.attention_every);
    number("rope.dimension_count", g.head_dim / 4);
    number("ssm.conv_kernel", taps);
    number("ssm.state_size", g.state_dim);
    number("ssm.group_count", g.key_heads);
    number("ssm.time_step_rank", g.value_heads);
    number("ssm.inner_size", g.value_heads * g.state_dim);
    const auto section = static_cast<std::uint32_t>(g.head_dim / 8 / 3);
    std::string sections;
    for (const std::uint32_t each :
         {section + 1, section + 1, static_cast<std::uint32_t>(g.head_dim / 8) - 2 * section - 2,
          0U})
        sections += raw(each);
    out.add("qwen35.rope.dimension_sections", gguf_value_type::i32, 4, sections);
    out.add("qwen35.rope.freq_base", 1e7f);
    out.add("qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
    out.add("general.file_type", std::uint32_t{15});
}

/// Random blocks whose values have mean 0 and a given deviation.
class weight_source {
  public:
    explicit weight_source(unsigned seed) : random_(seed) {}

    std::string blocks(gguf_type type, std::uint64_t count, float deviation) {
        std::string bytes;
        bytes.reserve(count * q6_k_bytes);
        for (std::uint64_t i = 0; i < count; ++i)
            bytes += type == gguf_type::q4_k ? q4_k(deviation) : q6_k(deviation);
        return bytes;
    }
    float normal() { return normal_(random_); }
    float between(float low, float high) {
        return low + (high - low) * static_cast<float>(random_() >> 40) / float(1 << 24);
    }

  private:
    // Of a code that takes each of 16 values as often, and of one that takes each of 64.
    static constexpr float deviation_of_16 = 4.61f, deviation_of_64 = 18.47f;
    static constexpr int level = 20;  // of all scales and minimums of a block of Q4_K

    std::string random_bytes(std::size_t count) {
        std::string bytes;
        while (bytes.size() < count) bytes += raw(random_());
        bytes.resize(count);
        return bytes;
    }
    std::string q4_k(float deviation) {
        const float scale = deviation / (level * deviation_of_16);
        const char low = static_cast<char>(level | (level >> 4) << 6);
        const char high = static_cast<char>((level & 15) | (level & 15) << 4);
        return raw(engine::to_half(scale)) + raw(engine::to_half(scale * 7.5f)) +
               std::string(8, low) + std::string(4, high) + random_bytes(super_block / 2);
    }
    std::string q6_k(float deviation) {
        constexpr char scale = 40;
        return random_bytes(super_block / 2 + super_block / 4) + std::string(16, scale) +
               raw(engine::to_half(deviation / (scale * deviation_of_64)));
    }

    std::mt19937_64 random_;
    std::normal_distribution<float> normal_{0.0f, 1.0f};
};

std::string floats_of(const tensor_plan& tensor, weight_source& source) {
    const float deviation =
        tensor.extents.size() == 1 ? 1.0f : 1.0f / std::sqrt(static_cast<float>(tensor.extents[0]));
    std::string bytes;
    for (std::uint64_t i = 0; i < tensor.count(); ++i)
        bytes += raw(tensor.values == filling::ones     ? 1.0f
                     : tensor.values == filling::normal ? deviation * source.normal()
                                                        : -std::exp(source.between(-3.9f, 2.0f)));
    return bytes;
}

}  // namespace

std::span<const hybrid_geometry> known_hybrids() noexcept { return hybrids; }

void write_random_hybrid(const hybrid_geometry& geometry, const std::string& tokenizer,
                         unsigned seed, const std::string& to) {
    const std::vector<tensor_plan> tensors = plan_tensors(geometry);
    metadata facts;
    add_sizes(facts, geometry);
    add_words(facts, tokenizer, geometry.vocabulary);
    std::string head = "GGUF" + raw(std::uint32_t{3}) + raw(std::uint64_t{tensors.size()}) +
                       raw(facts.count) + facts.bytes;
    const auto padding = [](std::uint64_t size) {
        return (alignment - size % alignment) % alignment;
    };
    std::uint64_t offset = 0;
    for (const tensor_plan& each : tensors) {
        head += text_bytes(each.name) + raw(static_cast<std::uint32_t>(each.extents.size()));
        for (const std::uint64_t extent : each.extents) head += raw(extent);
        head += raw(static_cast<std::uint32_t>(each.type)) + raw(offset);
        offset += each.bytes() + padding(each.bytes());
    }
    std::ofstream out(to, std::ios::binary);
    const auto write = [&](const std::string& bytes) {
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        if (!out) throw std::runtime_error("cannot write " + to);
    };
    write(head + std::string(padding(head.size()), '\0'));
    weight_source source(seed);
    constexpr std::uint64_t piece = 1 << 16;  // blocks
    for (const tensor_plan& each : tensors) {
        if (each.type == gguf_type::f32) {
            write(floats_of(each, source));
        } else {
            const float deviation = 1.0f / std::sqrt(static_cast<float>(each.extents[0]));
            for (std::uint64_t left = each.count() / super_block; left > 0;) {
                const std::uint64_t some = std::min(left, piece);
                write(source.blocks(each.type, some, deviation));
                left -= some;
            }
        }
        write(std::string(padding(each.bytes()), '\0'));
    }
    out.close();
    if (!out) throw std::runtime_error("cannot write " + to);
}

}  // namespace semantic::perf
