// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON with limits, and typed access to fields which says where in the document a fault lies. Pure;
// no function throws on bad input.

#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/wire/errc.hpp"

namespace semantic::protocol {

struct json_limits {
    std::size_t bytes_max = 32 * 1024 * 1024;
    std::size_t depth_max = 64;
    /// Each value takes at least 16 bytes in memory and may be one byte on the wire: this bounds
    /// what a body costs.
    std::size_t values_max = 2'000'000;
};

/// Parses a text within limits. Errors: body_too_large; malformed_json (says at which byte);
/// bad_value for too many values. Numbers keep their full precision (exact_number()); invalid UTF-8
/// is malformed. A byte order mark at the start is skipped; an escaped half of a UTF-16 pair is
/// read as U+FFFD.
result<boost::json::value> parse_json(std::string_view text, const json_limits& limits);
/// Returns: compact JSON: keys in their order, numbers in their shortest decimal form ("0.5", never
/// "5E-1"), those that exact_number() knows as they were written.
std::string to_text(const boost::json::value& value);

/// Returns: the text of a number that neither 64 bits nor a double can hold; nothing for any other
/// value. parse_json() keeps such a number as a string that is no UTF-8, so that no client can send
/// one.
std::optional<std::string_view> exact_number(const boost::json::value& value) noexcept;

/// "a string", "a number", "an object", ...
const char* kind_name(const boost::json::value& value) noexcept;

/// A value and its path in the document. A reader that does not find what it expects complains; the
/// document keeps the first complaint, and the read returns a default. So callers read straight on
/// and check once at the end. Views the document and the complaint: must not outlive them.
class json_cursor {
  public:
    json_cursor(const boost::json::value& value, std::string path,
                std::optional<failure>& complaint)
        : value_(&value), path_(std::move(path)), complaint_(&complaint) {}

    const boost::json::value& value() const noexcept { return *value_; }
    /// "messages.3.content.0.text"; empty at the root.
    const std::string& path() const noexcept { return path_; }
    /// Whether nothing of the document was wrong so far.
    bool ok() const noexcept { return !*complaint_; }

    /// Returns: the field for complaints about it; its value is null when the key is absent.
    json_cursor place(std::string_view key) const;
    /// Returns: a required field. Complains with bad_value when this is no object, with
    /// missing_field when it has no such field; the value is null then.
    json_cursor at(std::string_view key) const;
    /// Returns: an optional field; nothing when the key is absent or null, or this is no object.
    std::optional<json_cursor> find(std::string_view key) const;
    /// Requires: this is an array and `index` is inside it.
    json_cursor item(std::size_t index) const;

    /// All of these complain with bad_value: "PATH: expected a string, found a number". The default
    /// is empty, false, or `low`.
    const boost::json::object& as_object() const;
    const boost::json::array& as_array() const;
    std::string_view as_string() const;
    bool as_bool() const;
    /// Also outside [low, high]. A number without a fraction counts as an integer.
    std::int64_t as_integer(std::int64_t low, std::int64_t high) const;
    /// Also outside [low, high].
    double as_number(double low, double high) const;

    /// Complains of this place: "PATH: SENTENCE". `error_code`: the vendor's, or empty.
    void fail(errc code, std::string_view sentence, std::string_view error_code = {}) const;

  private:
    void wrong_kind(std::string_view expected) const;

    const boost::json::value* value_;
    std::string path_;
    std::optional<failure>* complaint_;
};

/// Parses a body that must be one JSON object. `read`: gets a cursor at its root and returns what
/// was read; not called where the body is no object. Returns: that. Errors: those of parse_json();
/// the first complaint.
template <class Read>
auto read_object(std::string_view body, const json_limits& limits, Read read)
    -> result<decltype(read(std::declval<const json_cursor&>()))> {
    auto document = parse_json(body, limits);
    if (!document) return document.error();
    std::optional<failure> complaint;
    const json_cursor root(*document, "", complaint);
    root.as_object();
    if (complaint) return *complaint;
    auto said = read(root);
    if (complaint) return *complaint;
    return said;
}

}  // namespace semantic::protocol
