// SPDX-License-Identifier: Apache-2.0
// Calling macros, and the blocks that call them.

#include <algorithm>

#include "engine/text/jinja/interpreter.hpp"

namespace semantic::engine::jinja {

/// Makes a callable value of a macro, which sees the scope in which it was defined.
value interpreter::macro(const signature& called, const scope_ptr& context) {
    auto closure = std::make_shared<macro_closure>(macro_closure{&called, context});
    closures_.push_back(closure);
    return make_callable(called.name, [this, closure](budget&, arguments& given) {
        return call_macro(*closure, given);
    });
}

/// The number of a name of the template; none for a name that the template does not contain.
std::optional<name_id> interpreter::id_of(std::string_view name) const {
    const auto place = std::find(tree_.names.begin(), tree_.names.end(), name);
    if (place == tree_.names.end()) return std::nullopt;
    return static_cast<name_id>(place - tree_.names.begin());
}

/// Sets a name in `to`, unless the template never uses it.
void interpreter::give(std::string_view name, value given, scope& to) const {
    if (const auto id = id_of(name)) to.set(*id, std::move(given));
}

/// Gives the body the arguments that its parameters did not take, as `caller`, `kwargs` and
/// `varargs`, where it uses these names; fails when such arguments are left and it does not.
/// `taken`: how many positional arguments were parameters.
void interpreter::take_extra(const signature& called, arguments& given, std::size_t taken,
                             scope& target) {
    if (called.uses_caller) {
        const auto place =
            std::find_if(given.named.begin(), given.named.end(),
                         [](const auto& pair) { return pair.first.bytes() == "caller"; });
        const bool is_given = place != given.named.end();
        give("caller", is_given ? place->second : value::undefined("No caller defined"), target);
        // Taken out, so that it is neither in kwargs nor counts as left over.
        if (is_given) given.named.erase(place);
    }
    if (called.uses_kwargs) {
        std::vector<std::pair<value, value>> pairs;
        for (const auto& [name, item] : given.named) pairs.emplace_back(name, item);
        give("kwargs", make_dict(std::move(pairs), left_), target);
    } else if (!given.named.empty()) {
        fail("macro '" + called.name + "' takes no keyword argument '" +
             given.named.front().first.bytes() + "'");
    }
    if (called.uses_varargs) {
        std::vector<value> rest(given.positional.begin() + static_cast<std::ptrdiff_t>(taken),
                                given.positional.end());
        give("varargs", make_list(std::move(rest), list_form::tuple), target);
    } else if (given.positional.size() > taken) {
        fail("macro '" + called.name + "' takes not more than " +
             std::to_string(called.parameters.size()) + " argument(s)");
    }
}

/// Calls a macro. Returns: its output. Defaults of missing parameters are evaluated last, so that
/// they see the other parameters.
value interpreter::call_macro(const macro_closure& closure, arguments& given) {
    const level deeper(*this);
    if (calls_ >= bounds_.call_depth) fail("macros call too deeply", error_kind::limit);
    const struct counting {
        unsigned& calls;
        explicit counting(unsigned& counted) : calls(counted) { ++calls; }
        ~counting() { --calls; }
    } counted(calls_);
    const signature& called = *closure.called;
    const scope_ptr own = inside(closure.context);
    const std::size_t taken = std::min(given.positional.size(), called.parameters.size());
    for (std::size_t i = 0; i < taken; ++i) own->set(called.parameters[i], given.positional[i]);
    std::vector<bool> is_missing(called.parameters.size(), false);
    for (std::size_t i = taken; i < called.parameters.size(); ++i) {
        const std::string& name = tree_.names[called.parameters[i]];
        const auto place =
            std::find_if(given.named.begin(), given.named.end(),
                         [&](const auto& pair) { return pair.first.bytes() == name; });
        is_missing[i] = place == given.named.end();
        if (is_missing[i]) continue;
        own->set(called.parameters[i], place->second);
        given.named.erase(place);
    }
    take_extra(called, given, taken, *own);
    const std::size_t required = called.parameters.size() - called.defaults.size();
    for (std::size_t i = taken; i < called.parameters.size(); ++i) {
        if (!is_missing[i]) continue;
        const std::string& name = tree_.names[called.parameters[i]];
        own->set(called.parameters[i],
                 i < required ? value::undefined("parameter '" + name + "' was not provided")
                              : evaluate(*called.defaults[i - required], own));
    }
    return captured(called.body, own);
}

}  // namespace semantic::engine::jinja
