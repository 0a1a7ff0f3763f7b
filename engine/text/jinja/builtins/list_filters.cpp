// SPDX-License-Identifier: Apache-2.0
// Filters of lists and dicts.

#include <algorithm>
#include <array>

#include "engine/text/jinja/builtins/bound_arguments.hpp"
#include "engine/text/jinja/builtins/filters.hpp"
#include "engine/text/jinja/builtins/methods.hpp"
#include "engine/text/jinja/builtins/operators.hpp"
#include "engine/text/jinja/values/print.hpp"

namespace semantic::engine::jinja {

namespace {

value length(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("length", all);
    return length_of(input, left);
}

value default_to(const value& input, const arguments& all, budget&) {
    const bound_arguments given("default", all, {"default_value", "boolean"});
    const bool is_missing = input.is_undefined() || (given.flag(1, false) && !is_true(input));
    if (!is_missing) return input;
    return given[0] == nullptr ? value(marked_text()) : *given[0];
}

value attr(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("attr", all, {"name"});
    static const marked_text none;
    const std::string& name = given.text(0, none).bytes();
    // Unlike dict.name, this filter finds only methods of a dict, and not its keys.
    if (input.as_dict() != nullptr && find_method(input, name) == nullptr) {
        return value::undefined("'" + object_name(input) + "' has no attribute '" + name + "'");
    }
    return attribute_of(input, name, left);
}

value list(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("list", all);
    const list_ptr items = items_of(input, left);
    left.spend_items(items->items.size());
    return make_list(items->items);
}

value join(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("join", all, {"d", "attribute"});
    const list_ptr items = items_of(input, left);
    const marked_text separator = given[0] == nullptr ? marked_text() : to_text(*given[0], left);
    if (!given.has(1)) return joined(items->items, separator, left);
    std::vector<value> members;
    for (const value& item : items->items) {
        members.push_back(member_by_path(item, *given[1], nullptr, left));
    }
    return joined(members, separator, left);
}

value first(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("first", all);
    const list_object* own = input.as_list();
    if (own != nullptr && own->form == list_form::generator) {
        // Only this item is taken out of a generator: the others can still be read.
        if (own->taken < own->items.size()) return own->items[own->taken++];
        return value::undefined("No first item, sequence was empty.");
    }
    const list_ptr items = items_of(input, left);
    if (items->items.empty()) return value::undefined("No first item, sequence was empty.");
    return items->items.front();
}

/// Fails for a generator, whose items can only be read in order.
void require_reversible(const value& input) {
    const list_object* own = input.as_list();
    if (own != nullptr && own->form == list_form::generator) {
        fail("'generator' object is not reversible");
    }
}

value last(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("last", all);
    require_reversible(input);
    const list_ptr items = items_of(input, left);
    if (items->items.empty()) return value::undefined("No last item, sequence was empty.");
    return items->items.back();
}

value reverse(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("reverse", all);
    const list_ptr items = items_of(input, left);
    left.spend_items(items->items.size());
    std::vector<value> out(items->items.rbegin(), items->items.rend());
    if (input.is_text()) return joined(out, marked_text(), left);
    const list_object* own = input.as_list();
    if (own != nullptr && own->form == list_form::generator) return make_list(std::move(out));
    return make_generator(std::move(out));
}

/// The pairs of a dict; none of an undefined value, and an error for all else.
value items(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("items", all);
    if (input.is_undefined()) return make_generator({});
    const dict_object* dict = input.as_dict();
    if (dict == nullptr) fail("Can only get item pairs from a mapping.");
    left.spend_items(dict->items.size());
    std::vector<value> out;
    for (const auto& [key, item] : dict->items) {
        out.push_back(make_list({key, item}, list_form::tuple));
    }
    return make_generator(std::move(out));
}

/// A text in lower case; other values as they are.
value without_case(const value& v, budget& left) {
    return v.is_text() ? value(with_case(*v.as_text(), letter_case::lower, left)) : v;
}

/// The keys to sort items by: a list with the members that `attribute` names (several between
/// commas; null: the item itself), in lower case unless the case counts.
std::vector<value> sort_keys(const std::vector<value>& items, const value* attribute,
                             bool case_sensitive, budget& left) {
    std::vector<value> paths;
    const marked_text* names = attribute == nullptr ? nullptr : attribute->as_text();
    if (names != nullptr && names->bytes().find(',') != std::string::npos) {
        for (std::size_t at = 0; at <= names->size();) {
            const std::size_t end = std::min(names->bytes().find(',', at), names->size());
            paths.push_back(names->part(at, end));
            at = end + 1;
        }
    } else {
        paths.push_back(attribute == nullptr ? value() : *attribute);
    }
    std::vector<value> keys;
    keys.reserve(items.size());
    for (const value& item : items) {
        std::vector<value> parts;
        for (const value& path : paths) {
            const value member = member_by_path(item, path, nullptr, left);
            parts.push_back(case_sensitive ? member : without_case(member, left));
        }
        // As in Jinja the key is a list even with one member, since lists compare differently.
        keys.push_back(make_list(std::move(parts)));
    }
    return keys;
}

/// The indexes of `keys` in sorted order. Equal keys keep their order, also with `is_reverse`.
std::vector<std::size_t> order_of(const std::vector<value>& keys, bool is_reverse, budget& left) {
    std::vector<std::size_t> order(keys.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return is_reverse ? less(keys[b], keys[a], left) : less(keys[a], keys[b], left);
    });
    return order;
}

value sorted(const std::vector<value>& items, const std::vector<value>& keys, bool is_reverse,
             budget& left) {
    std::vector<value> out;
    out.reserve(items.size());
    for (const std::size_t index : order_of(keys, is_reverse, left)) out.push_back(items[index]);
    return make_list(std::move(out));
}

/// Sorts items: sort(reverse, case_sensitive, attribute).
value sort(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("sort", all, {"reverse", "case_sensitive", "attribute"});
    const list_ptr own = items_of(input, left);
    left.spend_items(own->items.size());
    const auto keys =
        sort_keys(own->items, given.has(2) ? given[2] : nullptr, given.flag(1, false), left);
    return sorted(own->items, keys, given.flag(0, false), left);
}

/// The pairs of a dict, sorted by key or value.
value dictsort(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("dictsort", all, {"case_sensitive", "by", "reverse"});
    static const marked_text key("key", false);
    const std::string& by = given.text(1, key).bytes();
    if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
    require_defined(input);
    const dict_object* dict = input.as_dict();
    if (dict == nullptr) fail("dictsort needs a mapping, not " + type_name(input));
    left.spend_items(dict->items.size());
    std::vector<value> pairs, keys;
    for (const auto& [name, item] : dict->items) {
        pairs.push_back(make_list({name, item}, list_form::tuple));
        const value& one = by == "key" ? name : item;
        keys.push_back(given.flag(0, false) ? one : without_case(one, left));
    }
    return sorted(pairs, keys, given.flag(2, false), left);
}

/// The items without those that equal an earlier one; case counts only if asked for.
value unique(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("unique", all, {"case_sensitive", "attribute"});
    const list_ptr own = items_of(input, left);
    std::vector<value> seen, out;
    for (const value& item : own->items) {
        value key = member_by_path(item, given.has(1) ? *given[1] : value(), nullptr, left);
        if (!given.flag(0, false)) key = without_case(key, left);
        if (key.as_dict() != nullptr ||
            (key.as_list() != nullptr && key.as_list()->form == list_form::list)) {
            fail("unhashable type: '" + type_name(key) + "'");
        }
        const auto is_same = [&](const value& other) { return equal(key, other, left); };
        if (std::any_of(seen.begin(), seen.end(), is_same)) continue;
        seen.push_back(key);
        out.push_back(item);
    }
    return make_generator(std::move(out));
}

/// The item whose key is the least or, with `most`, the greatest; the first of equal ones.
value extreme(const value& input, const arguments& all, budget& left, bool most) {
    const bound_arguments given("min and max", all, {"case_sensitive", "attribute"});
    const list_ptr own = items_of(input, left);
    if (own->items.empty()) {
        return value::undefined("No aggregated item, sequence was empty.");
    }
    std::vector<value> keys;
    for (const value& item : own->items) {
        const value key = member_by_path(item, given.has(1) ? *given[1] : value(), nullptr, left);
        keys.push_back(given.flag(0, false) ? key : without_case(key, left));
    }
    std::size_t best = 0;
    for (std::size_t i = 1; i < keys.size(); ++i) {
        if (most ? less(keys[best], keys[i], left, ">") : less(keys[i], keys[best], left)) best = i;
    }
    return own->items[best];
}
value min(const value& input, const arguments& all, budget& left) {
    return extreme(input, all, left, false);
}
value max(const value& input, const arguments& all, budget& left) {
    return extreme(input, all, left, true);
}

/// Adds up the items or, with an attribute, that member of each; `start` is added, too.
value sum(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("sum", all, {"attribute", "start"});
    const list_ptr own = items_of(input, left);
    value total = given[1] == nullptr ? value(0) : *given[1];
    if (total.is_text()) fail("sum() can't sum strings");
    for (const value& item : own->items) {
        const value part = given.has(0) ? member_by_path(item, *given[0], nullptr, left) : item;
        total = apply(operation::add, total, part, left);
    }
    return total;
}

/// The first argument as a number of items. Fails when it is not positive.
std::size_t size_argument(const bound_arguments& given) {
    given.required(0);
    const std::int64_t size = given.integer(0, 0);
    if (size <= 0) fail("a list cannot be cut into " + std::to_string(size));
    return static_cast<std::size_t>(size);
}

/// Cuts a list into lists of `linecount` items; `fill_with` fills up the last one.
value batch(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("batch", all, {"linecount", "fill_with"});
    const std::size_t size = size_argument(given);
    const list_ptr own = items_of(input, left);
    std::vector<value> out;
    for (std::size_t at = 0; at < own->items.size();) {
        const std::size_t end = at + std::min(size, own->items.size() - at);
        std::vector<value> part(own->items.begin() + static_cast<std::ptrdiff_t>(at),
                                own->items.begin() + static_cast<std::ptrdiff_t>(end));
        if (given.has(1)) {
            left.spend_items(size);
            part.resize(size, *given[1]);
        }
        left.spend_items(part.size());
        out.push_back(make_list(std::move(part)));
        at = end;
    }
    return make_generator(std::move(out));
}

/// Cuts a list into `slices` lists of nearly equal length, longer ones first. `fill_with` is added
/// to each that is not one of the longer, as in Jinja.
value slice(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("slice", all, {"slices", "fill_with"});
    const std::size_t count = size_argument(given);
    const list_ptr own = items_of(input, left);
    left.spend_items(count);
    left.spend_items(own->items.size());
    std::vector<value> out;
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const bool has_more = i < own->items.size() % count;
        std::vector<value> part;
        for (std::size_t n = own->items.size() / count + (has_more ? 1 : 0); n > 0; --n) {
            part.push_back(own->items[at++]);
        }
        if (given.has(1) && !has_more) part.push_back(*given[1]);
        out.push_back(make_list(std::move(part)));
    }
    return make_generator(std::move(out));
}

