// SPDX-License-Identifier: Apache-2.0
#include "engine/model/packed/packed_index.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include "storage/files/checksum.hpp"
#include "storage/files/strict_json.hpp"

namespace semantic::engine {

namespace json = boost::json;

namespace {

constexpr const char* format_name = "semantic-packed";
constexpr std::int64_t format_version = 1;

json::array to_json(const storage::file_identity& identity) {
    return {static_cast<std::int64_t>(identity.device), static_cast<std::int64_t>(identity.inode),
            static_cast<std::int64_t>(identity.bytes), identity.modified_ns, identity.changed_ns};
}

/// Reads a file's identity, a list of five numbers; nothing when it is none. The numbers are in the
/// order of to_json().
std::optional<storage::file_identity> identity_in(const json::object& fields) {
    const json::value* list = fields.if_contains("identity");
    if (list == nullptr || !list->is_array() || list->get_array().size() != 5) return std::nullopt;
    std::int64_t numbers[5] = {};
    for (std::size_t i = 0; i < 5; ++i) {
        const std::int64_t* number = list->get_array()[i].if_int64();
        if (number == nullptr) return std::nullopt;
        numbers[i] = *number;
    }
    return storage::file_identity{static_cast<std::uint64_t>(numbers[0]),
                                  static_cast<std::uint64_t>(numbers[1]),
                                  static_cast<std::uint64_t>(numbers[2]), numbers[3], numbers[4]};
}

std::optional<std::string> text_in(const json::object& fields, const char* key) {
    const json::value* value = fields.if_contains(key);
    if (value == nullptr || !value->is_string()) return std::nullopt;
    return std::string(value->get_string());
}

std::optional<storage::block_hash> hash_in(const json::object& fields, const char* key) {
    const auto text = text_in(fields, key);
    if (!text) return std::nullopt;
    const auto hash = storage::block_hash::from_hex(*text);
    return hash ? std::optional(*hash) : std::nullopt;
}

std::optional<std::uint64_t> count_in(const json::object& fields, const char* key) {
    const json::value* value = fields.if_contains(key);
    const std::int64_t* number = value == nullptr ? nullptr : value->if_int64();
    if (number == nullptr || *number < 0) return std::nullopt;
    return static_cast<std::uint64_t>(*number);
}

/// Each reads an entry of a list; nothing if a field is missing or invalid.
std::optional<known_source> source_in(const json::value& value) {
    const json::object* fields = value.if_object();
    if (fields == nullptr) return std::nullopt;
    auto path = text_in(*fields, "path");
    const auto identity = identity_in(*fields);
    const auto sample = hash_in(*fields, "sample"), hash = hash_in(*fields, "hash");
    if (!path || !identity || !sample || !hash) return std::nullopt;
    return known_source{std::move(*path), *identity, *sample, *hash};
}

std::optional<known_packed> packed_in(const json::value& value) {
    const json::object* fields = value.if_object();
    if (fields == nullptr) return std::nullopt;
    auto name = text_in(*fields, "name");
    const auto identity = identity_in(*fields);
    const auto used = count_in(*fields, "used");
    if (!name || !identity || !used) return std::nullopt;
    return known_packed{std::move(*name), *identity, *used};
}

/// Reads a list into `entries`. Returns: false if it is missing, too long, or has an invalid entry.
template <class Entry, class Read>
bool read_list(const json::object& body, const char* key, std::size_t count_max, Read read,
               std::vector<Entry>& entries) {
    const json::value* list = body.if_contains(key);
    if (list == nullptr || !list->is_array() || list->get_array().size() > count_max) return false;
    for (const json::value& each : list->get_array()) {
        auto entry = read(each);
        if (!entry) return false;
        entries.push_back(std::move(*entry));
    }
    return true;
}

}  // namespace

const known_source* packed_index::find_source(std::string_view path) const noexcept {
    const auto found = std::ranges::find(sources, path, &known_source::path);
    return found == sources.end() ? nullptr : &*found;
}

const known_packed* packed_index::find_packed(std::string_view name) const noexcept {
    const auto found = std::ranges::find(packed, name, &known_packed::name);
    return found == packed.end() ? nullptr : &*found;
}

void packed_index::keep(known_source source) {
    std::erase_if(sources, [&](const known_source& each) { return each.path == source.path; });
    if (sources.size() >= sources_max) sources.erase(sources.begin());
    sources.push_back(std::move(source));
}

void packed_index::use(std::string name, const storage::file_identity& identity) {
    forget_packed(name);
    if (packed.size() >= packed_max)
        packed.erase(std::ranges::min_element(packed, {}, &known_packed::used));
    packed.push_back({std::move(name), identity, ++uses});
}

void packed_index::forget_packed(std::string_view name) {
    std::erase_if(packed, [&](const known_packed& each) { return each.name == name; });
}

std::string packed_index::to_text() const {
    json::array source_list, packed_list;
    for (const known_source& each : sources)
        source_list.push_back(json::object{{"path", each.path},
                                           {"identity", to_json(each.identity)},
                                           {"sample", each.sample.hex()},
                                           {"hash", each.hash.hex()}});
    for (const known_packed& each : packed)
        packed_list.push_back(json::object{{"name", each.name},
                                           {"identity", to_json(each.identity)},
                                           {"used", static_cast<std::int64_t>(each.used)}});
    const json::object body{{"uses", static_cast<std::int64_t>(uses)},
                            {"sources", std::move(source_list)},
                            {"packed", std::move(packed_list)}};
    const json::object file{{"format", format_name},
                            {"version", format_version},
                            {"sum", storage::checksum128(json::serialize(body)).hex()},
                            {"body", body}};
    return json::serialize(file) + "\n";
}

packed_index packed_index::parse(std::string_view text) {
    const auto root = storage::parse_strict_json(text);
    if (!root || !root->is_object()) return {};
    const json::object& file = root->get_object();
    // The checksum is over the body as to_text() serialises it.
    const json::value* body = file.if_contains("body");
    if (body == nullptr || !body->is_object()) return {};
    const auto is = [&file](const char* key, const json::value& wanted) {
        const json::value* found = file.if_contains(key);
        return found != nullptr && *found == wanted;
    };
    if (!is("format", format_name) || !is("version", format_version) ||
        !is("sum", json::string(storage::checksum128(json::serialize(*body)).hex())))
        return {};
    packed_index index;
    const json::object& fields = body->get_object();
    const auto uses = count_in(fields, "uses");
    if (!uses || !read_list(fields, "sources", sources_max, source_in, index.sources) ||
        !read_list(fields, "packed", packed_max, packed_in, index.packed))
        return {};
    index.uses = *uses;
    return index;
}

}  // namespace semantic::engine
