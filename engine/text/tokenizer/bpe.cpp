// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer/bpe.hpp"

#include <algorithm>

namespace semantic::engine {

using storage::token_id;

namespace {

std::uint64_t pair_of(token_id left, token_id right) noexcept {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
           static_cast<std::uint32_t>(right);
}

/// A multiplicative hash: the pairs of neighbouring ids fall far apart.
std::uint64_t spread(std::uint64_t x) noexcept {
    x *= 0x9E3779B97F4A7C15ULL;
    return x ^ (x >> 29);
}

/// Heap order: the candidate to take first is the greatest.
bool comes_later(const bpe_merges::scratch::candidate& a,
                 const bpe_merges::scratch::candidate& b) noexcept {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

}  // namespace

bpe_merges::bpe_merges(const std::vector<rule>& rules) {
    std::size_t slots = 16;
    while (slots < rules.size() * 2) slots *= 2;
    table_.resize(slots);
    mask_ = slots - 1;
    for (std::size_t i = 0; i < rules.size(); ++i) {
        const std::uint64_t pair = pair_of(rules[i].left, rules[i].right);
        place(pair) = {pair, static_cast<std::uint32_t>(i), rules[i].merged};
    }
}

bpe_merges::slot& bpe_merges::place(std::uint64_t pair) noexcept {
    std::uint64_t at = spread(pair) & mask_;
    while (table_[at].pair != empty_pair && table_[at].pair != pair) at = (at + 1) & mask_;
    return table_[at];
}

const bpe_merges::slot* bpe_merges::find(token_id left, token_id right) const noexcept {
    const std::uint64_t pair = pair_of(left, right);
    for (std::uint64_t at = spread(pair) & mask_;; at = (at + 1) & mask_) {
        if (table_[at].pair == pair) return &table_[at];
        if (table_[at].pair == empty_pair) return nullptr;
    }
}

void bpe_merges::offer(scratch& work, std::int32_t at) const {
    if (at < 0) return;
    const auto& left = work.nodes[static_cast<std::size_t>(at)];
    if (left.next < 0) return;
    const auto& right = work.nodes[static_cast<std::size_t>(left.next)];
    if (const slot* found = find(left.symbol.id, right.symbol.id)) {
        work.heap.push_back({found->rank, at, found->merged});
        std::push_heap(work.heap.begin(), work.heap.end(), comes_later);
    }
}

void bpe_merges::apply(std::vector<bpe_symbol>& symbols, scratch& work) const {
    if (symbols.size() < 2 || table_.empty()) return;
    work.nodes.clear();
    work.heap.clear();
    const auto count = static_cast<std::int32_t>(symbols.size());
    for (std::int32_t i = 0; i < count; ++i) {
        work.nodes.push_back(
            {symbols[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
    }
    for (std::int32_t i = 0; i + 1 < count; ++i) offer(work, i);
    while (!work.heap.empty()) {
        std::pop_heap(work.heap.begin(), work.heap.end(), comes_later);
        const scratch::candidate top = work.heap.back();
        work.heap.pop_back();
        auto& left = work.nodes[static_cast<std::size_t>(top.at)];
        // Merged into its left neighbour, or the last one by now.
        if (left.symbol.length == 0 || left.next < 0) continue;
        auto& right = work.nodes[static_cast<std::size_t>(left.next)];
        // A neighbour may have been merged since the candidate was added: then it is skipped.
        const slot* now = find(left.symbol.id, right.symbol.id);
        if (now == nullptr || now->merged != top.merged) continue;
        left.symbol = {top.merged, left.symbol.length + right.symbol.length};
        right.symbol.length = 0;
        left.next = right.next;
        if (right.next >= 0) work.nodes[static_cast<std::size_t>(right.next)].previous = top.at;
        offer(work, left.previous);
        offer(work, top.at);
    }
    symbols.clear();
    for (std::int32_t i = 0; i >= 0; i = work.nodes[static_cast<std::size_t>(i)].next) {
        symbols.push_back(work.nodes[static_cast<std::size_t>(i)].symbol);
    }
}

}  // namespace semantic::engine
