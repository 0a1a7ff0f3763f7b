// SPDX-License-Identifier: Apache-2.0
#include "engine/text/jinja/interpreter.hpp"

#include <algorithm>

#include "engine/text/jinja/values/print.hpp"

namespace semantic::engine::jinja {

const value* scope::find(name_id name) const {
    for (const auto& [own_name, item] : own) {
        if (own_name == name) return &item;
    }
    return nullptr;
}

void scope::set(name_id name, value to) {
    for (auto& [own_name, item] : own) {
        if (own_name != name) continue;
        item = std::move(to);
        return;
    }
    own.emplace_back(name, std::move(to));
}

/// Resolves each name of the template once: to the request's variable of this name, else to the
/// function, else to null. The pointers lead into `variables` and own_globals_, which both stay as
/// they are.
interpreter::interpreter(const template_tree& tree, const dict_object& variables,
                         const std::string& day, const limits& bounds)
    : tree_(tree),
      bounds_(bounds),
      left_(bounds.steps),
      globals_(tree.names.size(), nullptr),
      loop_name_(id_of("loop")) {
    add_globals(day);
    for (name_id id = 0; id < tree.names.size(); ++id) {
        const std::string& name = tree.names[id];
        globals_[id] = variables.find(name);
        for (const auto& [own_name, item] : own_globals_) {
            if (globals_[id] == nullptr && own_name == name) globals_[id] = &item;
        }
    }
}

interpreter::~interpreter() {
    // Namespaces and macros can refer to each other, also in a circle. Each is emptied while the
    // lists here still own all of them, so that the circles are broken and no long chain is
    // destroyed recursively.
    for (const auto& one : closures_) one->context.reset();
    for (const auto& one : namespaces_) one->items.clear();
}

marked_text interpreter::run() {
    marked_text out;
    out_ = &out;
    run(tree_.body, std::make_shared<scope>());
    return out;
}

interpreter::flow interpreter::run(const block& statements, const scope_ptr& context) {
    for (const statement& one : statements) {
        const flow then = run(one, context);
        if (then != flow::on) return then;
    }
    return flow::on;
}

/// Runs one statement. Returns: how the loop around it goes on, which only break and continue
/// change.
interpreter::flow interpreter::run(const statement& one, const scope_ptr& context) {
    const level deeper(*this);
    at_ = one.at;
    switch (one.kind) {
        case statement_kind::data:
            write(*one.text.as_text());
            return flow::on;
        case statement_kind::output:
            write(to_text(evaluate(*one.parts[0], context), left_));
            return flow::on;
        case statement_kind::condition:
            return condition(one, context);
        case statement_kind::loop:
            return loop(one, context);
        case statement_kind::set:
            set(one, context);
            return flow::on;
        case statement_kind::set_block:
            set_block(one, context);
            return flow::on;
        case statement_kind::macro:
            context->set(one.targets[0].id, macro(*one.called, context));
            return flow::on;
        case statement_kind::call_block:
            call_block(one, context);
            return flow::on;
        case statement_kind::filter_block:
            filter_block(one, context);
            return flow::on;
        case statement_kind::with:
        case statement_kind::scope:
            return scoped(one, context);
        case statement_kind::break_loop:
            return flow::break_loop;
        case statement_kind::continue_loop:
            return flow::continue_loop;
    }
    // Not reached: the switch has all kinds.
    return flow::on;
}

void interpreter::write(const marked_text& text) {
    if (out_->size() + text.size() > bounds_.output_bytes) {
        fail("the template writes too much", error_kind::limit);
    }
    left_.spend_bytes(text.size());
    out_->append(text);
}

scope_ptr interpreter::inside(const scope_ptr& outer) {
    auto made = std::make_shared<scope>();
    made->outer = outer;
    return made;
}

/// Runs `body` with its output collected. Returns: that output. A break or continue in `body` ends
/// only the body. When run() throws, out_ is not set back: the whole run has ended.
marked_text interpreter::captured(const block& body, const scope_ptr& context) {
    marked_text text;
    marked_text* const before = std::exchange(out_, &text);
    run(body, context);
    out_ = before;
    return text;
}

interpreter::flow interpreter::condition(const statement& one, const scope_ptr& context) {
    for (const statement::branch& branch : one.branches) {
        // Only an else has no test.
        if (branch.test == nullptr || is_true(evaluate(*branch.test, context)))
            return run(branch.body, context);
    }
    return flow::on;
}

/// Runs a with block or a plain scope. The values are evaluated in the outer scope, so the names of
/// one `with` do not see each other.
interpreter::flow interpreter::scoped(const statement& one, const scope_ptr& context) {
    const scope_ptr own = inside(context);
    for (std::size_t i = 0; i < one.targets.size(); ++i) {
        assign(one.targets[i], evaluate(*one.parts[i], context), own);
    }
    return run(one.body, own);
}

/// The items that a for statement runs over: those of its list for which its condition
/// ({% for x in list if ... %}), if there is one, is true.
list_ptr interpreter::loop_items(const statement& one, const scope_ptr& context) {
    const list_ptr all = items_of(evaluate(*one.parts[0], context), left_);
    if (one.parts[1] == nullptr && bounds_.lists_change) {
        // The body may change the list, while loop.previtem, loop.nextitem and loop.length must not
        // change. So the loop gets a copy.
        left_.spend_items(all->items.size());
        return std::make_shared<list_object>(*all);
    }
    if (one.parts[1] == nullptr) return all;
    auto chosen = std::make_shared<list_object>();
    chosen->depth = all->depth;
    for (const value& item : all->items) {
        const scope_ptr own = inside(context);
        assign(one.targets[0], item, own);
        if (is_true(evaluate(*one.parts[1], own))) chosen->items.push_back(item);
    }
    return chosen;
}

interpreter::flow interpreter::loop(const statement& one, const scope_ptr& context) {
    const list_ptr items = loop_items(one, context);
    if (!items->items.empty()) return loop_over(one, items, context);
    return one.otherwise.empty() ? flow::on : run(one.otherwise, inside(context));
}

/// Runs the body of a for statement once for each item. Requires: `items` are not empty.
interpreter::flow interpreter::loop_over(const statement& one, const list_ptr& items,
                                         const scope_ptr& context) {
    auto state = std::make_shared<loop_object>();
    state->items = items;
    // The arguments that loop.changed() remembers may contain the loop itself. They are dropped at
    // the end, so that it does not keep itself alive.
    const struct forgetting {
        loop_object& called;
        ~forgetting() { called.last_changed.clear(); }
    } guard{*state};
    scope_ptr own = inside(context);
    for (std::size_t i = 0; i < items->items.size(); ++i) {
        left_.spend();
        state->index0 = i;
        // The scope is used again for each round, unless a macro that was defined in the round
        // before still refers to it.
        if (own.use_count() > 1) own = inside(context);
        own->own.clear();
        if (loop_name_) own->set(*loop_name_, value(state));
        assign(one.targets[0], items->items[i], own);
        if (run(one.body, own) == flow::break_loop) return flow::on;
    }
    return flow::on;
}

/// Assigns to a name, to an attribute of a namespace, or, part by part, to a tuple of these. Fails
/// when the object is no namespace, or the number of parts differs.
void interpreter::assign(const target& to, const value& assigned, const scope_ptr& context) {
    left_.spend();
    if (to.is == target::form::name) return context->set(to.id, assigned);
    if (to.is == target::form::attribute) {
        const value* found = nullptr;
        for (const scope* at = context.get(); at != nullptr && found == nullptr;
             at = at->outer.get()) {
            found = at->find(to.id);
        }
        if (found == nullptr) found = globals_[to.id];
        namespace_object* ns = found == nullptr ? nullptr : found->as_namespace();
        if (ns == nullptr) fail("cannot assign attribute on non-namespace object");
        // For the search in set().
        left_.spend(ns->items.size() / 8);
        return ns->set(marked_text(to.attribute, false), assigned);
    }
    const list_ptr items = items_of(assigned, left_);
    if (items->items.size() != to.items.size()) {
        fail((items->items.size() < to.items.size() ? "not enough values to unpack (expected "
                                                    : "too many values to unpack (expected ") +
             std::to_string(to.items.size()) + ")");
    }
    for (std::size_t i = 0; i < to.items.size(); ++i) assign(to.items[i], items->items[i], context);
}

void interpreter::set(const statement& one, const scope_ptr& context) {
    assign(one.targets[0], evaluate(*one.parts[0], context), context);
}

/// {% set name %}...{% endset %}: assigns the body's output, after the tag's filters if it has
/// some.
void interpreter::set_block(const statement& one, const scope_ptr& context) {
    const marked_text text = captured(one.body, inside(context));
    value assigned = text;
    if (one.parts[0] != nullptr) {
        const auto* before = std::exchange(filter_input_, &text);
        assigned = evaluate(*one.parts[0], context);
        filter_input_ = before;
    }
    assign(one.targets[0], assigned, context);
}

void interpreter::filter_block(const statement& one, const scope_ptr& context) {
    const scope_ptr own = inside(context);
    const marked_text text = captured(one.body, own);
    const auto* before = std::exchange(filter_input_, &text);
    const value filter = evaluate(*one.parts[0], own);
    filter_input_ = before;
    write(to_text(filter, left_));
}

/// {% call f() %}...{% endcall %}: calls f() with the body as the macro `caller`, and writes the
/// result.
void interpreter::call_block(const statement& one, const scope_ptr& context) {
    const value caller = macro(*one.called, context);
    at_ = one.parts[0]->at;
    write(to_text(call(*one.parts[0], context, &caller), left_));
}

}  // namespace semantic::engine::jinja
