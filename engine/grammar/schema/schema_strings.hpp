// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes the strings that a schema's keywords 'pattern', 'format', 'minLength' and 'maxLength'
// describe. Thread: one at a time.

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

    /// JSON strings of `least` to `most` (< 0: any number of) characters that satisfy the schema.
    /// Equal descriptions share a rule.
    grammar_builder::symbol matching(const boost::json::object& schema, int least, int most,
                                     const std::string& path);

  private:
    using symbol = grammar_builder::symbol;

    /// The keywords of a schema about strings.
    struct description {
        std::string pattern;
        std::vector<std::string> further_patterns;  // from schemas that were merged
        std::optional<std::string_view> format;
        int least = 0, most = -1;
        bool has_length() const { return least > 0 || most >= 0; }
        std::string name() const;
    };
    /// The strings that satisfy all keywords, or as many of these as can be enforced together.
    symbol make_symbol(const boost::json::object& schema, const description& said,
                       const std::string& path);
    /// The strings of one pattern; nothing, with a complaint, if it is not supported.
    std::optional<symbol> pattern_alone(const std::string& pattern, const std::string& path);
    std::optional<parsed_pattern> parsed(const std::string& pattern, const std::string& path);
    /// The strings that satisfy all patterns, the format and the length; nothing, with a complaint,
    /// if that is too much.
    std::optional<symbol> intersection(const boost::json::object& schema, const description& said,
                                       std::vector<parsed_pattern> patterns,
                                       const std::string& path);

    json_grammar& out_;
    schema_complaints& complaints_;
    growing_charge memory_;
    std::map<std::string, symbol> known_;
};

}  // namespace semantic::engine
