// SPDX-License-Identifier: Apache-2.0
#pragma once
// Typed reading of one JSON object of a model's configuration. Used by the sources of config/ only.
// Owner: the reader, on its stack. Thread: one.

#include <boost/json.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace semantic::engine {

namespace json = boost::json;

/// The value as JSON for an error message, at most 80 bytes.
inline std::string shown(const json::value& value) {
    std::string text = json::serialize(value);
    if (text.size() > 80) text = text.substr(0, 77) + "...";
    return text;
}

/// Typed access to the fields of one JSON object. A null counts as missing, as it does in
/// transformers. A field of the wrong type or out of range sets `complaint`, unless it is set, and
/// the read returns `missing`; so callers read all fields and check the complaint once at the end.
class fields {
  public:
    /// `path`: prefix of a field's name in messages. `complaint`: gets the first error.
    fields(const json::object& object, std::string path, std::string& complaint)
        : object_(object), path_(std::move(path)), complaint_(complaint) {}

    /// Null if the field is missing or null.
    const json::value* find(std::string_view name) const {
        const json::value* value = object_.if_contains(name);
        return value != nullptr && !value->is_null() ? value : nullptr;
    }
    bool has(std::string_view name) const { return find(name) != nullptr; }

    /// A whole number from `least` to `most`; `missing` if there is no such field.
    int integer(std::string_view name, int missing, int least, int most) {
        const json::value* value = find(name);
        if (value == nullptr) return missing;
        std::int64_t number = 0;
        // A double that is whole counts, too: 128.0.
        if (value->is_int64()) {
            number = value->get_int64();
        } else if (value->is_double() &&
                   std::nearbyint(value->get_double()) == value->get_double() &&
                   std::abs(value->get_double()) < 1e15) {
            number = static_cast<std::int64_t>(value->get_double());
        } else {
            refuse(name, *value, "a whole number is needed");
            return missing;
        }
        if (number < least || number > most) {
            refuse(name, *value,
                   "supported are " + std::to_string(least) + " to " + std::to_string(most));
            return missing;
        }
        return static_cast<int>(number);
    }

    /// A number from 0 to `most`.
    double real_from_0(std::string_view name, double missing, double most) {
        return find(name) != nullptr && find(name)->is_number() &&
                       find(name)->to_number<double>() == 0.0
                   ? 0.0
                   : real(name, missing, 0.0, most);
    }

    /// A number greater than `above` and at most `most`.
    double real(std::string_view name, double missing, double above, double most) {
        const json::value* value = find(name);
        if (value == nullptr) return missing;
        if (!value->is_number()) {
            refuse(name, *value, "a number is needed");
            return missing;
        }
        const double number = value->to_number<double>();
        if (!(number > above && number <= most)) {
            refuse(name, *value, "out of range");
            return missing;
        }
        return number;
    }

    bool boolean(std::string_view name, bool missing) {
        const json::value* value = find(name);
        if (value == nullptr) return missing;
        if (!value->is_bool()) {
            refuse(name, *value, "true or false is needed");
            return missing;
        }
        return value->get_bool();
    }

    std::string string(std::string_view name, std::string_view missing) {
        const json::value* value = find(name);
        if (value == nullptr) return std::string(missing);
        if (!value->is_string()) {
            refuse(name, *value, "a string is needed");
            return std::string(missing);
        }
        return std::string(value->get_string());
    }

    /// Returns: null if the field is missing, or is not an object, which is a complaint.
    const json::object* object(std::string_view name) {
        const json::value* value = find(name);
        if (value == nullptr) return nullptr;
        if (!value->is_object()) {
            refuse(name, *value, "an object is needed");
            return nullptr;
        }
        return &value->get_object();
    }

    const json::object& raw() const { return object_; }
    std::string& complaint() { return complaint_; }
    std::string path(std::string_view name) const { return path_ + std::string(name); }

    /// Complains of a field's value: "NAME is VALUE: WHY".
    void refuse(std::string_view name, const json::value& value, std::string_view why) {
        complain(path_ + std::string(name) + " is " + shown(value) + ": " + std::string(why));
    }
    void complain(std::string message) {
        if (complaint_.empty()) complaint_ = std::move(message);
    }

  private:
    const json::object& object_;
    std::string path_;  // prefix of a field's name in a complaint
    std::string& complaint_;
};

}  // namespace semantic::engine
