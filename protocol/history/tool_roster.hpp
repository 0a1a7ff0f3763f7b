// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tools that come and go in the middle of a conversation. The list at the head of the prompt never
// changes for it: a definition is written where the client puts it, so that all before it stays as
// the agent's memory has it. Pure.

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/conversation.hpp"

namespace semantic::protocol {

/// Reads the changes in the order of the conversation. What a change says to the model is appended
/// to the text that is being read; the definition itself is put in by the engine (placed_tool).
class tool_roster {
  public:
    static constexpr std::size_t tools_max = 1'000;  // with those of messages
    /// A restart looks at every tool, so that both numbers together bound the work.
    static constexpr std::size_t restarts_max = 1'000;

    tool_roster() = default;
    explicit tool_roster(engine::tool_lists lists);

    /// Makes a known tool callable from here on, and appends its definition or a sentence to
    /// `text`. An unknown name becomes a sentence that there is no such tool.
    void admit(std::string_view name, std::string& text);
    /// Makes a tool that the message defines callable from here on, and appends its definition to
    /// `text`. One that is known already with the same definition is only admitted. Returns: false
    /// where there would be more than tools_max tools.
    bool define(engine::tool_definition tool, std::string& text);
    /// Makes a tool uncallable from here on, and appends a sentence.
    void withdraw(std::string_view name, std::string& text);
    /// Whether a definition waits for the part that has its text.
    bool has_pending() const noexcept { return !pending_.empty(); }
    /// Begins again after a summary: everything before it is left out of the prompt, `text`
    /// replaces it, and gets sentences about the tools that differ from the list at the head.
    /// `forgets`: instead, the changes of tools are forgotten. Returns: false, and does nothing,
    /// after restarts_max others.
    bool restart(bool forgets, std::string& text);
    /// The sentence about that.
    static std::string too_many_restarts();
    /// Call when the text that admit() and define() appended to has become part `part` of message
    /// `message`: definitions that wait are placed there.
    void settle(std::size_t message, std::size_t part);

    /// Moves the tools and the places of their definitions into `chat`.
    void hand_over(engine::conversation& chat);

  private:
    /// Definitions are shared until the end: each summary may define the same tools again.
    using shared_definition = std::shared_ptr<const engine::tool_definition>;

    struct known_tool {
        std::string name;
        shared_definition own;       // null: as it is at the head
        std::size_t at_head = none;  // index of head_
        bool is_in_prompt = false;   // somewhere in the prompt
        bool is_callable = false;
    };
    /// A definition in the prompt: its message, the part of that, and the offset in its text.
    struct shown_tool {
        shared_definition tool;
        std::size_t message = 0, part = 0, at = 0;
    };
    static constexpr std::size_t none = std::string::npos;

    known_tool* find(std::string_view name);
    const engine::tool_definition& definition_of(const known_tool& tool) const {
        return tool.own ? *tool.own : head_[tool.at_head];
    }
    void add(engine::tool_definition tool);
    void describe(known_tool& found, std::string& text);

    std::vector<engine::tool_definition> head_;
    std::vector<known_tool> tools_;
    std::map<std::string, std::size_t, std::less<>> index_;  // of tools_, by name
    // The first wait for settle(), which gives each its message and part; the others have both.
    std::vector<shown_tool> pending_;
    std::vector<shown_tool> placed_;
    std::size_t restarts_ = 0;
    bool has_changed_ = false;  // what may be called is no longer the list at the head
};

}  // namespace semantic::protocol
