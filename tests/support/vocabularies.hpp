// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokenizers of the published models that the tree has, and the control tokens in a text.

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/text_range.hpp"
#include "storage/files/utf8.hpp"

namespace semantic::tests {

inline constexpr const char* vocabularies[] = {"semantic-tiny", "smollm2", "qwen2",    "gemma3",
                                               "llama3",        "o200k",   "deepseek2"};

/// Loads the tokenizer of that name.
inline engine::tokenizer vocabulary(const std::string& name) {
    const std::string folder =
        name == "semantic-tiny" ? "/etc/models/semantic-tiny" : "/tests/golden/tokenizers/" + name;
    return *engine::tokenizer::load(SEMANTIC_SOURCE_DIR + folder);
}

/// The texts of all special tokens.
inline std::vector<std::string> special_tokens(const engine::tokenizer& words) {
    std::vector<std::string> found;
    for (engine::token_id id = 0; id < words.vocabulary(); ++id)
        if (words.is_special(id)) found.emplace_back(words.bytes(id));
    return found;
}

/// Texts that content may have and that look like special tokens: each of the first 40 alone, the
/// others in one text, and all in one text. `utf8`: only those that are valid UTF-8, as JSON
/// requires.
inline std::vector<std::string> spelled_tokens(const engine::tokenizer& words, bool utf8 = false) {
    constexpr std::size_t alone_max = 40;
    std::vector<std::string> said = special_tokens(words);
    if (utf8) std::erase_if(said, [](const std::string& s) { return !storage::utf8::is_valid(s); });
    std::string all, rest;
    for (std::size_t i = 0; i < said.size(); ++i) {
        all += said[i];
        if (i >= alone_max) rest += said[i];
    }
    if (said.size() > alone_max) {
        said.resize(alone_max);
        said.push_back(rest);
    }
    said.push_back(all);
    return said;
}

/// The control tokens in the encoded text, without those for unknown text.
inline std::vector<engine::token_id> control_ids(const engine::tokenizer& words,
                                                 const engine::marked_text& text) {
    std::vector<std::uint32_t> ends;
    std::vector<engine::token_id> found;
    std::size_t begin = 0, i = 0;
    for (const engine::token_id id : words.encode(text.bytes(), ends, text.content())) {
        if (words.is_control(id, std::string_view(text.bytes()).substr(begin, ends[i] - begin)))
            found.push_back(id);
        begin = ends[i++];
    }
    return found;
}

}  // namespace semantic::tests
