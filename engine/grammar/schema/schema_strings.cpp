// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/schema/schema_strings.hpp"

#include <utility>

#include "engine/grammar/schema/schema_merge.hpp"

namespace semantic::engine {

namespace json = boost::json;

std::string schema_strings::description::name() const {
    std::string out = std::to_string(least) + ' ' + std::to_string(most) + ' ';
    out += format.value_or("");
    const auto add = [&](const std::string& text) {
        out += ' ' + std::to_string(text.size()) + ':' + text;
    };
    add(pattern);
    for (const std::string& each : further_patterns) add(each);
    return out;
}

schema_strings::symbol schema_strings::matching(const json::object& schema, int least, int most,
                                                const std::string& path) {
    description said{{}, patterns_beside(schema), {}, least, most};
    if (const json::value* given = schema.if_contains("pattern")) {
        if (given->is_string())
            said.pattern = given->get_string();
        else
            complaints_.give_up(path, "'pattern' is not a string");
    }
    if (const json::value* given = schema.if_contains("format"))
        said.format = pattern_of_format(*given);
    if (said.pattern.empty() && said.further_patterns.empty() && !said.format && !said.has_length())
        return out_.string();
    std::string name = said.name();
    memory_.budget().charge_steps(name.size() / 16 + 1);
    if (const auto known = known_.find(name); known != known_.end()) return known->second;
    const std::size_t complaints = complaints_.count();
    const symbol made = make_symbol(schema, said, path);
    // With a complaint it is made again, so that the complaint names each path.
    if (complaints_.count() == complaints) {
        memory_.add(2 * name.size());
        known_.emplace(std::move(name), made);
    }
    return made;
}

schema_strings::symbol schema_strings::make_symbol(const json::object& schema,
                                                   const description& said,
                                                   const std::string& path) {
    std::size_t bytes = said.pattern.size();
    for (const std::string& other : said.further_patterns) bytes += other.size();
    const storage::charged_bytes of_nodes(memory_.budget(), 2 * bytes * pattern_node_bytes);
    std::vector<parsed_pattern> all, own;
    for (const std::string& other : said.further_patterns)
        if (auto made = parsed(other, path)) all.push_back(std::move(*made));
    const bool has_others = !all.empty();
    if (!said.pattern.empty())
        if (auto made = parsed(said.pattern, path)) own.push_back(std::move(*made));
    const bool has_pattern = !own.empty();
    if (has_others) {
        all.insert(all.end(), own.begin(), own.end());
        if (auto made = intersection(schema, said, std::move(all), path)) return *made;
    }
    // A pattern or a format alone needs no intersection.
    const bool is_only_one = !said.has_length() && has_pattern != said.format.has_value();
    if ((has_pattern || said.format) && !is_only_one)
        if (auto made = intersection(schema, said, std::move(own), path)) return *made;
    // If the keywords cannot be enforced together, one of them is: the pattern, otherwise the
    // format (which the specification does not require), otherwise the length.
    if (has_pattern)
        if (auto made = pattern_alone(said.pattern, path)) return *made;
    if (said.format) return strings_matching(out_, *said.format);
    return said.has_length() ? out_.string_of(said.least, said.most) : out_.string();
}

// Requires: the pattern parses.
std::optional<schema_strings::symbol> schema_strings::pattern_alone(const std::string& pattern,
                                                                    const std::string& path) {
    try {
        return strings_matching(out_, pattern);
    } catch (const unsupported_schema& error) {
        complaints_.give_up(path, "'pattern': " + std::string(error.what()));
        return std::nullopt;
    }
}

std::optional<parsed_pattern> schema_strings::parsed(const std::string& pattern,
                                                     const std::string& path) {
    try {
        memory_.budget().charge_steps(pattern.size());
        return parse_pattern(pattern);
    } catch (const unsupported_schema& error) {
        complaints_.give_up(path, error.what());
        return std::nullopt;
    }
}

std::optional<schema_strings::symbol> schema_strings::intersection(
    const json::object& schema, const description& said, std::vector<parsed_pattern> patterns,
    const std::string& path) {
    // Cannot throw unsupported_schema: formats are patterns of schema_parts.cpp.
    if (said.format) patterns.push_back(parse_pattern(*said.format));
    try {
        return strings_matching_all(out_, patterns, said.least, said.most);
    } catch (const unsupported_schema& error) {
        std::string keywords;
        for (const char* key : {"pattern", "format", "minLength", "maxLength"})
            if (schema.contains(key))
                keywords += (keywords.empty() ? "'" : ", '") + std::string(key) + "'";
        complaints_.give_up(path, keywords + " together: " + error.what());
        return std::nullopt;
    }
}

}  // namespace semantic::engine
