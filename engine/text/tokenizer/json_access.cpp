// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer/json_access.hpp"

#include <boost/json.hpp>

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

const boost::json::value& member(const boost::json::value& json, std::string_view key) {
    static const boost::json::value none;
    const boost::json::object* object = json.if_object();
    if (object == nullptr) return none;
    const auto* found = object->if_contains(key);
    return found == nullptr ? none : *found;
}

std::string text_of(const boost::json::value& json, std::string_view key) {
    const boost::json::string* text = member(json, key).if_string();
    return text == nullptr ? std::string() : std::string(text->data(), text->size());
}

bool flag_of(const boost::json::value& json, std::string_view key, bool otherwise) {
    const bool* flag = member(json, key).if_bool();
    return flag == nullptr ? otherwise : *flag;
}

const boost::json::array* array_of(const boost::json::value& json, std::string_view key) {
    return member(json, key).if_array();
}

result<regex> parse_pattern(const boost::json::value& json, std::string_view owner) {
    const boost::json::value& pattern = member(json, "pattern");
    result<regex> made = failure{errc::corrupt, "it has no pattern"};
    if (member(pattern, "Regex").is_string()) {
        made = regex::compile(text_of(pattern, "Regex"));
    } else if (const std::string literal = text_of(pattern, "String"); !literal.empty()) {
        made = regex::literal(literal);
    }
    if (!made) return failure{made.error().code, std::string(owner) + ": " + made.error().what};
    return made;
}

}  // namespace semantic::engine
