// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes prompts of a wanted length from words drawn by a seed, so that two runs send the same text;
// a text that the server must not know yet begins with a nonce. Pure.

#include <cstddef>
#include <cstdint>
#include <string>

namespace semantic::bench {

/// `word_count` plain English words in sentences of twelve, the same for the same seed.
std::string words(std::uint64_t seed, std::size_t word_count);

/// The value as 16 hexadecimal digits.
std::string hex_id(std::uint64_t value);

/// A text that no server has seen: `nonce` at the very front, so that no prefix of it can be
/// reused, then `word_count` words.
std::string cold_prompt(std::uint64_t nonce, std::uint64_t seed, std::size_t word_count);

/// How many words make how many tokens with one server's tokenizer and chat template.
struct token_ruler {
    double tokens_fixed = 0;  // template and nonce
    double tokens_per_word = 1;

    /// The ruler through two measured prompts. Requires: words_a != words_b.
    static token_ruler through(std::size_t words_a, std::int64_t tokens_a, std::size_t words_b,
                               std::int64_t tokens_b);
    /// Returns: how many words bring a cold prompt to about `tokens`; at least 1.
    std::size_t words_for(std::int64_t tokens) const;
    /// Returns: how many words make about `tokens` more in a later turn.
    std::size_t words_for_turn(std::int64_t tokens) const;
};

}  // namespace semantic::bench
