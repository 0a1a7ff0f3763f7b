// SPDX-License-Identifier: Apache-2.0
// Parses expressions. Each function parses operators of one strength, and calls the next for its
// operands: from conditions (the weakest) through or, and, not, comparisons, sums, ~, products and
// powers to signs and subscripts. The order is that of Jinja's parser.

#include <algorithm>
#include <array>

#include "engine/text/jinja/syntax/parser.hpp"

namespace semantic::engine::jinja {

namespace {

struct spelled_operation {
    std::string_view spelling;
    operation meant;
};
constexpr std::array comparisons{
    spelled_operation{"==", operation::equal},  spelled_operation{"!=", operation::not_equal},
    spelled_operation{"<", operation::less},    spelled_operation{"<=", operation::less_equal},
    spelled_operation{">", operation::greater}, spelled_operation{">=", operation::greater_equal},
};
constexpr std::array sums{
    spelled_operation{"+", operation::add},
    spelled_operation{"-", operation::subtract},
};
constexpr std::array products{
    spelled_operation{"*", operation::multiply},
    spelled_operation{"/", operation::divide},
    spelled_operation{"//", operation::floor_divide},
    spelled_operation{"%", operation::modulo},
};

/// The table's row for an operator; null when the token is none of them.
template <class Table>
const spelled_operation* found_in(const Table& table, const token& one) {
    const auto place = std::find_if(table.begin(), table.end(), [&](const spelled_operation& op) {
        return one.is_op(op.spelling);
    });
    return place == table.end() ? nullptr : &*place;
}

}  // namespace

/// Makes a node and counts its depth. Fails when it is too deep: chains of operators build deep
/// trees without recursion here, but evaluating them recurses.
expression_ptr parser::made(expression&& from) const {
    const auto deepen = [&](const expression_ptr& part) {
        if (part != nullptr) from.depth = std::max(from.depth, part->depth + 1);
    };
    std::for_each(from.parts.begin(), from.parts.end(), deepen);
    std::for_each(from.given.positional.begin(), from.given.positional.end(), deepen);
    for (const auto& [name, part] : from.given.named) deepen(part);
    deepen(from.given.star);
    deepen(from.given.double_star);
    if (from.depth > syntax_depth_max) syntax("an expression is nested too deeply");
    return std::make_unique<const expression>(std::move(from));
}

expression_ptr parser::expression_of(expression_kind kind, position at,
                                     std::vector<expression_ptr> parts) const {
    return made({.kind = kind, .at = at, .parts = std::move(parts)});
}

/// Parses one expression, or several between commas, which make a tuple. `with_condition`: the
/// expressions may be conditions (a if b else c). `end_name`: a word that ends the tuple, too;
/// empty for none. `in_brackets`: there may be no expression at all, as in ().
expression_ptr parser::tuple(bool with_condition, std::string_view end_name, bool in_brackets) {
    const position at = now().at;
    const auto at_end = [&] {
        return now().kind == token_kind::variable_end || now().kind == token_kind::block_end ||
               now().is_op(")") || (!end_name.empty() && now().is_name(end_name));
    };
    std::vector<expression_ptr> items;
    bool is_tuple = false;
    for (;;) {
        if (!items.empty()) expect_op(",");
        if (at_end()) break;
        items.push_back(whole(with_condition));
        if (!now().is_op(",")) break;
        is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return std::move(items.front());
    if (!is_tuple && !in_brackets) syntax("expected an expression, got " + described(now()));
    return expression_of(expression_kind::tuple, at, std::move(items));
}

/// Parses a whole expression. `with_condition`: it may be a condition, a if b else c.
expression_ptr parser::whole(bool with_condition) {
    const nested level(*this);
    if (!with_condition) return any();
    position at = now().at;
    expression_ptr out = any();
    while (skip_name("if")) {
        expression_ptr test = any();
        expression_ptr otherwise = skip_name("else") ? whole() : nullptr;
        out = make(expression_kind::condition, at, std::move(test), std::move(out),
                   std::move(otherwise));
        at = now().at;
    }
    return out;
}

expression_ptr parser::any() {
    const position at = now().at;
    expression_ptr left = all();
    while (skip_name("or")) left = make(expression_kind::any, at, std::move(left), all());
    return left;
}

expression_ptr parser::all() {
    const position at = now().at;
    expression_ptr left = negation();
    while (skip_name("and")) left = make(expression_kind::all, at, std::move(left), negation());
    return left;
}

expression_ptr parser::negation() {
    const nested level(*this);
    const position at = now().at;
    if (skip_name("not")) return make(expression_kind::not_true, at, negation());
    return comparison();
}

/// Parses a chain of comparisons, such as a < b <= c.
expression_ptr parser::comparison() {
    expression out{.kind = expression_kind::compare, .at = now().at};
    out.parts.push_back(sum());
    for (;;) {
        if (const auto* found = found_in(comparisons, now())) {
            take();
            out.operations.push_back(found->meant);
        } else if (skip_name("in")) {
            out.operations.push_back(operation::in);
        } else if (now().is_name("not") && after().is_name("in")) {
            take();
            take();
            out.operations.push_back(operation::not_in);
        } else {
            break;
        }
        out.parts.push_back(sum());
    }
    if (out.operations.empty()) return std::move(out.parts.front());
    return made(std::move(out));
}

expression_ptr parser::sum() {
    expression_ptr left = concatenation();
    while (const auto* found = found_in(sums, now())) {
        expression out{.kind = expression_kind::binary, .at = take().at};
        out.operations.push_back(found->meant);
        out.parts.push_back(std::move(left));
        out.parts.push_back(concatenation());
        left = made(std::move(out));
    }
    return left;
}

expression_ptr parser::concatenation() {
    const position at = now().at;
    std::vector<expression_ptr> parts;
    parts.push_back(product());
    while (skip_op("~")) parts.push_back(product());
    if (parts.size() == 1) return std::move(parts.front());
    return expression_of(expression_kind::concat, at, std::move(parts));
}

expression_ptr parser::product() {
    expression_ptr left = power();
    while (const auto* found = found_in(products, now())) {
        expression out{.kind = expression_kind::binary, .at = take().at};
        out.operations.push_back(found->meant);
        out.parts.push_back(std::move(left));
        out.parts.push_back(power());
        left = made(std::move(out));
    }
    return left;
}

/// Powers are applied from left to right, as in Jinja; Python's own go from right to left.
expression_ptr parser::power() {
    expression_ptr left = unary();
    while (now().is_op("**")) {
        expression out{.kind = expression_kind::binary, .at = take().at};
        out.operations.push_back(operation::power);
        out.parts.push_back(std::move(left));
        out.parts.push_back(unary());
        left = made(std::move(out));
    }
    return left;
}

/// Parses signs, and after the operand its subscripts, calls and filters. `with_filters`: false for
/// the operand of a sign, so that filters apply to the signed value.
expression_ptr parser::unary(bool with_filters) {
    const nested level(*this);
    const position at = now().at;
    expression_ptr out;
    if (skip_op("-")) {
        out = make(expression_kind::negative, at, unary(false));
    } else if (skip_op("+")) {
        out = make(expression_kind::positive, at, unary(false));
    } else {
        out = primary();
    }
    out = postfix(std::move(out));
    return with_filters ? filters(std::move(out)) : std::move(out);
}

/// Parses a constant, a name, a list, a dict or an expression in parentheses. Texts next to each
/// other are joined.
expression_ptr parser::primary() {
    expression out{.kind = expression_kind::constant, .at = now().at};
    if (now().is_op("[")) return list();
    if (now().is_op("{")) return dict();
    if (skip_op("(")) {
        expression_ptr inner = tuple(true, {}, true);
        expect_op(")");
        return inner;
    }
    const token first = now();
    if (first.kind == token_kind::name) {
        const std::string& name = first.text;
        if (name == "true" || name == "True" || name == "false" || name == "False") {
            out.constant = name == "true" || name == "True";
        } else if (name != "none" && name != "None") {
            out.kind = expression_kind::name;
            out.id = id_of(name);
            note_use(name);
        }
    } else if (first.kind == token_kind::text) {
        std::string text = first.text;
        while (after().kind == token_kind::text) {
            take();
            text += now().text;
        }
        out.constant = written(std::move(text));
    } else if (first.kind == token_kind::integer) {
        out.constant = first.integer;
    } else if (first.kind == token_kind::real) {
        out.constant = first.real;
    } else {
        syntax("unexpected " + described(first));
    }
    take();
    return made(std::move(out));
}

/// Notes in all enclosing macros that their body uses caller, kwargs or varargs.
void parser::note_use(const std::string& name) {
    for (signature* enclosing : open_) {
        enclosing->uses_caller |= name == "caller";
        enclosing->uses_kwargs |= name == "kwargs";
        enclosing->uses_varargs |= name == "varargs";
    }
}

expression_ptr parser::list() {
    const position at = take().at;
    std::vector<expression_ptr> items;
    while (!now().is_op("]")) {
        if (!items.empty()) expect_op(",");
        // A comma may follow the last item.
        if (now().is_op("]")) break;
        items.push_back(whole());
    }
    expect_op("]");
    return expression_of(expression_kind::list, at, std::move(items));
}

expression_ptr parser::dict() {
    const position at = take().at;
    std::vector<expression_ptr> pairs;
    while (!now().is_op("}")) {
        if (!pairs.empty()) expect_op(",");
        // A comma may follow the last pair.
        if (now().is_op("}")) break;
        pairs.push_back(whole());
        expect_op(":");
        pairs.push_back(whole());
    }
    expect_op("}");
    return expression_of(expression_kind::dict, at, std::move(pairs));
}

expression_ptr parser::postfix(expression_ptr operand) {
    for (;;) {
        if (now().is_op(".") || now().is_op("[")) {
            operand = subscript(std::move(operand));
        } else if (now().is_op("(")) {
            operand = call(std::move(operand));
        } else {
            return operand;
        }
    }
}

/// Parses the filters, tests and calls after an operand.
expression_ptr parser::filters(expression_ptr operand) {
    for (;;) {
        if (now().is_op("|")) {
            operand = filter_chain(std::move(operand));
        } else if (now().is_name("is")) {
            operand = test(std::move(operand));
        } else if (now().is_op("(")) {
            operand = call(std::move(operand));
        } else {
            return operand;
        }
    }
}

/// Parses .name, .number or [...] after an operand.
expression_ptr parser::subscript(expression_ptr operand) {
    const position at = now().at;
    if (skip_op("[")) return bracket_subscript(std::move(operand), at);
    take();
    const token member = take();
    if (member.kind == token_kind::integer) {
        expression key{.kind = expression_kind::constant, .at = member.at};
        key.constant = member.integer;
        return make(expression_kind::item, at, std::move(operand), made(std::move(key)));
    }
    if (member.kind != token_kind::name) syntax("expected a name or a number behind '.'");
    expression out{.kind = expression_kind::attribute, .at = member.at, .name = member.text};
    out.parts.push_back(std::move(operand));
    return made(std::move(out));
}

/// Parses a subscript after its "[": a key, or a slice of up to three bounds between colons.
expression_ptr parser::bracket_subscript(expression_ptr operand, position at) {
    expression_ptr first = now().is_op(":") ? nullptr : whole();
    if (first != nullptr && now().is_op(",")) {
        std::vector<expression_ptr> keys;
        keys.push_back(std::move(first));
        while (skip_op(",")) keys.push_back(whole());
        first = expression_of(expression_kind::tuple, at, std::move(keys));
    }
    if (skip_op("]")) {
        return make(expression_kind::item, at, std::move(operand), std::move(first));
    }
    expect_op(":");
    const auto bound = [&]() -> expression_ptr {
        return now().is_op(":") || now().is_op("]") ? nullptr : whole();
    };
    expression_ptr stop = bound();
    expression_ptr step = skip_op(":") ? bound() : nullptr;
    expect_op("]");
    return make(expression_kind::slice, at, std::move(operand), std::move(first), std::move(stop),
                std::move(step));
}

expression_ptr parser::call(expression_ptr operand) {
    expression out{.kind = expression_kind::call, .at = now().at};
    out.parts.push_back(std::move(operand));
    out.given = given();
    return made(std::move(out));
}

/// Parses a call's arguments in parentheses. A comma may follow the last one.
call_arguments parser::given() {
    expect_op("(");
    call_arguments out;
    for (bool first = true; !now().is_op(")"); first = false) {
        if (!first) expect_op(",");
        if (now().is_op(")")) break;
        one_argument(out);
    }
    expect_op(")");
    return out;
}

/// Parses one argument of a call. Fails where Python's order of positional, named, * and **
/// arguments is not kept.
void parser::one_argument(call_arguments& out) {
    const bool may_star = out.star == nullptr && out.double_star == nullptr;
    const auto require = [&](bool fits) {
        if (!fits) syntax("an argument stands where none of its kind may");
    };
    if (skip_op("*")) {
        require(may_star);
        out.star = whole();
    } else if (skip_op("**")) {
        require(out.double_star == nullptr);
        out.double_star = whole();
    } else if (now().kind == token_kind::name && after().is_op("=")) {
        require(out.double_star == nullptr);
        std::string name = take().text;
        take();
        for (const auto& [other, part] : out.named) require(other != name);
        out.named.emplace_back(std::move(name), whole());
    } else {
        require(may_star && out.named.empty());
        out.positional.push_back(whole());
    }
}

std::string parser::dotted_name() {
    std::string name = any_name();
    while (skip_op(".")) name += "." + any_name();
    return name;
}

/// Parses filters, each applied to the one before; returns `operand` itself when there are none.
expression_ptr parser::filter_chain(expression_ptr operand) {
    while (skip_op("|")) operand = filter(std::move(operand));
    return operand;
}

expression_ptr parser::filter(expression_ptr operand) {
    expression out{.kind = expression_kind::filter, .at = now().at};
    out.name = dotted_name();
    out.parts.push_back(std::move(operand));
    if (now().is_op("(")) out.given = given();
    return made(std::move(out));
}

/// Parses a test from its word "is" on. Its argument may be given without parentheses (x is
/// divisibleby 3), unless the next word continues the expression around it.
expression_ptr parser::test(expression_ptr operand) {
    take();
    const position at = now().at;
    const bool negated = skip_name("not");
    expression out{.kind = expression_kind::test, .at = now().at};
    out.name = dotted_name();
    out.parts.push_back(std::move(operand));
    const token& next = now();
    const bool ends = next.is_name("else") || next.is_name("or") || next.is_name("and");
    const bool begins = next.kind == token_kind::name || next.kind == token_kind::text ||
                        next.kind == token_kind::integer || next.kind == token_kind::real ||
                        next.is_op("[") || next.is_op("{");
    if (next.is_op("(")) {
        out.given = given();
    } else if (begins && !ends) {
        if (next.is_name("is")) syntax("tests cannot be chained with is");
        out.given.positional.push_back(postfix(primary()));
    }
    expression_ptr tested = made(std::move(out));
    return negated ? make(expression_kind::not_true, at, std::move(tested)) : std::move(tested);
}

}  // namespace semantic::engine::jinja
