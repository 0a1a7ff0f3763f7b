// SPDX-License-Identifier: Apache-2.0
#pragma once
// Splits a template's source into tokens. Removes white space around tags by Hugging Face's
// settings of Jinja: trim_blocks and lstrip_blocks are on, and a line break at the very end is
// dropped.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/jinja/values/budget.hpp"

namespace semantic::engine::jinja {

enum class token_kind {
    data,            // text between tags
    variable_begin,  // {{
    variable_end,    // }}
    block_begin,     // {%
    block_end,       // %}
    name,
    text,
    integer,
    real,
    op,
    end,
};

struct token {
    token_kind kind = token_kind::end;
    std::string text{};  // of data, names, texts with escapes resolved, operators
    std::int64_t integer = 0;
    double real = 0;
    position at{};

    bool is_op(std::string_view spelling) const {
        return kind == token_kind::op && text == spelling;
    }
    bool is_name(std::string_view name) const { return kind == token_kind::name && text == name; }
};

/// The last token is `end`. Throws stopped.
std::vector<token> tokenize(std::string_view source);

}  // namespace semantic::engine::jinja
