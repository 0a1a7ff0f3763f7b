// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/measure/prompts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "storage/types/hex.hpp"

namespace semantic::bench {
namespace {

constexpr std::array<std::string_view, 96> vocabulary{
    "apple",  "water",  "light",  "stone",  "river",  "house",   "green",   "small",   "table",
    "paper",  "cloud",  "music",  "train",  "night",  "field",   "glass",   "horse",   "island",
    "letter", "market", "number", "orange", "people", "quiet",   "road",    "silver",  "time",
    "under",  "valley", "window", "yellow", "animal", "bridge",  "circle",  "dinner",  "engine",
    "family", "garden", "hammer", "iron",   "jacket", "kitchen", "ladder",  "mirror",  "needle",
    "office", "pencil", "rabbit", "school", "ticket", "uncle",   "village", "winter",  "yard",
    "and",    "but",    "with",   "from",   "over",   "after",   "before",  "between", "because",
    "long",   "short",  "early",  "late",   "warm",   "cold",    "old",     "new",     "same",
    "other",  "every",  "some",   "many",   "goes",   "comes",   "takes",   "gives",   "finds",
    "keeps",  "makes",  "opens",  "reads",  "sees",   "tells",   "walks",   "works",   "writes",
    "here",   "there",  "today",  "never",  "often",  "soon"};

constexpr std::size_t sentence_words = 12;

/// splitmix64: small, seeded and the same everywhere, unlike the distributions of <random>.
std::uint64_t next_random(std::uint64_t& state) {
    std::uint64_t z = (state += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
}

std::size_t rounded_words(double count) {
    return static_cast<std::size_t>(std::max(1.0, std::round(count)));
}

}  // namespace

std::string words(std::uint64_t seed, std::size_t word_count) {
    std::string text;
    text.reserve(word_count * 7);
    for (std::size_t i = 0; i < word_count; ++i) {
        if (i > 0) text += i % sentence_words == 0 ? ". " : " ";
        text += vocabulary[next_random(seed) % vocabulary.size()];
    }
    return text += '.';
}

std::string hex_id(std::uint64_t value) { return storage::hex_of(value); }

std::string cold_prompt(std::uint64_t nonce, std::uint64_t seed, std::size_t word_count) {
    return hex_id(nonce) + " " + words(seed, word_count);
}

token_ruler token_ruler::through(std::size_t words_a, std::int64_t tokens_a, std::size_t words_b,
                                 std::int64_t tokens_b) {
    const double slope = static_cast<double>(tokens_b - tokens_a) /
                         (static_cast<double>(words_b) - static_cast<double>(words_a));
    // At least a little, so that a server with senseless counts causes no division by zero.
    const double per_word = std::max(slope, 0.01);
    return {static_cast<double>(tokens_a) - per_word * static_cast<double>(words_a), per_word};
}

std::size_t token_ruler::words_for(std::int64_t tokens) const {
    return rounded_words((static_cast<double>(tokens) - tokens_fixed) / tokens_per_word);
}

std::size_t token_ruler::words_for_turn(std::int64_t tokens) const {
    return rounded_words(static_cast<double>(tokens) / tokens_per_word);
}

}  // namespace semantic::bench
