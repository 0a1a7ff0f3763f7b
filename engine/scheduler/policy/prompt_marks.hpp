// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts quickly how many tokens two prompts have in common from the start. Each prompt has a chain
// of hashes, one every `grain` tokens, so a comparison looks at a few hashes and fewer than `grain`
// tokens. Pure. Colliding hashes give a count that is too large: then a request waits in vain. Code
// that shares KV compares the tokens themselves.

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

    /// `own`, `others`: the tokens that this object and `other` were made from. Returns: how many
    /// of them are the same from the start; 0 if fewer than `grain` are.
    int count_common(std::span<const storage::token_id> own, const prompt_marks& other,
                     std::span<const storage::token_id> others) const;

  private:
    std::vector<std::uint64_t> hashes_;  // [i] of the first (i + 1) * grain tokens
};

}  // namespace semantic::engine
