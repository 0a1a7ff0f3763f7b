// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/forms/text_up_to.hpp"

#include <map>
#include <string>
#include <vector>

namespace semantic::engine {

using symbol = grammar_builder::symbol;

// The automaton of Knuth, Morris and Pratt, which finds the first mark, with a rule for each state:
// the number of the mark's bytes that the text so far ends with.
symbol text_up_to(grammar_builder& out, std::string_view mark, symbol rest, bool may_end) {
    std::vector<symbol> states;
    for (std::size_t i = 0; i < mark.size(); ++i) states.push_back(out.new_rule());
    for (std::size_t state = 0; state < mark.size(); ++state) {
        std::map<std::size_t, byte_set> ways;  // key: the next state
        for (int byte = 0; byte < 256; ++byte) {
            std::string seen(mark.substr(0, state));
            seen += static_cast<char>(byte);
            std::size_t next = seen.size();
            while (!mark.starts_with(std::string_view(seen).substr(seen.size() - next))) --next;
            ways[next].set(static_cast<std::size_t>(byte));
        }
        if (may_end) out.add(states[state], {});
        for (const auto& [next, bytes] : ways)
            out.add(states[state], {out.bytes(bytes), next < mark.size() ? states[next] : rest});
    }
    return states[0];
}

}  // namespace semantic::engine
