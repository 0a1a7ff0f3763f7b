#pragma once
// The tools that an answer may call, as far as its parser needs to know them. Immutable and cheap
// to copy; safe from any thread.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/conversation.hpp"

namespace semantic::engine {

class offered_tools {
  public:
    /// No tools: nothing is a call.
    offered_tools() = default;
    explicit offered_tools(std::span<const tool_definition> tools);
    /// Tools that are not told: any name may be one.
    static offered_tools any();

    bool none() const noexcept { return !any_ && !tools_; }
    /// Whether the tools are told.
    bool known() const noexcept { return tools_ != nullptr; }
    /// A tool of this name may be called.
    bool has(std::string_view name) const;
    /// A parameter that can only be a string: what is written for it is one as it stands.
    bool is_text(std::string_view tool, std::string_view parameter) const;
    /// Returns: compact JSON for what was written without quotes: JSON of a type that the schema
    /// allows, else a string.
    std::string json_of(std::string_view tool, std::string_view parameter,
                        std::string_view written) const;
    /// The name of the parameter at a place, in the order of the schema; nothing if not told.
    std::optional<std::string> parameter_at(std::string_view tool, std::size_t place) const;

  private:
    struct one_tool {
        std::string name;
        std::string schema;
    };
    const one_tool* find(std::string_view name) const;

    bool any_ = false;
    std::shared_ptr<const std::vector<one_tool>> tools_;
};

}  // namespace semantic::engine
