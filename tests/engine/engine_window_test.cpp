// SPDX-License-Identifier: Apache-2.0
// The engine on a model with sliding layers: answers never depend on what RAM let go, divergences
// reuse as much as in a model without windows, and windows are what RAM and capacity count.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include "engine/engine.hpp"
#include "tests/support/sliding_model.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::run;
using tests::sliding_model;
using tests::temp_dir;

constexpr int window = 40, block_tokens = 16, layers = 8, full_layers = 2;
constexpr std::size_t frame_bytes = 2304;  // 16 tokens of 2 heads of 64, K and V, 4 bit

engine_options options_in(const std::string& directory, const sliding_model& model,
                          std::size_t frames) {
    engine_options options;
    options.model_directory = model.path();
    options.cache_directory = directory;
    options.kv_recipe = "4";  // as frame_bytes says; the model is of a family that takes 8
    options.cache_budget_bytes = frames * frame_bytes;
    options.block_tokens = block_tokens;
    options.compute_threads = 2;
    options.prefill_min_chunk_tokens = 32;
    options.prefill_max_chunk_tokens = 64;
    options.chunked_prefill_threshold_tokens = 64;
    return options;
}

std::unique_ptr<engine> load(const engine_options& options) {
    auto loaded = load_engine(options, {});
    if (!loaded) throw std::runtime_error(loaded.error().what);
    return std::move(*loaded);
}

std::string sentences(int from, int count) {
    std::string text;
    for (int i = from; i < from + count; ++i)
        text += "On day " + std::to_string(i) + " the gardener moved " +
                std::to_string(i * 7 % 100) + " pots to the north wall. ";
    return text;
}

/// What an engine says that has never seen anything.
std::vector<storage::token_id> fresh_answer(const sliding_model& model, const conversation& chat,
                                            int max_tokens) {
    temp_dir dir;
    return run(*load(options_in(dir.path(), model, 8000)), ask("fresh", chat, max_tokens))->tokens;
}

TEST(engine_window, ram_holds_a_window_of_sliding_layers_however_long_the_conversation) {
    const sliding_model model(window);
    temp_dir dir;
    auto engine = load(options_in(dir.path(), model, 4000));
    ASSERT_EQ(engine->pool().frame_bytes, frame_bytes);
    auto said = run(*engine, ask("a", chat_of({sentences(0, 60)}), 80));
    ASSERT_TRUE(said->finished && said->finished->saved);
    const int tokens = said->usage.prompt_tokens + said->finished->output_tokens;
    ASSERT_GT(tokens, 1000);
    const std::uint64_t blocks = static_cast<std::uint64_t>(tokens / block_tokens) + 1;
    EXPECT_LE(engine->pool().frames_held,
              blocks * full_layers + (layers - full_layers) * (window / block_tokens + 2));
}

TEST(engine_window, a_divergence_reuses_all_before_it_hot_and_after_a_restart) {
    const sliding_model model(window);
    temp_dir dir;
    auto engine = load(options_in(dir.path(), model, 4000));
    const std::string story = sentences(0, 30);
    run(*engine, ask("a", chat_of({story, "I see.", "And then?"}), 40));
    int before = 1 << 20;
    for (int kept : {29, 25, 12, 3}) {
        auto chat = chat_of({sentences(0, kept) + "Then it rained.", "I see.", "And then?"});
        if (kept % 2 == 0) {
            engine.reset();
            engine = load(options_in(dir.path(), model, 4000));
        }
        auto said = run(*engine, ask("fork" + std::to_string(kept), chat, 16));
        ASSERT_TRUE(said->finished);
        // Each sentence is 15 to 25 tokens.
        EXPECT_GT(said->usage.reused_tokens, kept * 15 - 15) << kept;
        EXPECT_LT(said->usage.reused_tokens, before);
        before = said->usage.reused_tokens;
        EXPECT_EQ(said->tokens, fresh_answer(model, chat, 16)) << kept;
    }
    EXPECT_EQ(engine->store_probe().blocks_missing.load(), 0u);
}

TEST(engine_window, a_pool_too_small_for_every_block_holds_a_conversation_by_its_windows) {
    const sliding_model model(window);
    temp_dir dir;
    // 64 blocks of two full layers, and of six sliding ones what a window and a chunk reach.
    constexpr std::size_t frames = 64 * full_layers + 6 * (3 + 3);
    auto engine = load(options_in(dir.path(), model, frames));
    EXPECT_EQ(engine->info().context_tokens_max, 1024);
    EXPECT_EQ(engine->pool().frames_total, frames);
    auto chat = chat_of({sentences(0, 45)});
    auto said = run(*engine, ask("a", chat, 24));
    ASSERT_TRUE(said->finished) << (said->failed ? said->failed->what : "no end");
    EXPECT_GT(said->usage.prompt_tokens, 700);
    EXPECT_EQ(said->tokens, fresh_answer(model, chat, 24));
    // One more than can ever fit is refused with both numbers.
    auto refused = run(*engine, ask("b", chat_of({sentences(0, 80)})));
    ASSERT_TRUE(refused->failed);
    EXPECT_EQ(refused->failed->kind, failure_kind::too_large);
    EXPECT_NE(refused->failed->what.find("1024"), std::string::npos) << refused->failed->what;
    EXPECT_EQ(refused->failed->excess.value().context_tokens, 1024);
}

