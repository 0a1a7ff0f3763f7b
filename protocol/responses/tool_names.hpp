// SPDX-License-Identifier: Apache-2.0
#pragma once
// Namespaces of tools: a client that runs tools of several servers sends each server's as one
// entry. A model is shown them under flat names, and its calls get both names back. Pure.

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace semantic::protocol::responses {

struct spaced_name {
    std::string space;
    std::string name;
};

class tool_names {
  public:
    static constexpr std::size_t flat_bytes_max = 128;

    /// Reserves a name, so that no tool of a namespace gets it as its flat name.
    void reserve(std::string name) { taken_.insert(std::move(name)); }
    /// Adds a tool of a namespace. Returns: its flat name, which no other tool has: "SPACE__NAME",
    /// or "SPACENAME" where the space ends with "__"; shortened, or with a number, where that is
    /// too long or taken. Nothing for a tool that was added before.
    std::optional<std::string> add(const std::string& space, const std::string& name);

    /// Returns: the namespace and name of a flat name; null for a tool in no namespace.
    const spaced_name* find(std::string_view flat) const;
    /// Returns: the name by which the model knows a tool. `space`: its namespace, may be empty.
    std::string flat_of(const std::string& space, const std::string& name) const;
    /// Returns: the flat name of the tool that a client names without its namespace; nothing where
    /// no tool, or more than one, has that name.
    std::optional<std::string> only_flat_of(std::string_view name) const;
    /// Returns: the flat names of a namespace's tools.
    std::vector<std::string> flat_names_in(std::string_view space) const;

  private:
    // Both ways between the model's names and the client's, which are a namespace and a name.
    std::map<std::string, spaced_name, std::less<>> by_flat_;
    std::map<std::pair<std::string, std::string>, std::string> flat_by_names_;
    std::set<std::string> taken_;  // all flat names, and those of tools in no namespace
    std::map<std::string, std::size_t> next_number_;  // of a flat name that was taken
};

}  // namespace semantic::protocol::responses
