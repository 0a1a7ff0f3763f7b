// SPDX-License-Identifier: Apache-2.0
#pragma once
// Model folders of golden weights and a token for each byte; that of DeepSeek-V2 has latent
// attention.

#include <boost/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.hpp"

namespace semantic::tests {

/// A tokenizer with a token for each byte, two special tokens after them, and tokens up to `size`
/// that no text makes.
inline std::string byte_tokenizer_json(int size = 448) {
    boost::json::object vocabulary;
    for (int byte = 0, moved = 256; byte < 256; ++byte) {
        // Byte-level BPE writes unprintable bytes as characters from 256 on.
        const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
        const int code = prints ? byte : moved++;
        const char wide[] = {static_cast<char>(0xc0 | code >> 6),
                             static_cast<char>(0x80 | (code & 0x3f)), '\0'};
        vocabulary[code < 0x80 ? std::string(1, static_cast<char>(code)) : wide] = byte;
    }
    for (int i = 258; i < size; ++i) vocabulary["x" + std::to_string(i)] = i;
    boost::json::array special;
    for (int i = 0; i < 2; ++i) {
        special.push_back(
            {{"id", 256 + i},
             {"content", i == 0 ? "<｜begin▁of▁sentence｜>" : "<｜end▁of▁sentence｜>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}});
    }
    const boost::json::object byte_level = {{"type", "ByteLevel"},
                                            {"add_prefix_space", false},
                                            {"trim_offsets", true},
                                            {"use_regex", true}};
    return boost::json::serialize(boost::json::object{
        {"added_tokens", special},
        {"normalizer", nullptr},
        {"pre_tokenizer", byte_level},
        {"post_processor", nullptr},
        {"decoder", byte_level},
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", boost::json::array()}}}});
}

/// A model folder with golden weights and a byte tokenizer.
class golden_byte_model {
  public:
    /// `folder`: one of tests/golden/models. `vocabulary`: its number of tokens.
    explicit golden_byte_model(const std::string& folder, int vocabulary = 448) {
        const std::string golden = SEMANTIC_SOURCE_DIR "/tests/golden/models/" + folder + "/";
        for (const char* name : {"config.json", "model.safetensors"})
            std::filesystem::copy_file(golden + name, model_ / name);
        std::ofstream(model_ / "tokenizer.json") << byte_tokenizer_json(vocabulary);
        std::ofstream(model_ / "tokenizer_config.json") << boost::json::serialize(
            boost::json::object{{"bos_token", "<｜begin▁of▁sentence｜>"},
                                {"eos_token", "<｜end▁of▁sentence｜>"},
                                {"chat_template",
                                 "{{ bos_token }}{% for message in messages %}"
                                 "{% if message['role'] == 'user' %}"
                                 "{{ 'User: ' + message['content'] + '\\n\\n' }}"
                                 "{% elif message['role'] == 'assistant' %}"
                                 "{{ 'Assistant: ' + message['content'] + eos_token }}"
                                 "{% elif message['role'] == 'system' %}"
                                 "{{ message['content'] + '\\n\\n' }}{% endif %}{% endfor %}"
                                 "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"}});
    }
    std::string path() const { return model_.path(); }

  private:
    temp_dir model_;
};

class latent_model : public golden_byte_model {
  public:
    latent_model() : golden_byte_model("deepseek2") {}
};

}  // namespace semantic::tests
