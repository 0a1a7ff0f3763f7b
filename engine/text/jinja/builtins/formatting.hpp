// SPDX-License-Identifier: Apache-2.0
#pragma once
// Python's two ways of formatting values into a text.

#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

/// format % given
value percent_format(const marked_text& format, const value& given, budget& left);
/// format.format(...)
value brace_format(const marked_text& format, const arguments& given, budget& left);

}  // namespace semantic::engine::jinja
