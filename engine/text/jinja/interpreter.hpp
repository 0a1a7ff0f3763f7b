// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a parsed template once.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/jinja/syntax/tree.hpp"
#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

/// The variables of a part of a template, and the scope around it.
struct scope {
    std::vector<std::pair<name_id, value>> own{};
    std::shared_ptr<scope> outer{};
    const value* find(name_id name) const;
    void set(name_id name, value to);
};
using scope_ptr = std::shared_ptr<scope>;

/// The deepest nesting of statements and expressions, including calls of macros. A level takes less
/// than 1 KB of stack.
constexpr unsigned run_depth_max = 800;

/// One run of a template: construct, then run(). Throws stopped. All values of the run are freed
/// with this object, also those in cycles through namespaces and macros.
class interpreter {
  public:
    /// `day`: yyyy-mm-dd, for strftime_now. All arguments must outlive the run.
    interpreter(const template_tree& tree, const dict_object& variables, const std::string& day,
                const limits& bounds);
    ~interpreter();
    interpreter(const interpreter&) = delete;
    interpreter& operator=(const interpreter&) = delete;

    marked_text run();
    /// The position of the statement or expression that ran last.
    position place() const { return at_; }

  private:
    /// How statements go on after one: with the next, or at the end or the next round of the loop.
    enum class flow { on, break_loop, continue_loop };
    struct macro_closure;
    class level;

    // Statements: interpreter.cpp.
    flow run(const block& statements, const scope_ptr& context);
    flow run(const statement& one, const scope_ptr& context);
    flow condition(const statement& one, const scope_ptr& context);
    flow loop(const statement& one, const scope_ptr& context);
    flow loop_over(const statement& one, const list_ptr& items, const scope_ptr& context);
    flow scoped(const statement& one, const scope_ptr& context);
    list_ptr loop_items(const statement& one, const scope_ptr& context);
    void set(const statement& one, const scope_ptr& context);
    void set_block(const statement& one, const scope_ptr& context);
    void call_block(const statement& one, const scope_ptr& context);
    void filter_block(const statement& one, const scope_ptr& context);
    void assign(const target& to, const value& assigned, const scope_ptr& context);
    void write(const marked_text& text);
    marked_text captured(const block& body, const scope_ptr& context);
    static scope_ptr inside(const scope_ptr& outer);

    // Macros: macros.cpp.
    value macro(const signature& called, const scope_ptr& context);
    value call_macro(const macro_closure& called, arguments& given);
    void take_extra(const signature& called, arguments& given, std::size_t taken, scope& target);
    void give(std::string_view name, value given, scope& to) const;
    std::optional<name_id> id_of(std::string_view name) const;

    // Globals: globals.cpp.
    void add_globals(const std::string& day);
    value new_namespace(const arguments& given);

    // Expressions: evaluate.cpp.
    value evaluate(const expression& e, const scope_ptr& context);
    value evaluate_part(const expression& e, std::size_t part, const scope_ptr& context);
    value name(const expression& e, const scope_ptr& context) const;
    value items(const expression& e, const scope_ptr& context);
    value dict(const expression& e, const scope_ptr& context);
    value concat(const expression& e, const scope_ptr& context);
    value compare(const expression& e, const scope_ptr& context);
    value conditional(const expression& e, const scope_ptr& context);
    value slice(const expression& e, const scope_ptr& context);
    value change_list(const value& object, std::string_view method, const arguments& all);
    value call(const expression& e, const scope_ptr& context, const value* caller = nullptr);
    value filtered(const expression& e, const scope_ptr& context);
    value tested(const expression& e, const scope_ptr& context);
    arguments given(const call_arguments& args, const scope_ptr& context);

    const template_tree& tree_;
    limits bounds_;
    budget left_;
    std::vector<const value*> globals_;                       // of each name; null: there is none
    std::vector<std::pair<std::string, value>> own_globals_;  // functions, by name
    std::optional<name_id> loop_name_;           // none: the template does not read `loop`
    marked_text* out_ = nullptr;                 // what is being written
    const marked_text* filter_input_ = nullptr;  // of the filter block whose filter runs
    unsigned depth_ = 0;                         // levels of nesting that are open now
    unsigned calls_ = 0;                         // macros that run now
    unsigned loops_ = 0;
    position at_{};  // of what ran last
    // All namespaces and macros of the run, which the destructor empties.
    std::vector<namespace_ptr> namespaces_;
    std::vector<std::shared_ptr<macro_closure>> closures_;
};

/// A macro with the scope in which it was defined.
struct interpreter::macro_closure {
    const signature* called;
    scope_ptr context;
};

/// Counts a level of nesting while it lives.
class interpreter::level {
  public:
    explicit level(interpreter& runner) : runner_(runner) {
        runner_.left_.spend();
        if (runner_.depth_ >= run_depth_max) fail("the template goes too deep", error_kind::limit);
        ++runner_.depth_;
    }
    ~level() { --runner_.depth_; }
    level(const level&) = delete;
    level& operator=(const level&) = delete;

  private:
    interpreter& runner_;
};

}  // namespace semantic::engine::jinja
