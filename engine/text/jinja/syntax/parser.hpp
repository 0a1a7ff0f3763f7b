// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parses tokens to a tree by Jinja's grammar.

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/text/jinja/syntax/lexer.hpp"
#include "engine/text/jinja/syntax/tree.hpp"

namespace semantic::engine::jinja {

/// For one use: construct, then parse(). Throws stopped with the position of the token at fault.
class parser {
  public:
    explicit parser(std::vector<token> tokens) : tokens_(std::move(tokens)) {}
    template_tree parse();

  private:
    class nested;

    // Tokens.
    const token& now() const { return tokens_[at_]; }
    /// The token after the current one; at the end the current one.
    const token& after() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
    token take();
    bool skip_op(std::string_view spelling);
    bool skip_name(std::string_view name);
    void expect_op(std::string_view spelling);
    void expect_name(std::string_view name);
    std::string any_name();
    void expect(token_kind kind, const char* spelling);
    [[noreturn]] void syntax(std::string message) const;
    static std::string described(const token& one);
    name_id id_of(const std::string& name);

    // Statements: parser.cpp.
    using tags = std::initializer_list<std::string_view>;
    block statements(tags ends);
    block body(tags ends);
    void finish(std::string_view end_tag);
    statement tag();
    statement made(statement_kind kind) const;
    statement condition();
    statement loop();
    statement set();
    statement macro();
    statement call_block();
    statement filter_block();
    statement with_statement();
    statement jump(statement_kind kind);
    void print(block& out);
    void parameters(signature& out);
    std::unique_ptr<const signature> closed_over(signature head, tags ends);
    target one_target();
    target targets(std::string_view end);

    // Expressions: parser_expressions.cpp.
    expression_ptr made(expression&& from) const;
    expression_ptr expression_of(expression_kind kind, position at,
                                 std::vector<expression_ptr> parts) const;
    template <class... Parts>
    expression_ptr make(expression_kind kind, position at, Parts... parts) const {
        std::vector<expression_ptr> all;
        (all.push_back(std::move(parts)), ...);
        return expression_of(kind, at, std::move(all));
    }
    expression_ptr tuple(bool with_condition, std::string_view end_name, bool in_brackets);
    expression_ptr whole(bool with_condition = true);
    expression_ptr any();
    expression_ptr all();
    expression_ptr negation();
    expression_ptr comparison();
    expression_ptr sum();
    expression_ptr concatenation();
    expression_ptr product();
    expression_ptr power();
    expression_ptr unary(bool with_filters = true);
    expression_ptr primary();
    expression_ptr list();
    expression_ptr dict();
    expression_ptr postfix(expression_ptr operand);
    expression_ptr filters(expression_ptr operand);
    expression_ptr filter_chain(expression_ptr operand);
    expression_ptr filter(expression_ptr operand);
    expression_ptr test(expression_ptr operand);
    expression_ptr subscript(expression_ptr operand);
    expression_ptr bracket_subscript(expression_ptr operand, position at);
    expression_ptr call(expression_ptr operand);
    call_arguments given();
    void one_argument(call_arguments& out);
    std::string dotted_name();
    void note_use(const std::string& name);

    std::vector<token> tokens_;  // never empty: the last is `end`
    std::size_t at_ = 0;         // the current token
    unsigned depth_ = 0;         // of statements and expressions in each other
    unsigned loops_ = 0;         // around this place, within the innermost macro
    // The names so far, and the index of each.
    std::vector<std::string> names_;
    std::unordered_map<std::string, name_id> ids_;
    std::vector<signature*> open_;  // macros around this place
};

/// Counts a level of nesting while it lives.
class parser::nested {
  public:
    explicit nested(parser& counted) : counted_(counted) {
        if (counted_.depth_ >= syntax_depth_max)
            counted_.syntax("the template is nested too deeply");
        ++counted_.depth_;
    }
    ~nested() { --counted_.depth_; }
    nested(const nested&) = delete;
    nested& operator=(const nested&) = delete;

  private:
    parser& counted_;
};

}  // namespace semantic::engine::jinja
