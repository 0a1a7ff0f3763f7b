// SPDX-License-Identifier: Apache-2.0
#include "engine/text/jinja/builtins/operators.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/text/jinja/builtins/formatting.hpp"
#include "engine/text/jinja/builtins/methods.hpp"
#include "engine/text/jinja/values/print.hpp"

namespace semantic::engine::jinja {

namespace {

constexpr const char* too_large = "a number needs more than 64 bits";

const char* sign_of(operation op) {
    switch (op) {
        case operation::add:
            return "+";
        case operation::subtract:
            return "-";
        case operation::multiply:
            return "*";
        case operation::divide:
            return "/";
        case operation::floor_divide:
            return "//";
        case operation::modulo:
            return "%";
        default:
            return "**";
    }
}

[[noreturn]] void unsupported(operation op, const value& a, const value& b) {
    fail(std::string("unsupported operand type(s) for ") + sign_of(op) + ": '" + type_name(a) +
         "' and '" + type_name(b) + "'");
}

/// Raises by squaring. Requires: exponent >= 0. Fails beyond 64 bits.
std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
    std::int64_t out = 1;
    for (; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(out, base, &out)) fail(too_large);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) fail(too_large);
    }
    return out;
}

/// Applies an operation to two integers as Python does. Fails when the result needs more than 64
/// bits, which Python's integers would have.
value of_integers(operation op, std::int64_t a, std::int64_t b) {
    std::int64_t out = 0;
    const bool divides =
        op == operation::divide || op == operation::floor_divide || op == operation::modulo;
    if (divides && b == 0) fail("division by zero");
    if (divides && op != operation::divide && b == -1) {
        // Division by -1 is the only one that can overflow.
        if (op == operation::modulo) return 0;
        if (__builtin_sub_overflow(std::int64_t{0}, a, &out)) fail(too_large);
        return out;
    }
    switch (op) {
        case operation::add:
            if (__builtin_add_overflow(a, b, &out)) fail(too_large);
            return out;
        case operation::subtract:
            if (__builtin_sub_overflow(a, b, &out)) fail(too_large);
            return out;
        case operation::multiply:
            if (__builtin_mul_overflow(a, b, &out)) fail(too_large);
            return out;
        case operation::divide:
            return static_cast<double>(a) / static_cast<double>(b);
        case operation::floor_divide:
            return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
        case operation::modulo:
            return a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0);
        default:
            break;
    }
    if (b >= 0) return integer_power(a, b);
    if (a == 0) fail("0.0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(a), static_cast<double>(b));
}

/// Divides as Python does: the quotient is rounded down, and the remainder has the divisor's sign.
value of_floats_divided(operation op, double a, double b) {
    if (b == 0) fail("division by zero");
    double rest = std::fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) {
        rest += b;
        quotient -= 1;
    } else if (rest == 0) {
        rest = std::copysign(0.0, b);
    }
    if (op == operation::modulo) return rest;
    if (quotient == 0) return std::copysign(0.0, a / b);
    const double down = std::floor(quotient);
    return quotient - down > 0.5 ? down + 1 : down;
}

/// Applies an operation to two numbers of which one is a float. Fails where Python's result would
/// be an error or a complex number.
value of_floats(operation op, double a, double b) {
    switch (op) {
        case operation::add:
            return a + b;
        case operation::subtract:
            return a - b;
        case operation::multiply:
            return a * b;
        case operation::divide:
            if (b == 0) fail("division by zero");
            return a / b;
        case operation::floor_divide:
        case operation::modulo:
            return of_floats_divided(op, a, b);
        default:
            break;
    }
    if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
    if (a < 0 && std::floor(b) != b) fail("a root of a negative number is no real number");
    const double out = std::pow(a, b);
    if (std::isinf(out) && !std::isinf(a) && !std::isinf(b)) fail("a power is out of range");
    return out;
}

/// The sum of two texts or of two lists of one kind. A text that is marked safe has the other one
/// escaped.
value added(const value& a, const value& b, budget& left) {
    const marked_text* first = a.as_text();
    const marked_text* second = b.as_text();
    if (first != nullptr && second != nullptr) {
        left.spend_text(first->size() + second->size());
        const bool is_markup = first->is_markup || second->is_markup;
        marked_text out = is_markup && !first->is_markup ? escaped(*first, left) : *first;
        out.append(is_markup && !second->is_markup ? escaped(*second, left) : *second);
        out.is_markup = is_markup;
        return out;
    }
    if (first != nullptr) fail("can only concatenate str (not \"" + type_name(b) + "\") to str");
    const list_object* x = a.as_list();
    const list_object* y = b.as_list();
    // A pair of groupby counts as a tuple.
    const auto form = [](const list_object& list) {
        return list.form == list_form::group ? list_form::tuple : list.form;
    };
    if (x == nullptr || y == nullptr || form(*x) != form(*y) || form(*x) > list_form::tuple) {
        unsupported(operation::add, a, b);
    }
    left.spend_items(x->items.size() + y->items.size());
    std::vector<value> all = x->items;
    all.insert(all.end(), y->items.begin(), y->items.end());
    return make_list(std::move(all), form(*x));
}

