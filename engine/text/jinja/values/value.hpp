// SPDX-License-Identifier: Apache-2.0
#pragma once
// The values of a template: Python's, as far as templates use them. Values are immutable, except
// for namespaces, generators and loops, which belong to one run. Copies share their contents.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/text/jinja/values/budget.hpp"
#include "engine/text/jinja/values/marked_text.hpp"

namespace boost::json {
class value;
}

namespace semantic::engine::jinja {

class value;
struct list_object;
struct dict_object;
struct namespace_object;
struct loop_object;
struct callable_object;
struct spelled_number;

/// The reason of an undefined value: "'x' is undefined". Never null in a value.
using reason = std::shared_ptr<const std::string>;
using text_ptr = std::shared_ptr<const marked_text>;
using list_ptr = std::shared_ptr<const list_object>;
using dict_ptr = std::shared_ptr<const dict_object>;
using namespace_ptr = std::shared_ptr<namespace_object>;
using loop_ptr = std::shared_ptr<loop_object>;
using callable_ptr = std::shared_ptr<const callable_object>;
using spelled_ptr = std::shared_ptr<const spelled_number>;

struct none_type {};

class value {
  public:
    value() : held_(none_type{}) {}
    value(bool flag) : held_(flag) {}
    value(std::int64_t number) : held_(number) {}
    value(int number) : held_(std::int64_t{number}) {}
    value(std::size_t number) : held_(static_cast<std::int64_t>(number)) {}
    value(double number) : held_(number) {}
    value(marked_text text) : held_(std::make_shared<const marked_text>(std::move(text))) {}
    value(text_ptr text) : held_(std::move(text)) {}
    value(list_ptr list) : held_(std::move(list)) {}
    value(dict_ptr dict) : held_(std::move(dict)) {}
    value(namespace_ptr ns) : held_(std::move(ns)) {}
    value(loop_ptr loop) : held_(std::move(loop)) {}
    value(callable_ptr callable) : held_(std::move(callable)) {}
    value(spelled_ptr number) : held_(std::move(number)) {}
    value(const char*) = delete;  // would be a bool: see written()

    static value undefined(std::string why) {
        return value(std::make_shared<const std::string>(std::move(why)));
    }

    bool is_undefined() const noexcept { return std::holds_alternative<reason>(held_); }
    bool is_none() const noexcept { return std::holds_alternative<none_type>(held_); }
    bool is_text() const noexcept { return std::holds_alternative<text_ptr>(held_); }
    // Each returns null if the value has another type.
    const bool* as_bool() const noexcept { return std::get_if<bool>(&held_); }
    /// The number of a float, or of a spelled_number.
    const double* as_float() const noexcept;
    const spelled_number* as_spelled() const noexcept {
        return held<spelled_ptr, const spelled_number>();
    }
    const marked_text* as_text() const noexcept { return held<text_ptr, const marked_text>(); }
    const list_object* as_list() const noexcept { return held<list_ptr, const list_object>(); }
    const dict_object* as_dict() const noexcept { return held<dict_ptr, const dict_object>(); }
    namespace_object* as_namespace() const noexcept {
        return held<namespace_ptr, namespace_object>();
    }
    loop_object* as_loop() const noexcept { return held<loop_ptr, loop_object>(); }
    const callable_object* as_callable() const noexcept {
        return held<callable_ptr, const callable_object>();
    }
    /// The list itself, shared; null when it is none.
    list_ptr list() const noexcept { return shared<list_ptr>(); }
    text_ptr text() const noexcept { return shared<text_ptr>(); }
    namespace_ptr ns() const noexcept { return shared<namespace_ptr>(); }
    /// Reads an integer or a boolean, which Python counts as one. Returns: false for other values.
    bool to_integer(std::int64_t& out) const noexcept;
    /// Reads an integer, a boolean or a float. Returns: false for other values.
    bool to_number(double& out) const noexcept;
    bool is_number() const noexcept;
    /// The reason of an undefined value. Requires: it is undefined.
    const std::string& why() const { return *std::get<reason>(held_); }

    /// The objects shared by copies; null for plain values.
    const void* identity() const noexcept;

