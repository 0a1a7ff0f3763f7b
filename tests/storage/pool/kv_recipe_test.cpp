// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/kv_recipe.hpp"

#include <gtest/gtest.h>

#include <set>

#include "storage/pool/kv_layout.hpp"

namespace semantic::storage {
namespace {

TEST(kv_recipe, every_name_finds_its_recipe_and_every_recipe_its_name) {
    std::set<std::string_view> names;
    for (const named_kv_recipe& each : kv_recipes()) {
        EXPECT_TRUE(names.insert(each.name).second) << each.name;
        EXPECT_EQ(find_kv_recipe(each.name), each.recipe) << each.name;
        EXPECT_EQ(name_of(each.recipe), each.name);
        EXPECT_NE(kv_recipe_names().find(each.name), std::string::npos);
    }
    EXPECT_EQ(find_kv_recipe("k3v3"), std::nullopt);
    EXPECT_EQ(find_kv_recipe("auto"), std::nullopt);
    EXPECT_EQ(name_of(kv_recipe(kv_form{8}, kv_form{6})), "");
    EXPECT_EQ(name_of(find_kv_recipe("k7s-v5r")->with_wide_tail(8)), "");
}

TEST(kv_recipe, the_table_has_twelve_and_none_that_went) {
    EXPECT_EQ(kv_recipes().size(), 12u);
    for (const char* gone : {"k4m-v4r", "k4s-v4r", "k5m-v4r", "k5s-v5r", "k5s-v5r-w16", "k6m-v5r",
                             "k6m-v6r", "k6s-v6r", "k7m-v5r", "k7s-v6r", "k8v4", "k8m-v4r"})
        EXPECT_EQ(find_kv_recipe(gone), std::nullopt) << gone;
}

TEST(kv_recipe, bits_alone_are_short_for_the_plain_recipes) {
    EXPECT_EQ(find_kv_recipe("4"), kv_recipe(4));
    EXPECT_EQ(find_kv_recipe("8"), kv_recipe(8));
    EXPECT_EQ(find_kv_recipe("16"), kv_recipe(16));
    EXPECT_EQ(find_kv_recipe("5"), std::nullopt);
}

TEST(kv_recipe, the_table_ascends_in_bytes) {
    std::size_t before = 0;
    for (const named_kv_recipe& each : kv_recipes()) {
        const std::size_t bytes = kv_layout({{1, 64, 64, 0}}, each.recipe).bytes_per_token();
        EXPECT_GE(bytes, before) << each.name;
        before = bytes;
    }
}

TEST(kv_recipe, bytes_are_the_codes_and_four_for_each_group) {
    const auto bytes = [](std::string_view name) {
        return kv_layout({{1, 128, 128, 0}}, *find_kv_recipe(name)).bytes_per_token();
    };
    EXPECT_EQ(bytes("k4v4"), 2u * (64 + 8));
    EXPECT_EQ(bytes("k8m-v5r"), 128u + 8 + 80 + 8);
    EXPECT_EQ(bytes("k5s-v4r"), 80u + 8 + 64 + 8);
    EXPECT_EQ(bytes("k7s-v5r"), 112u + 8 + 80 + 8);
    EXPECT_EQ(bytes("k6s-v5r"), 96u + 8 + 80 + 8);
    EXPECT_EQ(bytes("k16v16"), 2u * 256);
}

TEST(kv_recipe, a_form_that_makes_no_sense_is_refused_by_name) {
    const auto refusal = [](kv_form k, kv_form v, bool values_in_keys = false) -> std::string {
        try {
            kv_layout({{1, 64, 64, 0, values_in_keys}}, kv_recipe(k, v));
            return "";
        } catch (const std::invalid_argument& error) {
            return error.what();
        }
    };
    const kv_form plain{8, false, false};
    EXPECT_EQ(refusal(plain, plain), "");
    EXPECT_EQ(refusal({7, false, false}, plain), "");
    EXPECT_EQ(refusal({9, false, false}, plain), "key bits must be 4, 5, 6, 7, 8 or 16, this is 9");
    EXPECT_EQ(refusal(plain, {7, false, false}), "value bits must be 4, 5, 6, 8 or 16, this is 7");
    EXPECT_EQ(refusal(plain, {3, false, false}), "value bits must be 4, 5, 6, 8 or 16, this is 3");
    EXPECT_NE(refusal({16, true, false}, {16, false, false}).find("gain nothing"),
              std::string::npos);
    EXPECT_NE(refusal({8, false, true}, plain).find("only rotated keys"), std::string::npos);
    EXPECT_NE(refusal(plain, {5, true, true}).find("only rotated keys"), std::string::npos);
    EXPECT_NE(refusal({8, true, false, true}, plain).find("by what queries see"),
              std::string::npos);
    EXPECT_EQ(refusal({8, true, true, true}, plain), "");
    EXPECT_NE(refusal(plain, {4, false, false}, true).find("kept as these"), std::string::npos);
    EXPECT_NE(refusal({8, true, true}, {8, true, true}, true).find("mean"), std::string::npos);
}

}  // namespace
}  // namespace semantic::storage
