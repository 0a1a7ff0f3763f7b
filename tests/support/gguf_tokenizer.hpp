#pragma once
// A byte-level tokenizer.json as the metadata of a GGUF, as llama.cpp's converter writes it.

#include <boost/json.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/gguf_writer.hpp"

namespace semantic::tests {

inline gguf_writer& add_numbers(gguf_writer& file, std::string_view key,
                                const std::vector<std::int32_t>& values) {
    using type = storage::gguf_value_type;
    std::string bytes = gguf_writer::raw(static_cast<std::uint32_t>(type::i32)) +
                        gguf_writer::raw(std::uint64_t{values.size()});
    for (const std::int32_t value : values) bytes += gguf_writer::raw(value);
    return file.pair(key, type::array, std::move(bytes));
}

inline gguf_writer& add_flag(gguf_writer& file, std::string_view key, bool value) {
    return file.pair(key, storage::gguf_value_type::boolean, std::string(1, value ? '\1' : '\0'));
}

/// `pre`: tokenizer.ggml.pre. Requires: every id up to the largest has a token, merges are pairs.
inline gguf_writer gguf_of(const boost::json::value& tokenizer_json, std::string_view pre) {
    constexpr std::int32_t normal = 1, control = 3, user_defined = 4;
    const auto& model = tokenizer_json.at("model");
    std::vector<std::string> tokens(model.at("vocab").as_object().size());
    std::vector<std::int32_t> types(tokens.size(), normal);
    for (const auto& [token, id] : model.at("vocab").as_object())
        tokens.at(id.to_number<std::size_t>()) = std::string(token);
    for (const auto& added : tokenizer_json.at("added_tokens").as_array()) {
        const auto id = added.at("id").to_number<std::size_t>();
        if (id >= tokens.size()) tokens.resize(id + 1), types.resize(id + 1, normal);
        tokens[id] = std::string(added.at("content").as_string());
        types[id] = added.at("special").as_bool() ? control : user_defined;
    }
    std::vector<std::string> merges;
    for (const auto& pair : model.at("merges").as_array())
        merges.push_back(std::string(pair.at(0).as_string()) + ' ' +
                         std::string(pair.at(1).as_string()));
    gguf_writer file;
    file.pair("tokenizer.ggml.model", std::string_view("gpt2"))
        .pair("tokenizer.ggml.pre", pre)
        .pair("tokenizer.ggml.tokens", tokens)
        .pair("tokenizer.ggml.merges", merges)
        .pair("tokenizer.ggml.bos_token_id", std::uint32_t{0});
    add_numbers(file, "tokenizer.ggml.token_type", types);
    const auto& ends = tokenizer_json.at("post_processor");
    return add_flag(file, "tokenizer.ggml.add_bos_token", !ends.is_null());
}

}  // namespace semantic::tests
