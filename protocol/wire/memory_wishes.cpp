// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/memory_wishes.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>

#include "protocol/wire/fields.hpp"
#include "storage/types/memory_policy.hpp"

namespace semantic::protocol {

namespace json = boost::json;

namespace {

constexpr std::chrono::seconds lifetime_max = storage::memory_policy::keep_seconds_max;

/// Returns: the unit that ends a lifetime such as "5m"; nothing for another letter.
std::optional<std::chrono::seconds> unit_of(char letter) {
    switch (letter) {
        case 's':
            return std::chrono::seconds(1);
        case 'm':
            return std::chrono::minutes(1);
        case 'h':
            return std::chrono::hours(1);
        case 'd':
            return std::chrono::hours(24);
        default:
            return std::nullopt;
    }
}

/// Finds the longest `ttl` of cache_control in some blocks. Blocks that are wrong are ignored here,
/// since their own parser complains of them.
class longest_lifetime {
  public:
    void look_at(const json::value& block) {
        const json::object* object = block.if_object();
        const json::value* control = object ? object->if_contains("cache_control") : nullptr;
        const json::object* said = control ? control->if_object() : nullptr;
        const json::value* ttl = said ? said->if_contains("ttl") : nullptr;
        if (ttl == nullptr || !ttl->is_string()) return;
        const auto found = parse_lifetime({ttl->get_string().data(), ttl->get_string().size()});
        if (found) longest_ = std::max(longest_.value_or(*found), *found);
    }
    void look_through(const json::value* list) {
        if (list == nullptr || !list->is_array()) return;
        for (const json::value& each : list->get_array()) look_at(each);
    }
    std::optional<std::chrono::seconds> found() const { return longest_; }

  private:
    std::optional<std::chrono::seconds> longest_;
};

}  // namespace

std::optional<std::chrono::seconds> parse_lifetime(std::string_view text) {
    // A digit and a unit at least.
    if (text.size() < 2) return std::nullopt;
    const auto unit = unit_of(text.back());
    std::int64_t count = 0;
    const char* end = text.data() + text.size() - 1;
    const auto [at, error] = std::from_chars(text.data(), end, count);
    if (!unit || error != std::errc() || at != end || count < 0) return std::nullopt;
    if (count > lifetime_max / *unit) return std::nullopt;
    return count * *unit;
}

engine::memory_policy parse_cache_control(const json_cursor& root) {
    const json::object* body = root.value().if_object();
    if (body == nullptr) return {};
    longest_lifetime longest;
    longest.look_at(root.value());
    longest.look_through(body->if_contains("system"));
    longest.look_through(body->if_contains("tools"));
    const json::value* messages = body->if_contains("messages");
    if (messages != nullptr && messages->is_array())
        for (const json::value& each : messages->get_array())
            if (const json::object* message = each.if_object())
                longest.look_through(message->if_contains("content"));
    return {longest.found(), std::nullopt};
}

engine::memory_policy parse_prompt_cache_options(const json_cursor& root) {
    engine::memory_policy policy;
    if (auto retention = root.find("prompt_cache_retention"))
        // The vendor's other words, such as "in_memory", are no lifetime and ask for nothing.
        policy.keep_seconds = parse_lifetime(retention->as_string());
    auto options = root.find("prompt_cache_options");
    if (!options) return policy;
    options->as_object();
    if (auto mode = options->find("mode")) mode->as_string();
    if (auto ttl = options->find("ttl"))
        if (auto asked = parse_lifetime(ttl->as_string())) policy.keep_seconds = asked;
    return policy;
}

std::optional<std::chrono::seconds> read_lifetime(const json_cursor& field) {
    if (!field.value().is_string())
        return std::chrono::seconds(field.as_integer(0, lifetime_max.count()));
    const auto time = parse_lifetime(field.as_string());
    if (!time)
        field.fail(errc::bad_value,
                   "must be seconds as a number, or a time such as \"90s\", \"5m\", \"1h\" or "
                   "\"2d\", of ten years at most");
    return time;
}

engine::memory_policy parse_memory_policy(const json_cursor& root,
                                          const engine::memory_policy& vendors) {
    engine::memory_policy asked = vendors;
    const auto policy = root.find("memory_policy");
    if (!policy) return asked;
    for (const auto& [name, member] : policy->as_object())
        if (name != "keep" && name != "pin" && name != "drop")
            policy->place(name).fail(errc::bad_value, "must be keep, pin or drop");
    const auto keep = policy->find("keep");
    const auto pin = policy->find("pin");
    if (keep) asked.keep_seconds = read_lifetime(*keep);
    if (pin) asked.pinned = pin->as_bool();
    if (!flag_at(*policy, "drop")) return asked;
    if (keep || (pin && asked.pinned.value_or(false)))
        policy->place("drop").fail(errc::bad_value, "what is dropped is neither kept nor pinned");
    // To drop is to keep for no time at all.
    return {std::chrono::seconds(0), false};
}

}  // namespace semantic::protocol