TEST(engine_window, choices_slide_each_by_itself_and_the_first_is_remembered_whole) {
    const sliding_model model(window);
    const std::string story = sentences(0, 30);
    const auto told = [&](const std::string& directory, int max_batch, int choices) {
        engine_options options = options_in(directory, model, 4000);
        options.max_batch = max_batch;
        auto engine = load(options);
        generation_request request = ask("a", chat_of({story}), 60);
        request.sampling.temperature = 1.0f;
        request.sampling.seed = 9;
        request.choices = choices;
        auto said = run(*engine, request);
        EXPECT_TRUE(said->finished && said->finished->saved);
        // After another's first step the choices are gone for certain.
        auto other = run(*engine, ask("b", chat_of({"Hello."}), 1));
        const auto blocks_of = [](int tokens) {
            return static_cast<std::uint64_t>(tokens / block_tokens) + 1;
        };
        EXPECT_LE(engine->pool().frames_held,
                  blocks_of(said->usage.prompt_tokens + 60) * full_layers +
                      (layers - full_layers) * (window / block_tokens + 2) +
                      layers * blocks_of(other->usage.prompt_tokens));
        return said->choices;
    };
    temp_dir alone, in_turn, together;
    const auto choices = told(together.path(), 8, 4);
    EXPECT_EQ(choices.size(), 4u);
    EXPECT_EQ(told(in_turn.path(), 1, 4), choices);
    EXPECT_EQ(told(alone.path(), 8, 1).at(0), choices.at(0));
    auto engine = load(options_in(together.path(), model, 4000));
    const auto fork = chat_of({sentences(0, 12) + "Then it rained."});
    auto said = run(*engine, ask("fork", fork, 16));
    EXPECT_GT(said->usage.reused_tokens, 12 * 15 - 15);
    EXPECT_EQ(said->tokens, fresh_answer(model, fork, 16));
    EXPECT_EQ(engine->store_probe().blocks_missing.load(), 0u);
}

TEST(engine_window, a_lost_sibling_is_a_miss_with_a_reason_and_the_answer_is_the_same) {
    const sliding_model model(window);
    temp_dir dir;
    std::vector<std::string> turns{sentences(0, 20)};
    {
        auto engine = load(options_in(dir.path(), model, 4000));
        turns.push_back(run(*engine, ask("a", chat_of(turns), 16))->text);
        turns.push_back("What is 2 plus 3?");
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path()))
        if (entry.path().string().ends_with(".sliding.safetensors"))
            std::filesystem::remove(entry.path());
    auto engine = load(options_in(dir.path(), model, 4000));
    auto said = run(*engine, ask("a", chat_of(turns), 16));
    EXPECT_EQ(said->usage.reused_tokens, 0);
    EXPECT_EQ(said->usage.why, miss_reason::evicted);
    EXPECT_EQ(said->tokens, fresh_answer(model, chat_of(turns), 16));
}

// Goal: an answer is the one that a fresh engine gives, whatever has happened before. Method:
// random turns, divergences, forks, cancellations and restarts of a few agents on a pool that holds
// about two of them.
TEST(engine_window, random_histories_of_agents_never_change_an_answer) {
    const sliding_model model(window);
    temp_dir dir;
    constexpr std::size_t frames = 260;
    auto engine = load(options_in(dir.path(), model, frames));
    std::map<std::string, std::vector<std::string>> turns;  // by agent, the answers too
    std::map<std::vector<std::string>, std::vector<storage::token_id>> expected;
    std::mt19937 random(5);
    const auto below = [&](int count) {
        return static_cast<int>(random() % static_cast<unsigned>(count));
    };
    for (int step = 0; step < 40; ++step) {
        SCOPED_TRACE(step);
        const std::string agent = "agent" + std::to_string(below(4));
        std::vector<std::string>& mine = turns[agent];
        const int action = below(8);
        if (action == 0) mine = turns["agent" + std::to_string(below(4))];  // a fork
        if (action == 1 && mine.size() >= 2) mine.resize(mine.size() - 2);  // a turn taken back
        if (action == 2 && !mine.empty())
            mine[mine.size() - 2] += " Really.";  // the client changes its history
        if (action == 3) {
            engine.reset();
            engine = load(options_in(dir.path(), model, frames));
        }
        if (mine.size() > 5) mine.clear();
        std::vector<std::string> chat = mine;
        chat.push_back(sentences(below(20), below(8) + 1));
        if (action == 4) {
            auto sink = std::make_shared<tests::transcript>();
            const request_id id = engine->submit(ask(agent, chat_of(chat), 200), sink);
            sink->wait_for_tokens(static_cast<std::size_t>(below(20)));
            engine->cancel(id);
            ASSERT_TRUE(sink->wait());
            continue;
        }
        auto said = run(*engine, ask(agent, chat_of(chat), 24));
        ASSERT_TRUE(said->finished) << (said->failed ? said->failed->what : "no end");
        EXPECT_LE(engine->pool().frames_held, frames);
        auto& answer = expected[chat];
        if (answer.empty()) answer = fresh_answer(model, chat_of(chat), 24);
        EXPECT_EQ(said->tokens, answer);
        mine = chat;
        mine.push_back(said->text);
    }
    EXPECT_EQ(engine->store_probe().blocks_corrupt.load(), 0u);
    EXPECT_EQ(engine->store_probe().blocks_missing.load(), 0u);
}

}  // namespace
}  // namespace semantic::engine
