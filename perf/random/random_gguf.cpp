// SPDX-License-Identifier: Apache-2.0
#include "perf/random/random_gguf.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "engine/kernels/kernels.hpp"

namespace semantic::perf {

namespace {

namespace json = boost::json;
using storage::gguf_type;
using storage::gguf_value_type;

constexpr std::size_t super_block = 256, small_block = 32;
constexpr int alignment = 32;

/// Values of a block. Requires: not F32.
std::size_t block_values(gguf_type type) {
    return type == gguf_type::q5_0 ? small_block : super_block;
}

std::size_t block_bytes(gguf_type type) {
    return type == gguf_type::q4_k ? 144 : type == gguf_type::q6_k ? 210 : 22;
}

std::string text_bytes(std::string_view text) {
    return raw(std::uint64_t{text.size()}) + std::string(text);
}

json::value read_json(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    return json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

/// Random blocks whose values have mean 0 and a given deviation.
class weight_source {
  public:
    explicit weight_source(unsigned seed) : random_(seed) {}

    std::string blocks(gguf_type type, std::uint64_t count, float deviation) {
        std::string bytes;
        bytes.reserve(count * block_bytes(type));
        for (std::uint64_t i = 0; i < count; ++i)
            bytes += type == gguf_type::q4_k   ? q4_k(deviation)
                     : type == gguf_type::q6_k ? q6_k(deviation)
                                               : q5_0(deviation);
        return bytes;
    }
    float normal() { return normal_(random_); }
    float between(float low, float high) {
        return low + (high - low) * static_cast<float>(random_() >> 40) / float(1 << 24);
    }

  private:
    // Of a code that takes each of 16 values as often, of one that takes each of 32, and so on.
    static constexpr float deviation_of_16 = 4.61f, deviation_of_32 = 9.23f,
                           deviation_of_64 = 18.47f;
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

    std::string q5_0(float deviation) {
        return raw(engine::to_half(deviation / deviation_of_32)) + random_bytes(20);
    }

    std::mt19937_64 random_;
    std::normal_distribution<float> normal_{0.0f, 1.0f};
};

std::string floats_of(const tensor_plan& tensor, weight_source& source) {
    std::string bytes;
    for (const float each : tensor.given) bytes += raw(each);
    if (!bytes.empty()) return bytes;
    const float deviation =
        tensor.extents.size() == 1 ? 1.0f : 1.0f / std::sqrt(static_cast<float>(tensor.extents[0]));
    for (std::uint64_t i = 0; i < tensor.count(); ++i)
        bytes += raw(tensor.values == filling::ones     ? 1.0f
                     : tensor.values == filling::small  ? 0.3f
                     : tensor.values == filling::normal ? deviation * source.normal()
                                                        : -std::exp(source.between(-3.9f, 2.0f)));
    return bytes;
}

}  // namespace

std::uint64_t tensor_plan::count() const {
    std::uint64_t all = 1;
    for (const std::uint64_t each : extents) all *= each;
    return all;
}

std::uint64_t tensor_plan::bytes() const {
    if (type == gguf_type::f32) return count() * sizeof(float);
    return count() / block_values(type) * block_bytes(type);
}

tensor_plan matrix_of(const std::string& name, int row, int rows, gguf_type type) {
    const auto length = static_cast<std::uint64_t>(row);
    if (type == gguf_type::q4_k && length % super_block != 0) type = gguf_type::q5_0;
    return {name + ".weight", {length, static_cast<std::uint64_t>(rows)}, type};
}

tensor_plan vector_of(const std::string& name, int length, filling values) {
    return {name, {static_cast<std::uint64_t>(length)}, gguf_type::f32, values};
}

void gguf_facts::add(const std::string& key, std::uint32_t value) {
    put(key, gguf_value_type::u32, raw(value));
}

void gguf_facts::add(const std::string& key, float value) {
    put(key, gguf_value_type::f32, raw(value));
}

void gguf_facts::add(const std::string& key, std::string_view value) {
    put(key, gguf_value_type::string, text_bytes(value));
}

void gguf_facts::add(const std::string& key, gguf_value_type element, std::uint64_t length,
                     const std::string& values) {
    put(key, gguf_value_type::array,
        raw(static_cast<std::uint32_t>(element)) + raw(length) + values);
}

void gguf_facts::put(const std::string& key, gguf_value_type type, const std::string& value) {
    bytes_ += text_bytes(key) + raw(static_cast<std::uint32_t>(type)) + value;
    ++count_;
}

void gguf_facts::add_words(const std::string& folder, int vocabulary) {
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
    add("tokenizer.ggml.model", std::string_view("gpt2"));
    add("tokenizer.ggml.pre", std::string_view("qwen35"));
    add("tokenizer.ggml.tokens", gguf_value_type::string, size, texts);
    add("tokenizer.ggml.token_type", gguf_value_type::i32, size, types);
    add("tokenizer.ggml.merges", gguf_value_type::string, pairs.size(), merges);
    add("tokenizer.ggml.eos_token_id", known.at("<|im_end|>").to_number<std::uint32_t>());
    add("tokenizer.chat_template",
        read_json(folder + "/tokenizer_config.json").at("chat_template").as_string());
}

void write_random_gguf(const gguf_facts& facts, const std::vector<tensor_plan>& tensors,
                       unsigned seed, const std::string& to) {
    std::string head = "GGUF" + raw(std::uint32_t{3}) + raw(std::uint64_t{tensors.size()}) +
                       raw(facts.count()) + facts.bytes();
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
            for (std::uint64_t left = each.count() / block_values(each.type); left > 0;) {
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