/// Groups items by a member: pairs of the member and its items, in order of the members. Without
/// case_sensitive, members that differ only in case are one group, named by its first item.
value groupby(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("groupby", all, {"attribute", "default", "case_sensitive"});
    const list_ptr own = items_of(input, left);
    left.spend_items(own->items.size());
    std::vector<value> names, keys;
    for (const value& item : own->items) {
        names.push_back(member_by_path(item, given.required(0), given[1], left));
        keys.push_back(given.flag(2, false) ? names.back() : without_case(names.back(), left));
    }
    const auto order = order_of(keys, false, left);
    std::vector<value> out;
    for (std::size_t at = 0; at < order.size();) {
        const std::size_t head = order[at];
        std::vector<value> members;
        for (; at < order.size() && equal(keys[order[at]], keys[head], left); ++at) {
            members.push_back(own->items[order[at]]);
        }
        out.push_back(make_list({names[head], make_list(std::move(members))}, list_form::group));
    }
    return make_list(std::move(out));
}

constexpr std::array filters{
    named_filter{"attr", attr},
    named_filter{"batch", batch},
    named_filter{"count", length},
    named_filter{"d", default_to},
    named_filter{"default", default_to},
    named_filter{"dictsort", dictsort},
    named_filter{"first", first},
    named_filter{"groupby", groupby},
    named_filter{"items", items},
    named_filter{"join", join},
    named_filter{"last", last},
    named_filter{"length", length},
    named_filter{"list", list},
    named_filter{"max", max},
    named_filter{"min", min},
    named_filter{"reverse", reverse},
    named_filter{"slice", slice},
    named_filter{"sort", sort},
    named_filter{"sum", sum},
    named_filter{"unique", unique},
};

}  // namespace

std::span<const named_filter> list_filters() { return filters; }

value member_by_path(const value& item, const value& path, const value* otherwise, budget& left) {
    if (path.is_none()) return item;
    const marked_text* names = path.as_text();
    if (names == nullptr) {
        value found = item_of(item, path, left);
        return found.is_undefined() && otherwise != nullptr ? *otherwise : found;
    }
    value found = item;
    for (std::size_t at = 0; at <= names->size();) {
        const std::size_t end = std::min(names->bytes().find('.', at), names->size());
        const std::string name = names->bytes().substr(at, end - at);
        // Fewer than 10 digits, so that stoll() cannot overflow.
        const bool is_index = !name.empty() && name.size() < 10 &&
                              name.find_first_not_of("0123456789") == std::string::npos;
        found =
            item_of(found, is_index ? value(std::int64_t{std::stoll(name)}) : written(name), left);
        if (found.is_undefined() && otherwise != nullptr) found = *otherwise;
        at = end + 1;
    }
    return found;
}

}  // namespace semantic::engine::jinja
