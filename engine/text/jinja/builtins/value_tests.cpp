// SPDX-License-Identifier: Apache-2.0
// The tests that follow `is`.

#include <algorithm>
#include <array>

#include "engine/text/jinja/builtins/bound_arguments.hpp"
#include "engine/text/jinja/builtins/filters.hpp"
#include "engine/text/jinja/builtins/methods.hpp"
#include "engine/text/jinja/builtins/operators.hpp"
#include "engine/text/jinja/values/print.hpp"

namespace semantic::engine::jinja {

namespace {

void require_none(const arguments& all) { bound_arguments("a test", all, {}); }
const value& other(const arguments& all) {
    if (all.positional.size() != 1 || !all.named.empty()) fail("the test takes one argument");
    return all.positional[0];
}

/// Whether the item divided by `divisor` leaves the remainder `rest`.
bool leaves(const value& item, const value& divisor, std::int64_t rest, budget& left) {
    return equal(apply(operation::modulo, item, divisor, left), rest, left);
}
bool odd(const value& item, const arguments& all, budget& left) {
    require_none(all);
    return leaves(item, 2, 1, left);
}
bool even(const value& item, const arguments& all, budget& left) {
    require_none(all);
    return leaves(item, 2, 0, left);
}
bool divisibleby(const value& item, const arguments& all, budget& left) {
    return leaves(item, bound_arguments("divisibleby", all, {"num"}).required(0), 0, left);
}

bool defined(const value& item, const arguments& all, budget&) {
    require_none(all);
    return !item.is_undefined();
}
bool undefined(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.is_undefined();
}
bool none(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.is_none();
}
bool boolean(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.as_bool() != nullptr;
}
bool is_false(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.as_bool() != nullptr && !*item.as_bool();
}
bool is_really_true(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.as_bool() != nullptr && *item.as_bool();
}
bool integer(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.is_number() && item.as_bool() == nullptr && item.as_float() == nullptr;
}
bool is_float(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.as_float() != nullptr;
}
bool number(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.is_number();
}
bool string(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.is_text();
}
bool mapping(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.as_dict() != nullptr;
}
bool sequence(const value& item, const arguments& all, budget&) {
    require_none(all);
    const list_object* list = item.as_list();
    if (list != nullptr) return list->form <= list_form::range;
    return item.is_text() || item.as_dict() != nullptr || item.is_undefined();
}
bool iterable(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.is_text() || item.as_dict() != nullptr || item.as_list() != nullptr ||
           item.as_loop() != nullptr || item.is_undefined();
}
bool callable(const value& item, const arguments& all, budget&) {
    require_none(all);
    // In Jinja undefined values and loops count as callable, too, although a call fails.
    return item.as_callable() != nullptr || item.is_undefined() || item.as_loop() != nullptr;
}
bool escaped_already(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.is_text() && item.as_text()->is_markup;
}

/// Whether the text method `name` returns true for the item as text.
bool calls(const value& item, const char* name, budget& left) {
    const value text = to_text(item, left);
    return is_true(find_method(text, name)->call(text, {}, left));
}
bool lower(const value& item, const arguments& all, budget& left) {
    require_none(all);
    return calls(item, "islower", left);
}
bool upper(const value& item, const arguments& all, budget& left) {
    require_none(all);
    return calls(item, "isupper", left);
}

bool sameas(const value& item, const arguments& all, budget& left) {
    const value& other = bound_arguments("sameas", all, {"other"}).required(0);
    if (item.identity() != nullptr || other.identity() != nullptr) {
        if (item.is_text() && other.is_text()) return equal(item, other, left);
        return item.identity() == other.identity();
    }
    return type_name(item) == type_name(other) && equal(item, other, left);
}
bool contained(const value& item, const arguments& all, budget& left) {
    return contains(bound_arguments("in", all, {"seq"}).required(0), item, left);
}
bool names_filter(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.is_text() && is_filter(item.as_text()->bytes());
}
bool names_test(const value& item, const arguments& all, budget&) {
    require_none(all);
    return item.is_text() && is_test(item.as_text()->bytes());
}

template <operation Op>
bool compares(const value& item, const arguments& all, budget& left) {
    return is_true(apply(Op, item, other(all), left));
}
constexpr test_function eq = compares<operation::equal>;
constexpr test_function ne = compares<operation::not_equal>;
constexpr test_function gt = compares<operation::greater>;
constexpr test_function ge = compares<operation::greater_equal>;
constexpr test_function lt = compares<operation::less>;
constexpr test_function le = compares<operation::less_equal>;

constexpr std::array all_tests{
    named_test{"!=", ne},
    named_test{"<", lt},
    named_test{"<=", le},
    named_test{"==", eq},
    named_test{">", gt},
    named_test{">=", ge},
    named_test{"boolean", boolean},
    named_test{"callable", callable},
    named_test{"defined", defined},
    named_test{"divisibleby", divisibleby},
    named_test{"eq", eq},
    named_test{"equalto", eq},
    named_test{"escaped", escaped_already},
    named_test{"even", even},
    named_test{"false", is_false},
    named_test{"filter", names_filter},
    named_test{"float", is_float},
    named_test{"ge", ge},
    named_test{"greaterthan", gt},
    named_test{"gt", gt},
    named_test{"in", contained},
    named_test{"integer", integer},
    named_test{"iterable", iterable},
    named_test{"le", le},
    named_test{"lessthan", lt},
    named_test{"lower", lower},
    named_test{"lt", lt},
    named_test{"mapping", mapping},
    named_test{"ne", ne},
    named_test{"none", none},
    named_test{"number", number},
    named_test{"odd", odd},
    named_test{"sameas", sameas},
    named_test{"sequence", sequence},
    named_test{"string", string},
    named_test{"test", names_test},
    named_test{"true", is_really_true},
    named_test{"undefined", undefined},
    named_test{"upper", upper},
};

const named_test* found_test(std::string_view name) {
    const auto place = std::find_if(all_tests.begin(), all_tests.end(),
                                    [&](const named_test& one) { return one.name == name; });
    return place == all_tests.end() ? nullptr : &*place;
}

}  // namespace

test_function test_of(std::string_view name) {
    const named_test* found = found_test(name);
    if (found == nullptr) fail("No test named '" + std::string(name) + "'.");
    return found->call;
}

bool is_test(std::string_view name) { return found_test(name) != nullptr; }

}  // namespace semantic::engine::jinja
