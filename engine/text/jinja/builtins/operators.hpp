// SPDX-License-Identifier: Apache-2.0
#pragma once
// What Python's operators do, and how a template gets at members.

#include <string_view>

#include "engine/text/jinja/syntax/tree.hpp"
#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

/// Integers have 64 bits: what would need more fails.
value apply(operation op, const value& a, const value& b, budget& left);
value negative(const value& v);
value positive(const value& v);

/// object.name: methods before keys.
value attribute_of(const value& object, std::string_view name, budget& left);
/// object[key]: keys before methods. What is not there is undefined.
value item_of(const value& object, const value& key, budget& left);
/// object[start:stop:step]; each may be none.
value slice_of(const value& object, const value& start, const value& stop, const value& step,
               budget& left);

/// An integer. Fails for anything else, naming `role`.
std::int64_t integer_of(const value& v, const char* role);

}  // namespace semantic::engine::jinja
