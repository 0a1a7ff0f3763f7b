// SPDX-License-Identifier: Apache-2.0
#include "engine/text/jinja/syntax/parser.hpp"

#include <algorithm>

namespace semantic::engine::jinja {

template_tree parser::parse() {
    template_tree made;
    made.body = statements({});
    made.names = std::move(names_);
    return made;
}

/// The current token, after which the next one is current. The last token, `end`, stays.
token parser::take() {
    token out = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return out;
}

bool parser::skip_op(std::string_view spelling) {
    if (!now().is_op(spelling)) return false;
    take();
    return true;
}

bool parser::skip_name(std::string_view name) {
    if (!now().is_name(name)) return false;
    take();
    return true;
}

void parser::expect_op(std::string_view spelling) {
    if (!skip_op(spelling)) {
        syntax("expected '" + std::string(spelling) + "', got " + described(now()));
    }
}

void parser::expect_name(std::string_view name) {
    if (!skip_name(name)) {
        syntax("expected '" + std::string(name) + "', got " + described(now()));
    }
}

std::string parser::any_name() {
    if (now().kind != token_kind::name) syntax("expected a name, got " + described(now()));
    return take().text;
}

void parser::expect(token_kind kind, const char* spelling) {
    if (now().kind != kind) {
        syntax("expected '" + std::string(spelling) + "', got " + described(now()));
    }
    take();
}

/// Fails at the current token.
void parser::syntax(std::string message) const {
    throw stopped{error_kind::syntax, std::move(message), now().at, true};
}

/// A token as error messages name it.
std::string parser::described(const token& one) {
    switch (one.kind) {
        case token_kind::end:
            return "the end of the template";
        case token_kind::data:
            return "text";
        case token_kind::variable_begin:
            return "'{{'";
        case token_kind::variable_end:
            return "'}}'";
        case token_kind::block_begin:
            return "'{%'";
        case token_kind::block_end:
            return "'%}'";
        case token_kind::integer:
        case token_kind::real:
            return "a number";
        case token_kind::text:
            return "a text";
        default:
            return "'" + one.text + "'";
    }
}

name_id parser::id_of(const std::string& name) {
    const auto [place, is_new] = ids_.try_emplace(name, names_.size());
    if (is_new) names_.push_back(name);
    return place->second;
}

/// An empty statement that begins at the current token.
statement parser::made(statement_kind kind) const { return {.kind = kind, .at = now().at}; }

/// Parses statements up to a tag that is one of `ends`, whose name is then the next token. With no
/// `ends`, up to the end of the template.
block parser::statements(tags ends) {
    const nested level(*this);
    block out;
    for (;;) {
        if (now().kind == token_kind::end) {
            if (ends.size() == 0) return out;
            syntax("the template ends before the tag '" + std::string(*(ends.end() - 1)) + "'");
        }
        // Text and outputs have no name; all else is a tag.
        if (now().kind == token_kind::data) {
            statement data = made(statement_kind::data);
            data.text = written(take().text);
            out.push_back(std::move(data));
        } else if (now().kind == token_kind::variable_begin) {
            take();
            statement output = made(statement_kind::output);
            output.parts.push_back(tuple(true, {}, false));
            expect(token_kind::variable_end, "}}");
            out.push_back(std::move(output));
        } else {
            expect(token_kind::block_begin, "{%");
            const auto is_here = [&](std::string_view end) { return now().is_name(end); };
            if (std::any_of(ends.begin(), ends.end(), is_here)) return out;
            if (now().is_name("print")) {
                print(out);
            } else {
                out.push_back(tag());
            }
            expect(token_kind::block_end, "%}");
        }
    }
}

/// Parses the end of a tag and the statements after it, up to a tag that is one of `ends`.
block parser::body(tags ends) {
    skip_op(":");
    expect(token_kind::block_end, "%}");
    return statements(ends);
}

void parser::finish(std::string_view end_tag) { expect_name(end_tag); }

/// Parses a statement from its tag's name on. Fails for tags that there are not, and for those that
/// chat templates may not use.
statement parser::tag() {
    if (now().kind != token_kind::name) syntax("expected a tag's name, got " + described(now()));
    const std::string name = now().text;
    if (name == "if") return condition();
    if (name == "for") return loop();
    if (name == "set") return set();
    if (name == "macro") return macro();
    if (name == "call") return call_block();
    if (name == "filter") return filter_block();
    if (name == "with") return with_statement();
    if (name == "break") return jump(statement_kind::break_loop);
    if (name == "continue") return jump(statement_kind::continue_loop);
    if (name == "generation") {
        statement scope = made(statement_kind::scope);
        take();
        scope.body = body({"endgeneration"});
        finish("endgeneration");
        return scope;
    }
    for (const char* other : {"block", "extends", "include", "import", "from", "autoescape"}) {
        if (name == other) syntax("the tag '" + name + "' is not supported in chat templates");
    }
    syntax("there is no tag '" + name + "' here");
}

/// if, with its elif and else: a branch without a test is the else.
statement parser::condition() {
    statement out = made(statement_kind::condition);
    take();
    for (;;) {
        expression_ptr test = tuple(false, {}, false);
        block then = body({"elif", "else", "endif"});
        out.branches.push_back({std::move(test), std::move(then)});
        if (skip_name("elif")) continue;
        if (skip_name("else")) {
            out.branches.push_back({nullptr, body({"endif"})});
        }
        finish("endif");
        return out;
    }
}

/// for ... in ..., with its filter and its else.
statement parser::loop() {
    statement out = made(statement_kind::loop);
    take();
    // The targets count as inside the loop, so that none of them can be `loop`.
    ++loops_;
    out.targets.push_back(targets("in"));
    --loops_;
    expect_name("in");
    out.parts.push_back(tuple(false, "recursive", false));
    out.parts.push_back(skip_name("if") ? whole() : nullptr);
    if (now().is_name("recursive")) syntax("recursive loops are not supported");
    ++loops_;
    out.body = body({"else", "endfor"});
    --loops_;
    // An else runs outside of the loop: break is not allowed there.
    if (skip_name("else")) out.otherwise = body({"endfor"});
    finish("endfor");
    return out;
}

/// set name = value, or a block whose output is the value, after the tag's filters if it has some.
statement parser::set() {
    statement out = made(statement_kind::set);
    take();
    out.targets.push_back(targets("="));
    if (skip_op("=")) {
        out.parts.push_back(tuple(true, {}, false));
        return out;
    }
    out.kind = statement_kind::set_block;
    out.parts.push_back(filter_chain(nullptr));
    out.body = body({"endset"});
    finish("endset");
    return out;
}

/// Parses the parameters of a macro, such as (a, b=1).
void parser::parameters(signature& out) {
    expect_op("(");
    while (!now().is_op(")")) {
        if (!out.parameters.empty()) expect_op(",");
        out.parameters.push_back(id_of(any_name()));
        if (skip_op("=")) {
            out.defaults.push_back(whole());
        } else if (!out.defaults.empty()) {
            syntax("a parameter without a default follows one with a default");
        }
    }
    expect_op(")");
}

/// Parses the body of a macro or of a call block, and finds out which of caller, kwargs and varargs
/// it uses. Loops around it do not count inside: break cannot leave a macro.
std::unique_ptr<const signature> parser::closed_over(signature head, tags ends) {
    auto out = std::make_unique<signature>(std::move(head));
    open_.push_back(out.get());
    const unsigned outer_loops = std::exchange(loops_, 0);
    out->body = body(ends);
    loops_ = outer_loops;
    open_.pop_back();
    // A parameter of this name hides the argument that the call would give.
    for (const name_id parameter : out->parameters) {
        if (names_[parameter] == "caller") out->uses_caller = false;
        if (names_[parameter] == "kwargs") out->uses_kwargs = false;
        if (names_[parameter] == "varargs") out->uses_varargs = false;
    }
    return out;
}

statement parser::macro() {
    statement out = made(statement_kind::macro);
    take();
    signature head{.name = any_name()};
    out.targets.push_back({.id = id_of(head.name)});
    parameters(head);
    out.called = closed_over(std::move(head), {"endmacro"});
    finish("endmacro");
    return out;
}

/// call(parameters) function(arguments): the body becomes the macro `caller`.
statement parser::call_block() {
    statement out = made(statement_kind::call_block);
    take();
    signature head{.name = "caller"};
    if (now().is_op("(")) parameters(head);
    out.parts.push_back(whole());
    if (out.parts[0]->kind != expression_kind::call) syntax("a call block needs a call");
    out.called = closed_over(std::move(head), {"endcall"});
    finish("endcall");
    return out;
}

statement parser::filter_block() {
    statement out = made(statement_kind::filter_block);
    take();
    out.parts.push_back(filter_chain(filter(nullptr)));
    out.body = body({"endfilter"});
    finish("endfilter");
    return out;
}

/// with a = x, b = y: targets and values, as many of each.
statement parser::with_statement() {
    statement out = made(statement_kind::with);
    take();
    while (now().kind != token_kind::block_end && !now().is_op(":")) {
        if (!out.targets.empty()) expect_op(",");
        out.targets.push_back(one_target());
        expect_op("=");
        out.parts.push_back(whole());
    }
    out.body = body({"endwith"});
    finish("endwith");
    return out;
}

statement parser::jump(statement_kind kind) {
    if (loops_ == 0) syntax("'" + now().text + "' outside of a loop");
    statement out = made(kind);
    take();
    return out;
}

/// print a, b: one output for each value.
void parser::print(block& out) {
    take();
    bool first = true;
    while (now().kind != token_kind::block_end) {
        if (!first) expect_op(",");
        first = false;
        statement output = made(statement_kind::output);
        output.parts.push_back(whole());
        out.push_back(std::move(output));
    }
}

/// Parses a name, a namespace's attribute or a tuple in parentheses, to which a value is assigned.
target parser::one_target() {
    const nested level(*this);
    if (skip_op("(")) {
        target inner = targets(")");
        expect_op(")");
        return inner;
    }
    if (now().kind != token_kind::name) syntax("cannot assign to " + described(now()));
    for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
        if (now().is_name(constant)) syntax("cannot assign to " + described(now()));
    }
    if (loops_ > 0 && now().is_name("loop")) syntax("cannot assign to 'loop' in a loop");
    target out{.id = id_of(take().text)};
    if (skip_op(".")) {
        out.is = target::form::attribute;
        out.attribute = any_name();
    }
    return out;
}

/// Parses what is assigned to: one target, or a tuple of them. `end`: the word or operator that
/// follows.
target parser::targets(std::string_view end) {
    const auto at_end = [&] {
        return now().is_op(end) || now().is_name(end) || now().kind == token_kind::block_end;
    };
    target first = one_target();
    if (!now().is_op(",")) return first;
    target all{.is = target::form::tuple};
    all.items.push_back(std::move(first));
    while (skip_op(",") && !at_end()) all.items.push_back(one_target());
    return all;
}

}  // namespace semantic::engine::jinja
