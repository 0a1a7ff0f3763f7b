// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts quickly with how many tokens two prompts begin alike: a chain of hashes is kept of each
// prompt, so that a comparison looks at a few of them and at less than `grain` tokens. Pure. A
// collision makes a request wait in vain; code that shares KV compares the tokens themselves.

#include <cstdint>
#include <span>
#include <vector>

#include "storage/types/ids.hpp"

namespace semantic::engine {

class prompt_marks {
  public:
    /// Tokens from one hash to the next.
    static constexpr int grain = 64;

    prompt_marks() = default;
    explicit prompt_marks(std::span<const storage::token_id> tokens);

    /// `own`, `others`: the tokens that the two were made of. Returns: how many of them are the
    /// same from the start on; 0 where they are less than `grain`.
    int count_common(std::span<const storage::token_id> own, const prompt_marks& other,
                     std::span<const storage::token_id> others) const;

  private:
    std::vector<std::uint64_t> hashes_;  // [i] of the first (i + 1) * grain tokens
};

}  // namespace semantic::engine
