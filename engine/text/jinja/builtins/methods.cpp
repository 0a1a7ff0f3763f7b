// SPDX-License-Identifier: Apache-2.0
#include "engine/text/jinja/builtins/methods.hpp"

#include <algorithm>
#include <array>

#include "engine/text/jinja/builtins/bound_arguments.hpp"
#include "engine/text/jinja/builtins/operators.hpp"

namespace semantic::engine::jinja {

namespace {

/// The keys, values or pairs of a dict, by `form`. Requires: `self` is a dict, as for all its
/// methods.
value dict_view(const value& self, const arguments& all, budget& left, list_form form) {
    expect_no_arguments("a view of a dict", all);
    const auto& pairs = self.as_dict()->items;
    left.spend_items(pairs.size());
    std::vector<value> out;
    out.reserve(pairs.size());
    for (const auto& [key, item] : pairs) {
        if (form == list_form::keys) out.push_back(key);
        if (form == list_form::values) out.push_back(item);
        if (form == list_form::items) out.push_back(make_list({key, item}, list_form::tuple));
    }
    return make_list(std::move(out), form);
}
value keys(const value& self, const arguments& all, budget& left) {
    return dict_view(self, all, left, list_form::keys);
}
value values(const value& self, const arguments& all, budget& left) {
    return dict_view(self, all, left, list_form::values);
}
value items(const value& self, const arguments& all, budget& left) {
    return dict_view(self, all, left, list_form::items);
}

/// dict.get(key, default). contains() fails for a key that cannot be in a dict.
value get(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("get", all, {"key", "default"});
    const value* found = contains(self, given.required(0), left)
                             ? self.as_dict()->find(given.required(0), left)
                             : given[1];
    return found == nullptr ? value() : *found;
}

/// Returns the value itself, which is as good as a copy of it, since values normally never change.
value copy(const value& self, const arguments& all, budget&) {
    expect_no_arguments("copy", all);
    return self;
}

value count(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("count", all, {"value"});
    const auto& list = self.as_list()->items;
    return static_cast<std::int64_t>(
        std::count_if(list.begin(), list.end(),
                      [&](const value& item) { return equal(item, given.required(0), left); }));
}

/// list.index(value, start, stop): negative bounds count from the end. Fails when it is not there.
value index(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("index", all, {"value", "start", "stop"});
    const auto& list = self.as_list()->items;
    const auto size = static_cast<std::int64_t>(list.size());
    const auto place = [&](std::size_t argument, std::int64_t otherwise) {
        const std::int64_t at = given.integer(argument, otherwise);
        return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
    };
    const std::int64_t stop = place(2, size);
    for (std::int64_t at = place(1, 0); at < stop; ++at) {
        if (equal(list[static_cast<std::size_t>(at)], given.required(0), left)) return at;
    }
    fail("the value is not in the list");
}

value cycle(const value& self, const arguments& all, budget&) {
    if (all.positional.empty()) fail("no items for cycling given");
    if (!all.named.empty())
        fail("cycle has no parameter '" + all.named.front().first.bytes() + "'");
    return all.positional[self.as_loop()->index0 % all.positional.size()];
}

/// loop.changed(...): whether the arguments differ from those of the last call in this loop.
value changed(const value& self, const arguments& all, budget& left) {
    loop_object& loop = *self.as_loop();
    const auto same = [&](const value& a, const value& b) { return equal(a, b, left); };
    if (loop.has_changed && std::equal(loop.last_changed.begin(), loop.last_changed.end(),
                                       all.positional.begin(), all.positional.end(), same)) {
        return false;
    }
    loop.last_changed = all.positional;
    loop.has_changed = true;
    return true;
}

constexpr std::array dict_methods{
    named_method{"copy", copy},   named_method{"fromkeys", nullptr}, named_method{"get", get},
    named_method{"items", items}, named_method{"keys", keys},        named_method{"values", values},
};
constexpr std::array list_methods{
    named_method{"copy", copy},
    named_method{"count", count},
    named_method{"index", index},
};
constexpr std::array tuple_methods{
    named_method{"count", count},
    named_method{"index", index},
};
constexpr std::array loop_methods{
    named_method{"changed", changed},
    named_method{"cycle", cycle},
};

/// The methods that would change a list or a dict, which the sandbox of Hugging Face's library
/// forbids.
constexpr std::array<std::string_view, 8> list_changes{"append", "clear",  "extend",  "insert",
                                                       "pop",    "remove", "reverse", "sort"};
constexpr std::array<std::string_view, 5> dict_changes{"clear", "pop", "popitem", "setdefault",
                                                       "update"};

std::span<const named_method> methods_of(const value& self) {
    if (self.is_text()) return text_methods();
    if (self.as_dict() != nullptr) return dict_methods;
    if (self.as_loop() != nullptr) return loop_methods;
    if (const auto* list = self.as_list()) {
        if (list->form == list_form::list) return list_methods;
        // The forms up to `range` are sequences; views of dicts and generators have no methods.
        if (list->form <= list_form::range) return tuple_methods;
    }
    return {};
}

bool would_change(const value& self, std::string_view name) {
    const auto is_of = [&](const auto& names) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    const auto* list = self.as_list();
    if (list != nullptr && list->form == list_form::list) return is_of(list_changes);
    return self.as_dict() != nullptr && is_of(dict_changes);
}

}  // namespace

const named_method* find_method(const value& self, std::string_view name) {
    const auto methods = methods_of(self);
    const auto place = std::lower_bound(
        methods.begin(), methods.end(), name,
        [](const named_method& one, std::string_view wanted) { return one.name < wanted; });
    return place == methods.end() || place->name != name ? nullptr : &*place;
}

std::optional<value> bound_method(const value& self, std::string_view name) {
    if (would_change(self, name)) {
        return value::undefined("access to attribute '" + std::string(name) + "' of '" +
                                type_name(self) + "' object is unsafe");
    }
    const named_method* found = find_method(self, name);
    if (found == nullptr) return std::nullopt;
    const auto call = [self, found](budget& left, arguments& given) {
        if (found->call == nullptr) {
            fail("the method '" + std::string(found->name) + "' is not supported");
        }
        return found->call(self, given, left);
    };
    return make_callable(std::string(name), call, self);
}

/// A member of `loop`; nothing for other names.
std::optional<value> loop_attribute(const loop_object& loop, std::string_view name) {
    const auto& items = loop.items->items;
    const std::size_t index = loop.index0;
    if (name == "index") return index + 1;
    if (name == "index0") return index;
    if (name == "first") return index == 0;
    if (name == "last") return index + 1 == items.size();
    if (name == "length") return items.size();
    if (name == "revindex") return items.size() - index;
    if (name == "revindex0") return items.size() - index - 1;
    if (name == "depth") return std::int64_t{loop.depth0} + 1;
    if (name == "depth0") return std::int64_t{loop.depth0};
    if (name == "previtem") {
        return index == 0 ? value::undefined("there is no previous item") : items[index - 1];
    }
    if (name == "nextitem") {
        return index + 1 == items.size() ? value::undefined("there is no next item")
                                         : items[index + 1];
    }
    return std::nullopt;
}

}  // namespace semantic::engine::jinja
