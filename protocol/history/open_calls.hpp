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
    /// Adds a call of `tool`. Returns: its id, one that this server makes where `id` is empty.
    std::string add(std::string id, std::string tool);
    /// Assigns a result to a call. Returns: the id that it names; without one the id of the oldest
    /// open call of `tool`, or of any tool where `tool` is empty, too. Where no such call is open:
    /// `tool`, which may be empty.
    std::string take(const std::string& id, const std::string& tool);

  private:
    struct call {
        std::string id;
        bool is_taken = false;
    };
    using positions = std::deque<std::size_t>;  // in calls_, oldest first
    /// Returns: the id of the first call in `of_calls` that still waits, which counts as answered
    /// from now on; empty where none waits.
    std::string take_first(positions& of_calls);

    std::vector<call> calls_;
    std::unordered_map<std::string, positions> by_id_;
    std::unordered_map<std::string, positions> by_tool_;
    positions all_;
};

}  // namespace semantic::protocol
