// SPDX-License-Identifier: Apache-2.0
// The scheduler and the disk: who reads waits, and nobody else does; what is to be read stays.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "engine/scheduler/graph.hpp"
#include "tests/engine/scheduler/bare_batch.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::ask;
using semantic::tests::chat_of;
using semantic::tests::fault_file_system;
using semantic::tests::temp_dir;
using semantic::tests::transcript;
using tests::model_folder;

/// A scheduler of its own, so that its files can be held up.
class scheduler_and_disk : public testing::TestWithParam<int> {
  protected:
    scheduler_and_disk() { start(16); }
    /// Starts a new scheduler with so many slots in a step.
    void start(int max_batch) {
        running.reset();
        arena.run([&] {
            transformer_limits limits{chunks.max_tokens + 16, 17};
            model = std::move(*transformer::load(model_folder, config, pool.layout(),
                                                 *find_kernels("auto"), limits, weight_form::native,
                                                 {}));
        });
        scheduler_options options;
        options.batch.chunks = chunks;
        options.batch.max_batch = max_batch;
        options.batch.vocabulary = config.vocabulary;
        options.batch.answers = {config.eos_tokens, config.context_tokens_max, {}};
        options.compute_threads = GetParam();
        running.emplace(arena, *model, words, prompts, pool, *store, options, probe);
    }
    std::shared_ptr<transcript> submit(const char* agent, std::vector<std::string> turns) {
        auto said = std::make_shared<transcript>();
        running->submit(ask(agent, chat_of(std::move(turns)), 12), said);
        return said;
    }
    std::string answer(const char* agent, std::vector<std::string> turns) {
        auto said = submit(agent, std::move(turns));
        EXPECT_TRUE(said->wait());
        return said->text;
    }
    /// From now on the tensors of full blocks stay on the disk until let_go().
    void hang() {
        files.before_read([this](const std::string& path, std::uint64_t offset) {
            if (offset == 0 || std::filesystem::file_size(path) < full_block_bytes()) return;
            waiting = true;
            while (hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        });
    }
    void let_go() { hangs = false; }
    void wait_until_it_hangs() const {
        for (int i = 0; i < 5000 && !waiting; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_TRUE(waiting);
    }
    std::size_t files_of_blocks() const {
        std::size_t count = 0;
        for (const auto& each : std::filesystem::recursive_directory_iterator(dir.path()))
            count += each.path().extension() == ".safetensors" ? 1 : 0;
        return count;
    }
    std::size_t full_block_bytes() const {
        return static_cast<std::size_t>(pool.layout().layer_count()) * pool.layout().frame_bytes();
    }

    temp_dir dir;
    fault_file_system files{dir.path()};
    std::atomic<bool> hangs{true}, waiting{false};
    const chunk_policy chunks;
    const model_config config = *model_config::load(model_folder);
    const tokenizer words = *tokenizer::load(model_folder);
    const chat_template chat = *chat_template::load(model_folder, {});
    compute_arena arena{GetParam()};
    storage::block_pool pool{make_kv_layout(config, {4, 64}, 256), std::size_t{32} << 20};
    std::unique_ptr<storage::agent_cache_store> store =
        std::move(*storage::agent_cache_store::open({dir.path(), {}, {}, &files}, pool));
    resolver prompts{words, chat, *store, config.vocabulary};
    std::unique_ptr<transformer> model;
    engine_probe probe;
    std::optional<scheduler> running;
};

TEST_P(scheduler_and_disk, a_disk_that_hangs_holds_up_only_who_reads) {
    const std::string paste = tests::notes(40) + "My dog is called Biscuit.";
    const std::string first = answer("a", {paste});
    const std::vector<std::string> turns{paste, first, "What is my dog called?"};
    const std::string hot = answer("hot", turns);
    ASSERT_FALSE(hot.empty());
    ASSERT_TRUE(store->erase(*storage::agent_id::parse("hot")));
    // What the others' prompts have in common with a memory is in the pool.
    EXPECT_FALSE(answer("d", {"Hello there."}).empty());
    ASSERT_TRUE(store->evict(*storage::agent_id::parse("a")));
    hang();
    auto reader = submit("a", turns);
    wait_until_it_hangs();
    EXPECT_FALSE(answer("b", {"Hello."}).empty());
    EXPECT_FALSE(answer("c", {"Hello, you."}).empty());
    EXPECT_EQ(reader->ends, 0);
    let_go();
    ASSERT_TRUE(reader->wait());
    EXPECT_EQ(reader->text, hot);
    EXPECT_GT(reader->usage.restored_tokens, 256);
    EXPECT_EQ(probe.early_starts, 0u);
}

TEST_P(scheduler_and_disk, a_disk_that_is_slow_is_read_while_the_prompt_is_computed) {
    const std::string paste = tests::notes(40) + "My dog is called Biscuit.";
    const std::string first = answer("a", {paste});
    const std::vector<std::string> turns{paste, first, "What is my dog called?"};
    const std::string hot = answer("hot", turns);
    ASSERT_TRUE(store->erase(*storage::agent_id::parse("hot")));
    ASSERT_TRUE(store->evict(*storage::agent_id::parse("a")));
    hang();
    auto reader = submit("a", turns);
    wait_until_it_hangs();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the step has begun
    let_go();
    ASSERT_TRUE(reader->wait());
    EXPECT_EQ(reader->text, hot);
    EXPECT_EQ(probe.early_starts, 1u);
}

// An agent's turn parts from its past while another's prompt waits to continue that past.
TEST_P(scheduler_and_disk, a_memory_stays_on_disk_for_who_waits_to_continue_it) {
    const std::string paste = tests::notes(40) + "My dog is called Biscuit.";
    start(1);
    const std::string first = answer("a", {paste});
    ASSERT_TRUE(store->evict(*storage::agent_id::parse("a")));
    auto parting = submit("a", {tests::notes(20, 1) + "What is 2 plus 3?"});
    auto going_on = submit("b", {paste, first, "What is my dog called?"});
    ASSERT_TRUE(parting->wait());
    ASSERT_TRUE(going_on->wait());
    EXPECT_EQ(going_on->usage.why, miss_reason::none) << going_on->usage.detail;
    EXPECT_GT(going_on->usage.restored_tokens, 512);
    EXPECT_EQ(store->probe().blocks_missing, 0u);
    running->drain(std::chrono::steady_clock::now() + std::chrono::seconds(60));
    const std::size_t with_both = files_of_blocks();
    for (const char* agent : {"a", "b"})
        ASSERT_TRUE(store->erase(*storage::agent_id::parse(agent)));
    EXPECT_GT(with_both, 0u);
    EXPECT_EQ(files_of_blocks(), 0u);
}

// The same where it waits with blocks in the pool, which who runs comes to need.
TEST_P(scheduler_and_disk, a_memory_that_waits_in_the_pool_gives_way_and_is_read_again) {
    const std::string paste = tests::notes(40) + "My dog is called Biscuit.";
    start(1);
    const std::string first = answer("a", {paste});
    running->drain(std::chrono::steady_clock::now() + std::chrono::seconds(60));
    start(1);
    // What is left of the pool holds one such memory and not two.
    storage::kv_sequence taken(pool, {}, 0);
    while (pool.free_count() > pool.layout().frames_for(512, 0))
        ASSERT_TRUE(taken.reserve(taken.reserved_tokens() + 1));
    auto parting = submit("a", {tests::notes(40, 1) + "What is 2 plus 3?"});
    auto going_on = submit("b", {paste, first, "What is my dog called?"});
    ASSERT_TRUE(parting->wait());
    ASSERT_TRUE(parting->finished) << parting->failed->what;
    ASSERT_TRUE(going_on->wait());
    EXPECT_EQ(going_on->usage.why, miss_reason::none) << going_on->usage.detail;
    EXPECT_GT(going_on->usage.restored_tokens, 512);
    EXPECT_EQ(store->probe().blocks_missing, 0u);
}

INSTANTIATE_TEST_SUITE_P(threads, scheduler_and_disk, testing::Values(1, 2));

}  // namespace
}  // namespace semantic::engine
