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
};

/// Made once; what they share is loaded here.
std::vector<parser> parsers();

}  // namespace semantic::cost
