// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tools that an answer may call, as far as its parser needs to know them. Immutable and cheap
// to copy; safe from any thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/conversation.hpp"

namespace semantic::engine {

/// The tools that a request offers, as the parsers of answers ask for them: which names may be
/// called, and which types their parameters have.
class offered_tools {
  public:
    /// No tools: nothing is a call.
    offered_tools() = default;
    /// Reads each schema here, so that the cost of a call does not depend on it.
    explicit offered_tools(std::span<const tool_definition> tools);
    /// Unknown tools: any name may be that of a tool.
    static offered_tools any();

    /// Whether no tool is offered.
    bool none() const noexcept { return !any_ && !tools_; }
    /// Whether the tools' names and schemas are known, unlike after any().
    bool known() const noexcept { return tools_ != nullptr; }
    /// Whether a tool of this name may be called.
    bool has(std::string_view name) const;
    /// Whether the parameter can only be a string: then its written value is taken as it is.
    bool is_text(std::string_view tool, std::string_view parameter) const;
    /// Returns: compact JSON for a parameter's value that was written without quotes: JSON or a
    /// Python literal, if the schema allows its type; otherwise a string.
    std::string json_of(std::string_view tool, std::string_view parameter,
                        std::string_view written) const;
    /// The name of the parameter with this index in the schema; nothing if it is not known.
    std::optional<std::string> parameter_at(std::string_view tool, std::size_t place) const;

  private:
    using types = std::uint8_t;  // of JSON schema, a bit each; 0: the schema does not say
    struct one_tool {
        std::vector<std::string> parameters;  // in the order of the schema
        std::map<std::string, types, std::less<>> allowed;
    };
    using tools_by_name = std::map<std::string, one_tool, std::less<>>;
    static one_tool read_schema(std::string_view schema);
    const one_tool* find(std::string_view name) const;
    types types_of(std::string_view tool, std::string_view parameter) const;

    // Names are not known, and any one may be called; tools_ is then null, as for no tools.
    bool any_ = false;
    std::shared_ptr<const tools_by_name> tools_;
};

}  // namespace semantic::engine
