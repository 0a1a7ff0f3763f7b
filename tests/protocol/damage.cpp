// SPDX-License-Identifier: Apache-2.0
#include "tests/protocol/damage.hpp"

#include <array>

namespace semantic::protocol {

namespace {

const std::array<std::string, 24> pieces{"null",
                                         "true",
                                         "-1",
                                         "1e999",
                                         "\"\"",
                                         "[]",
                                         "{}",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         ",",
                                         ":",
                                         "\"",
                                         "\\u0000",
                                         "\\ud800",
                                         "\xff",
                                         "\"type\"",
                                         "\"tool_use\"",
                                         "\"image\"",
                                         "99999999999999999999",
                                         "0.1",
                                         "\"role\"",
                                         " "};

}  // namespace

void damage(std::string& body, std::mt19937& random) {
    auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
    if (body.empty()) body.push_back('x');
    std::size_t at = below(body.size());
    switch (below(6)) {
        case 0:
            body[at] = static_cast<char>(below(256));
            break;
        case 1:
            body.erase(at, 1 + below(8));
            break;
        case 2:
            body.insert(at, pieces[below(pieces.size())]);
            break;
        case 3:
            body.resize(at);
            break;
        case 4:
            body.insert(at, body.substr(below(body.size()), 1 + below(24)));
            break;
        case 5: {
            // A whole token replaced: the result is often still valid JSON of another shape.
            std::size_t end = body.find_first_of(",:]}", at);
            if (end == std::string::npos) end = body.size();
            body.replace(at, end - at, pieces[below(pieces.size())]);
            break;
        }
    }
}

std::string with_value_replaced(const std::string& body, std::mt19937& random) {
    static const std::array<std::string, 8> values{"null",  "true", "-1", "0.5",
                                                   "\"x\"", "[]",   "{}", "[{}]"};
    std::string damaged = body;
    std::size_t colon = damaged.find("\":", random() % damaged.size());
    if (colon == std::string::npos) return damaged;
    std::size_t start = colon + 2;
    std::size_t end = start;
    int depth = 0;
    bool in_string = false;
    for (; end < damaged.size(); ++end) {
        char c = damaged[end];
        if (in_string) {
            if (c == '\\')
                ++end;
            else if (c == '"')
                in_string = false;
            continue;
        }
        if (c == '"')
            in_string = true;
        else if (c == '[' || c == '{')
            ++depth;
        else if ((c == ']' || c == '}') && --depth < 0)
            break;
        else if (c == ',' && depth == 0)
            break;
    }
    return damaged.replace(start, end - start, values[random() % values.size()]);
}

}  // namespace semantic::protocol
