// SPDX-License-Identifier: Apache-2.0
#include "tests/protocol/fuzz.hpp"

#include <gtest/gtest.h>

#include <random>

#include "protocol/wire/json.hpp"
#include "tests/protocol/damage.hpp"

namespace semantic::protocol {

namespace {

/// Returns: whether it was accepted.
bool answered(const std::string& body, dialect d, const body_check& check) {
    auto fault = check(body);
    if (!fault) return true;
    EXPECT_FALSE(fault->message.empty()) << body;
    error_reply reply = make_error_reply(d, *fault, "req_1");
    EXPECT_EQ(reply.status, 400) << body;
    // The reply is JSON whatever the client sent.
    EXPECT_TRUE(parse_json(reply.body, {})) << reply.body;
    return false;
}

}  // namespace

void expect_damaged_bodies_are_answered(std::span<const std::string> seeds, dialect d,
                                        const body_check& check) {
    std::mt19937 random(20261120);
    int accepted = 0;
    constexpr int rounds = 20000;
    for (int i = 0; i < rounds; ++i) {
        std::string body = seeds[static_cast<std::size_t>(i) % seeds.size()];
        for (auto times = 1 + random() % 4; times > 0; --times) damage(body, random);
        accepted += answered(body, d, check);
    }
    // Both outcomes must have been met, or this says nothing.
    EXPECT_GT(accepted, rounds / 100);
    EXPECT_LT(accepted, rounds / 2);
}

void expect_other_values_are_answered(std::span<const std::string> seeds, dialect d,
                                      const body_check& check) {
    std::mt19937 random(7);
    int accepted = 0;
    constexpr int rounds = 10000;
    for (int i = 0; i < rounds; ++i) {
        const std::string& seed = seeds[static_cast<std::size_t>(i) % seeds.size()];
        accepted += answered(with_value_replaced(seed, random), d, check);
    }
    EXPECT_GT(accepted, rounds / 100);
    EXPECT_LT(accepted, rounds * 9 / 10);
}

}  // namespace semantic::protocol
