// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parses JSON to values. Numbers keep their spelling, so that they are printed digit for digit.

#include <optional>
#include <string_view>

#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

/// The deepest nesting of JSON: less than that of values, because variables that contain it are
/// nested, too.
constexpr unsigned json_depth_max = value_depth_max - 20;

/// All texts in the result, also keys, are content. Of equal keys the last value counts, at the
/// place of the first. Returns: nothing if `text` is not JSON, or is nested too deeply. Linear in
/// the text.
std::optional<value> parse_json(std::string_view text);

}  // namespace semantic::engine::jinja
