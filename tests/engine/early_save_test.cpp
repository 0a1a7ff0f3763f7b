// SPDX-License-Identifier: Apache-2.0
// A save while an answer is being made never replaces a longer version of the same conversation
// that a client knows to be saved.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "storage/disk/block_file.hpp"
#include "storage/disk/manifest.hpp"
#include "storage/files/file.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/sliding_model.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

namespace fs = std::filesystem;
using tests::ask;
using tests::chat_of;
using tests::load;
using tests::long_paste;
using tests::run;
using tests::sliding_model;
using tests::temp_dir;
using tests::transcript;

constexpr int window = 40;
const char* const question = "What comes then?";

engine_options small_blocks(const std::string& directory, const std::string& model) {
    engine_options options = tests::options_in(directory);
    if (!model.empty()) options.model_directory = model;
    options.block_tokens = 16;
    options.prefill_min_chunk_tokens = 32;
    options.prefill_max_chunk_tokens = 64;
    options.chunked_prefill_threshold_tokens = 64;
    return options;
}

/// What a process that started now would find of the directory's only agent.
storage::manifest saved_version(const std::string& directory) {
    std::string path;
    for (const auto& each : fs::directory_iterator(fs::path(directory) / "agents"))
        if (each.path().extension() == ".manifest") path = each.path().string();
    const auto bytes = storage::read_whole(storage::posix_file_system(), path, 1 << 24);
    if (!bytes) throw std::runtime_error(bytes.error().what);
    auto found = storage::decode_manifest(*bytes);
    if (!found) throw std::runtime_error(found.error().what);
    return std::move(found->agent);
}

generation_request named(const std::string& message, conversation chat, int max_tokens) {
    generation_request request = ask("a", std::move(chat), max_tokens);
    request.message_id = message;
    request.sampling.biases = {{2, -100.0f}};  // <|im_end|>: the answer is as long as it may be
    return request;
}

/// Asks, and looks at the disk until the answer ends. Returns: the fewest tokens and message marks
/// that a crash would have left.
std::pair<std::size_t, std::size_t> least_saved(engine& runner, const std::string& directory,
                                                generation_request request) {
    auto sink = std::make_shared<transcript>();
    const request_id id = runner.submit(std::move(request), sink);
    std::pair<std::size_t, std::size_t> least{1 << 20, 1 << 20};
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    while (!sink->wait(std::chrono::seconds(0)) && std::chrono::steady_clock::now() < limit) {
        const storage::manifest now = saved_version(directory);
        least = {std::min(least.first, now.tokens.size()),
                 std::min(least.second, now.messages.size())};
    }
    runner.cancel(id);
    EXPECT_TRUE(sink->wait());
    return least;
}

class early_save : public testing::TestWithParam<bool> {
  protected:
    /// An agent with one answer, named m1, that ends some tokens after a block.
    std::size_t tell_it(engine& runner, int answer_tokens = 40) {
        auto said = run(runner, named("m1", chat_of({long_paste(8)}), answer_tokens));
        EXPECT_TRUE(said->finished && said->finished->saved);
        answer = said->text;
        const storage::manifest saved = saved_version(dir.path());
        EXPECT_EQ(saved.messages.size(), 1u);
        return saved.tokens.size();
    }

    const sliding_model slides{window};
    const temp_dir dir;
    const engine_options options = small_blocks(dir.path(), GetParam() ? slides.path() : "");
    std::string answer;
};

TEST_P(early_save, an_answer_that_is_made_again_leaves_the_saved_one_until_it_is_complete) {
    auto engine = load(options);
    const std::size_t saved = tell_it(*engine);
    const auto [tokens, marks] =
        least_saved(*engine, dir.path(), named("m2", chat_of({long_paste(8)}), 200));
    EXPECT_GE(tokens, saved);
    EXPECT_GE(marks, 1u);
    EXPECT_GT(saved_version(dir.path()).tokens.size(), saved);
}

TEST_P(early_save, what_is_computed_again_after_a_loss_leaves_the_saved_version_as_long_as_it_was) {
    std::size_t saved = 0;
    {
        auto engine = load(options);
        saved = tell_it(*engine);
    }
    const auto names = saved_version(dir.path()).blocks;
    for (const storage::kv_part part : storage::kv_parts)
        fs::remove(dir / storage::block_path(names[1].name, part));
    auto engine = load(options);
    const auto [tokens, marks] = least_saved(
        *engine, dir.path(), named("m2", chat_of({long_paste(8), answer, question}), 100));
    EXPECT_GE(tokens, saved);
    EXPECT_GE(marks, 1u);
    EXPECT_EQ(saved_version(dir.path()).messages.size(), 2u);
    // What was lost has been computed again, and is there again.
    engine.reset();
    engine = load(options);
    auto said = run(*engine, ask("b", chat_of({long_paste(8), answer, question}), 2));
    EXPECT_EQ(said->usage.why, miss_reason::none);
    EXPECT_GT(said->usage.reused_tokens, static_cast<int>(saved));
    EXPECT_EQ(engine->store_probe().blocks_missing.load(), 0u);
}

TEST_P(early_save, a_request_that_is_broken_off_early_takes_nothing_from_the_agent) {
    auto engine = load(options);
    const std::size_t saved = tell_it(*engine, 600);
    // The thread that brings the first token breaks the request off, so no busy machine comes late.
    auto sink = std::make_shared<transcript>();
    std::promise<request_id> submitted;
    std::future<request_id> id = submitted.get_future();
    sink->on_event_hook = [&](const generation_event& event) {
        if (std::holds_alternative<token_text>(event) && id.valid()) engine->cancel(id.get());
    };
    submitted.set_value(engine->submit(named("m2", chat_of({long_paste(8)}), 590), sink));
    ASSERT_TRUE(sink->wait());
    ASSERT_EQ(sink->finished->why, stop_reason::cancelled);
    engine.reset();
    EXPECT_EQ(saved_version(dir.path()).tokens.size(), saved);
    engine = load(options);
    EXPECT_TRUE(engine->find_message({}, "m1"));
}

INSTANTIATE_TEST_SUITE_P(models, early_save, testing::Bool(), [](const auto& each) {
    return std::string(each.param ? "sliding" : "dense");
});

}  // namespace
}  // namespace semantic::engine
