// SPDX-License-Identifier: Apache-2.0
#pragma once
// The methods of texts, lists and dicts, and the members of `loop`.

#include <optional>
#include <span>
#include <string_view>

#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

/// A method; `self` has the type that it belongs to.
using method_function = value (*)(const value& self, const arguments& given, budget& left);
struct named_method {
    std::string_view name;
    method_function
        call;  // null: a method of Python's that templates have no use for; calling it fails
};

/// In order of names.
std::span<const named_method> text_methods();

/// The method of a value's type; null if there is none, or only one that would change the object.
const named_method* find_method(const value& self, std::string_view name);
/// The method as a value; an undefined one if it would change the object; nothing if there is none.
std::optional<value> bound_method(const value& self, std::string_view name);
std::optional<value> loop_attribute(const loop_object& loop, std::string_view name);

// What filters share with methods.

enum class letter_case { upper, lower };
/// Appends bytes [begin, end) of `text` in another case.
void append_case(marked_text& out, const marked_text& text, std::size_t begin, std::size_t end,
                 letter_case to);
marked_text with_case(const marked_text& text, letter_case to, budget& left);
marked_text capitalized(const marked_text& text, budget& left);
/// Replaces at most `count` occurrences; all if it is negative.
marked_text replaced(const marked_text& text, const marked_text& old, const marked_text& by,
                     std::int64_t count, budget& left);
/// The text without white space at its ends, or without the characters of `set`.
marked_text stripped_text(const marked_text& text, const value* set, bool on_left, bool on_right,
                          budget& left);
std::vector<byte_range> lines_of(std::string_view text, bool with_ends);
/// `items` as text, with `separator` between them.
marked_text joined(const std::vector<value>& items, const marked_text& separator, budget& left);
marked_text centered(const marked_text& text, std::int64_t width, const marked_text& fill,
                     budget& left);

}  // namespace semantic::engine::jinja
