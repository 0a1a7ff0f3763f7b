// SPDX-License-Identifier: Apache-2.0
#pragma once
// Costs, hashes and equality of JSON values. Code that copies, hashes or compares a value that a
// client sent charges a budget for it first.

#include <boost/json.hpp>

#include <cstddef>
#include <unordered_map>
#include <unordered_set>

#include "storage/types/work_budget.hpp"

namespace semantic::engine {

/// Charges one walk through the value: a step for each value in it, and for every 64 bytes of text.
/// Returns: bytes of a copy, about. Throws work_limit_exceeded.
std::size_t charge_walk(const boost::json::value& value, storage::work_budget& budget);
/// Bytes that a member takes in a copy of an object, without its value, about.
std::size_t member_bytes(boost::json::string_view name);

/// Rounds numbers of a schema that no double can hold (`exact_number`) to the nearest double,
/// except in "const" and "enum", where an answer has to be just such a number. As bounds the
/// difference does not matter. Throws work_limit_exceeded.
void round_but_constants(boost::json::value& schema, storage::work_budget& budget);

/// A hash that is equal for equal values. It depends on a random seed, so that clients cannot send
/// values with equal hashes on purpose. Requires: the walk was charged; the parser has limited the
/// nesting.
std::size_t hash_of(const boost::json::value& value);

struct hash_of_value {
    std::size_t operator()(const boost::json::value* value) const { return hash_of(*value); }
};
struct equal_values {
    bool operator()(const boost::json::value* a, const boost::json::value* b) const {
        return *a == *b;
    }
};
using value_set = std::unordered_set<const boost::json::value*, hash_of_value, equal_values>;
template <class T>
using value_map = std::unordered_map<const boost::json::value*, T, hash_of_value, equal_values>;

/// Allocates memory for parsed values, and charges a budget for it until it is freed. Allocating
/// throws work_limit_exceeded.
class charged_memory final : public boost::json::memory_resource {
  public:
    explicit charged_memory(storage::work_budget& budget) : budget_(budget) {}

  private:
    void* do_allocate(std::size_t size, std::size_t alignment) override;
    void do_deallocate(void* memory, std::size_t size, std::size_t alignment) override;
    bool do_is_equal(const memory_resource& other) const noexcept override {
        return this == &other;
    }

    storage::work_budget& budget_;
};

}  // namespace semantic::engine