  private:
    explicit value(reason why) : held_(std::move(why)) {}
    template <class Pointer, class Object>
    Object* held() const noexcept {
        const auto* pointer = std::get_if<Pointer>(&held_);
        return pointer == nullptr ? nullptr : pointer->get();
    }
    template <class Pointer>
    Pointer shared() const noexcept {
        const auto* pointer = std::get_if<Pointer>(&held_);
        return pointer == nullptr ? nullptr : *pointer;
    }
    std::variant<reason, none_type, bool, std::int64_t, double, text_ptr, list_ptr, dict_ptr,
                 namespace_ptr, loop_ptr, callable_ptr, spelled_ptr>
        held_;
};

/// A number of a request that is printed as it was spelled, because a float would be printed in
/// another way: 0.10, 1e400, an integer of more than 64 bits. It counts as the nearest float.
struct spelled_number {
    double number = 0;
    std::string text{};       // as spelled
    bool is_integer = false;  // whether Python would read it as an int
};

enum class list_form {
    list,
    tuple,
    group,      // of groupby: a tuple (grouper, list) whose items have these names
    range,      // a sequence that is no list to JSON
    generator,  // of map, select ...: handed out once, has no length
    keys,       // of a dict: no indexing
    values,
    items,
};
struct list_object {
    std::vector<value> items;
    list_form form = list_form::list;
    unsigned depth = 1;             // of lists and dicts in each other
    std::string shown{};            // of a range: "range(0, 3)"
    mutable std::size_t taken = 0;  // of a generator: how many items were handed out
};

struct dict_object {
    /// In the order of insertion; keys differ and are hashable.
    std::vector<std::pair<value, value>> items;
    unsigned depth = 1;  // of lists and dicts in each other
    /// The value of a key; null if there is none. Charges its work to `left`.
    const value* find(const value& key, budget& left) const;
    const value* find(std::string_view key) const;
};

struct namespace_object {
    std::vector<std::pair<marked_text, value>> items;
    const value* find(std::string_view name) const;
    /// Sets a member. A name that exists keeps its marks of content.
    void set(const marked_text& name, value to);
};

/// The variable `loop` in the body of a for.
struct loop_object {
    list_ptr items;
    std::size_t index0 = 0;             // of the current round
    unsigned depth0 = 0;                // always 0: loops cannot be recursive
    std::vector<value> last_changed{};  // arguments of the last loop.changed()
    bool has_changed = false;           // whether it was called
};

/// The arguments of a call. Names come from the template, or by ** from a request's dict.
struct arguments {
    std::vector<value> positional{};
    std::vector<std::pair<marked_text, value>> named{};
};

struct callable_object {
    std::string name;
    std::function<value(budget&, arguments&)> call;
    unsigned depth = 0;  // of lists and dicts in what it is bound to
};

// Making values.

value written(std::string text);  // by the template
value content(std::string text);  // by the request; what is not UTF-8 becomes U+FFFD
value make_list(std::vector<value> items, list_form form = list_form::list);
value make_generator(std::vector<value> items);
/// `self`: the object that the function is bound to; it counts for the depth of values.
value make_callable(std::string name, std::function<value(budget&, arguments&)> call,
                    const value& self = {});
/// Makes a dict. Fails for a key that is not hashable. Of equal keys the last value counts, at the
/// place of the first.
value make_dict(std::vector<std::pair<value, value>> items, budget& left);
/// Makes a dict of items whose keys are texts, no two of them equal; they are not compared.
value make_dict_of_different(std::vector<std::pair<value, value>> items);
/// A number from its JSON spelling.
value spelled(std::string text);
/// Converts JSON. All texts in the result, also keys, are content.
value from_json(const boost::json::value& json);

// Python's operations on values of all types.

bool is_true(const value& v);
/// "int", "str", "NoneType" ...
std::string type_name(const value& v);
/// The type's name in errors about members: "'dict object'".
std::string object_name(const value& v);
bool equal(const value& a, const value& b, budget& left);
/// a < b. Fails for types that have no order.
bool less(const value& a, const value& b, budget& left, std::string_view sign = "<");
/// The items of a value that a for loop can iterate over; those of a generator are used up. Fails
/// for other values.
list_ptr items_of(const value& v, budget& left);
/// len(v). Fails for values without a length.
std::size_t length_of(const value& v, budget& left);
/// `needle in v`
bool contains(const value& v, const value& needle, budget& left);
/// Fails for an undefined value, with its reason.
void require_defined(const value& v);

}  // namespace semantic::engine::jinja
