// SPDX-License-Identifier: Apache-2.0
#pragma once
// The vocabulary's tokens by their bytes, so that all those that a grammar lets through are found
// in one walk. Immutable after construction; safe to share between threads.

#include <cstdint>
#include <vector>

#include "engine/text/tokenizer/tokenizer.hpp"

namespace semantic::engine {

struct vocabulary_trie {
    /// Above nearly all words of any vocabulary; the few longer ones (rows of blanks or dashes) are
    /// apart, so that what is said of the others need not look as far ahead.
    static constexpr std::size_t short_bytes_max = 16;

    struct node {
        std::uint32_t end;          // end of the nodes below this one
        std::uint32_t first_token;  // into tokens; this node's are those before the next node's
        std::uint16_t depth;        // bytes from the root, 1 for its children
        unsigned char byte;
    };
    /// Nodes in depth-first order, children by byte. A node's subtree ends where `end` says.
    struct part {
        std::vector<node> nodes;       // without the root; one sentinel at the end
        std::vector<token_id> tokens;  // special tokens and those without bytes are left out
    };
    part short_words, long_words;

    explicit vocabulary_trie(const tokenizer& words);
};

}  // namespace semantic::engine
