#pragma once
// From pairs of numbers to numbers, by open addressing: a matcher looks up and adds a dozen for
// each byte of a text that it has not seen the like of, and an allocation for each would be most
// of its work.

#include <cstdint>
#include <utility>
#include <vector>

namespace semantic::engine {

class pair_index {
  public:
    /// Returns: the number of this pair, and whether it is new; then it is `number`.
    std::pair<std::uint32_t, bool> add(std::uint32_t first, std::uint32_t second,
                                       std::uint32_t number) {
        if (count_ * 2 >= slots_.size()) grow();
        slot& at = find(slots_, first, second);
        if (at.used) return {at.number, false};
        at = {first, second, number, true};
        ++count_;
        return {number, true};
    }
    /// Keeps its room.
    void clear() {
        if (count_ != 0) slots_.assign(slots_.size(), slot{});
        count_ = 0;
    }

  private:
    struct slot {
        std::uint32_t first = 0, second = 0, number = 0;
        bool used = false;
    };

    // Fibonacci hashing: the upper half of a product depends on all bits of the pair.
    static slot& find(std::vector<slot>& in, std::uint32_t first, std::uint32_t second) {
        const std::uint64_t key = static_cast<std::uint64_t>(first) << 32 | second;
        const std::size_t mask = in.size() - 1;
        std::size_t i = (key * 0x9E3779B97F4A7C15u >> 32) & mask;
        while (in[i].used && (in[i].first != first || in[i].second != second)) i = (i + 1) & mask;
        return in[i];
    }

    void grow() {
        std::vector<slot> larger(slots_.empty() ? 64 : slots_.size() * 2);
        for (const slot& each : slots_)
            if (each.used) find(larger, each.first, each.second) = each;
        slots_ = std::move(larger);
    }

    std::vector<slot> slots_;  // a power of two, at most half of them used
    std::size_t count_ = 0;
};

}  // namespace semantic::engine
