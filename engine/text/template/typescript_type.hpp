#pragma once
// JSON schemas as the TypeScript types that Harmony's template prints. For engine/text/*.cpp only.

#include <string>
#include <string_view>

namespace boost::json {
class value;
}

namespace semantic::engine {

/// One parameter of a function: its description, name, type and default, and a line break.
/// `required`: the list of names that must be given; anything else counts as empty.
void append_typescript_parameter(std::string& out, std::string_view name,
                                 const boost::json::value& spec,
                                 const boost::json::value& required);

}  // namespace semantic::engine
