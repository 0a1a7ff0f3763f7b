#pragma once
// Where in a conversation its latest tokens came before: what followed there is likely to follow
// again. Agents copy what they were shown, and repeat themselves. Costs some 12 bytes a token, and
// a search of bounded length a step. Owner: one sequence. Thread: one at a time.

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

    struct match {
        std::size_t alike = 0;  // tokens before both places; 0: there is no such place
        std::size_t end = 0;    // the index of the token that followed the earlier place
    };

    /// `tokens_expected`: sizes the table. More tokens make searches longer, up to their bound.
    explicit repeat_index(std::size_t tokens_expected);

    /// Of the earlier places, the one that has most alike with the end of `tokens`; the latest of
    /// several. Requires: `tokens` begins with those of the call before.
    match find(std::span<const storage::token_id> tokens);
    std::size_t memory_bytes() const noexcept;

  private:
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
