// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where in an agent's memory an answer ends, so that a conversation can go on from it. A plain
// value.

#include <cstddef>
#include <string>

#include "storage/types/ids.hpp"

namespace semantic::storage {

/// The conversation up to the answer's end is the first `text_bytes` bytes of the agent's text,
/// which are its first `tokens` tokens, and then `rest`: sampled, but without KV.
struct message_place {
    agent_id agent;
    int tokens = 0;
    std::size_t text_bytes = 0;
    std::string rest;
    bool is_last = false;  // the agent's memory ends here
};

}  // namespace semantic::storage
