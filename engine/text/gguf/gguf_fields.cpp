// SPDX-License-Identifier: Apache-2.0
#include "engine/text/gguf/gguf_fields.hpp"

namespace semantic::engine::gguf_fields {

using storage::errc;
using storage::failure;
using storage::gguf_array;
using storage::gguf_value;
using storage::gguf_value_type;
using storage::gguf_view;
using storage::result;

namespace {

/// Describes the value that is there, for an error.
struct described {
    std::string operator()(std::uint64_t) const { return "a whole number"; }
    std::string operator()(std::int64_t) const { return "a whole number"; }
    std::string operator()(float) const { return "a real number"; }
    std::string operator()(double) const { return "a real number"; }
    std::string operator()(bool) const { return "a boolean"; }
    std::string operator()(std::string_view) const { return "a string"; }
    std::string operator()(const gguf_array& list) const {
        return std::string("an array of ") + storage::to_string(list.type);
    }
};

/// The error that a key has a value of another type.
failure wrong(std::string_view key, const gguf_value& value, std::string_view wanted) {
    return {errc::corrupt, std::string(key) + " is " + std::visit(described{}, value) + ", not " +
                               std::string(wanted)};
}

/// Null when there is no such key.
const gguf_value* find(const gguf_view& metadata, std::string_view key) {
    const auto found = metadata.metadata.find(key);
    return found == metadata.metadata.end() ? nullptr : &found->second;
}

}  // namespace

result<std::string_view> text(const gguf_view& metadata, std::string_view key) {
    const gguf_value* value = find(metadata, key);
    if (value == nullptr) return std::string_view();
    if (const auto* is = std::get_if<std::string_view>(value)) return *is;
    return wrong(key, *value, "a string");
}

result<std::optional<bool>> flag(const gguf_view& metadata, std::string_view key) {
    const gguf_value* value = find(metadata, key);
    if (value == nullptr) return std::optional<bool>();
    if (const auto* is = std::get_if<bool>(value)) return std::optional<bool>(*is);
    return wrong(key, *value, "a boolean");
}

result<std::optional<std::uint64_t>> number(const gguf_view& metadata, std::string_view key) {
    const gguf_value* value = find(metadata, key);
    if (value == nullptr) return std::optional<std::uint64_t>();
    if (const auto* is = std::get_if<std::uint64_t>(value))
        return std::optional<std::uint64_t>(*is);
    if (const auto* is = std::get_if<std::int64_t>(value); is != nullptr && *is >= 0)
        return std::optional<std::uint64_t>(static_cast<std::uint64_t>(*is));
    return wrong(key, *value, "a whole number of 0 or more");
}

result<const gguf_array*> strings(const gguf_view& metadata, std::string_view key) {
    const gguf_value* value = find(metadata, key);
    if (value == nullptr) return static_cast<const gguf_array*>(nullptr);
    const auto* list = std::get_if<gguf_array>(value);
    if (list != nullptr && list->type == gguf_value_type::string) return list;
    return wrong(key, *value, "an array of strings");
}

result<const gguf_array*> numbers(const gguf_view& metadata, std::string_view key) {
    const gguf_value* value = find(metadata, key);
    if (value == nullptr) return static_cast<const gguf_array*>(nullptr);
    const auto* list = std::get_if<gguf_array>(value);
    if (list != nullptr && list->type != gguf_value_type::string &&
        list->type != gguf_value_type::boolean && list->type != gguf_value_type::array)
        return list;
    return wrong(key, *value, "an array of numbers");
}

}  // namespace semantic::engine::gguf_fields
