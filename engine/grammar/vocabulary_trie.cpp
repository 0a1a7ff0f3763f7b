// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/vocabulary_trie.hpp"

#include <algorithm>
#include <string_view>

namespace semantic::engine {

namespace {

using word = std::pair<std::string_view, token_id>;

// Makes a trie of the words, with nodes in preorder: a node's subtree is [its index, end), and its
// tokens are those from its first_token to the next node's. A last node of depth 0 ends the tokens
// of the node before it.
vocabulary_trie::part trie_of(const std::vector<word>& sorted) {
    vocabulary_trie::part made;
    auto& nodes = made.nodes;
    std::vector<std::uint32_t> open;  // nodes on the way to the token before
    auto close_to = [&](std::size_t depth) {
        for (; open.size() > depth; open.pop_back())
            nodes[open.back()].end = static_cast<std::uint32_t>(nodes.size());
    };
    std::string_view before;
    for (const auto& [bytes, id] : sorted) {
        auto differs =
            std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end()).first;
        auto shared = static_cast<std::size_t>(differs - before.begin());
        close_to(shared);
        for (std::size_t depth = shared; depth < bytes.size(); ++depth) {
            open.push_back(static_cast<std::uint32_t>(nodes.size()));
            nodes.push_back({.end = 0,  // until close_to()
                             .first_token = static_cast<std::uint32_t>(made.tokens.size()),
                             .depth = static_cast<std::uint16_t>(depth + 1),
                             .byte = static_cast<unsigned char>(bytes[depth])});
        }
        made.tokens.push_back(id);
        before = bytes;
    }
    close_to(0);
    nodes.push_back({.end = static_cast<std::uint32_t>(nodes.size() + 1),
                     .first_token = static_cast<std::uint32_t>(made.tokens.size()),
                     .depth = 0,
                     .byte = 0});
    return made;
}

}  // namespace

vocabulary_trie::vocabulary_trie(const tokenizer& words) {
    std::vector<word> sorted, sorted_long;
    for (token_id id = 0; id < words.vocabulary(); ++id)
        if (std::string_view bytes = words.bytes(id); !bytes.empty() && !words.is_special(id))
            (bytes.size() > short_bytes_max ? sorted_long : sorted).emplace_back(bytes, id);
    std::sort(sorted.begin(), sorted.end());
    std::sort(sorted_long.begin(), sorted_long.end());
    short_words = trie_of(sorted);
    long_words = trie_of(sorted_long);
}

}  // namespace semantic::engine
