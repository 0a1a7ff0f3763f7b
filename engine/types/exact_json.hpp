// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parses JSON without loss of precision: a number that neither a 64-bit integer nor a double can
// hold exactly is kept as its text. Pure; safe from any thread.

#include <boost/json/error.hpp>
#include <boost/json/storage_ptr.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <optional>
#include <string_view>

namespace semantic::engine {

struct exact_json_limits {
    std::size_t depth_max = 256;
    std::size_t values_max = static_cast<std::size_t>(-1);
};

struct exact_json {
    boost::json::value value;
    boost::json::error_code ec{};
    std::size_t used = 0;  // bytes read
    bool has_too_many_values = false;
};

/// Parses one JSON text. `memory`: allocates the value, and outlives it. Errors: in the result
/// (`ec`); throws what `memory` throws.
exact_json read_exact_json(std::string_view text, const exact_json_limits& limits = {},
                           boost::json::storage_ptr memory = {});

/// Returns: the text of a number that neither 64 bits nor a double can hold; nothing for other
/// values. Such a number is kept as a string that begins with the byte FF: clients cannot send
/// that, because it is not UTF-8.
std::optional<std::string_view> exact_number(const boost::json::value& value);

/// The double nearest to a number written in JSON; the greatest double for one beyond all doubles.
double nearest_double(std::string_view number);

/// Whether a number written in JSON is an integer: 1e30 and 1.50e1 are.
bool is_whole(std::string_view number);

}  // namespace semantic::engine
