// SPDX-License-Identifier: Apache-2.0
#pragma once
// A folder with semantic-tiny-recurrent, but with weights other than zero at the output of its
// attention. What it says makes no sense, but depends on every key, value and state.

#include <boost/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/temp_dir.hpp"

namespace semantic::tests {

class attending_model {
  public:
    attending_model() {
        const std::filesystem::path source =
            SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny-recurrent";
        for (const char* name :
             {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"})
            std::filesystem::copy_file(source / name, folder_ / name);
        std::ifstream file(source / "model.safetensors", std::ios::binary);
        std::string bytes{std::istreambuf_iterator<char>(file), {}};
        for (const char* part : {"weight", "scales", "biases"}) fill(bytes, part);
        std::ofstream(folder_ / "model.safetensors", std::ios::binary) << bytes;
    }
    std::string path() const { return folder_.path(); }

  private:
    /// Fills the output projection with the first rows of the queries' projection, whose rows have
    /// the same length. `part`: weight, scales or biases.
    static void fill(std::string& bytes, const std::string& part) {
        std::uint64_t length = 0;
        for (int i = 8; i-- > 0;)
            length = length << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
        const auto header = boost::json::parse(std::string_view(bytes).substr(8, length));
        const std::string layer = "model.layers.7.self_attn.";
        const auto begin = [&](const std::string& name, int end) {
            const auto& at = header.at(layer + name + "." + part).at("data_offsets");
            return 8 + length + at.at(static_cast<std::size_t>(end)).to_number<std::uint64_t>();
        };
        const std::uint64_t to = begin("o_proj", 0), size = begin("o_proj", 1) - to;
        bytes.replace(to, size, bytes.substr(begin("q_proj", 0), size));
    }

    temp_dir folder_;
};

}  // namespace semantic::tests
