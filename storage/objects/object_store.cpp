// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/object_store.hpp"

#include <algorithm>
#include <stdexcept>

#include "storage/objects/random_id.hpp"

namespace semantic::storage {

namespace {

/// Returns: the error of a text that is no object name; `why` says what is wrong.
object_failure bad_name(std::string_view name, const char* why) {
    return {object_errc::bad_value, "\"" + std::string(name.substr(0, object_name_bytes_max)) +
                                        "\" names no object: " + why};
}

bool is_letter_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Tries a write on a condition that does not hold. Errors: io when the store performed it all the
/// same.
object_result<void> expect_refusal(object_store& store, const std::string& name,
                                   const put_condition& condition, const char* condition_name) {
    const auto written = store.put(name, "refused", condition);
    if (written)
        return object_failure{object_errc::io, std::string("the object store ignores ") +
                                                   condition_name +
                                                   ", so that two writers would overwrite each "
                                                   "other unnoticed"};
    if (written.error().code == object_errc::precondition_failed) return {};
    return written.error();
}

}  // namespace

const char* to_string(object_errc code) noexcept {
    switch (code) {
        case object_errc::not_found:
            return "not_found";
        case object_errc::precondition_failed:
            return "precondition_failed";
        case object_errc::unavailable:
            return "unavailable";
        case object_errc::denied:
            return "denied";
        case object_errc::io:
            return "io";
        case object_errc::corrupt:
            return "corrupt";
        case object_errc::bad_value:
            return "bad_value";
    }
    return "unknown";
}

void throw_exception_from_error(const object_failure& f, const boost::source_location&) {
    throw std::runtime_error(std::string(to_string(f.code)) + ": " + f.what);
}

object_failure of_file(const failure& f) {
    switch (f.code) {
        case errc::not_found:
            return {object_errc::not_found, f.what};
        case errc::corrupt:
        case errc::incompatible:
            return {object_errc::corrupt, f.what};
        case errc::locked:
            return {object_errc::unavailable, f.what};
        case errc::io:
        case errc::out_of_space:
        case errc::pool_exhausted:
        case errc::bad_value:
            return {object_errc::io, f.what};
    }
    return {object_errc::io, f.what};
}

bool is_object_name_text(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
        return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-' || c == '/';
    });
}

object_result<void> check_object_name(std::string_view name) {
    if (name.size() > object_name_bytes_max) return bad_name(name, "longer than 512 bytes");
    if (!is_object_name_text(name))
        return bad_name(name, "other characters than letters, digits, '.', '_', '-', '/'");
    for (std::size_t begin = 0; begin <= name.size();) {
        const std::size_t end = std::min(name.find('/', begin), name.size());
        const std::string_view part = name.substr(begin, end - begin);
        if (part.empty()) return bad_name(name, "an empty part");
        if (part.size() > object_name_part_bytes_max)
            return bad_name(name, "a part longer than 128 bytes");
        if (part.front() == '.') return bad_name(name, "a part that begins with '.'");
        begin = end + 1;
    }
    return {};
}

object_result<void> check_conditions(object_store& store) {
    const std::string name = "probe/" + random_id();
    const auto first = store.put(name, "first", if_absent());
    if (!first) return first.error();
    const auto check = [&]() -> object_result<void> {
        if (auto ok = expect_refusal(store, name, if_absent(), "If-None-Match"); !ok) return ok;
        const auto second = store.put(name, "second", if_version(*first));
        if (!second && second.error().code == object_errc::precondition_failed)
            return object_failure{object_errc::io,
                                  "the object store does not know the version that it has just "
                                  "given: " +
                                      second.error().what};
        if (!second) return second.error();
        return expect_refusal(store, name, if_version(*first), "If-Match");
    };
    auto checked = check();
    auto removed = store.remove(name);
    return checked ? removed : checked;
}

}  // namespace semantic::storage
