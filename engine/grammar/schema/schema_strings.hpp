// SPDX-License-Identifier: Apache-2.0
#pragma once
// Strings as a schema's keywords describe them: 'pattern', 'format', 'minLength', 'maxLength'.
// Thread: one at a time.

#include <boost/json.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/grammar/schema_parts.hpp"
#include "engine/grammar/string_pattern.hpp"
#include "engine/grammar/values/growing_charge.hpp"

namespace semantic::engine {

class schema_strings {
  public:
    /// Both must outlive this.
    schema_strings(json_grammar& out, schema_complaints& complaints)
        : out_(out), complaints_(complaints), memory_(out.builder().budget()) {}

    /// Strings of `least` to `most` (< 0: any number of) characters. What was described before is
    /// not written again.
    grammar_builder::symbol matching(const boost::json::object& schema, int least, int most,
                                     const std::string& path);

  private:
    using symbol = grammar_builder::symbol;

    /// What a schema says of a string.
    struct description {
        std::string pattern;
        std::vector<std::string> further_patterns;  // of schemas that hold for the string too
        std::optional<std::string_view> format;
        int least = 0, most = -1;
        bool has_length() const { return least > 0 || most >= 0; }
        std::string name() const;
    };
    /// A symbol for the strings that fit all keywords, or as many as can be held together.
    symbol make_symbol(const boost::json::object& schema, const description& said,
                       const std::string& path);
    std::optional<symbol> pattern_alone(const std::string& pattern, const std::string& path);
    std::optional<parsed_pattern> parsed(const std::string& pattern, const std::string& path);
    /// Strings that fit all patterns, the format and the length.
    std::optional<symbol> intersection(const boost::json::object& schema, const description& said,
                                       std::vector<parsed_pattern> patterns,
                                       const std::string& path);

    json_grammar& out_;
    schema_complaints& complaints_;
    growing_charge memory_;
    std::map<std::string, symbol> known_;
};

}  // namespace semantic::engine
