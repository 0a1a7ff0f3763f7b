// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every parser and compiler that a request reaches, each with the language of its inputs.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cost/languages.hpp"

namespace semantic::cost {

struct parser {
    std::string name;
    const language* inputs;
    /// Returns: whether the text was taken.
    std::function<bool(std::string_view)> parse;
    /// What it is given in place of a text, and measured on; absent: the text itself.
    std::function<std::string(std::string_view)> pack{};
};

/// Made once; what they share is loaded here.
std::vector<parser> parsers();
/// Adds those of what clients of late 2026 send, and of compressed bodies.
void add_late_parsers(std::vector<parser>& all);

}  // namespace semantic::cost
