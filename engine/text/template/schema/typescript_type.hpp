// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON schemas as the TypeScript types that Harmony's template prints. For engine/text/*.cpp only.

#include <string>
#include <string_view>

#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine {

/// The parameters of a function: of each its description, name, type and default, and a line break.
/// `schema`: as parse_json() gives it, of an object; empty where it names no parameters. Linear in
/// the schema.
std::string typescript_parameters(const jinja::value& schema);

}  // namespace semantic::engine
