// SPDX-License-Identifier: Apache-2.0
#include "engine/text/jinja/values/value.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "engine/text/output/float_text.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine::jinja {

namespace {

/// How deeply lists and dicts are nested in a value; 0 for one without others in it.
unsigned depth_of(const value& v) {
    if (const auto* list = v.as_list()) return list->depth;
    if (const auto* dict = v.as_dict()) return dict->depth;
    if (const auto* loop = v.as_loop()) return loop->items->depth + 1;
    if (const auto* callable = v.as_callable()) return callable->depth;
    return 0;
}

/// The depth of a list or dict around values of `depth`. Fails beyond the limit.
unsigned deeper(unsigned depth) {
    if (depth >= value_depth_max) fail("lists are nested too deeply", error_kind::limit);
    return depth + 1;
}

/// Whether a value can be a dict's key, as in Python: no list, no dict, and no tuple with one
/// inside.
bool is_hashable(const value& v) {
    const auto* list = v.as_list();
    if (list == nullptr) return v.as_dict() == nullptr;
    if (list->form == list_form::tuple || list->form == list_form::group) {
        return std::all_of(list->items.begin(), list->items.end(), is_hashable);
    }
    return list->form == list_form::range || list->form == list_form::generator;
}

bool is_tuple(const list_object& list) {
    return list.form == list_form::tuple || list.form == list_form::group;
}

bool equal_items(const list_object& a, const list_object& b, budget& left) {
    if (a.items.size() != b.items.size()) return false;
    for (std::size_t i = 0; i < a.items.size(); ++i) {
        if (!equal(a.items[i], b.items[i], left)) return false;
    }
    return true;
}

bool equal_dicts(const dict_object& a, const dict_object& b, budget& left) {
    if (a.items.size() != b.items.size()) return false;
    for (const auto& [key, one] : a.items) {
        const value* other = b.find(key, left);
        if (other == nullptr || !equal(one, *other, left)) return false;
    }
    return true;
}

// In the order of list_form.
constexpr std::array list_names{"list",      "tuple",     "_GroupTuple", "range",
                                "generator", "dict_keys", "dict_values", "dict_items"};

marked_text json_text(const boost::json::string& text) {
    std::string bytes;
    utf8::append_lossy(bytes, {text.data(), text.size()});
    return {std::move(bytes), true};
}

/// A JSON number; one beyond 63 bits becomes a float.
value number_from(const boost::json::value& json) {
    if (json.is_int64()) return json.get_int64();
    if (json.is_uint64()) return static_cast<double>(json.get_uint64());
    return json.get_double();
}

}  // namespace

bool value::to_integer(std::int64_t& out) const noexcept {
    if (const auto* number = std::get_if<std::int64_t>(&held_)) {
        out = *number;
        return true;
    }
    if (const bool* flag = as_bool()) {
        out = *flag ? 1 : 0;
        return true;
    }
    return false;
}

bool value::to_number(double& out) const noexcept {
    std::int64_t integer = 0;
    if (to_integer(integer)) {
        out = static_cast<double>(integer);
        return true;
    }
    if (const double* number = as_float()) {
        out = *number;
        return true;
    }
    return false;
}

bool value::is_number() const noexcept {
    double number = 0;
    return to_number(number);
}

const double* value::as_float() const noexcept {
    if (const spelled_number* number = as_spelled()) return &number->number;
    return std::get_if<double>(&held_);
}

const void* value::identity() const noexcept {
    return std::visit(
        [](const auto& held) -> const void* {
            if constexpr (requires { held.get(); }) {
                return held.get();
            } else {
                return nullptr;
            }
        },
        held_);
}

const value* dict_object::find(const value& key, budget& left) const {
    left.spend(1 + items.size() / 8);
    if (const marked_text* text = key.as_text()) return find(text->bytes());
    for (const auto& [own, item] : items) {
        if (equal(own, key, left)) return &item;
    }
    return nullptr;
}

const value* dict_object::find(std::string_view key) const {
    for (const auto& [own, item] : items) {
        const marked_text* text = own.as_text();
        if (text != nullptr && text->bytes() == key) return &item;
    }
    return nullptr;
}

const value* namespace_object::find(std::string_view name) const {
    for (const auto& [own, item] : items) {
        if (own.bytes() == name) return &item;
    }
    return nullptr;
}

void namespace_object::set(const marked_text& name, value to) {
    for (auto& [own, item] : items) {
        if (own.bytes() != name.bytes()) continue;
        item = std::move(to);
        return;
    }
    items.emplace_back(name, std::move(to));
}

value written(std::string text) { return marked_text(std::move(text), false); }

value content(std::string text) {
    if (storage::utf8::is_valid(text)) return marked_text(std::move(text), true);
    std::string whole;
    utf8::append_lossy(whole, text);
    return marked_text(std::move(whole), true);
}

value make_list(std::vector<value> items, list_form form) {
    auto made = std::make_shared<list_object>();
    unsigned depth = 0;
    for (const value& item : items) depth = std::max(depth, depth_of(item));
    made->depth = deeper(depth);
    made->items = std::move(items);
    made->form = form;
    return list_ptr(std::move(made));
}

