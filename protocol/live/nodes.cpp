// SPDX-License-Identifier: Apache-2.0
#include "protocol/live/nodes.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include <algorithm>
#include <optional>

#include "protocol/wire/json.hpp"

namespace semantic::protocol::live {

namespace {

namespace json = boost::json;

constexpr std::chrono::seconds silent_after{5};
constexpr std::size_t models_max = 16;
constexpr std::size_t text_bytes_max = 128;

/// What a node announces of itself, under the names that read_facts() reads.
json::object object_of(const node_facts& facts) {
    json::array models;
    for (const std::string& each : facts.models) models.emplace_back(each);
    return {{"version", facts.version},
            {"phase", facts.phase},
            {"models", std::move(models)},
            {"agents_hot", facts.agents_hot},
            {"agents_warm", facts.agents_warm},
            {"agents_dirty", facts.agents_dirty},
            {"pool_bytes", facts.pool_bytes},
            {"pool_held_bytes", facts.pool_held_bytes},
            {"running", facts.running},
            {"waiting", facts.waiting},
            {"uploads_pending", facts.uploads_pending}};
}

/// Returns: the first text_bytes_max bytes at most; no UTF-8 character is divided.
std::string shortened(const json::string& text) {
    std::size_t end = std::min(text.size(), text_bytes_max);
    while (end > 0 && end < text.size() && (text[end] & 0xC0) == 0x80) --end;
    return std::string(text.data(), end);
}

std::string text_in(const json::object& from, std::string_view name) {
    const json::value* found = from.if_contains(name);
    if (found == nullptr || !found->is_string()) return {};
    return shortened(found->get_string());
}

/// A number that another node announced; 0 where it is missing or negative.
std::uint64_t number_in(const json::object& from, std::string_view name) {
    const json::value* found = from.if_contains(name);
    if (found == nullptr) return 0;
    if (found->is_uint64()) return found->get_uint64();
    return found->is_int64() && found->get_int64() > 0
               ? static_cast<std::uint64_t>(found->get_int64())
               : 0;
}

/// Returns: what another node says of itself, read field by field with bounds; nothing where it is
/// no JSON object.
std::optional<node_facts> read_facts(std::string_view says) {
    boost::system::error_code error;
    json::parse_options strict;
    // An announcement is an object with one list of texts.
    strict.max_depth = 3;
    const json::value parsed = json::parse(says, error, {}, strict);
    if (error || !parsed.is_object()) return std::nullopt;
    const json::object& from = parsed.get_object();
    node_facts facts{text_in(from, "version"), text_in(from, "phase")};
    if (const json::value* models = from.if_contains("models"); models && models->is_array())
        for (const json::value& each : models->get_array())
            if (each.is_string() && facts.models.size() < models_max)
                facts.models.push_back(shortened(each.get_string()));
    facts.agents_hot = number_in(from, "agents_hot");
    facts.agents_warm = number_in(from, "agents_warm");
    facts.agents_dirty = number_in(from, "agents_dirty");
    facts.pool_bytes = number_in(from, "pool_bytes");
    facts.pool_held_bytes = number_in(from, "pool_held_bytes");
    facts.running = number_in(from, "running");
    facts.waiting = number_in(from, "waiting");
    facts.uploads_pending = number_in(from, "uploads_pending");
    return facts;
}

}  // namespace

std::string node_text(const node_facts& facts) { return to_text(object_of(facts)); }

std::string nodes_text(std::span<const shown_node> nodes) {
    json::array list;
    for (const shown_node& each : nodes) {
        json::object shown{{"id", each.id},
                           {"url", each.url.empty() ? json::value() : json::value(each.url)},
                           {"self", each.is_self},
                           {"silent", each.silent_for > silent_after}};
        const auto facts = read_facts(each.says);
        for (const auto& field : object_of(facts.value_or(node_facts())))
            // All keys are there in any case; null where the node announced nothing that can be
            // read.
            shown[field.key()] = facts ? field.value() : json::value();
        list.push_back(std::move(shown));
    }
    return to_text(list);
}

}  // namespace semantic::protocol::live
