// SPDX-License-Identifier: Apache-2.0
#pragma once
// A hash map from pairs of numbers to numbers, by open addressing, so that adding does not
// allocate: a matcher adds a dozen pairs for each byte of new text, and allocations would be most
// of its work.

#include <cstdint>
#include <utility>
#include <vector>

namespace semantic::engine {

class pair_index {
  public:
    /// Adds a pair with `number`, unless it is there. Returns: the pair's number, and whether it is
    /// new.
    std::pair<std::uint32_t, bool> add(std::uint32_t first, std::uint32_t second,
                                       std::uint32_t number) {
        if (count_ * 2 >= slots_.size()) grow();
        slot& at = find(slots_, first, second);
        if (at.used_in == round_) return {at.number, false};
        at = {first, second, number, round_};
        ++count_;
        return {number, true};
    }
    /// Removes all pairs in constant time, and keeps the memory: slots are valid only for the round
    /// in which they were written.
    void clear() {
        count_ = 0;
        if (++round_ != 0) return;
        slots_.assign(slots_.size(), slot{});
        round_ = 1;
    }
    std::size_t memory_bytes() const { return slots_.capacity() * sizeof(slot); }

  private:
    struct slot {
        std::uint32_t first = 0, second = 0, number = 0;
        std::uint32_t used_in = 0;  // the round; 0: none
    };

    // Fibonacci hashing: the upper half of a product depends on all bits of the pair.
    slot& find(std::vector<slot>& slots, std::uint32_t first, std::uint32_t second) const {
        const std::uint64_t key = static_cast<std::uint64_t>(first) << 32 | second;
        const std::size_t mask = slots.size() - 1;
        std::size_t i = (key * 0x9E3779B97F4A7C15u >> 32) & mask;
        while (slots[i].used_in == round_ && (slots[i].first != first || slots[i].second != second))
            i = (i + 1) & mask;
        return slots[i];
    }

    void grow() {
        std::vector<slot> larger(slots_.empty() ? 64 : slots_.size() * 2);
        for (const slot& each : slots_)
            if (each.used_in == round_) find(larger, each.first, each.second) = each;
        slots_ = std::move(larger);
    }

    std::vector<slot> slots_;  // a power of two, at most half of them used
    std::size_t count_ = 0;
    std::uint32_t round_ = 1;  // since the last clear()
};

}  // namespace semantic::engine
