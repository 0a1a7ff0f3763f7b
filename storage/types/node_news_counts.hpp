// SPDX-License-Identifier: Apache-2.0
#pragma once
// What became of news among nodes that share an object store.

#include <cstdint>

namespace semantic::storage {

struct node_news_counts {
    std::uint64_t nodes = 0;    // the others that give a sign now
    std::uint64_t told = 0;     // since the start: of this node's agents
    std::uint64_t heard = 0;    // of other nodes' agents
    std::uint64_t dropped = 0;  // that Redis was not there for, or more than could be heard
};

}  // namespace semantic::storage
