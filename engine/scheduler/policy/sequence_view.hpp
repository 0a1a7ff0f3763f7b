// SPDX-License-Identifier: Apache-2.0
#pragma once
// The numbers of a running sequence from which a step is planned. Plain data.

#include "engine/types/generation.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

struct sequence_view {
    request_id id = 0;
    int position = 0;  // tokens whose KV exists
    int pending = 0;   // tokens known but not yet run: the rest of the prompt, or 1 when decoding
    bool decoding = false;  // its prompt is done
    bool waits = false;     // for another sequence that reads the same prompt head (shared_heads)
    int next_place = 0;     // position at which a chunk has to end at the latest; 0: no limit
    storage::tenant_id tenant{};
};

}  // namespace semantic::engine
