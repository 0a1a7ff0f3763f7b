// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/policy/tier_policy.hpp"

#include <algorithm>

namespace semantic::storage {

namespace {

// The context length at which attention costs a prefill as much as the weights do. Computing n
// tokens costs about n · (1 + n / this), and their KV takes bytes in proportion to n. So the factor
// in brackets is the cost per byte. Models differ, but they hardly differ in the order that
// results.
constexpr double attention_equals_weights_tokens = 8192;

}  // namespace

double dispensability(std::chrono::system_clock::duration unused_for, std::size_t token_count) {
    const double seconds = std::max(0.0, std::chrono::duration<double>(unused_for).count());
    return seconds / (1 + static_cast<double>(token_count) / attention_equals_weights_tokens);
}

}  // namespace semantic::storage
