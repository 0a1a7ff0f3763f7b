// SPDX-License-Identifier: Apache-2.0
#include "protocol/admin.hpp"

#include <gtest/gtest.h>

namespace semantic::protocol::admin {
namespace {

TEST(parse_seed, a_whole_number_is_taken_and_null_takes_it_back) {
    EXPECT_EQ(parse_seed(R"({"seed":7})").value(), 7u);
    EXPECT_EQ(parse_seed(R"({"seed":0})").value(), 0u);
    EXPECT_EQ(parse_seed(R"({"seed":9223372036854775807})").value(), 9223372036854775807u);
    EXPECT_EQ(parse_seed(R"({"seed":null})").value(), std::nullopt);
    for (const char* bad : {R"({"seed":-1})", R"({"seed":1.5})", R"({"seed":"7"})", "[]",
                            R"({"seed":9223372036854775808})"})
        EXPECT_EQ(parse_seed(bad).error().code, errc::bad_value) << bad;
    EXPECT_EQ(parse_seed("{}").error().code, errc::missing_field);
    EXPECT_EQ(parse_seed("").error().code, errc::malformed_json);
    EXPECT_EQ(seed_body(7), R"({"status":"ok","seed":7})");
    EXPECT_EQ(seed_body(std::nullopt), R"({"status":"ok","seed":null})");
}

TEST(parse_swap, the_model_is_named_and_the_wait_is_bounded) {
    EXPECT_EQ(parse_swap(R"({"model_id":"m"})")->timeout_seconds, 30.0);
    EXPECT_EQ(parse_swap(R"({"model":"m"})")->model, "m");
    EXPECT_FALSE(parse_swap(R"({"model":"m"})")->stream);
    EXPECT_TRUE(parse_swap(R"({"model":"m","stream":true})")->stream);
    EXPECT_EQ(parse_swap(R"({"model_id":"m","timeout_seconds":300})")->timeout_seconds, 300.0);
    for (const char* bad : {R"({"model_id":""})", R"({"model_id":"m","timeout_seconds":0.5})",
                            R"({"model_id":"m","timeout_seconds":301})", R"({"model_id":1})"})
        EXPECT_EQ(parse_swap(bad).error().code, errc::bad_value) << bad;
    EXPECT_EQ(parse_swap("{}").error().code, errc::missing_field);
}

TEST(admin_bodies, are_those_of_the_earlier_system) {
    EXPECT_EQ(current_body({"m", 8, 2, 64, 256}),
              R"({"model_id":"m","n_layers":8,"n_kv_heads":2,"head_dim":64,"block_tokens":256})");
    EXPECT_EQ(available_body({"m"}), R"({"models":["m"]})");
    EXPECT_EQ(swapped_body("m", "m"),
              R"({"status":"success","old_model_id":"m","new_model_id":"m",)"
              R"("message":"this model is loaded already"})");
    EXPECT_EQ(swapped_body("a", "b"),
              R"({"status":"success","old_model_id":"a","new_model_id":"b",)"
              R"("message":"Model swapped from a to b"})");
    EXPECT_EQ(cleared_body({1, 3, 9, 0}),
              R"({"status":"success","hot_cleared":1,"disk_cleared":3,"pool_cleared":9,"kept":0,)"
              R"-("message":"Cleared 3 agents (hot: 1, pool frames: 9)"})-");
    EXPECT_NE(cleared_body({1, 3, 9, 2}).find("; 2 answer requests and stay"), std::string::npos);
}

TEST(admin_bodies, a_step_of_a_swap_leaves_out_what_is_not_there) {
    EXPECT_EQ(step_body({"draining", "a", "b"}),
              R"({"phase":"draining","model":"a","target":"b"})");
    EXPECT_EQ(step_body({"loading", "b", "", "reading weights", 0.5}),
              R"({"phase":"loading","model":"b","stage":"reading weights","fraction":0.5})");
    EXPECT_EQ(step_event({"failed", "", "", "", 0, "no such file"}),
              "event: phase\ndata: {\"phase\":\"failed\",\"why\":\"no such file\"}\n\n");
}

}  // namespace
}  // namespace semantic::protocol::admin
