// SPDX-License-Identifier: Apache-2.0
// The engine on a model with latent attention: what a restart leaves is as much as with keys and
// values.

#include <gtest/gtest.h>

#include "engine/engine.hpp"
#include "tests/support/latent_model.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::latent_model;
using tests::run;

std::unique_ptr<engine> load(const latent_model& model, const std::string& caches,
                             int kv_bits = 0) {
    engine_options options;
    options.model_directory = model.path();
    options.cache_directory = caches;
    options.cache_budget_bytes = std::size_t{64} << 20;
    options.compute_threads = 2;
    options.kv_recipe = kv_bits == 0 ? "auto" : std::to_string(kv_bits);
    auto loaded = load_engine(options, {});
    if (!loaded) throw std::runtime_error(loaded.error().what);
    return std::move(*loaded);
}

/// Over one block of 256 tokens, each a byte.
std::vector<std::string> questions() {
    std::string notes = "Notes.";
    for (int day = 1; day <= 30; ++day) notes += " Day " + std::to_string(day) + ": rain.";
    return {notes, "How many days?", "And what fell?"};
}

/// The questions one after the other, each answer in front of the next one. `replayed`: the text
/// that replaces each answer in later turns.
template <class Engine>
std::vector<std::string> answers_of(Engine engine_for_turn, const char* replayed = nullptr) {
    std::vector<std::string> turns, answers;
    for (const std::string& question : questions()) {
        turns.push_back(question);
        answers.push_back(engine_for_turn(turns));
        turns.push_back(replayed ? replayed : answers.back());
    }
    return answers;
}

TEST(engine_latent, answers_are_equal_hot_restored_and_cold_and_a_restart_loses_nothing) {
    const latent_model model;
    for (const int kv_bits : {4, 8, 16}) {
        tests::temp_dir hot_dir, restored_dir;
        const auto one = load(model, hot_dir.path(), kv_bits);
        const auto ask_one = [&](const char* agent) {
            return [&one, agent](const std::vector<std::string>& turns) {
                const auto said = run(*one, ask(agent, chat_of(turns), 24));
                EXPECT_TRUE(said->finished) << (said->failed ? said->failed->what : "no end");
                return said->text;
            };
        };
        const std::vector<std::string> hot = answers_of(ask_one("a"));
        const std::vector<std::string> restored =
            answers_of([&](const std::vector<std::string>& turns) {
                const auto fresh = load(model, restored_dir.path(), kv_bits);
                const auto said = run(*fresh, ask("a", chat_of(turns), 24));
                EXPECT_EQ(said->usage.restored_tokens, said->usage.reused_tokens);
                EXPECT_EQ(said->usage.reused_tokens > 256, turns.size() > 1);
                return said->text;
            });
        // A random model's answer is no text that its tokenizer would write so, and an agent goes
        // on with the tokens that it sampled: a stranger is compared with other words in their
        // place.
        const auto ask_stranger = [&](const std::vector<std::string>& turns) {
            const auto stranger = "b" + std::to_string(turns.size());
            tests::temp_dir empty;
            return run(*load(model, empty.path(), kv_bits), ask(stranger, chat_of(turns), 24))
                ->text;
        };
        EXPECT_EQ(restored, hot) << kv_bits;
        EXPECT_EQ(answers_of(ask_stranger, "Fine."), answers_of(ask_one("c"), "Fine.")) << kv_bits;
    }
}

// A latent of 128 and a rope part of 64, once for all four heads, in three layers.
TEST(engine_latent, latents_are_measured_too_and_keep_keys_and_values_alike) {
    const latent_model model;
    tests::temp_dir dir, other, third;
    const std::string chosen = load(model, third.path())->info().kv_recipe;
    EXPECT_TRUE(chosen == "k4v4" || chosen == "k8v8" || chosen == "k16v16") << chosen;
    const auto engine = load(model, dir.path(), 8);
    EXPECT_EQ(engine->info().kv_bits, 8);
    EXPECT_EQ(engine->info().kv_heads, 1);
    EXPECT_EQ(engine->info().head_dim, 192);
    EXPECT_EQ(engine->info().kv_bytes_per_token, 3u * (192 + 3 * 4));
    EXPECT_EQ(load(model, other.path(), 4)->info().kv_bytes_per_token, 3u * (96 + 3 * 4));
}

}  // namespace
}  // namespace semantic::engine
