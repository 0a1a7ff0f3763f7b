// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers drawn from random logits, held to a grammar: whatever a model would rather say.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/grammar/output_constraint.hpp"

namespace semantic::tests {

inline const engine::tokenizer& words() {
    static const engine::tokenizer made =
        *engine::tokenizer::load(std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny");
    return made;
}

/// The text after an answer that did not come to an end.
constexpr const char* goes_on = " and so on";

/// The likeliest token of random logits, time after time; ends at the stop token.
inline std::string drawn(const std::shared_ptr<const engine::grammar>& rules, std::mt19937& random,
                         const engine::tokenizer& vocabulary = words()) {
    const engine::vocabulary_trie trie(vocabulary);
    const std::vector<engine::token_id> stops{vocabulary.find("<|im_end|>")};
    engine::output_constraint constraint(rules, vocabulary, trie, stops);
    std::vector<float> logits(static_cast<std::size_t>(vocabulary.vocabulary()));
    std::string text;
    for (int i = 0; i < 600; ++i) {
        for (float& logit : logits) logit = std::normal_distribution<float>()(random);
        // So that strings and lists end some time.
        logits[static_cast<std::size_t>(stops[0])] = 9.0f;
        for (const char* close : {"\"", "}", "]", ")", "</tool_call>", "\"}", "<escape>", "<|\"|>"})
            if (engine::token_id id = vocabulary.find(close); id >= 0 && i > 40)
                logits[static_cast<std::size_t>(id)] = 5.0f;
        auto masked = constraint.masked(logits);
        if (masked.empty()) return text + " and nothing may follow";
        auto best = static_cast<engine::token_id>(std::max_element(masked.begin(), masked.end()) -
                                                  masked.begin());
        EXPECT_TRUE(constraint.allows(best));
        constraint.take(best);
        if (best == stops[0]) return text;
        text += vocabulary.bytes(best);
    }
    return text + goes_on;
}

}  // namespace semantic::tests
