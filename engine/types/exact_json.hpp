// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON whose numbers keep their full precision: one that neither 64 bits nor a double hold stays
// the text that it was. Pure; safe from any thread.

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

/// `memory` holds the value, and outlives it. Throws what `memory` throws.
exact_json read_exact_json(std::string_view text, const exact_json_limits& limits = {},
                           boost::json::storage_ptr memory = {});

/// Of a number that neither 64 bits nor a double hold: its text. It is kept as a string that no
/// client can send, since it is no UTF-8. Returns: nothing for other values.
std::optional<std::string_view> exact_number(const boost::json::value& value);

/// The double next to what JSON writes so; of one beyond all doubles the greatest there is.
double nearest_double(std::string_view number);

/// Whether the number that JSON writes so has no fraction: 1e30 and 1.50e1 have none.
bool is_whole(std::string_view number);

}  // namespace semantic::engine
