#pragma once
// JSON with limits, and typed access to fields whose error says where in the document the fault
// lies. Pure; no function throws on bad input.

#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/wire/errc.hpp"

namespace semantic::protocol {

struct json_limits {
    std::size_t bytes_max = 32 * 1024 * 1024;
    std::size_t depth_max = 64;
    /// Each value takes at least 16 bytes in memory and may be one byte on the wire: this bounds
    /// what a body costs.
    std::size_t values_max = 2'000'000;
};

/// Errors: body_too_large; malformed_json (says at which byte); bad_value for too many values.
/// Numbers keep their full precision; invalid UTF-8 is malformed. A byte order mark in front is
/// skipped, an escaped half of a UTF-16 pair is read as U+FFFD.
result<boost::json::value> parse_json(std::string_view text, const json_limits& limits);
/// Compact JSON, keys in their order, numbers in their shortest decimal form ("0.5", never "5E-1").
std::string to_text(const boost::json::value& value);

/// "a string", "a number", "an object", ...
const char* kind_name(const boost::json::value& value) noexcept;

/// A value and where it was found. Views the document: must not outlive it.
class json_cursor {
  public:
    json_cursor(const boost::json::value& value, std::string path)
        : value_(&value), path_(std::move(path)) {}

    const boost::json::value& value() const noexcept { return *value_; }
    /// "messages.3.content.0.text"; empty at the root.
    const std::string& path() const noexcept { return path_; }

    /// Errors: bad_value when this is no object; missing_field.
    result<json_cursor> at(std::string_view key) const;
    /// Nothing when the key is absent or null. Requires: this is an object.
    std::optional<json_cursor> find(std::string_view key) const;
    /// Requires: this is an array and `index` is inside it.
    json_cursor item(std::size_t index) const;

    /// All of these, errors: bad_value, "PATH: expected a string, found a number".
    result<const boost::json::object*> as_object() const;
    result<const boost::json::array*> as_array() const;
    result<std::string_view> as_string() const;
    result<bool> as_bool() const;
    /// Also bad_value outside [low, high]. A number without a fraction counts as an integer.
    result<std::int64_t> as_integer(std::int64_t low, std::int64_t high) const;
    /// Also bad_value outside [low, high].
    result<double> as_number(double low, double high) const;

    /// A failure at this place: "PATH: SENTENCE".
    failure fail(errc code, std::string_view sentence) const;

  private:
    const boost::json::value* value_;
    std::string path_;
};

}  // namespace semantic::protocol
