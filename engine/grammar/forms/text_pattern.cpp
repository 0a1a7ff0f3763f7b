// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/forms/text_pattern.hpp"

#include <vector>

#include "engine/grammar/forms/code_points.hpp"
#include "engine/grammar/string_pattern.hpp"

namespace semantic::engine {

namespace {

using symbol = grammar_builder::symbol;
using sequence = grammar_builder::sequence;

symbol one_of(grammar_builder& out, const char_set& set) {
    std::vector<code_range> ranges;
    for (std::uint32_t c = 0; c < 128; ++c)
        if (set.ascii.test(c)) ranges.push_back({c, c});
    if (set.others) ranges.push_back({128, code_point_max});
    return one_character_of(out, std::move(ranges));
}

// The rules of a part of an expression. Recursion is as deep as its groups, which the parser
// limits.
sequence written(grammar_builder& out, const pattern_node& node) {
    switch (node.type) {
        case pattern_node::kind::set:
            return {one_of(out, node.set)};
        case pattern_node::kind::text:
            return out.literal(node.text);
        case pattern_node::kind::repeat:
            return {out.repeat(written(out, node.parts[0]), node.least, node.most)};
        case pattern_node::kind::choice: {
            std::vector<sequence> ways;
            for (const pattern_node& part : node.parts) ways.push_back(written(out, part));
            return {out.any_of(std::move(ways))};
        }
        case pattern_node::kind::sequence:
            break;
    }
    sequence all;
    for (const pattern_node& part : node.parts) all = std::move(all) + written(out, part);
    return all;
}

}  // namespace

symbol texts_matching(grammar_builder& out, std::string_view pattern) {
    out.budget().charge_steps(pattern.size());
    const storage::charged_bytes of_nodes(out.budget(), pattern.size() * pattern_node_bytes);
    const parsed_pattern parsed = parse_pattern(pattern);
    // An expression describes the whole text, so its anchors add nothing.
    std::vector<sequence> ways;
    for (const pattern_alternative& one : parsed) {
        if (!one.conditions.empty())
            throw unsupported_schema(
                "'(?=' and '(?!' are not supported in the expression of a text");
        ways.push_back(written(out, one.body));
    }
    return out.any_of(std::move(ways));
}

}  // namespace semantic::engine