value make_generator(std::vector<value> items) {
    return make_list(std::move(items), list_form::generator);
}

value make_callable(std::string name, std::function<value(budget&, arguments&)> call,
                    const value& self) {
    auto made = std::make_shared<callable_object>();
    made->name = std::move(name);
    made->call = std::move(call);
    made->depth = deeper(depth_of(self));
    return callable_ptr(std::move(made));
}

value make_dict(std::vector<std::pair<value, value>> items, budget& left) {
    auto made = std::make_shared<dict_object>();
    unsigned depth = 0;
    for (auto& [key, item] : items) {
        if (!is_hashable(key)) fail("unhashable type: '" + type_name(key) + "'");
        depth = std::max({depth, depth_of(key), depth_of(item)});
        // An equal key keeps its place and gets the new value.
        const value* before = made->find(key, left);
        if (before == nullptr) {
            made->items.emplace_back(std::move(key), std::move(item));
        } else {
            const auto same = [&](const auto& pair) { return &pair.second == before; };
            std::find_if(made->items.begin(), made->items.end(), same)->second = std::move(item);
        }
    }
    made->depth = deeper(depth);
    return dict_ptr(std::move(made));
}

value make_dict_of_different(std::vector<std::pair<value, value>> items) {
    auto made = std::make_shared<dict_object>();
    unsigned depth = 0;
    for (const auto& [key, item] : items) depth = std::max(depth, depth_of(item));
    made->depth = deeper(depth);
    made->items = std::move(items);
    return dict_ptr(std::move(made));
}

value spelled(std::string text) {
    spelled_number made;
    const char* end = text.data() + text.size();
    const bool fits = std::from_chars(text.data(), end, made.number).ec == std::errc();
    if (!fits) made.number = std::strtod(text.c_str(), nullptr);  // infinite, or zero
    if (fits && text == float_text(made.number)) return made.number;
    made.is_integer = text.find_first_of(".eE") == std::string::npos;
    made.text = std::move(text);
    return std::make_shared<const spelled_number>(std::move(made));
}

value from_json(const boost::json::value& json) {
    switch (json.kind()) {
        case boost::json::kind::null:
            return {};
        case boost::json::kind::bool_:
            return json.get_bool();
        case boost::json::kind::string:
            return json_text(json.get_string());
        case boost::json::kind::array: {
            std::vector<value> items;
            items.reserve(json.get_array().size());
            for (const auto& item : json.get_array()) items.push_back(from_json(item));
            return make_list(std::move(items));
        }
        case boost::json::kind::object: {
            auto made = std::make_shared<dict_object>();
            unsigned depth = 0;
            for (const auto& [key, item] : json.get_object()) {
                made->items.emplace_back(content({key.data(), key.size()}), from_json(item));
                depth = std::max(depth, depth_of(made->items.back().second));
            }
            made->depth = deeper(depth);
            return dict_ptr(std::move(made));
        }
        default:
            return number_from(json);
    }
}

bool is_true(const value& v) {
    double number = 0;
    if (v.to_number(number)) return number != 0;
    if (const auto* text = v.as_text()) return !text->empty();
    if (const auto* list = v.as_list())
        return list->form == list_form::generator || !list->items.empty();
    if (const auto* dict = v.as_dict()) return !dict->items.empty();
    if (const auto* loop = v.as_loop()) return !loop->items->items.empty();
    return !v.is_undefined() && !v.is_none();
}

std::string type_name(const value& v) {
    if (v.is_undefined()) return "Undefined";
    if (v.is_none()) return "NoneType";
    if (v.as_bool() != nullptr) return "bool";
    if (v.as_spelled() != nullptr && v.as_spelled()->is_integer) return "int";
    if (v.as_float() != nullptr) return "float";
    if (v.is_number()) return "int";
    if (v.is_text()) return "str";
    if (const auto* list = v.as_list()) return list_names[static_cast<std::size_t>(list->form)];
    if (v.as_dict() != nullptr) return "dict";
    if (v.as_namespace() != nullptr) return "Namespace";
    return v.as_loop() != nullptr ? "LoopContext" : "function";
}

std::string object_name(const value& v) { return v.is_none() ? "None" : type_name(v) + " object"; }

/// Whether two values are equal as in Python: numbers by value, texts by bytes, lists and dicts by
/// items; other objects only if they are the same.
bool equal(const value& a, const value& b, budget& left) {
    left.spend();
    std::int64_t one = 0, other = 0;
    if (a.to_integer(one) && b.to_integer(other)) return one == other;
    double x = 0, y = 0;
    if (a.to_number(x) && b.to_number(y)) return x == y;
    if (a.as_text() != nullptr && b.as_text() != nullptr) {
        if (a.as_text()->size() != b.as_text()->size()) return false;
        left.spend_bytes(a.as_text()->size());
        return a.as_text()->bytes() == b.as_text()->bytes();
    }
    if (a.as_list() != nullptr && b.as_list() != nullptr) {
        if (a.identity() == b.identity()) return true;
        const list_form form = a.as_list()->form;
        const bool same =
            form == b.as_list()->form || (is_tuple(*a.as_list()) && is_tuple(*b.as_list()));
        // Generators and views of values are equal only to themselves, as in Python.
        return same && form != list_form::generator && form != list_form::values &&
               equal_items(*a.as_list(), *b.as_list(), left);
    }
    if (a.as_dict() != nullptr && b.as_dict() != nullptr) {
        return equal_dicts(*a.as_dict(), *b.as_dict(), left);
    }
    // None and undefined values have no identity, but equal others of their kind.
    if (a.is_none() || a.is_undefined()) {
        return a.is_none() == b.is_none() && a.is_undefined() == b.is_undefined();
    }
    return a.identity() != nullptr && a.identity() == b.identity();
}

