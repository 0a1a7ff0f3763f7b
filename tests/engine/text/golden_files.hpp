// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reading of golden data for the text tests.

#include <boost/json.hpp>

#include <fstream>
#include <iterator>
#include <string>

namespace semantic::engine {

inline std::string source_path(const std::string& relative) {
    return std::string(SEMANTIC_SOURCE_DIR) + "/" + relative;
}

inline std::string read_text(const std::string& relative) {
    std::ifstream file(source_path(relative), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline boost::json::value read_json(const std::string& relative) {
    return boost::json::parse(read_text(relative));
}

inline std::string text_at(const boost::json::value& json, const char* key) {
    const auto& text = json.at(key).as_string();
    return {text.data(), text.size()};
}

}  // namespace semantic::engine
