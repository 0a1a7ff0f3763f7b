// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cost and the equality of JSON values. Code that copies, hashes or compares a value that a
// client sent charges for it first.

#include <boost/json.hpp>

#include <cstddef>
#include <unordered_map>
#include <unordered_set>

#include "storage/types/work_budget.hpp"

namespace semantic::engine {

/// Charges one walk through the value: a step for each value in it and for some of its text.
/// Returns: bytes that a copy takes, about. Throws work_limit_exceeded.
std::size_t charge_walk(const boost::json::value& value, storage::work_budget& budget);
/// Bytes that a member's name and place take in a copy of an object, about.
std::size_t member_bytes(boost::json::string_view name);

/// Leaves numbers that no double holds (`exact_number`) where an answer has to be one of them, in
/// "const" and "enum"; elsewhere in the schema they become the nearest double: a bound so large or
/// so fine is none. Throws work_limit_exceeded.
void round_but_constants(boost::json::value& schema, storage::work_budget& budget);

/// Values that are equal have one hash. Nobody can send values that share one on purpose: it
/// depends on a number that is drawn at the start. Requires: the walk was charged; values are
/// nested as deep as what a parser takes.
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

/// Memory of values that are parsed, charged to a budget while it is used. Allocating throws
/// work_limit_exceeded.
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
