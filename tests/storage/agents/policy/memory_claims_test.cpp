// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/policy/memory_claims.hpp"

#include <gtest/gtest.h>

#include "storage/types/memory_policy.hpp"

namespace semantic::storage {
namespace {

using std::chrono::seconds;
using std::chrono::system_clock;

system_clock::time_point at(int second) { return system_clock::time_point(seconds(second)); }

TEST(memory_claims, a_policy_holds_until_it_runs_out) {
    struct row {
        memory_policy policy;
        int unused_for;
        memory_claim claim;
    };
    using enum memory_claim;
    const std::vector<row> table{
        {{}, 0, none},
        {{seconds(0), {}}, 0, first_to_go},
        {{seconds(60), {}}, 0, kept},
        {{seconds(60), {}}, 59, kept},
        {{seconds(60), {}}, 60, none},
        {{seconds(60), {}}, -5, kept},  // a clock that was set back
        {{memory_policy::keep_seconds_max, {}}, 1'000'000'000, none},
        {{{}, true}, 1'000'000'000, pinned},
        {{{}, false}, 0, none},
        {{seconds(0), true}, 0, pinned},
        {{seconds(60), false}, 59, kept},
    };
    for (const row& each : table)
        EXPECT_EQ(claim_of(each.policy, at(5000), at(5000 + each.unused_for)), each.claim)
            << encode_policy(each.policy) << " unused for " << each.unused_for;
}

// Of each tenant pinned memories come first, then those that were used last; one tenant's never
// count against another's.
TEST(memory_claims, a_tenant_has_no_more_than_its_share) {
    const tenant_id one{}, other{block_hash{{1}}};
    using enum memory_claim;
    struct row {
        tenant_id tenant;
        int last_used;
        std::uint64_t bytes;
        memory_claim asked, of_100, of_101, of_0;
    };
    const std::vector<row> table{
        {one, 100, 60, pinned, pinned, pinned, none}, {one, 950, 1, kept, kept, kept, none},
        {one, 900, 41, kept, none, none, none},  // 60, 1 and 41 are one too many
        {one, 800, 40, kept, none, kept, none},       {one, 50, 0, kept, kept, kept, kept},
        {one, 10, 102, pinned, none, none, none},     {other, 2, 101, kept, none, kept, none},
        {other, 1, 100, kept, kept, none, none},
    };
    std::vector<memory_claim> claims;
    for (const row& each : table) claims.push_back(each.asked);
    std::vector<claimant> all;
    for (std::size_t i = 0; i < table.size(); ++i)
        all.push_back({table[i].tenant, at(table[i].last_used), table[i].bytes, &claims[i]});
    const auto expect = [&](std::uint64_t share, memory_claim row::*has) {
        for (std::size_t i = 0; i < table.size(); ++i) claims[i] = table[i].asked;
        cut_to_share(all, share);
        for (std::size_t i = 0; i < table.size(); ++i)
            EXPECT_EQ(claims[i], table[i].*has) << "row " << i << " of a share of " << share;
    };
    expect(100, &row::of_100);
    expect(101, &row::of_101);
    expect(0, &row::of_0);
}

TEST(memory_policy_, what_a_request_leaves_out_is_as_before) {
    const memory_policy before{seconds(60), true};
    EXPECT_EQ(memory_policy{}.or_else(before), before);
    EXPECT_EQ((memory_policy{seconds(5), {}}).or_else(before), (memory_policy{seconds(5), true}));
    EXPECT_EQ((memory_policy{{}, false}).or_else(before), (memory_policy{seconds(60), {}}));
}

TEST(memory_policy_, goes_through_its_note) {
    for (const memory_policy& each :
         {memory_policy{}, memory_policy{seconds(0), {}}, memory_policy{seconds(3600), true},
          memory_policy{{}, true}, memory_policy{memory_policy::keep_seconds_max, {}}})
        EXPECT_EQ(decode_policy(encode_policy(each)), each) << encode_policy(each);
    EXPECT_EQ(encode_policy({seconds(3600), true}), "keep=3600 pin");
    for (const char* each : {"keep=", "keep=x", "keep=-1", "keep=315360001", "later", "keep=1x"})
        EXPECT_TRUE(decode_policy(each).is_empty()) << each;
}

}  // namespace
}  // namespace semantic::storage
