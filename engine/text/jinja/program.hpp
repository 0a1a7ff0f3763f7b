// SPDX-License-Identifier: Apache-2.0
#pragma once
// A parser and interpreter for Jinja, as far as the chat templates on Hugging Face use it: the
// language, its filters, tests and methods with Python's meaning, with Hugging Face's settings. A
// template can access only its variables; see README.md of engine/text.

#include <boost/system/result.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

struct template_tree;

struct error {
    error_kind kind;
    std::string message;  // of raise_exception: its argument alone
    position at;          // of the tag or expression at fault
};
/// "line 3, column 5: 'x' is undefined"
std::string described(const error& e);
[[noreturn]] void throw_exception_from_error(const error& e, const boost::source_location& where);

template <class T>
using outcome = boost::system::result<T, error>;

struct rendering {
    std::string text;
    /// The parts of `text` that come from variables marked as content, in order.
    std::vector<byte_range> content;
};

/// A parsed template. Immutable, cheap to copy; safe from any thread.
class program {
  public:
    /// Errors: syntax, limit.
    static outcome<program> parse(std::string_view source);

    /// Renders the template; a pure function of its arguments. `variables`: a dict, by name.
    /// `day`: yyyy-mm-dd, for strftime_now. Errors: raised, runtime, limit.
    outcome<rendering> render(const value& variables, const std::string& day,
                              const limits& bounds = {}) const;
    /// Whether the template reads a variable of this name somewhere.
    bool reads(std::string_view name) const;

  private:
    explicit program(std::shared_ptr<const template_tree> tree) : tree_(std::move(tree)) {}
    std::shared_ptr<const template_tree> tree_;
};

}  // namespace semantic::engine::jinja
