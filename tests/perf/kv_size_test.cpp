// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/measure/kv_size.hpp"

#include <boost/json/parse.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>

#include "perf/bench/measure/file_speed.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::bench {
namespace {

double fp16_of(const char* config) {
    return fp16_token_bytes(boost::json::parse(config).as_object());
}

TEST(kv_size, is_two_bytes_an_element_of_keys_and_values_in_all_layers) {
    EXPECT_EQ(fp16_of(R"({"num_hidden_layers": 30, "num_attention_heads": 9, "hidden_size": 576,
                          "num_key_value_heads": 3, "head_dim": 64})"),
              30 * 3 * 64 * 4);
    EXPECT_EQ(fp16_of(R"({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64})"),
              2 * 64 * 4)
        << "heads and their size may follow from the rest";
}

TEST(kv_size, of_latent_attention_and_of_what_says_nothing_is_not_known) {
    EXPECT_EQ(fp16_of(R"({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64,
                          "kv_lora_rank": 512})"),
              0);
    EXPECT_EQ(fp16_of("{}"), 0);
    EXPECT_EQ(fp16_of(R"({"num_hidden_layers": "2"})"), 0);
    const tests::temp_dir folder;
    EXPECT_THROW(fp16_token_bytes(folder / "none"), std::runtime_error);
    std::ofstream(folder / "list") << "[]";
    EXPECT_THROW(fp16_token_bytes(folder / "list"), std::runtime_error);
}

TEST(kv_size, saved_is_what_is_missing_of_the_whole) {
    EXPECT_EQ(std::get<double>(saved_cell(32.0, 128)), 75);
    EXPECT_LT(std::get<double>(saved_cell(256.0, 128)), 0);
    EXPECT_TRUE(std::holds_alternative<std::monostate>(saved_cell(std::nullopt, 128)));
    EXPECT_TRUE(std::holds_alternative<std::monostate>(saved_cell(32.0, 0)));
}

TEST(file_speed, reads_what_was_changed_since_and_nothing_else) {
    const tests::temp_dir folder;
    std::filesystem::create_directory(folder / "below");
    std::ofstream(folder / "old") << "0123456789";
    std::ofstream(folder / "below/new") << "01234567890123456789";
    const auto now = std::filesystem::file_time_type::clock::now();
    std::filesystem::last_write_time(folder / "old", now - std::chrono::hours(1));
    const read_speed found = read_plainly(folder / "", now - std::chrono::minutes(1));
    EXPECT_EQ(found.bytes, 20U);
    EXPECT_GT(found.cached_s, 0);
    EXPECT_EQ(read_plainly(folder / "", now + std::chrono::hours(1)).bytes, 0U);
    EXPECT_THROW(read_plainly(folder / "none", now), std::runtime_error);
}

}  // namespace
}  // namespace semantic::bench
