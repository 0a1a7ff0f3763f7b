// SPDX-License-Identifier: Apache-2.0
#include "protocol/history/open_calls.hpp"

#include <utility>

namespace semantic::protocol {

std::string open_calls::add(std::string id, std::string tool) {
    const std::size_t position = calls_.size();
    if (id.empty()) id = "call_" + std::to_string(position);
    by_id_[id].push_back(position);
    by_tool_[std::move(tool)].push_back(position);
    all_.push_back(position);
    calls_.push_back({id});
    return id;
}

std::string open_calls::take_first(positions& of_calls) {
    // A call is in three lists and leaves the others only here, when they come to it.
    while (!of_calls.empty()) {
        call& first = calls_[of_calls.front()];
        of_calls.pop_front();
        if (!std::exchange(first.is_taken, true)) return first.id;
    }
    return {};
}

std::string open_calls::take(const std::string& id, const std::string& tool) {
    if (!id.empty()) {
        // A result keeps the id that it came with, even where no call has that.
        if (const auto found = by_id_.find(id); found != by_id_.end()) take_first(found->second);
        return id;
    }
    if (tool.empty()) return take_first(all_);
    const auto found = by_tool_.find(tool);
    // The tool's name replaces the id of a call that is not there.
    std::string taken = found == by_tool_.end() ? std::string() : take_first(found->second);
    return taken.empty() ? tool : taken;
}

}  // namespace semantic::protocol
