// SPDX-License-Identifier: Apache-2.0
#pragma once
// Python's operators, and access to members.

#include <string_view>

#include "engine/text/jinja/syntax/tree.hpp"
#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

/// The result of a binary operator. Integers have 64 bits: a greater result fails.
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

/// The value as an integer. Fails for other types, with `role` in the message.
std::int64_t integer_of(const value& v, const char* role);

}  // namespace semantic::engine::jinja
