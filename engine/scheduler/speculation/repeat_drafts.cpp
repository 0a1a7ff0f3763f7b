// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/speculation/repeat_drafts.hpp"

#include <utility>

namespace semantic::engine {

draft_guess repeat_drafts::guess(std::span<const storage::token_id> tokens, int most) {
    const repeat_index::match found = most > 0 ? repeats_.find(tokens) : repeat_index::match();
    alike_ = found.alike;
    if (alike_ == 0) return {};
    return {continue_from(tokens, found, static_cast<std::size_t>(most)), trust_.chance(alike_)};
}

void repeat_drafts::learn(int run, int taken) {
    const std::size_t alike = std::exchange(alike_, 0);
    if (alike == 0) return;
    if (run > 0)
        trust_.learn(alike, run, taken);
    else
        trust_.forget(alike);
}

}  // namespace semantic::engine
