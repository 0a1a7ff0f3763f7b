// SPDX-License-Identifier: Apache-2.0
#pragma once
// Byte-pair encoding: merges the symbols of one piece of text by rules, in O(n log n) of its
// length. Immutable after build; safe from any thread.

#include <cstdint>
#include <string_view>
#include <vector>

#include "storage/types/ids.hpp"

namespace semantic::engine {

struct bpe_symbol {
    storage::token_id id;
    std::uint32_t length;  // bytes of the piece that it spells
};

class bpe_merges {
  public:
    struct rule {
        storage::token_id left, right, merged;
    };
    bpe_merges() = default;
    /// `rules`: in order of rank; the first is applied first. Of equal pairs the last rule counts.
    explicit bpe_merges(const std::vector<rule>& rules);

    /// Buffers for apply(), to be reused.
    struct scratch {
        struct node {
            bpe_symbol symbol;
            std::int32_t previous, next;  // indexes; -1: none
        };
        struct candidate {
            std::uint32_t rank;
            std::int32_t at;  // the left one of the two nodes
            storage::token_id merged;
        };
        std::vector<node> nodes;
        std::vector<candidate> heap;
    };
    /// Merges `symbols` in place until no rule applies: lowest rank first, leftmost first.
    void apply(std::vector<bpe_symbol>& symbols, scratch& work) const;

  private:
    struct slot {
        std::uint64_t pair = empty_pair;
        std::uint32_t rank = 0;
        storage::token_id merged = 0;
    };
    static constexpr std::uint64_t empty_pair = ~std::uint64_t{0};
    const slot* find(storage::token_id left, storage::token_id right) const noexcept;
    slot& place(std::uint64_t pair) noexcept;
    /// Adds the merge of node `at` with its next node to the heap, if there is a rule for it.
    void offer(scratch& work, std::int32_t at) const;

    std::vector<slot> table_;  // open addressing, a power of two, at most half full
    std::uint64_t mask_ = 0;
};

}  // namespace semantic::engine
