// SPDX-License-Identifier: Apache-2.0
#pragma once
// Walks through a grammar: whatever has been written to it, something may follow or it is whole.

#include <cstddef>
#include <memory>
#include <string_view>

#include "engine/grammar/grammar_matcher.hpp"
#include "storage/types/assert.hpp"

namespace semantic::fuzz {

/// `bytes_max` bytes that may follow each other, chosen by `choices`, which is not empty. Throws
/// grammar_too_large.
inline void walk(const std::shared_ptr<const engine::grammar>& rules, std::string_view choices,
                 std::size_t bytes_max) {
    using engine::grammar_matcher;
    grammar_matcher matcher(rules);
    auto at = matcher.start();
    for (std::size_t i = 0; i < bytes_max; ++i) {
        if (!matcher.goes_on(at)) {
            ASSERT(matcher.accepts(at));
            return;
        }
        const auto first = static_cast<unsigned char>(choices[i % choices.size()]);
        auto next = grammar_matcher::dead;
        for (unsigned tried = 0; tried < 256 && next == grammar_matcher::dead; ++tried)
            next = matcher.step(at, static_cast<unsigned char>(first + tried));
        ASSERT(next != grammar_matcher::dead);
        at = next;
    }
}

}  // namespace semantic::fuzz
