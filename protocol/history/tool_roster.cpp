// SPDX-License-Identifier: Apache-2.0
#include "protocol/history/tool_roster.hpp"

#include <algorithm>
#include <utility>

namespace semantic::protocol {

namespace {

bool is_same(const engine::tool_definition& one, const engine::tool_definition& other) {
    return one.description == other.description && one.parameters_json == other.parameters_json &&
           one.strict == other.strict;
}

}  // namespace

/// `lists.told` is the list at the head of the prompt; `lists.callable`, if it is there, names the
/// tools that may be called after earlier changes.
tool_roster::tool_roster(engine::tool_lists lists)
    : head_(std::move(lists.told)), has_changed_(lists.callable.has_value()) {
    for (std::size_t i = 0; i < head_.size(); ++i) {
        index_.emplace(head_[i].name, tools_.size());
        tools_.push_back({head_[i].name, nullptr, i, true, !has_changed_});
    }
    for (engine::tool_definition& each : lists.deferred) {
        if (known_tool* found = find(each.name))
            found->own = std::make_shared<engine::tool_definition>(std::move(each));
        else
            add(std::move(each));
    }
    if (!lists.callable) return;
    for (const engine::tool_definition& each : *lists.callable)
        if (known_tool* found = find(each.name)) found->is_in_prompt = found->is_callable = true;
}

/// Adds a known tool that is not in the prompt yet.
void tool_roster::add(engine::tool_definition tool) {
    index_.emplace(tool.name, tools_.size());
    std::string name = tool.name;
    auto own = std::make_shared<engine::tool_definition>(std::move(tool));
    tools_.push_back({std::move(name), std::move(own), none, false, false});
}

tool_roster::known_tool* tool_roster::find(std::string_view name) {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &tools_[found->second];
}

void tool_roster::admit(std::string_view name, std::string& text) {
    if (known_tool* found = find(name)) return describe(*found, text);
    text.append("There is no tool ").append(name).append(".");
}

/// Makes a tool callable. Where its definition is in the prompt already, appends a sentence; else
/// notes that the definition is to be put at the end of `text`.
void tool_roster::describe(known_tool& found, std::string& text) {
    has_changed_ = has_changed_ || !found.is_callable;
    found.is_callable = true;
    if (std::exchange(found.is_in_prompt, true)) {
        text.append("The tool ").append(found.name).append(" can be called now.");
        return;
    }
    auto tool =
        found.own ? found.own : std::make_shared<engine::tool_definition>(head_[found.at_head]);
    pending_.push_back({std::move(tool), 0, 0, text.size()});
}

bool tool_roster::define(engine::tool_definition tool, std::string& text) {
    known_tool* found = find(tool.name);
    if (found == nullptr) {
        if (tools_.size() == tools_max) return false;
        add(std::move(tool));
        found = &tools_.back();
    } else if (!is_same(definition_of(*found), tool)) {
        // From here on the newer definition holds.
        found->own = std::make_shared<engine::tool_definition>(std::move(tool));
        found->is_in_prompt = false;
        has_changed_ = true;
    }
    describe(*found, text);
    return true;
}

void tool_roster::withdraw(std::string_view name, std::string& text) {
    // Also for a tool that is unknown: the text follows the history as the client sent it.
    text.append("The tool ").append(name).append(" can no longer be called.");
    known_tool* found = find(name);
    if (found == nullptr || !found->is_callable) return;
    found->is_callable = false;
    has_changed_ = true;
}

std::string tool_roster::too_many_restarts() {
    return "there may be " + std::to_string(restarts_max) + " summaries in a conversation";
}

bool tool_roster::restart(bool forgets, std::string& text) {
    if (restarts_ == restarts_max) return false;
    ++restarts_;
    pending_.clear();
    placed_.clear();
    for (known_tool& each : tools_) {
        const bool is_at_head = each.at_head != none && !each.own;
        each.is_in_prompt = is_at_head;
        if (forgets) {
            each.is_callable = each.at_head != none;
            each.is_in_prompt = each.at_head != none;
            if (each.at_head != none) each.own.reset();
            continue;
        }
        // The head alone already says what holds.
        if (is_at_head == each.is_callable) continue;
        text += '\n';
        if (each.is_callable)
            describe(each, text);
        else if (is_at_head)
            text.append("The tool ").append(each.name).append(" can no longer be called.");
    }
    if (forgets) has_changed_ = false;
    return true;
}

void tool_roster::settle(std::size_t message, std::size_t part) {
    for (shown_tool& each : pending_) {
        each.message = message;
        each.part = part;
        placed_.push_back(std::move(each));
    }
    pending_.clear();
}

void tool_roster::hand_over(engine::conversation& chat) {
    if (has_changed_) chat.callable.emplace();
    for (known_tool& each : tools_) {
        if (has_changed_ && each.is_callable) chat.callable->push_back(definition_of(each));
        if (each.own) chat.deferred_tools.push_back(*each.own);
    }
    for (const shown_tool& each : placed_)
        chat.placed_tools.push_back({*each.tool, each.message, each.part, each.at});
    chat.tools = std::move(head_);
    placed_.clear();
    tools_.clear();
    index_.clear();
}

}  // namespace semantic::protocol
