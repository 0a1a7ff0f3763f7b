// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON as values. Numbers keep their spelling, so that they are printed digit for digit.

#include <optional>
#include <string_view>

#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

/// How deep JSON may be nested: what holds it in a template's variables is nested too.
constexpr unsigned json_depth_max = value_depth_max - 20;

/// Every text in it, the keys too, is content. The last of equal keys counts, at the place of the
/// first. Returns: nothing for what is no JSON, or is nested too deeply. Linear in the text.
std::optional<value> parse_json(std::string_view text);

}  // namespace semantic::engine::jinja
