// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/model/loaded_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/model/heads/key_means.hpp"

namespace semantic::tests {

using storage::token_id;

namespace {

storage::kv_recipe recipe_of(const model_run& run) {
    if (run.recipe.empty()) return storage::kv_recipe(run.kv_bits);
    const storage::kv_recipe named = storage::find_kv_recipe(run.recipe).value();
    return run.wide_tail > 0 ? named.with_wide_tail(run.wide_tail) : named;
}

std::vector<float> some_numbers(std::size_t count) {
    std::vector<float> numbers(count);
    std::uint32_t seed = 11;
    for (float& number : numbers) {
        seed = seed * 1664525u + 1013904223u;
        number = static_cast<float>(seed >> 8) / static_cast<float>(1 << 24) - 0.5f;
    }
    return numbers;
}

engine::key_statistics some_statistics(const engine::model_config& config) {
    return {some_numbers(engine::key_means::count(config)),
            some_numbers(engine::key_shaping::count(config))};
}

}  // namespace

loaded_model::loaded_model(const model_run& run) : run_(run), arena_(run.threads) {
    auto config = engine::model_config::load(run.folder);
    if (!config) {
        ADD_FAILURE() << config.error().what;
        return;
    }
    config_ = std::move(*config);
    if (run.context_tokens > 0) config_.choose_rope(run.context_tokens);
    const storage::kv_layout layout =
        engine::make_kv_layout(config_, recipe_of(run), run.block_tokens);
    const auto blocks = static_cast<std::size_t>(run.pool_tokens / layout.block_tokens() + 1);
    pool_ = std::make_unique<storage::block_pool>(
        layout, blocks * static_cast<std::size_t>(layout.layer_count()) * layout.frame_bytes());
    arena_.run([&] {
        auto loaded = engine::transformer::load(
            run.weights_folder.empty() ? run.folder : run.weights_folder, config_,
            engine::make_kv_layout(config_, 16, run.block_tokens),
            *engine::find_kernels(run.kernels), {1, 1}, run.weights, {});
        if (loaded)
            loaded = (*loaded)->with_layout(
                layout, {run.rows_max, run.rows_max, run.compensated, run.draft_rows_max},
                some_statistics(config_));
        if (!loaded) {
            ADD_FAILURE() << loaded.error().what;
            return;
        }
        model_ = std::move(*loaded);
    });
}

loaded_model::~loaded_model() = default;

std::unique_ptr<storage::kv_sequence> loaded_model::new_sequence() const {
    auto made =
        std::make_unique<storage::kv_sequence>(*pool_, std::vector<storage::kv_block_parts>{}, 0);
    states_.insert_or_assign(made.get(), new_states());
    return made;
}

loaded_model::state_pair loaded_model::new_states() const {
    return {engine::aligned_buffer<std::byte>(config_.state_bytes()),
            engine::aligned_buffer<std::byte>(config_.state_bytes())};
}

std::unique_ptr<storage::kv_sequence> loaded_model::fork(storage::kv_sequence& from) const {
    auto made = std::make_unique<storage::kv_sequence>(*pool_, from.share(), from.token_count());
    state_pair states = new_states();
    std::copy_n(states_.at(&from)[0].data(), config_.state_bytes(), states[0].data());
    states_.insert_or_assign(made.get(), std::move(states));
    return made;
}

std::vector<float> loaded_model::logits(storage::kv_sequence& sequence,
                                        std::span<const token_id> tokens, int chunk) {
    std::vector<float> all;
    for (std::size_t first = 0; first < tokens.size(); first += static_cast<std::size_t>(chunk)) {
        const auto part =
            tokens.subspan(first, std::min(static_cast<std::size_t>(chunk), tokens.size() - first));
        storage::kv_sequence* const one[] = {&sequence};
        const std::vector<token_id> ids[] = {{part.begin(), part.end()}};
        const std::vector<float> some = step(one, ids);
        all.insert(all.end(), some.begin(), some.end());
    }
    return all;
}

std::vector<float> loaded_model::step(std::span<storage::kv_sequence* const> sequences,
                                      std::span<const std::vector<token_id>> tokens) {
    std::size_t rows = 0;
    for (const auto& ids : tokens) rows += ids.size();
    const auto vocabulary = static_cast<std::size_t>(config_.vocabulary);
    std::vector<float> out(rows * vocabulary);
    std::vector<std::vector<int>> asked(sequences.size());
    std::vector<engine::sequence_step> batch;
    float* to = out.data();
    for (std::size_t i = 0; i < sequences.size(); ++i) {
        storage::kv_sequence& sequence = *sequences[i];
        const auto reserved =
            sequence.reserve(sequence.token_count() + static_cast<int>(tokens[i].size()));
        EXPECT_TRUE(reserved) << (reserved ? "" : reserved.error().what);
        asked[i].resize(tokens[i].size());
        std::iota(asked[i].begin(), asked[i].end(), 0);
        batch.push_back({tokens[i], &sequence, asked[i], to});
        if (const auto at = states_.find(&sequence); at != states_.end()) {
            if (sequence.token_count() > 0) batch.back().state = at->second[0].data();
            batch.back().next_state = at->second[1].data();
        }
        to += tokens[i].size() * vocabulary;
    }
    arena_.run([&] { model_->forward(batch); });
    for (storage::kv_sequence* const each : sequences)
        if (const auto at = states_.find(each); at != states_.end())
            std::swap(at->second[0], at->second[1]);
    return out;
}

std::vector<token_id> loaded_model::greedy(std::span<const token_id> prompt, int count) {
    const auto sequence = new_sequence();
    std::vector<float> last = logits(*sequence, prompt, run_.rows_max);
    std::vector<token_id> answer;
    for (int i = 0; i < count; ++i) {
        const auto row = last.end() - config_.vocabulary;
        answer.push_back(static_cast<token_id>(std::max_element(row, last.end()) - row));
        last = logits(*sequence, std::span(&answer.back(), 1), 1);
    }
    return answer;
}

}  // namespace semantic::tests
