// SPDX-License-Identifier: Apache-2.0
// The functions that every template can call: range(), dict(), namespace(), raise_exception() and
// strftime_now().

#include <array>
#include <ctime>

#include "engine/text/jinja/builtins/bound_arguments.hpp"
#include "engine/text/jinja/interpreter.hpp"
#include "engine/text/jinja/values/print.hpp"

namespace semantic::engine::jinja {

namespace {

/// range(stop) or range(start, stop, step). The items are listed at once, since range_length_max
/// bounds them; `shown` is the text that Python prints.
value range(budget& left, arguments& given) {
    const bound_arguments bounds("range", given, {"start", "stop", "step"});
    // Fails if no bound is given; the result is read below.
    bounds.required(0);
    const bool has_start = given.positional.size() > 1;
    const std::int64_t start = has_start ? bounds.integer(0, 0) : 0;
    const std::int64_t stop = bounds.integer(has_start ? 1 : 0, 0);
    const std::int64_t step = bounds.integer(2, 1);
    if (step == 0) fail("range() arg 3 must not be zero");
    std::vector<value> items;
    for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
        if (items.size() >= static_cast<std::size_t>(range_length_max)) {
            fail("Range too big. The sandbox blocks ranges larger than " +
                     std::to_string(range_length_max) + ".",
                 error_kind::limit);
        }
        items.push_back(at);
        // An item beyond 64 bits is past any stop.
        if (__builtin_add_overflow(at, step, &at)) break;
    }
    left.spend_items(items.size());
    auto made = std::make_shared<list_object>();
    made->items = std::move(items);
    made->form = list_form::range;
    made->shown = "range(" + std::to_string(start) + ", " + std::to_string(stop) +
                  (step == 1 ? "" : ", " + std::to_string(step)) + ")";
    return list_ptr(std::move(made));
}

/// The pairs that the arguments of dict(mapping, key=item, ...) name; the mapping may also be a
/// list of pairs.
std::vector<std::pair<value, value>> pairs_of(const arguments& given, budget& left) {
    std::vector<std::pair<value, value>> pairs;
    if (given.positional.size() > 1) fail("dict expected at most 1 argument");
    if (!given.positional.empty()) {
        require_defined(given.positional[0]);
        if (const dict_object* dict = given.positional[0].as_dict()) {
            pairs = dict->items;
        } else {
            const list_ptr items = items_of(given.positional[0], left);
            for (const value& item : items->items) {
                const list_ptr pair = items_of(item, left);
                if (pair->items.size() != 2) fail("a dict is made of pairs");
                pairs.emplace_back(pair->items[0], pair->items[1]);
            }
        }
    }
    for (const auto& [name, item] : given.named) pairs.emplace_back(name, item);
    left.spend_items(pairs.size());
    return pairs;
}

value new_dict(budget& left, arguments& given) { return make_dict(pairs_of(given, left), left); }

/// Ends the run with an error of the template's own; never returns.
value raise_exception(budget& left, arguments& given) {
    const bound_arguments bound("raise_exception", given, {"message"});
    fail(to_text(bound.required(0), left).bytes(), error_kind::raised);
}

/// Prints `day` (as yyyy-mm-dd), at midnight, by the format of C's strftime(). Templates see this
/// day instead of the clock, so that a conversation always renders to the same prompt.
value strftime_now(const std::string& day, budget& left, arguments& given) {
    const bound_arguments bound("strftime_now", given, {"format"});
    static const marked_text none;
    // Fails if no format is given. A format of none counts as an empty one.
    bound.required(0);
    const marked_text& wanted = bound.text(0, none);
    const std::string& format = wanted.bytes();
    if (format.size() > 256) fail("strftime_now: the format is too long");
    left.spend(1 + format.size());
    std::tm time{};
    time.tm_year = std::stoi(day.substr(0, 4)) - 1900;
    time.tm_mon = std::stoi(day.substr(5, 2)) - 1;
    time.tm_mday = std::stoi(day.substr(8, 2));
    time.tm_isdst = 0;
    ::timegm(&time);  // fills in the day of the week and of the year
    // strftime() returns 0 for an empty result and for one that does not fit. With the blank, which
    // is cut off again below, no result is empty.
    const std::string with_blank = format + " ";
    std::array<char, 4096> buffer{};
    const std::size_t size = std::strftime(buffer.data(), buffer.size(), with_blank.c_str(), &time);
    if (size == 0) fail("strftime_now: the result is too long");
    // If any part of the format is from a request, all of the result counts as such, since it is
    // not known which bytes came from where.
    return marked_text(std::string(buffer.data(), size - 1), !wanted.content().empty());
}

}  // namespace

/// Makes a namespace, which namespaces_ also keeps for the destructor to empty.
value interpreter::new_namespace(const arguments& given) {
    auto made = std::make_shared<namespace_object>();
    for (const auto& [key, item] : pairs_of(given, left_)) {
        const marked_text* name = key.as_text();
        if (name == nullptr) fail("a namespace's names are texts");
        // For the search in set().
        left_.spend(made->items.size() / 8);
        made->set(*name, item);
    }
    namespaces_.push_back(made);
    return value(made);
}

/// Makes the functions that templates can call. Their values are in own_globals_, to which globals_
/// refers: it must not grow afterwards.
void interpreter::add_globals(const std::string& day) {
    const auto add = [this](const char* name, std::function<value(budget&, arguments&)> call) {
        own_globals_.emplace_back(name, make_callable(name, std::move(call)));
    };
    add("range", range);
    add("dict", new_dict);
    add("raise_exception", raise_exception);
    add("namespace", [this](budget&, arguments& given) { return new_namespace(given); });
    add("strftime_now",
        [&day](budget& left, arguments& given) { return strftime_now(day, left, given); });
}

}  // namespace semantic::engine::jinja
