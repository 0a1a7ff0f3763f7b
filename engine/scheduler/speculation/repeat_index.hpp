// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where in a conversation its latest tokens came before: what followed there is likely to follow
// again. Agents copy what they were shown, and repeat themselves. Costs some 12 bytes a token, and
// in each step a search and an indexing of bounded length. Owner: one sequence. Thread: one at a
// time.

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
    /// So many tokens have to be alike at least, and are compared at most.
    static constexpr std::size_t alike_least = 3;
    static constexpr std::size_t alike_most = 64;
    /// Earlier places that one search compares, the latest first.
    static constexpr int places_most = 32;
    /// Tokens that one call of add() indexes: 0.1 ms on a current core.
    static constexpr std::size_t added_most = 4096;
    /// Slots of the table: with more tokens searches come to other runs of the same hash.
    static constexpr std::size_t slots_least = 1024;
    static constexpr std::size_t slots_most = std::size_t{1} << 18;

    struct match {
        std::size_t alike = 0;  // tokens before both places; 0: there is no such place
        std::size_t end = 0;    // the index of the token that followed the earlier place
    };

    /// `tokens_expected`: sizes the table. More tokens make searches longer, up to their bound.
    explicit repeat_index(std::size_t tokens_expected);

    /// Indexes what is new in `tokens`, the first added_most of it. Requires: `tokens` begins with
    /// those of the call before.
    void add(std::span<const storage::token_id> tokens);
    /// Of the earlier places that are indexed, the one that has most alike with the end of
    /// `tokens`; the latest of several. Requires: `tokens` is what add() was last called with.
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
    std::size_t place_of(const storage::token_id* tokens) const noexcept;

    // Ends of runs of alike_least tokens: the latest with a hash, and before each end the one with
    // the same hash; 0: none.
    std::vector<std::uint32_t> latest_;
    std::vector<std::uint32_t> earlier_;
};

/// The `count` tokens that follow the earlier place of `found`. Where these run into the end of
/// `tokens`, the repetition goes on with itself. Requires: found.alike > 0.
std::vector<storage::token_id> continue_from(std::span<const storage::token_id> tokens,
                                             const repeat_index::match& found, std::size_t count);

}  // namespace semantic::engine
