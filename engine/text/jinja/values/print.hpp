// SPDX-License-Identifier: Apache-2.0
#pragma once
// Values as text: what Python's str(), repr() and json.dumps() give.

#include <optional>
#include <string>

#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

/// A value as Python's str() prints it. Undefined values are empty.
marked_text to_text(const value& v, budget& left);
/// A value as Python's repr() prints it: texts with quotes and escapes.
marked_text to_repr(const value& v, budget& left);

/// How JSON is printed, as the parameters of Python's json.dumps() say it.
struct json_format {
    bool ensure_ascii = false;
    std::optional<marked_text> indent{};  // what one level adds to a line; none: one line
    marked_text item_separator{", ", false};
    marked_text key_separator{": ", false};
    bool sort_keys = false;
};
/// The value as JSON. Fails for values that JSON does not have, such as undefined ones.
marked_text to_json(const value& v, const json_format& format, budget& left);

/// The text with `&`, `<`, `>` and quotes escaped for HTML.
marked_text escaped(const marked_text& text, budget& left);

}  // namespace semantic::engine::jinja
