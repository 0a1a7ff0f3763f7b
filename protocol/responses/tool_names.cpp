// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/tool_names.hpp"

#include "protocol/wire/fields.hpp"

namespace semantic::protocol::responses {

namespace {

constexpr std::string_view separator = "__";

/// Returns: the flat name before it is shortened or numbered. Characters that no tool name may have
/// become "_".
std::string joined(const std::string& space, const std::string& name) {
    std::string flat = space;
    if (!flat.empty() && !flat.ends_with(separator)) flat += separator;
    flat += name;
    for (char& c : flat)
        if (!is_tool_name(std::string_view(&c, 1))) c = '_';
    return flat;
}

}  // namespace

std::optional<std::string> tool_names::add(const std::string& space, const std::string& name) {
    const auto names = std::pair(space, name);
    if (flat_by_names_.contains(names)) return std::nullopt;
    const std::string whole = joined(space, name);
    std::string flat = whole.substr(0, flat_bytes_max);
    // The first has no number, so the next is the second.
    std::size_t& number = next_number_.emplace(flat, 2).first->second;
    while (!taken_.insert(flat).second) {
        const std::string tail = "_" + std::to_string(number++);
        flat = whole.substr(0, flat_bytes_max - tail.size()) + tail;
    }
    by_flat_.emplace(flat, spaced_name{space, name});
    flat_by_names_.emplace(names, flat);
    return flat;
}

const spaced_name* tool_names::find(std::string_view flat) const {
    const auto found = by_flat_.find(flat);
    return found == by_flat_.end() ? nullptr : &found->second;
}

std::string tool_names::flat_of(const std::string& space, const std::string& name) const {
    if (space.empty()) return name;
    const auto found = flat_by_names_.find({space, name});
    return found == flat_by_names_.end() ? joined(space, name) : found->second;
}

std::optional<std::string> tool_names::only_flat_of(std::string_view name) const {
    const std::string* only = nullptr;
    for (const auto& [flat, names] : by_flat_) {
        if (names.name != name) continue;
        // Of several the client must name the namespace.
        if (only != nullptr) return std::nullopt;
        only = &flat;
    }
    if (only == nullptr) return std::nullopt;
    return *only;
}

std::vector<std::string> tool_names::flat_names_in(std::string_view space) const {
    std::vector<std::string> flat_names;
    for (const auto& [flat, names] : by_flat_)
        if (names.space == space) flat_names.push_back(flat);
    return flat_names;
}

}  // namespace semantic::protocol::responses
