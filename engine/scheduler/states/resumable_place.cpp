// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/states/resumable_place.hpp"

#include <algorithm>
#include <cstddef>

namespace semantic::engine {

int find_resumable(const storage::agent_state& memory, std::span<const storage::token_id> tokens) {
    const auto parting = std::ranges::mismatch(memory.tokens, tokens).in1;
    const auto common = static_cast<std::size_t>(parting - memory.tokens.begin());
    const std::size_t most = tokens.empty() ? 0 : tokens.size() - 1;
    const std::size_t count = storage::count_kept_within(memory.states, std::min(common, most));
    return count == 0 ? 0 : static_cast<int>(memory.states[count - 1].tokens);
}

}  // namespace semantic::engine
