// SPDX-License-Identifier: Apache-2.0
#pragma once
// The servers that share an object store, as one of them shows them: what each says of itself, and
// the list. What another one has said is read field by field and never passed on as it came. Pure.

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace semantic::protocol::live {

struct node_facts {
    std::string version;
    std::string phase;                  // of its first model: ready, loading, draining, …
    std::vector<std::string> models{};  // that are loaded
    std::uint64_t agents_hot = 0, agents_warm = 0, agents_dirty = 0;
    std::uint64_t pool_bytes = 0, pool_held_bytes = 0;
    std::uint64_t running = 0, waiting = 0;  // requests
    std::uint64_t uploads_pending = 0;       // agents
};

struct shown_node {
    std::string id, url;
    bool is_self = false;
    std::chrono::milliseconds silent_for{0};
    std::string says;  // node_text() of its facts, or anything
};

/// Returns: the facts as one line, which other servers read in nodes_text().
std::string node_text(const node_facts& facts);
/// Returns: [{"id","url":text|null,"self","silent","version","phase","models",…}]; "silent":
/// nothing was heard for more than 5 seconds. Where a node's text cannot be read its facts are
/// null.
std::string nodes_text(std::span<const shown_node> nodes);

}  // namespace semantic::protocol::live