/// A text or list, repeated. The budget is asked before the copies are made, and a count beyond the
/// limits fails at once, so that the product cannot overflow.
value repeated(const value& item, std::int64_t times, budget& left) {
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
    if (const marked_text* text = item.as_text()) {
        if (text->empty() || count == 0) return marked_text();
        if (count > text_bytes_max) left.spend_text(count);
        left.spend_text(count * text->size());
        left.spend(count / 4);
        marked_text out;
        for (std::size_t i = 0; i < count; ++i) out.append(*text);
        return out;
    }
    const list_object& list = *item.as_list();
    if (list.items.empty() || count == 0) return make_list({}, list.form);
    if (count > list_items_max) left.spend_items(count);
    left.spend_items(count * list.items.size());
    std::vector<value> all;
    for (std::size_t i = 0; i < count; ++i) {
        all.insert(all.end(), list.items.begin(), list.items.end());
    }
    return make_list(std::move(all), list.form);
}

bool is_repeatable(const value& v) {
    const list_object* list = v.as_list();
    // The forms before `group`: list and tuple.
    return v.is_text() || (list != nullptr && list->form <= list_form::tuple);
}

value compared(operation op, const value& a, const value& b, budget& left) {
    switch (op) {
        case operation::equal:
            return equal(a, b, left);
        case operation::not_equal:
            return !equal(a, b, left);
        case operation::less:
            return less(a, b, left, "<");
        case operation::greater:
            return less(b, a, left, ">");
        case operation::less_equal:
            return less(a, b, left, "<=") || equal(a, b, left);
        case operation::greater_equal:
            return less(b, a, left, ">=") || equal(a, b, left);
        case operation::in:
            return contains(b, a, left);
        // not_in.
        default:
            return !contains(b, a, left);
    }
}

/// A slice of a sequence: its first index, the end (not included), the step and how many items.
struct bounds {
    std::int64_t start;
    std::int64_t stop;
    std::int64_t step;
    std::size_t count;
};

/// The indexes of a slice, computed as by Python's slice.indices().
bounds bounds_of(const value& start, const value& stop, const value& step, std::size_t size) {
    const auto length = static_cast<std::int64_t>(size);
    const std::int64_t by = step.is_none() ? 1 : integer_of(step, "a slice's step");
    if (by == 0) fail("slice step cannot be zero");
    // Going back, the end is before the first item, at -1.
    const std::int64_t lowest = by < 0 ? -1 : 0, highest = by < 0 ? length - 1 : length;
    const auto clamped = [&](const value& given, std::int64_t otherwise) {
        if (given.is_none()) return otherwise;
        const std::int64_t at = integer_of(given, "a slice's bound");
        return at < 0 ? std::max(at + length, lowest) : std::min(at, highest);
    };
    bounds out{clamped(start, by < 0 ? highest : lowest), clamped(stop, by < 0 ? lowest : highest),
               by, 0};
    if (by > 0 && out.start < out.stop) {
        out.count = static_cast<std::size_t>((out.stop - out.start - 1) / by + 1);
    } else if (by < 0 && out.stop < out.start) {
        // The negated step, also of the least integer, whose own negation would overflow.
        const std::int64_t back = -std::max(by, -std::numeric_limits<std::int64_t>::max());
        out.count = static_cast<std::size_t>((out.start - out.stop - 1) / back + 1);
    }
    return out;
}

/// text[start:stop:step], in characters. With a step of 1 the result is one part of the bytes.
value text_slice(const marked_text& text, const value& start, const value& stop, const value& step,
                 budget& left) {
    left.spend_text(text.size());
    const std::string& bytes = text.bytes();
    const bounds b = bounds_of(start, stop, step, count_characters(bytes));
    if (b.count == 0) return marked_text();
    if (b.step == 1) {
        const std::size_t begin = byte_of_character(bytes, static_cast<std::size_t>(b.start));
        const std::string_view rest = std::string_view(bytes).substr(begin);
        return text.part(begin, begin + byte_of_character(rest, b.count));
    }
    left.spend_items(text.size());
    std::vector<std::size_t> begins;
    for (std::size_t at = 0; at < bytes.size(); at = next_character(bytes, at))
        begins.push_back(at);
    marked_text out;
    for (std::size_t i = 0; i < b.count; ++i) {
        const std::int64_t at = b.start + static_cast<std::int64_t>(i) * b.step;
        const std::size_t begin = begins[static_cast<std::size_t>(at)];
        out.append(text, begin, next_character(bytes, begin));
    }
    return out;
}

value missing_item(const value& object, const value& key, budget& left) {
    const std::string name = object_name(object);
    return value::undefined(name + " has no element " + to_repr(key, left).bytes());
}

value missing_attribute(const value& object, std::string_view name) {
    return value::undefined("'" + object_name(object) + "' has no attribute '" + std::string(name) +
                            "'");
}

