// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/values/json_values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <string_view>
#include <vector>

#include "engine/types/exact_json.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;

// The heap's overhead for each allocation.
constexpr std::size_t heap_bytes = 16;
constexpr std::size_t text_per_step = 64;

std::uint64_t seed() {
    static const std::uint64_t drawn = [] {
        std::random_device random;
        return std::uint64_t{random()} << 32 | random();
    }();
    return drawn;
}

// The last steps of MurmurHash3, which is in the public domain: each bit depends on all.
std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

std::uint64_t hash_of_text(json::string_view text) {
    std::uint64_t hash = seed() + text.size();
    for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t chunk = 0;
        std::memcpy(&chunk, text.data() + at, std::min(sizeof(chunk), text.size() - at));
        hash = mixed(hash ^ chunk);
    }
    return hash;
}

std::uint64_t hash_of_number(std::uint64_t kind, std::uint64_t bits) {
    return mixed(mixed(bits ^ seed()) + kind);
}

}  // namespace

std::size_t member_bytes(json::string_view name) {
    return sizeof(json::key_value_pair) + sizeof(std::uint32_t) + name.size() + heap_bytes;
}

std::size_t charge_walk(const json::value& value, storage::work_budget& budget) {
    std::size_t bytes = sizeof(json::value);
    // Without recursion, because the client decides how deep values are.
    std::vector<const json::value*> waiting{&value};
    while (!waiting.empty()) {
        const json::value& next = *waiting.back();
        waiting.pop_back();
        budget.charge_steps();
        if (const json::string* text = next.if_string()) {
            budget.charge_steps(text->size() / text_per_step);
            bytes += text->size() + heap_bytes;
        } else if (const json::array* list = next.if_array()) {
            bytes += heap_bytes + list->size() * sizeof(json::value);
            for (const json::value& each : *list) waiting.push_back(&each);
        } else if (const json::object* object = next.if_object()) {
            bytes += heap_bytes;
            for (const auto& member : *object) {
                budget.charge_steps(member.key().size() / text_per_step);
                bytes += member_bytes(member.key());
                waiting.push_back(&member.value());
            }
        }
    }
    return bytes;
}

namespace {

// Keywords whose members have names of the client's choice and are schemas.
constexpr std::array<std::string_view, 5> maps_of_schemas{
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas"};

}  // namespace

void round_but_constants(json::value& schema, storage::work_budget& budget) {
    struct place {
        json::value* value;
        bool is_map;  // of schemas, by names
    };
    std::vector<place> waiting{{&schema, false}};
    while (!waiting.empty()) {
        const place next = waiting.back();
        waiting.pop_back();
        budget.charge_steps();
        if (const auto number = exact_number(*next.value)) {
            *next.value = nearest_double(*number);
        } else if (json::array* list = next.value->if_array()) {
            for (json::value& each : *list) waiting.push_back({&each, false});
        } else if (json::object* object = next.value->if_object()) {
            for (auto& member : *object) {
                const std::string_view key = member.key();
                if (!next.is_map && (key == "const" || key == "enum")) continue;
                const bool is_map = !next.is_map && std::ranges::find(maps_of_schemas, key) !=
                                                        maps_of_schemas.end();
                waiting.push_back({&member.value(), is_map});
            }
        }
    }
}

std::size_t hash_of(const json::value& value) {
    switch (value.kind()) {
        case json::kind::null:
            return hash_of_number(1, 0);
        case json::kind::bool_:
            return hash_of_number(2, value.get_bool() ? 1 : 0);
        case json::kind::int64:
            return hash_of_number(3, static_cast<std::uint64_t>(value.get_int64()));
        case json::kind::uint64:  // 1 is 1, whichever of the two holds it
            return hash_of_number(3, value.get_uint64());
        case json::kind::double_: {
            // 0 and -0 are equal.
            const double number = value.get_double();
            return hash_of_number(4, std::bit_cast<std::uint64_t>(number == 0 ? 0.0 : number));
        }
        case json::kind::string:
            return mixed(hash_of_text(value.get_string()) + 5);
        case json::kind::array: {
            std::uint64_t hash = hash_of_number(6, value.get_array().size());
            for (const json::value& each : value.get_array()) hash = mixed(hash + hash_of(each));
            return hash;
        }
        case json::kind::object: {
            std::uint64_t hash = hash_of_number(7, value.get_object().size());
            for (const auto& member : value.get_object())  // in any order
                hash += mixed(hash_of_text(member.key()) + hash_of(member.value()));
            return hash;
        }
    }
    return 0;
}

void* charged_memory::do_allocate(std::size_t size, std::size_t alignment) {
    budget_.charge_steps();
    budget_.charge_bytes(size + heap_bytes);
    try {
        return ::operator new(size, std::align_val_t(alignment));
    } catch (...) {
        budget_.release_bytes(size + heap_bytes);
        throw;
    }
}

void charged_memory::do_deallocate(void* memory, std::size_t size, std::size_t alignment) {
    budget_.release_bytes(size + heap_bytes);
    ::operator delete(memory, std::align_val_t(alignment));
}

}  // namespace semantic::engine
