// SPDX-License-Identifier: Apache-2.0
#pragma once
// The vocabulary's tokens by their bytes, so that all those that a grammar lets through are found
// in one walk. Immutable after construction; safe to share between threads.

#include <cstdint>
#include <vector>

#include "engine/text/tokenizer/tokenizer.hpp"

namespace semantic::engine {

struct vocabulary_trie {
    /// Nearly all words of any vocabulary are at most so long. The few longer ones (rows of blanks
    /// or dashes) have a trie of their own, so that a mask for the others depends on fewer bytes
    /// ahead.
    static constexpr std::size_t short_bytes_max = 16;

    struct node {
        std::uint32_t end;          // index after the last node of this one's subtree
        std::uint32_t first_token;  // index in `tokens`; this node's end at the next node's first
        std::uint16_t depth;        // bytes from the root; 1 for the root's children
        unsigned char byte;
    };
    /// A trie: nodes in preorder, children in order of their bytes.
    struct part {
        std::vector<node> nodes;       // without the root; one sentinel at the end
        std::vector<token_id> tokens;  // special tokens and those without bytes are left out
    };
    part short_words, long_words;

    explicit vocabulary_trie(const tokenizer& words);
};

}  // namespace semantic::engine