bool less(const value& a, const value& b, budget& left, std::string_view sign) {
    left.spend();
    require_defined(a);
    require_defined(b);
    std::int64_t one = 0, other = 0;
    if (a.to_integer(one) && b.to_integer(other)) return one < other;
    double x = 0, y = 0;
    if (a.to_number(x) && b.to_number(y)) return x < y;
    if (a.as_text() != nullptr && b.as_text() != nullptr) {
        left.spend_bytes(std::min(a.as_text()->size(), b.as_text()->size()));
        return a.as_text()->bytes() < b.as_text()->bytes();
    }
    const list_object* first = a.as_list();
    const list_object* second = b.as_list();
    // As in Python only tuples and lists have an order, and each with its kind alone.
    const bool ordered = first != nullptr && second != nullptr &&
                         ((is_tuple(*first) && is_tuple(*second)) ||
                          (first->form == list_form::list && second->form == list_form::list));
    if (!ordered) {
        fail("'" + std::string(sign) + "' not supported between instances of '" + type_name(a) +
             "' and '" + type_name(b) + "'");
    }
    const std::size_t both = std::min(first->items.size(), second->items.size());
    // The first items that differ decide.
    for (std::size_t i = 0; i < both; ++i) {
        if (!equal(first->items[i], second->items[i], left)) {
            return less(first->items[i], second->items[i], left, sign);
        }
    }
    return first->items.size() < second->items.size();
}

/// The items that a loop over `v` sees: those of a list, those that a generator has left,
/// characters of a text, keys of a dict, and none of an undefined value.
list_ptr items_of(const value& v, budget& left) {
    if (const auto* list = v.as_list()) {
        if (list->form != list_form::generator) return v.list();
        const std::size_t from = std::min(list->taken, list->items.size());
        // A generator hands out its items once.
        list->taken = list->items.size();
        left.spend_items(list->items.size() - from);
        auto made = std::make_shared<list_object>();
        made->items.assign(list->items.begin() + static_cast<std::ptrdiff_t>(from),
                           list->items.end());
        made->depth = list->depth;
        return made;
    }
    auto made = std::make_shared<list_object>();
    if (const auto* text = v.as_text()) {
        left.spend_items(text->size());
        // Each character becomes a text of its own, which is charged in addition to the list.
        left.spend(text->size());
        for (std::size_t at = 0; at < text->size();) {
            const std::size_t end = next_character(text->bytes(), at);
            made->items.push_back(text->part(at, end));
            at = end;
        }
    } else if (const auto* dict = v.as_dict()) {
        left.spend_items(dict->items.size());
        for (const auto& [key, item] : dict->items) made->items.push_back(key);
        made->depth = dict->depth;
    } else if (!v.is_undefined()) {
        fail("'" + type_name(v) + "' object is not iterable");
    }
    return made;
}

std::size_t length_of(const value& v, budget& left) {
    if (const auto* text = v.as_text()) {
        left.spend_bytes(text->size());
        return count_characters(text->bytes());
    }
    if (const auto* list = v.as_list(); list != nullptr && list->form != list_form::generator) {
        return list->items.size();
    }
    if (const auto* dict = v.as_dict()) return dict->items.size();
    if (const auto* loop = v.as_loop()) return loop->items->items.size();
    if (v.is_undefined()) return 0;
    fail("object of type '" + type_name(v) + "' has no len()");
}

bool contains(const value& v, const value& needle, budget& left) {
    left.spend();
    if (const auto* text = v.as_text()) {
        require_defined(needle);
        const auto* part = needle.as_text();
        if (part == nullptr) {
            fail("'in <string>' requires string as left operand, not " + type_name(needle));
        }
        left.spend_bytes(text->size());
        return find_text(text->bytes(), part->bytes(), 0) != std::string::npos;
    }
    if (const auto* dict = v.as_dict()) {
        if (!is_hashable(needle)) fail("unhashable type: '" + type_name(needle) + "'");
        return dict->find(needle, left) != nullptr;
    }
    if (v.as_list() == nullptr && !v.is_undefined()) {
        fail("argument of type '" + type_name(v) + "' is not iterable");
    }
    const list_ptr items = items_of(v, left);
    return std::any_of(items->items.begin(), items->items.end(),
                       [&](const value& item) { return equal(item, needle, left); });
}

void require_defined(const value& v) {
    if (v.is_undefined()) fail(v.why());
}

}  // namespace semantic::engine::jinja
