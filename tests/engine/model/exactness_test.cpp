// SPDX-License-Identifier: Apache-2.0
// The promise of engine/model/README.md: a position's logits are the same bits whatever the
// chunking, the threads and the batch.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/engine/model/loaded_model.hpp"

namespace semantic::engine {
namespace {

using storage::token_id;
using tests::loaded_model;

std::vector<token_id> some_tokens(int count, std::size_t vocabulary, std::uint32_t seed) {
    std::vector<token_id> ids;
    for (int i = 0; i < count; ++i) {
        seed = seed * 1664525u + 1013904223u;
        ids.push_back(static_cast<token_id>((seed >> 8) % vocabulary));
    }
    return ids;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class exactness : public testing::TestWithParam<std::tuple<const char*, const char*>> {
  protected:
    static loaded_model model(int threads = 1, int pool_tokens = 2048) {
        return loaded_model(run(threads, "auto", pool_tokens));
    }
    static tests::model_run run(int threads, std::string kernels, int pool_tokens) {
        const auto [name, recipe] = GetParam();
        tests::model_run setup;
        setup.folder = std::string(SEMANTIC_SOURCE_DIR "/tests/golden/models/") + name;
        setup.threads = threads;
        setup.kernels = std::move(kernels);
        setup.rows_max = 600;
        setup.pool_tokens = pool_tokens;
        setup.recipe = recipe;
        return setup;
    }
    static std::size_t vocabulary() {
        static std::map<std::string, std::size_t> known;
        std::size_t& size = known[std::get<0>(GetParam())];
        if (size == 0)
            size = static_cast<std::size_t>(
                model_config::load(run(1, "auto", 256).folder).value().vocabulary);
        return size;
    }
    /// Over two blocks of 256, so that frames are merged.
    static std::vector<token_id> prompt() { return some_tokens(600, vocabulary(), 7); }
    static std::vector<float> logits(int threads, int chunk) {
        loaded_model m = model(threads);
        const auto sequence = m.new_sequence();
        return m.logits(*sequence, prompt(), chunk);
    }
};

TEST_P(exactness, chunks_leave_no_trace) {
    const std::vector<float> whole = logits(1, 600);
    for (const int chunk : {1, 7, 256})
        EXPECT_TRUE(same_bits(whole, logits(1, chunk))) << "chunk " << chunk;
}

TEST_P(exactness, threads_leave_no_trace) {
    const std::vector<float> whole = logits(1, 600);
    for (const int threads : {2, 5}) {
        EXPECT_TRUE(same_bits(whole, logits(threads, 600))) << "threads " << threads;
        EXPECT_TRUE(same_bits(whole, logits(threads, 50))) << "threads " << threads;
    }
}

TEST_P(exactness, batch_mates_leave_no_trace) {
    loaded_model m = model(2);
    const std::vector<token_id> a = prompt(), b = some_tokens(290, vocabulary(), 1),
                                c = some_tokens(33, vocabulary(), 2);
    std::vector<float> alone[3];
    const std::vector<token_id>* prompts[] = {&a, &b, &c};
    for (int i = 0; i < 3; ++i) alone[i] = m.logits(*m.new_sequence(), *prompts[i], 100);

    // All three in steps of uneven parts: one prefills in big chunks while the others decode or
    // join late.
    std::unique_ptr<storage::kv_sequence> sequences[] = {m.new_sequence(), m.new_sequence(),
                                                         m.new_sequence()};
    std::vector<float> together[3];
    const std::size_t part[] = {97, 1, 5};
    for (int step = 0; together[0].size() < alone[0].size() || together[1].size() < alone[1].size();
         ++step) {
        std::vector<storage::kv_sequence*> batch;
        std::vector<std::vector<token_id>> tokens;
        std::vector<int> indices;
        for (int i = 0; i < 3; ++i) {
            const auto done = static_cast<std::size_t>(sequences[i]->token_count());
            if (done >= prompts[i]->size() || (i == 2 && step < 3)) continue;
            const auto first = prompts[i]->begin() + static_cast<std::ptrdiff_t>(done);
            tokens.emplace_back(first, first + static_cast<std::ptrdiff_t>(
                                                   std::min(part[i], prompts[i]->size() - done)));
            batch.push_back(sequences[i].get());
            indices.push_back(i);
        }
        const std::vector<float> out = m.step(batch, tokens);
        auto from = out.begin();
        for (std::size_t i = 0; i < indices.size(); ++i) {
            const auto count = static_cast<std::ptrdiff_t>(tokens[i].size() * vocabulary());
            together[indices[i]].insert(together[indices[i]].end(), from, from + count);
            from += count;
        }
    }
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(alone[i], together[i])) << "sequence " << i;
}

TEST_P(exactness, a_prefix_shared_by_two_sequences_gives_what_a_fresh_one_gives) {
    loaded_model m = model(2);
    const std::vector<token_id> ids = prompt();
    const std::vector<float> whole = m.logits(*m.new_sequence(), ids, 600);
    const auto owner = m.new_sequence();
    m.logits(*owner, std::span(ids).first(300), 300);
    const auto fork = m.fork(*owner);
    m.logits(*owner, some_tokens(200, vocabulary(), 99), 200);  // the owner goes another way
    const std::vector<float> rest = m.logits(*fork, std::span(ids).subspan(300), 300);
    EXPECT_TRUE(same_bits(std::span(whole).subspan(300 * vocabulary()), rest));
}

// Where the prefix ends inside a group that has no f16 rows any more, the group is computed again.
TEST_P(exactness, a_prefix_that_is_cut_anywhere_gives_what_a_fresh_one_gives) {
    loaded_model m = model(2);
    const std::vector<token_id> ids = prompt();
    const std::vector<float> whole = m.logits(*m.new_sequence(), ids, 600);
    const storage::kv_layout& layout = m.pool().layout();
    const auto owner = m.new_sequence();
    m.logits(*owner, std::span(ids).first(300), 300);
    for (const int cut : {300, 299, 289, 288, 287, 257, 256, 100, 1}) {
        std::vector<storage::kv_block_parts> prefix = owner->share();
        prefix.resize(static_cast<std::size_t>((cut + 255) / 256));
        storage::kv_sequence fork(m.pool(), std::move(prefix), cut);
        const bool has_rows = layout.group_start(cut) == layout.group_start(300);
        EXPECT_EQ(fork.token_count(), has_rows ? cut : layout.group_start(cut)) << cut;
        const auto from = static_cast<std::size_t>(fork.token_count());
        const std::vector<float> rest = m.logits(fork, std::span(ids).subspan(from), 19);
        EXPECT_TRUE(same_bits(std::span(whole).subspan(from * vocabulary()), rest)) << cut;
    }
}

TEST_P(exactness, every_instruction_set_gives_the_same_bits) {
    std::vector<float> first;
    for (const std::string_view kernels : available_kernels()) {
        if (kernels == "portable") continue;  // BLAS orders its sums as it likes
        loaded_model m(run(1, std::string(kernels), 1024));
        const std::vector<float> some =
            m.logits(*m.new_sequence(), some_tokens(300, vocabulary(), 5), 300);
        if (first.empty()) first = some;
        EXPECT_TRUE(same_bits(first, some)) << kernels;
    }
}

// The last layer runs only where logits are asked for; that must not change them.
TEST_P(exactness, asking_for_few_logits_gives_the_same_ones) {
    loaded_model m = model(2);
    const std::vector<token_id> ids = prompt();
    const std::vector<float> whole = m.logits(*m.new_sequence(), ids, 600);
    const auto sequence = m.new_sequence();
    ASSERT_TRUE(sequence->reserve(600));
    std::vector<float> some(3 * vocabulary());
    const std::vector<int> asked{0, 255, 599};
    sequence_step step{ids, sequence.get(), asked, some.data()};
    m.model().forward({&step, 1});
    EXPECT_EQ(sequence->token_count(), 600);
    for (std::size_t i = 0; i < asked.size(); ++i) {
        EXPECT_TRUE(same_bits(std::span(whole).subspan(
                                  static_cast<std::size_t>(asked[i]) * vocabulary(), vocabulary()),
                              std::span(some).subspan(i * vocabulary(), vocabulary())));
    }
    // And the cache is as complete as if every one had been asked for.
    const auto next = some_tokens(5, vocabulary(), 3);
    const auto reference = m.new_sequence();
    m.logits(*reference, ids, 600);
    EXPECT_TRUE(same_bits(m.logits(*reference, next, 5), m.logits(*sequence, next, 5)));
}

TEST_P(exactness, models_whose_layers_run_side_by_side_give_what_each_gives_alone) {
    loaded_model models[] = {model(2), model(2)};
    const std::vector<token_id> ids[] = {some_tokens(300, vocabulary(), 9),
                                         some_tokens(200, vocabulary(), 10)};
    std::vector<float> alone[2], logits[2];
    std::vector<int> asked[2];
    std::unique_ptr<storage::kv_sequence> sequences[2];
    sequence_step steps[2];
    for (std::size_t i = 0; i < 2; ++i) {
        const int count = static_cast<int>(ids[i].size());
        alone[i] = models[i].logits(*models[i].new_sequence(), ids[i], count);
        asked[i] = {5, count - 1};
        logits[i].resize(2 * vocabulary());
        sequences[i] = models[i].new_sequence();
        ASSERT_TRUE(sequences[i]->reserve(count));
        steps[i] = {ids[i], sequences[i].get(), asked[i], logits[i].data()};
        models[i].model().begin({&steps[i], 1});
    }
    for (int layer = 0; layer < static_cast<int>(models[0].config().layers.size()); ++layer)
        for (std::size_t i = 0; i < 2; ++i) models[i].model().run_layer(layer, {&steps[i], 1});
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(sequences[i]->token_count(), static_cast<int>(ids[i].size()));
        for (std::size_t row = 0; row < 2; ++row) {
            const auto at = static_cast<std::size_t>(asked[i][row]) * vocabulary();
            EXPECT_TRUE(same_bits(std::span(alone[i]).subspan(at, vocabulary()),
                                  std::span(logits[i]).subspan(row * vocabulary(), vocabulary())));
        }
    }
}

// Vacuity check: the comparison sees one changed token.
TEST_P(exactness, another_token_is_seen) {
    loaded_model m = model();
    std::vector<token_id> ids = some_tokens(300, vocabulary(), 5);
    const std::vector<float> before = m.logits(*m.new_sequence(), ids, 300);
    ids[10] = static_cast<token_id>((static_cast<std::size_t>(ids[10]) + 1) % vocabulary());
    const std::vector<float> after = m.logits(*m.new_sequence(), ids, 300);
    EXPECT_TRUE(same_bits(std::span(before).first(10 * vocabulary()),
                          std::span(after).first(10 * vocabulary())));
    EXPECT_FALSE(
        same_bits(std::span(before).last(vocabulary()), std::span(after).last(vocabulary())));
}

std::string name_of(const testing::TestParamInfo<std::tuple<const char*, const char*>>& each) {
    std::string name = std::string(std::get<0>(each.param)) + "_kv" + std::get<1>(each.param);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(models, exactness,
                         testing::Combine(testing::Values("llama31", "mlx-4bit", "qwen25", "qwen3",
                                                          "qwen3moe", "mistral", "gemma3", "gptoss",
                                                          "gptoss-mxfp4", "deepseek2",
                                                          "deepseek2-mlx-8bit"),
                                          testing::Values("4", "8", "16")),
                         name_of);

INSTANTIATE_TEST_SUITE_P(plain, exactness,
                         testing::Combine(testing::Values("smollm3", "granite", "olmo3", "olmo2",
                                                          "exaone4", "arcee",
                                                          "ministral3-published", "phi3", "seedoss",
                                                          "glm4moe", "glm4moelite"),
                                          testing::Values("4", "16")),
                         name_of);

INSTANTIATE_TEST_SUITE_P(gemma4, exactness,
                         testing::Combine(testing::Values("gemma4-published", "gemma4-e-published",
                                                          "gemma4moe-published"),
                                          testing::Values("4", "16", "k6s-v5r")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(gemma4_recipes, exactness,
                         testing::Combine(testing::Values("gemma4-published"),
                                          testing::Values("k6s-v5r-w16")),
                         name_of);

// Every other form of K and V; latent attention has none.
INSTANTIATE_TEST_SUITE_P(
    recipes, exactness,
    testing::Combine(testing::Values("llama31", "mlx-4bit", "qwen25", "gemma3", "gptoss"),
                     testing::Values("k5s-v4r", "k6s-v5r", "k7s-v5r", "k8m-v5r", "k4s-v4r-w16",
                                     "k5s-v4r-w16", "k6s-v5r-w16")),
    name_of);
INSTANTIATE_TEST_SUITE_P(plain_recipes, exactness,
                         testing::Combine(testing::Values("smollm3", "olmo3",
                                                          "ministral3-published", "phi3"),
                                          testing::Values("k6s-v5r-w16")),
                         name_of);

}  // namespace
}  // namespace semantic::engine
