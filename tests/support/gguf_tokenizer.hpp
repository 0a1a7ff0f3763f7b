// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes a byte-level tokenizer.json as the metadata of a GGUF, as llama.cpp's converter does.

#include <boost/json.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/gguf_writer.hpp"

namespace semantic::tests {

/// Adds an array of 32-bit integers.
inline gguf_writer& add_numbers(gguf_writer& file, std::string_view key,
                                const std::vector<std::int32_t>& values) {
    using type = storage::gguf_value_type;
    std::string bytes = gguf_writer::raw(static_cast<std::uint32_t>(type::i32)) +
                        gguf_writer::raw(std::uint64_t{values.size()});
    for (const std::int32_t value : values) bytes += gguf_writer::raw(value);
    return file.pair(key, type::array, std::move(bytes));
}

/// Adds a bool.
inline gguf_writer& add_flag(gguf_writer& file, std::string_view key, bool value) {
    return file.pair(key, storage::gguf_value_type::boolean, std::string(1, value ? '\1' : '\0'));
}

/// Adds the metadata of the tokenizer. `pre`: the value of tokenizer.ggml.pre. Requires: every id
/// up to the largest has a token, merges are pairs.
inline void add_tokenizer(gguf_writer& file, const boost::json::value& tokenizer_json,
                          std::string_view pre) {
    constexpr std::int32_t normal = 1, control = 3, user_defined = 4;
    const auto& model = tokenizer_json.at("model");
    std::vector<std::string> tokens;
    std::vector<std::int32_t> types;
    const auto put = [&](const boost::json::value& at, std::string_view token, std::int32_t type) {
        const auto id = at.to_number<std::size_t>();
        tokens.resize(std::max(tokens.size(), id + 1));
        types.resize(tokens.size(), normal);
        tokens[id] = std::string(token);
        types[id] = type;
    };
    for (const auto& [token, id] : model.at("vocab").as_object()) put(id, token, normal);
    for (const auto& added : tokenizer_json.at("added_tokens").as_array())
        put(added.at("id"), added.at("content").as_string(),
            added.at("special").as_bool() ? control : user_defined);
    std::vector<std::string> merges;
    for (const auto& pair : model.at("merges").as_array())
        merges.push_back(std::string(pair.at(0).as_string()) + ' ' +
                         std::string(pair.at(1).as_string()));
    file.pair("tokenizer.ggml.model", std::string_view("gpt2"))
        .pair("tokenizer.ggml.pre", pre)
        .pair("tokenizer.ggml.tokens", tokens)
        .pair("tokenizer.ggml.merges", merges)
        .pair("tokenizer.ggml.bos_token_id", std::uint32_t{0});
    add_numbers(file, "tokenizer.ggml.token_type", types);
    const auto* ends = tokenizer_json.as_object().if_contains("post_processor");
    add_flag(file, "tokenizer.ggml.add_bos_token", ends != nullptr && !ends->is_null());
}

}  // namespace semantic::tests
