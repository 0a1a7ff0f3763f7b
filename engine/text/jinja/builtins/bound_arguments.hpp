// SPDX-License-Identifier: Apache-2.0
#pragma once
// Binds the arguments of a call to the names of its parameters.

#include <initializer_list>
#include <string_view>
#include <vector>

#include "engine/text/jinja/values/value.hpp"

namespace semantic::engine::jinja {

/// Refers to the arguments of a call, which must outlive it. Throws stopped for too many arguments,
/// an unknown name, or a name given twice.
class bound_arguments {
  public:
    bound_arguments(std::string_view callee, const arguments& given,
                    std::initializer_list<std::string_view> parameters);

    /// The argument of a parameter; null if it was not given.
    const value* operator[](std::size_t index) const { return values_[index]; }
    /// The argument of a parameter; fails if it was not given.
    const value& required(std::size_t index) const;
    bool flag(std::size_t index, bool otherwise) const;
    std::int64_t integer(std::size_t index, std::int64_t otherwise) const;
    /// A text; `otherwise` if the argument is none or was not given. Fails for other types.
    const marked_text& text(std::size_t index, const marked_text& otherwise) const;
    /// A text; fails for other types, and if it was not given.
    const marked_text& required_text(std::size_t index) const;
    /// Whether it was given and is not none.
    bool has(std::size_t index) const {
        return values_[index] != nullptr && !values_[index]->is_none();
    }

  private:
    std::string callee_;  // the function's name, for messages
    std::vector<std::string_view> parameters_;
    std::vector<const value*> values_;  // one for each parameter; null: not given
};

/// Throws stopped for any argument.
inline void expect_no_arguments(std::string_view callee, const arguments& given) {
    [[maybe_unused]] const bound_arguments none(callee, given, {});
}

}  // namespace semantic::engine::jinja
