// SPDX-License-Identifier: Apache-2.0
// Filters that apply other filters and tests to each item.

#include <array>

#include "engine/text/jinja/builtins/bound_arguments.hpp"
#include "engine/text/jinja/builtins/filters.hpp"

namespace semantic::engine::jinja {

namespace {

/// The name of a filter or test that is given as an argument. Fails when it is no text.
std::string name_at(const arguments& all, std::size_t index) {
    const marked_text* name = all.positional[index].as_text();
    if (name == nullptr) fail("a filter or test is named by a text");
    return name->bytes();
}

/// The arguments after the first `count`.
arguments without_first(const arguments& all, std::size_t count) {
    return {{all.positional.begin() + static_cast<std::ptrdiff_t>(count), all.positional.end()},
            all.named};
}

/// Applies a filter to each item: map("filter", arguments), or reads a member of each:
/// map(attribute=path, default=value).
value map(const value& input, const arguments& all, budget& left) {
    // An input that counts as false, such as an undefined value, has no items, as in Jinja.
    if (!is_true(input)) return make_generator({});
    const list_ptr items = items_of(input, left);
    std::vector<value> out;
    out.reserve(items->items.size());
    if (all.positional.empty() && !all.named.empty()) {
        const bound_arguments given("map", all, {"attribute", "default"});
        const value* otherwise = given.has(1) ? given[1] : nullptr;
        for (const value& item : items->items) {
            out.push_back(member_by_path(item, given.required(0), otherwise, left));
        }
        return make_generator(std::move(out));
    }
    if (all.positional.empty()) fail("map requires a filter argument");
    const filter_function call = filter_of(name_at(all, 0));
    const arguments rest = without_first(all, 1);
    for (const value& item : items->items) {
        left.spend();
        out.push_back(call(item, rest, left));
    }
    return make_generator(std::move(out));
}

/// The items for which a test results in `wanted`. The test is named by the first argument; without
/// one the item's own truth counts. `by_member`: the first argument names a member of the items,
/// which is tested in the item's place; the test's name comes after it.
value chosen(const value& input, const arguments& all, budget& left, bool by_member, bool wanted) {
    // As for map(): no items.
    if (!is_true(input)) return make_generator({});
    const std::size_t first = by_member ? 1 : 0;
    if (all.positional.size() < first) fail("Missing parameter for attribute name");
    const bool has_test = all.positional.size() > first;
    const test_function call = has_test ? test_of(name_at(all, first)) : nullptr;
    const arguments rest = has_test ? without_first(all, first + 1) : arguments{};
    const list_ptr items = items_of(input, left);
    std::vector<value> out;
    for (const value& item : items->items) {
        left.spend();
        const value given =
            by_member ? member_by_path(item, all.positional[0], nullptr, left) : item;
        if ((has_test ? call(given, rest, left) : is_true(given)) == wanted) out.push_back(item);
    }
    return make_generator(std::move(out));
}

value select(const value& input, const arguments& all, budget& left) {
    return chosen(input, all, left, false, true);
}
value reject(const value& input, const arguments& all, budget& left) {
    return chosen(input, all, left, false, false);
}
value selectattr(const value& input, const arguments& all, budget& left) {
    return chosen(input, all, left, true, true);
}
value rejectattr(const value& input, const arguments& all, budget& left) {
    return chosen(input, all, left, true, false);
}

constexpr std::array filters{
    named_filter{"map", map},
    named_filter{"reject", reject},
    named_filter{"rejectattr", rejectattr},
    named_filter{"select", select},
    named_filter{"selectattr", selectattr},
};

}  // namespace

std::span<const named_filter> choice_filters() { return filters; }

namespace {

filter_function found_filter(std::string_view name) {
    for (const auto part : {text_filters(), list_filters(), choice_filters()}) {
        for (const named_filter& one : part) {
            if (one.name == name) return one.call;
        }
    }
    return nullptr;
}

}  // namespace

filter_function filter_of(std::string_view name) {
    const filter_function found = found_filter(name);
    if (found == nullptr) fail("No filter named '" + std::string(name) + "'.");
    return found;
}

bool is_filter(std::string_view name) { return found_filter(name) != nullptr; }

}  // namespace semantic::engine::jinja
