// SPDX-License-Identifier: Apache-2.0
#pragma once
// A folder with semantic-tiny in which three of four layers see a window only. Its config is that
// of a Qwen 2, which is a Llama with biases; these are zero.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "storage/files/safetensors.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::tests {

class sliding_model {
  public:
    explicit sliding_model(int window) {
        const std::filesystem::path source = SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny";
        for (const char* name :
             {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
            std::filesystem::copy_file(source / name, folder_ / name);
        std::filesystem::create_symlink(source / "model.safetensors", folder_ / "a.safetensors");
        write_biases();
        std::string config = text_of(source / "config.json");
        replace(config, "\"llama\"", "\"qwen2\"");
        replace(
            config, "\"rope_scaling\": null",
            "\"layer_types\": [" + types() + "], \"sliding_window\": " + std::to_string(window));
        std::ofstream(folder_ / "config.json") << config;
    }
    std::string path() const { return folder_.path(); }

  private:
    static constexpr int layers = 8, hidden = 384, kv_width = 128;

    static std::string text_of(const std::filesystem::path& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    static void replace(std::string& text, const std::string& from, const std::string& to) {
        text.replace(text.find(from), from.size(), to);
    }
    /// The list of layer types for the config.
    static std::string types() {
        std::string list;
        for (int layer = 0; layer < layers; ++layer)
            list.append(layer == 0 ? "" : ", ")
                .append(layer % 4 == 3 ? "\"full_attention\"" : "\"sliding_attention\"");
        return list;
    }
    /// Writes a file with the biases, and an index of both files.
    void write_biases() const {
        const std::vector<std::byte> zeros(hidden * 2);
        std::vector<storage::tensor_to_write> tensors;
        for (int layer = 0; layer < layers; ++layer)
            for (const auto& [name, width] :
                 std::map<std::string, int>{{"q", hidden}, {"k", kv_width}, {"v", kv_width}})
                tensors.push_back(
                    {"model.layers." + std::to_string(layer) + ".self_attn." + name + "_proj.bias",
                     storage::dtype::f16,
                     {width},
                     std::span(zeros).first(static_cast<std::size_t>(width) * 2)});
        std::ofstream file(folder_ / "b.safetensors", std::ios::binary);
        file << storage::safetensors_header(tensors, {});
        for (const auto& tensor : tensors)
            file.write(reinterpret_cast<const char*>(tensor.bytes.data()),
                       static_cast<std::streamsize>(tensor.bytes.size()));
        std::ofstream(folder_ / "model.safetensors.index.json")
            << R"({"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}})";
    }

    temp_dir folder_;
};

}  // namespace semantic::tests
