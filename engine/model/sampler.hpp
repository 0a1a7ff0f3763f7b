#pragma once
// Logits to a token. Pure: the same logits, parameters and position give the same token on any
// thread, in any batch.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/types/generation.hpp"

namespace semantic::engine {

class sampler {
  public:
    /// `seed` is the request's, or one drawn by the caller when it has none.
    sampler(const sampling_rules& rules, std::uint64_t seed, int vocabulary);

    /// Draws the token for absolute position `position`. temperature 0: the largest logit, lowest
    /// id on a tie. Otherwise softmax(logits / temperature), kept to top_k, then to the smallest
    /// set whose mass reaches top_p, then one draw from a counter-based generator keyed by (seed,
    /// position).
    token_id sample(std::span<const float> logits, std::uint64_t position);

  private:
    sampling_rules rules_;
    std::uint64_t seed_;
    std::vector<std::pair<float, token_id>> candidates_;  // scratch
};

}  // namespace semantic::engine