/// A method, or an attribute of a namespace or a loop, of this name. Nothing when there is none.
std::optional<value> own_attribute(const value& object, std::string_view name) {
    if (const auto* ns = object.as_namespace()) {
        const value* found = ns->find(name);
        return found == nullptr ? std::nullopt : std::optional(*found);
    }
    if (const auto* loop = object.as_loop()) {
        if (auto found = loop_attribute(*loop, name)) return found;
    }
    const list_object* list = object.as_list();
    if (list != nullptr && list->form == list_form::group) {
        if (name == "grouper") return list->items[0];
        if (name == "list") return list->items[1];
    }
    return bound_method(object, name);
}

}  // namespace

value apply(operation op, const value& a, const value& b, budget& left) {
    // From `equal` on the enum has comparisons, which look at undefined values themselves.
    if (op >= operation::equal) return compared(op, a, b, left);
    const bool formats = op == operation::modulo && a.is_text();
    require_defined(a);
    if (!formats) require_defined(b);
    std::int64_t m = 0, n = 0;
    if (a.to_integer(m) && b.to_integer(n)) return of_integers(op, m, n);
    double x = 0, y = 0;
    if (a.to_number(x) && b.to_number(y)) return of_floats(op, x, y);
    if (formats) return percent_format(*a.as_text(), b, left);
    if (op == operation::add) return added(a, b, left);
    if (op == operation::multiply) {
        if (is_repeatable(a) && b.to_integer(n)) return repeated(a, n, left);
        if (is_repeatable(b) && a.to_integer(n)) return repeated(b, n, left);
    }
    unsupported(op, a, b);
}

value negative(const value& v) {
    require_defined(v);
    std::int64_t number = 0;
    if (v.to_integer(number)) {
        if (__builtin_sub_overflow(std::int64_t{0}, number, &number)) fail(too_large);
        return number;
    }
    if (const double* real = v.as_float()) return -*real;
    fail("bad operand type for unary -: '" + type_name(v) + "'");
}

value positive(const value& v) {
    require_defined(v);
    std::int64_t number = 0;
    if (v.to_integer(number)) return number;
    if (v.as_float() != nullptr) return v;
    fail("bad operand type for unary +: '" + type_name(v) + "'");
}

value attribute_of(const value& object, std::string_view name, budget& left) {
    left.spend();
    require_defined(object);
    if (auto own = own_attribute(object, name)) return *std::move(own);
    if (const auto* dict = object.as_dict()) {
        left.spend(dict->items.size() / 8);
        if (const value* found = dict->find(name)) return *found;
    }
    return missing_attribute(object, name);
}

value item_of(const value& object, const value& key, budget& left) {
    left.spend();
    require_defined(object);
    const list_object* list = object.as_list();
    std::int64_t index = 0;
    if (const auto* dict = object.as_dict()) {
        // A key that cannot be in a dict is missing, which is no error here.
        const list_object* key_list = key.as_list();
        const bool hashable =
            key.as_dict() == nullptr && (key_list == nullptr || key_list->form != list_form::list);
        const value* found = hashable ? dict->find(key, left) : nullptr;
        if (found != nullptr) return *found;
    } else if (list != nullptr && list->form <= list_form::range && key.to_integer(index)) {
        if (index < 0) index += static_cast<std::int64_t>(list->items.size());
        if (index >= 0 && index < static_cast<std::int64_t>(list->items.size())) {
            return list->items[static_cast<std::size_t>(index)];
        }
    } else if (object.is_text() && key.to_integer(index)) {
        const marked_text& text = *object.as_text();
        left.spend_bytes(text.size());
        const auto length = static_cast<std::int64_t>(count_characters(text.bytes()));
        if (index < 0) index += length;
        if (index >= 0 && index < length) {
            const std::size_t begin =
                byte_of_character(text.bytes(), static_cast<std::size_t>(index));
            return text.part(begin, next_character(text.bytes(), begin));
        }
    }
    // No item has this key: it may still name a method or an attribute.
    const marked_text* name = key.as_text();
    if (name == nullptr) return missing_item(object, key, left);
    if (auto own = own_attribute(object, name->bytes())) return *std::move(own);
    return missing_attribute(object, name->bytes());
}

value slice_of(const value& object, const value& start, const value& stop, const value& step,
               budget& left) {
    require_defined(object);
    if (const auto* text = object.as_text()) return text_slice(*text, start, stop, step, left);
    const list_object* list = object.as_list();
    if (list == nullptr || list->form > list_form::range) {
        fail("'" + type_name(object) + "' object cannot be sliced");
    }
    const bounds b = bounds_of(start, stop, step, list->items.size());
    left.spend_items(b.count);
    std::vector<value> out;
    out.reserve(b.count);
    for (std::size_t i = 0; i < b.count; ++i) {
        const std::int64_t at = b.start + static_cast<std::int64_t>(i) * b.step;
        out.push_back(list->items[static_cast<std::size_t>(at)]);
    }
    return make_list(std::move(out),
                     list->form == list_form::list ? list_form::list : list_form::tuple);
}

std::int64_t integer_of(const value& v, const char* role) {
    std::int64_t number = 0;
    require_defined(v);
    if (!v.to_integer(number)) fail(std::string(role) + " is no integer: " + type_name(v));
    return number;
}

}  // namespace semantic::engine::jinja
