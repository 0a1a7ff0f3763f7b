// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/schema/schema_references.hpp"

#include <algorithm>
#include <string_view>

namespace semantic::engine {

namespace json = boost::json;

const json::value* schema_references::target_of(const json::object& schema,
                                                const std::string& path) {
    const json::value& place = schema.at("$ref");
    if (!place.is_string() || !place.get_string().starts_with("#")) {
        complaints_.give_up(path, "'$ref' is not a place in this schema: " + shown(place));
        return nullptr;
    }
    const std::string_view pointer = std::string_view(place.get_string()).substr(1);
    budget_.charge_steps(4 + pointer.size() / 4);
    boost::system::error_code error;
    const json::value* found = pointer.empty() ? &root_ : root_.find_pointer(pointer, error);
    if (!found) complaints_.give_up(path, "'$ref' names what is not there: " + shown(place));
    return found;
}

std::vector<const json::object*> schema_references::parts_of(const json::value& schema,
                                                             const std::string& path) {
    std::vector<const json::object*> parts;
    if (!schema.is_object() && schema != true)
        complaints_.give_up(path, "a schema is an object here, not " + shown(schema));
    const json::value* next = &schema;
    for (int i = 0; next != nullptr && next->is_object(); ++i) {
        const json::object& here = next->get_object();
        budget_.charge_steps(here.size() + 1);
        const bool leads_on = here.contains("$ref");
        const bool says_more = std::any_of(here.begin(), here.end(), [](const auto& member) {
            return member.key() != "$ref" && !says_nothing(member.key());
        });
        if (!leads_on || says_more) parts.push_back(&here);
        if (!leads_on) break;
        if (i == schema_depth_max) complaints_.give_up(path, "'$ref' leads to '$ref' without end");
        next = i < schema_depth_max ? target_of(here, path) : nullptr;
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
}

schema_view schema_references::object_at(const json::value& schema, const std::string& path) {
    static const json::object nothing;
    const auto parts = parts_of(schema, path);
    if (parts.empty()) return {&nothing};
    // A part that has a '$ref' is merged even if it is alone: that leaves the '$ref' out.
    if (parts.size() == 1 && !parts[0]->contains("$ref")) return {parts[0]};
    auto merged = std::make_unique<schema_merge>(budget_, path, complaints_);
    for (const json::object* part : parts) merged->add(*part);
    const json::object* whole = &merged->whole();
    return {whole, std::move(merged)};
}

}  // namespace semantic::engine
