// SPDX-License-Identifier: Apache-2.0
#pragma once
// A template as a tree. Immutable once parsed, so any number of threads may run it.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/jinja/values/budget.hpp"
#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

/// A name of the template: its index in template_tree::names.
using name_id = std::size_t;

struct expression;
using expression_ptr = std::unique_ptr<const expression>;

enum class operation {
    add,
    subtract,
    multiply,
    divide,
    floor_divide,
    modulo,
    power,
    equal,
    not_equal,
    less,
    less_equal,
    greater,
    greater_equal,
    in,
    not_in,
};

struct call_arguments {
    std::vector<expression_ptr> positional{};
    std::vector<std::pair<std::string, expression_ptr>> named{};
    expression_ptr star{};         // *list; may be null
    expression_ptr double_star{};  // **dict; may be null
};

enum class expression_kind {
    constant,   // constant
    name,       // id
    list,       // parts
    tuple,      // parts
    dict,       // parts: key, value, key, value ...
    negative,   // parts: operand
    positive,   // parts: operand
    not_true,   // parts: operand
    binary,     // operations[0]; parts: left, right
    concat,     // parts: all of them
    all,        // parts: left and right
    any,        // parts: left or right
    compare,    // parts: one more than operations
    condition,  // parts: test, value, else; the last may be null
    attribute,  // name; parts: object
    item,       // parts: object, key
    slice,      // parts: object, start, stop, step; the last three may be null
    call,       // given; parts: callee
    filter,     // name, given; parts: input; null in a filter block
    test,       // name, given; parts: input
};
struct expression {
    expression_kind kind;
    position at{};
    unsigned depth = 1;  // of expressions in each other
    value constant{};
    name_id id = 0;
    std::string name{};
    std::vector<operation> operations{};
    std::vector<expression_ptr> parts{};
    call_arguments given{};
};

/// The target of an assignment in set, for and with: a name or a tuple.
struct target {
    enum class form { name, attribute, tuple };
    form is = form::name;
    name_id id = 0;
    std::string attribute{};      // of the namespace `id`
    std::vector<target> items{};  // of a tuple
};

struct statement;
using block = std::vector<statement>;

struct signature;

enum class statement_kind {
    data,          // text
    output,        // parts: one
    condition,     // branches
    loop,          // targets[0], parts: iterable, filter or null; body, otherwise
    set,           // targets[0], parts: value
    set_block,     // targets[0], parts: filter or null; body
    macro,         // called
    call_block,    // called, parts: the call
    filter_block,  // parts: the filter; body
    with,          // targets, parts: as many; body
    scope,         // body
    break_loop,
    continue_loop,
};
struct statement {
    /// One branch of an if: if, elif, or else, which has no test.
    struct branch {
        expression_ptr test;
        block body;
    };
    statement_kind kind;
    position at{};
    value text{};
    std::vector<expression_ptr> parts{};
    std::vector<target> targets{};
    std::vector<branch> branches{};
    std::unique_ptr<const signature> called{};
    block body{};
    block otherwise{};
};

/// A macro or a call block: its parameters and its body.
struct signature {
    std::string name;
    std::vector<name_id> parameters{};
    std::vector<expression_ptr> defaults{};  // of the last parameters
    // Whether the body uses these names and has no parameters of these names.
    bool uses_caller = false;
    bool uses_kwargs = false;
    bool uses_varargs = false;
    block body{};
};

struct template_tree {
    block body;
    std::vector<std::string> names;
};

}  // namespace semantic::engine::jinja
