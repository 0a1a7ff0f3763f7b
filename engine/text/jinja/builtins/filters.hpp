// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jinja's filters and tests, as Hugging Face's environment has them. Filters that only make sense
// on web pages or that are not pure (random, urlize, xmlattr ...) are missing.

#include <span>
#include <string_view>

#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

using filter_function = value (*)(const value& input, const arguments& given, budget& left);
struct named_filter {
    std::string_view name;
    filter_function call;
};
/// Fails for an unknown name.
filter_function filter_of(std::string_view name);
bool is_filter(std::string_view name);

using test_function = bool (*)(const value& item, const arguments& given, budget& left);
struct named_test {
    std::string_view name;
    test_function call;
};
/// Fails for an unknown name.
test_function test_of(std::string_view name);
bool is_test(std::string_view name);

// The parts of the table, each in a file of its own.
std::span<const named_filter> text_filters();  // and numbers
std::span<const named_filter> list_filters();
std::span<const named_filter> choice_filters();  // with filters and tests as arguments

/// The member of `item` at a path such as "a.b.0", as the parameter `attribute` of filters names
/// it; the item itself if `path` is none. `otherwise`: used for missing members; may be null.
value member_by_path(const value& item, const value& path, const value* otherwise, budget& left);

}  // namespace semantic::engine::jinja
