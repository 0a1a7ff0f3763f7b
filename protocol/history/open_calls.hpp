// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which call a result is of, in the histories of clients that name no ids. Pure.

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

namespace semantic::protocol {

/// Calls that wait for their results, oldest first. Some clients name no ids: then a result is of
/// the oldest call of its tool, or of the oldest of all.
class open_calls {
  public:
    /// Returns: the call's id, one of this server's where it has none.
    std::string add(std::string id, std::string tool);
    /// Returns: the id of the call; empty where the result names none and no call is open.
    std::string take(const std::string& id, const std::string& tool);

  private:
    struct call {
        std::string id;
        bool is_taken = false;
    };
    using positions = std::deque<std::size_t>;  // in calls_, oldest first
    /// Returns: the first of them that waits, which then does no more.
    std::string take_first(positions& of_calls);

    std::vector<call> calls_;
    std::unordered_map<std::string, positions> by_id_;
    std::unordered_map<std::string, positions> by_tool_;
    positions all_;
};

}  // namespace semantic::protocol
