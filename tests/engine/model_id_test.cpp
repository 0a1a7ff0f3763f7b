// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

TEST(model_id, is_the_one_that_was_given_or_the_folders_name) {
    tests::temp_dir dir;
    engine_options options = tests::options_in(dir.path());
    EXPECT_EQ(tests::load(options)->info().id, "semantic-tiny");
    options.model_directory += "/";
    EXPECT_EQ(tests::load(options)->info().id, "semantic-tiny");
    options.model_id = "org/name:Q4_K_M";
    EXPECT_EQ(tests::load(options)->info().id, "org/name:Q4_K_M");
}

}  // namespace
}  // namespace semantic::engine
