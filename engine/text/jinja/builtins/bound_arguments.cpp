// SPDX-License-Identifier: Apache-2.0
#include "engine/text/jinja/builtins/bound_arguments.hpp"

#include <algorithm>

#include "engine/text/jinja/builtins/operators.hpp"

namespace semantic::engine::jinja {

bound_arguments::bound_arguments(std::string_view callee, const arguments& given,
                                 std::initializer_list<std::string_view> parameters)
    : callee_(callee), parameters_(parameters), values_(parameters.size(), nullptr) {
    if (given.positional.size() > parameters_.size()) {
        fail(callee_ + " takes at most " + std::to_string(parameters_.size()) + " arguments, not " +
             std::to_string(given.positional.size()));
    }
    for (std::size_t i = 0; i < given.positional.size(); ++i) values_[i] = &given.positional[i];
    for (const auto& [marked, argument] : given.named) {
        const std::string& name = marked.bytes();
        const auto place = std::find(parameters_.begin(), parameters_.end(), name);
        if (place == parameters_.end()) fail(callee_ + " has no parameter '" + name + "'");
        const value*& slot = values_[static_cast<std::size_t>(place - parameters_.begin())];
        if (slot != nullptr) fail(callee_ + " is given '" + name + "' twice");
        slot = &argument;
    }
}

const value& bound_arguments::required(std::size_t index) const {
    if (values_[index] == nullptr) {
        fail(callee_ + " needs the argument '" + std::string(parameters_[index]) + "'");
    }
    return *values_[index];
}

bool bound_arguments::flag(std::size_t index, bool otherwise) const {
    return values_[index] == nullptr ? otherwise : is_true(*values_[index]);
}

std::int64_t bound_arguments::integer(std::size_t index, std::int64_t otherwise) const {
    if (values_[index] == nullptr) return otherwise;
    return integer_of(*values_[index], std::string(parameters_[index]).c_str());
}

const marked_text& bound_arguments::text(std::size_t index, const marked_text& otherwise) const {
    return has(index) ? required_text(index) : otherwise;
}

const marked_text& bound_arguments::required_text(std::size_t index) const {
    require_defined(required(index));
    const marked_text* found = values_[index]->as_text();
    if (found == nullptr) {
        fail(callee_ + ": '" + std::string(parameters_[index]) + "' must be str, not " +
             type_name(*values_[index]));
    }
    return *found;
}

}  // namespace semantic::engine::jinja
