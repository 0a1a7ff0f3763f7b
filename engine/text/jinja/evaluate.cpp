// SPDX-License-Identifier: Apache-2.0
// Evaluates the template's expressions. at_ is set again after each operand, so that an error names
// the place of the operation and not that of the operand evaluated last.

#include <algorithm>

#include "engine/text/jinja/builtins/bound_arguments.hpp"
#include "engine/text/jinja/builtins/filters.hpp"
#include "engine/text/jinja/builtins/methods.hpp"
#include "engine/text/jinja/builtins/operators.hpp"
#include "engine/text/jinja/interpreter.hpp"
#include "engine/text/jinja/values/print.hpp"

namespace semantic::engine::jinja {

value interpreter::evaluate_part(const expression& e, std::size_t part, const scope_ptr& context) {
    return evaluate(*e.parts[part], context);
}

value interpreter::evaluate(const expression& e, const scope_ptr& context) {
    const level deeper(*this);
    at_ = e.at;
    switch (e.kind) {
        case expression_kind::constant:
            return e.constant;
        case expression_kind::name:
            return name(e, context);
        case expression_kind::list:
        case expression_kind::tuple:
            return items(e, context);
        case expression_kind::dict:
            return dict(e, context);
        case expression_kind::negative:
            return negative(evaluate_part(e, 0, context));
        case expression_kind::positive:
            return positive(evaluate_part(e, 0, context));
        case expression_kind::not_true:
            return !is_true(evaluate_part(e, 0, context));
        case expression_kind::binary: {
            const value left = evaluate_part(e, 0, context);
            const value right = evaluate_part(e, 1, context);
            at_ = e.at;
            return apply(e.operations[0], left, right, left_);
        }
        case expression_kind::concat:
            return concat(e, context);
        case expression_kind::all: {
            value left = evaluate_part(e, 0, context);
            return is_true(left) ? evaluate_part(e, 1, context) : left;
        }
        case expression_kind::any: {
            value left = evaluate_part(e, 0, context);
            return is_true(left) ? left : evaluate_part(e, 1, context);
        }
        case expression_kind::compare:
            return compare(e, context);
        case expression_kind::condition:
            return conditional(e, context);
        case expression_kind::attribute: {
            const value object = evaluate_part(e, 0, context);
            at_ = e.at;
            return attribute_of(object, e.name, left_);
        }
        case expression_kind::item: {
            const value object = evaluate_part(e, 0, context);
            const value key = evaluate_part(e, 1, context);
            at_ = e.at;
            return item_of(object, key, left_);
        }
        case expression_kind::slice:
            return slice(e, context);
        case expression_kind::call:
            return call(e, context);
        case expression_kind::filter:
            return filtered(e, context);
        case expression_kind::test:
            return tested(e, context);
    }
    // Not reached: the switch has all kinds.
    return {};
}

/// The value of a name: from the innermost scope that has it, else a global, else undefined.
value interpreter::name(const expression& e, const scope_ptr& context) const {
    for (const scope* at = context.get(); at != nullptr; at = at->outer.get()) {
        if (const value* found = at->find(e.id)) return *found;
    }
    if (globals_[e.id] != nullptr) return *globals_[e.id];
    return value::undefined("'" + tree_.names[e.id] + "' is undefined");
}

value interpreter::items(const expression& e, const scope_ptr& context) {
    std::vector<value> out;
    out.reserve(e.parts.size());
    for (const expression_ptr& part : e.parts) out.push_back(evaluate(*part, context));
    return make_list(std::move(out),
                     e.kind == expression_kind::list ? list_form::list : list_form::tuple);
}

value interpreter::dict(const expression& e, const scope_ptr& context) {
    std::vector<std::pair<value, value>> pairs;
    for (std::size_t i = 0; i < e.parts.size(); i += 2) {
        value key = evaluate_part(e, i, context);
        pairs.emplace_back(std::move(key), evaluate_part(e, i + 1, context));
    }
    return make_dict(std::move(pairs), left_);
}

value interpreter::concat(const expression& e, const scope_ptr& context) {
    marked_text out;
    for (const expression_ptr& part : e.parts) {
        const marked_text text = to_text(evaluate(*part, context), left_);
        left_.spend_growth(out.size(), text.size());
        out.append(text);
    }
    return out;
}

/// Evaluates a chain such as a < b < c: each operand once, and only up to the first comparison that
/// is false.
value interpreter::compare(const expression& e, const scope_ptr& context) {
    value left = evaluate_part(e, 0, context);
    value result;
    for (std::size_t i = 0; i < e.operations.size(); ++i) {
        value right = evaluate_part(e, i + 1, context);
        at_ = e.at;
        result = apply(e.operations[i], left, right, left_);
        if (!is_true(result)) return result;
        left = std::move(right);
    }
    return result;
}

value interpreter::conditional(const expression& e, const scope_ptr& context) {
    if (is_true(evaluate_part(e, 0, context))) return evaluate_part(e, 1, context);
    if (e.parts[2] != nullptr) return evaluate_part(e, 2, context);
    return value::undefined(
        "the inline if-expression evaluated to false and no else section was defined.");
}

value interpreter::slice(const expression& e, const scope_ptr& context) {
    const value object = evaluate_part(e, 0, context);
    const auto bound = [&](std::size_t part) {
        return e.parts[part] == nullptr ? value() : evaluate_part(e, part, context);
    };
    // A bound that is left out is none, which slice_of() replaces by an end of the sequence.
    const value start = bound(1);
    const value stop = bound(2);
    const value step = bound(3);
    at_ = e.at;
    return slice_of(object, start, stop, step, left_);
}

/// Evaluates a call's arguments, with those of * and ** unpacked. Fails when a name is given twice
/// by **.
arguments interpreter::given(const call_arguments& args, const scope_ptr& context) {
    arguments out;
    out.positional.reserve(args.positional.size());
    for (const expression_ptr& one : args.positional)
        out.positional.push_back(evaluate(*one, context));
    for (const auto& [name, one] : args.named)
        out.named.emplace_back(marked_text(name, false), evaluate(*one, context));
    if (args.star != nullptr) {
        const list_ptr more = items_of(evaluate(*args.star, context), left_);
        left_.spend_items(more->items.size());
        out.positional.insert(out.positional.end(), more->items.begin(), more->items.end());
    }
    if (args.double_star != nullptr) {
        const value more = evaluate(*args.double_star, context);
        const dict_object* dict = more.as_dict();
        if (dict == nullptr) fail("argument after ** must be a mapping, not " + type_name(more));
        left_.spend_items(dict->items.size());
        for (const auto& [key, item] : dict->items) {
            if (!key.is_text()) fail("keywords must be strings");
            const std::string& name = key.as_text()->bytes();
            left_.spend(out.named.size() / 8);  // for the search below
            for (const auto& [other, own] : out.named) {
                if (other.bytes() == name)
                    fail("got multiple values for keyword argument '" + name + "'");
            }
            out.named.emplace_back(*key.as_text(), item);
        }
    }
    return out;
}

namespace {

/// Whether this calls a list's append() or pop().
bool changes_list(const value& object, const expression& callee) {
    const list_object* list = object.as_list();
    return callee.kind == expression_kind::attribute && list != nullptr &&
           list->form == list_form::list && (callee.name == "append" || callee.name == "pop");
}

}  // namespace

/// Calls list.append(item) or list.pop(index), which only templates that need it may (see
/// limits::lists_change). Only texts and numbers can be appended, so that no list contains itself.
/// Requires: changes_list(object, the callee).
value interpreter::change_list(const value& object, std::string_view method, const arguments& all) {
    // The cast is safe: lists belong to one run, which has one thread. Other references to this
    // list see the change, as in Python.
    auto& items = const_cast<std::vector<value>&>(object.as_list()->items);
    if (method == "append") {
        const bound_arguments given("append", all, {"object"});
        const value& added = given.required(0);
        if (added.as_list() != nullptr || added.as_dict() != nullptr ||
            added.as_namespace() != nullptr || added.as_loop() != nullptr ||
            added.as_callable() != nullptr)
            fail("append: only texts and numbers can be appended here");
        left_.spend_items(1);
        if (items.size() >= list_items_max) fail("a list grows too long", error_kind::limit);
        items.push_back(added);
        // As in Python, append() has no result.
        return {};
    }
    const bound_arguments given("pop", all, {"index"});
    const auto size = static_cast<std::int64_t>(items.size());
    // Without an index, pop() takes the last item.
    std::int64_t at = given.integer(0, -1);
    if (at < 0) at += size;
    if (at < 0 || at >= size) fail("pop index out of range");
    left_.spend_items(items.size());
    value taken = std::move(items[static_cast<std::size_t>(at)]);
    items.erase(items.begin() + at);
    return taken;
}

/// Calls a function, a macro or a method. `caller`: in a call block, the macro of its body, which
/// the callee gets as the argument `caller`; null elsewhere.
value interpreter::call(const expression& e, const scope_ptr& context, const value* caller) {
    const expression& callee = *e.parts[0];
    // A method is called directly: making a value of it first would take longer.
    value object;
    const named_method* method = nullptr;
    if (callee.kind == expression_kind::attribute) {
        object = evaluate_part(callee, 0, context);
        at_ = callee.at;
        require_defined(object);
        method = find_method(object, callee.name);
    }
    if (bounds_.lists_change && changes_list(object, callee)) {
        const arguments all = given(e.given, context);
        at_ = e.at;
        return change_list(object, callee.name, all);
    }
    // `call` is null for a method of Python's that is not supported: attribute_of() makes a value
    // of it whose call fails.
    const bool is_method = method != nullptr && method->call != nullptr;
    value function;
    if (callee.kind != expression_kind::attribute) {
        function = evaluate(callee, context);
    } else if (!is_method) {
        function = attribute_of(object, callee.name, left_);
    }
    arguments all = given(e.given, context);
    if (caller != nullptr) all.named.emplace_back(marked_text("caller", false), *caller);
    at_ = e.at;
    if (is_method) return method->call(object, all, left_);
    require_defined(function);
    const callable_object* found = function.as_callable();
    if (found == nullptr) fail("'" + type_name(function) + "' object is not callable");
    return found->call(left_, all);
}

/// Applies a filter to its operand or, in a filter or set block, to the block's text.
value interpreter::filtered(const expression& e, const scope_ptr& context) {
    value input;
    if (e.parts[0] == nullptr) {
        input = *filter_input_;
    } else {
        input = evaluate_part(e, 0, context);
    }
    at_ = e.at;
    const filter_function apply_to = filter_of(e.name);
    const arguments all = given(e.given, context);
    at_ = e.at;
    return apply_to(input, all, left_);
}

value interpreter::tested(const expression& e, const scope_ptr& context) {
    const value item = evaluate_part(e, 0, context);
    at_ = e.at;
    const test_function holds_for = test_of(e.name);
    const arguments all = given(e.given, context);
    at_ = e.at;
    return holds_for(item, all, left_);
}

}  // namespace semantic::engine::jinja
