// SPDX-License-Identifier: Apache-2.0
// Goal: the models that perf measures load, compute and speak like published ones.

#include "perf/random/random_model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "engine/text/tokenizer/tokenizer.hpp"
#include "perf/random/random_gemma.hpp"
#include "perf/random/random_hybrid.hpp"
#include "tests/engine/model/loaded_model.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

constexpr int vocabulary = 4200;  // more than the embedded tokenizer has

perf::random_model_options small_model(int bits) {
    return {{"small", 2, 128, 192, 2, 1, 64, vocabulary, 1e5},
            bits,
            1,
            SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny"};
}

std::string weights_in(const std::string& folder) {
    std::ifstream file(folder + "/model.safetensors", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(random_model, loads_at_every_width_and_its_logits_are_finite_and_differ) {
    for (const int bits : {4, 8, 16}) {
        const tests::temp_dir folder;
        perf::write_random_model(small_model(bits), folder.path());
        tests::model_run run;
        run.folder = folder.path();
        tests::loaded_model model(run);
        ASSERT_TRUE(model) << bits;
        const auto sequence = model.new_sequence();
        const auto logits = model.logits(*sequence, std::vector<storage::token_id>{5, 4199}, 2);
        ASSERT_EQ(logits.size(), 2U * vocabulary);
        for (const float x : logits) ASSERT_TRUE(std::isfinite(x)) << bits;
        EXPECT_GT(std::set<float>(logits.begin(), logits.end()).size(), 1000U) << bits;
    }
}

TEST(random_model, has_a_text_of_its_own_for_every_id) {
    const tests::temp_dir folder;
    perf::write_random_model(small_model(4), folder.path());
    auto words = tokenizer::load(folder.path());
    ASSERT_TRUE(words) << words.error().what;
    std::set<std::string> texts;
    for (int id = 3; id < vocabulary; ++id) {  // after the special tokens
        const std::string text(words->bytes(id));
        EXPECT_FALSE(text.empty()) << id;
        EXPECT_TRUE(texts.insert(text).second) << id;
    }
}

TEST(random_model, one_seed_gives_one_file_and_another_seed_another) {
    const tests::temp_dir a, b, c;
    auto options = small_model(4);
    perf::write_random_model(options, a.path());
    perf::write_random_model(options, b.path());
    options.seed = 2;
    perf::write_random_model(options, c.path());
    EXPECT_EQ(weights_in(a.path()), weights_in(b.path()));
    EXPECT_NE(weights_in(a.path()), weights_in(c.path()));
}

TEST(random_model, a_hybrid_loads_and_its_logits_are_finite_differ_and_do_not_depend_on_chunks) {
    const tests::temp_dir folder;
    const perf::hybrid_geometry small{"small", 4, 4, 256, 512, 2, 1, 256, 2, 4, 64, vocabulary};
    perf::write_random_hybrid(small, SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny", 1,
                              folder / "small.gguf");
    tests::model_run run;
    run.folder = folder / "small.gguf";
    tests::loaded_model model(run);
    ASSERT_TRUE(model);
    EXPECT_GT(model.config().state_bytes(), 0U);
    std::vector<storage::token_id> tokens;
    for (int i = 0; i < 40; ++i) tokens.push_back((i * 97 + 5) % vocabulary);
    const auto logits = model.logits(*model.new_sequence(), tokens, 40);
    EXPECT_EQ(logits, model.logits(*model.new_sequence(), tokens, 3));
    for (const float x : logits) ASSERT_TRUE(std::isfinite(x));
    EXPECT_GT(std::set<float>(logits.begin(), logits.end()).size(), 1000U);
    const auto words = tokenizer::load(folder / "small.gguf");
    ASSERT_TRUE(words) << words.error().what;
    EXPECT_EQ(words->bytes(4199), "w4199");
}

TEST(random_model, a_gemma_loads_and_its_logits_are_finite_differ_and_do_not_depend_on_chunks) {
    const perf::gemma_geometry mixed{"mixed", 4, 2, 256, 512, 2, 2,     1,         16,
                                     true,    8, 2, 96,  0,   0, false, vocabulary};
    const perf::gemma_geometry small{"small", 6, 3, 256, 512, 2, 1,    1,         16,
                                     false,   0, 0, 0,   256, 3, true, vocabulary};
    for (const perf::gemma_geometry& geometry : {mixed, small}) {
        const tests::temp_dir folder;
        perf::write_random_gemma(geometry, SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny", 1,
                                 folder / "small.gguf");
        tests::model_run run;
        run.folder = folder / "small.gguf";
        tests::loaded_model model(run);
        ASSERT_TRUE(model) << geometry.name;
        std::vector<storage::token_id> tokens;
        for (int i = 0; i < 40; ++i) tokens.push_back((i * 97 + 5) % vocabulary);
        const auto logits = model.logits(*model.new_sequence(), tokens, 40);
        EXPECT_EQ(logits, model.logits(*model.new_sequence(), tokens, 3)) << geometry.name;
        for (const float x : logits) ASSERT_TRUE(std::isfinite(x)) << geometry.name;
        EXPECT_GT(std::set<float>(logits.begin(), logits.end()).size(), 1000U) << geometry.name;
    }
}

TEST(random_model, a_vocabulary_that_the_tokenizer_exceeds_is_an_error) {
    const tests::temp_dir folder;
    auto options = small_model(4);
    options.geometry.vocabulary = 4095;
    EXPECT_THROW(perf::write_random_model(options, folder.path()), std::runtime_error);
}

}  // namespace
}  // namespace semantic::engine
