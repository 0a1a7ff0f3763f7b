// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds where in a conversation its latest tokens came before: the tokens that followed there are
// likely to follow again, because agents copy what they were shown and repeat themselves. A hash
// table of runs of alike_least tokens, with a chain of earlier runs for each hash. A step costs one
// search and one indexing, both of bounded length. Owner: one sequence. Thread: one at a time.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/types/ids.hpp"

namespace semantic::engine {

class repeat_index {
  public:
    /// The fewest tokens of a match, and the most that are compared.
    static constexpr std::size_t alike_least = 3;
    static constexpr std::size_t alike_most = 64;
    /// Earlier positions that one search compares, the latest first.
    static constexpr int places_most = 32;
    /// Tokens that one call of add() indexes: 0.1 ms on a current core.
    static constexpr std::size_t added_most = 4096;
    /// Bounds of the table's size. With more tokens than slots, chains mix runs of several hashes.
    static constexpr std::size_t slots_least = 1024;
    static constexpr std::size_t slots_most = std::size_t{1} << 18;

    struct match {
        std::size_t alike = 0;  // tokens of the match; 0: none was found
        std::size_t end = 0;    // index of the token that followed the earlier run
    };

    /// `tokens_expected`: sizes the table. More tokens make searches longer, up to their bound.
    explicit repeat_index(std::size_t tokens_expected);

    /// Indexes the new tokens of `tokens`, at most added_most of them. Requires: `tokens` begins
    /// with those of the call before.
    void add(std::span<const storage::token_id> tokens);
    /// Returns: the longest match of the end of `tokens` with an earlier, indexed part; the latest
    /// of several. Requires: add() was called with the same `tokens`.
    match find(std::span<const storage::token_id> tokens) const;
    std::size_t memory_bytes() const noexcept;
    /// Upper bound of memory_bytes() for a sequence of so many tokens.
    static constexpr std::size_t bytes_max(std::size_t tokens) noexcept {
        return (count_slots(tokens) + tokens) * sizeof(std::uint32_t);
    }

  private:
    static constexpr std::size_t count_slots(std::size_t tokens) noexcept {
        return std::bit_ceil(std::clamp(tokens, slots_least, slots_most));
    }
    /// The slot in latest_ of the run of alike_least tokens that begins at `tokens`.
    std::size_t slot_of(const storage::token_id* tokens) const noexcept;
    // A run is named by its end, the index after its last token; 0: no run.
    std::vector<std::uint32_t> latest_;   // by hash: the end of the latest run
    std::vector<std::uint32_t> earlier_;  // by end of a run: that of the run before, same hash
};

/// Returns: the `count` tokens that follow the earlier run of `found`. If `tokens` ends before so
/// many, they are repeated from their start. Requires: found.alike > 0.
std::vector<storage::token_id> continue_from(std::span<const storage::token_id> tokens,
                                             const repeat_index::match& found, std::size_t count);

}  // namespace semantic::engine
