// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes JSON schemas as TypeScript types, as Harmony's template prints them. For engine/text/*.cpp
// only.

#include <string>
#include <string_view>

#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine {

/// The parameters of a function, each with its description, name, type and default, and a line
/// break. `schema`: that of an object, as parse_json() returns it. Empty if it has no parameters.
/// Linear in the schema.
std::string typescript_parameters(const jinja::value& schema);

}  // namespace semantic::engine
