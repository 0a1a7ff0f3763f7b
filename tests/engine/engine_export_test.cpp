// SPDX-License-Identifier: Apache-2.0
// Memory that leaves one engine as a file and goes on in another; what an answer writes to disk.

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "engine/engine.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::run;
using tests::temp_dir;

std::unique_ptr<engine> load_in(const std::string& directory) {
    return tests::load(tests::options_in(directory));
}

std::string paste(int sentences) {
    std::string text = "Here are my notes. ";
    for (int i = 0; i < sentences; ++i)
        text += "On day " + std::to_string(i) + " the gardener counted the lamps again. ";
    return text;
}

memory_source source_of(const std::string& bytes) {
    return {bytes.size(),
            [&bytes](std::uint64_t offset, std::span<std::byte> target) -> storage::result<void> {
                if (offset > bytes.size() || target.size() > bytes.size() - offset)
                    return storage::failure{storage::errc::corrupt, "the file ends"};
                std::memcpy(target.data(), bytes.data() + offset, target.size());
                return {};
            }};
}

TEST(engine_export, a_conversation_goes_on_elsewhere_from_its_file) {
    const temp_dir here, there;
    const auto first = load_in(here.path());
    const std::vector<std::string> told = {paste(30) + "My dog is called Biscuit."};
    const auto answer = run(*first, ask("a", chat_of(told)));
    ASSERT_TRUE(answer->finished);
    const std::vector<std::string> asked = {told[0], answer->text, "What is my dog called?"};

    std::string file;
    const auto written =
        first->export_agent(*storage::agent_id::parse("a"), tests::appending_to(file));
    ASSERT_TRUE(written) << written.error().what;
    EXPECT_EQ(*written, file.size());

    const auto second = load_in(there.path());
    const auto b = *storage::agent_id::parse("b");
    std::string damaged = file;
    damaged[damaged.size() / 2] ^= 1;
    EXPECT_EQ(second->import_agent(b, source_of(damaged)).error().code, storage::errc::corrupt);
    const auto tokens = second->import_agent(b, source_of(file));
    ASSERT_TRUE(tokens) << tokens.error().what;
    const auto there_said = run(*second, ask("b", chat_of(asked)));
    const auto here_said = run(*first, ask("a", chat_of(asked)));
    EXPECT_EQ(there_said->text, here_said->text);
    EXPECT_EQ(there_said->usage.reused_tokens, here_said->usage.reused_tokens);
    EXPECT_GE(there_said->usage.reused_tokens, *tokens - 1);
    EXPECT_EQ(first->export_agent(b, [](auto) { return storage::result<void>(); }).error().code,
              storage::errc::not_found);
}

/// An engine whose pool holds either of two agents that have little in common, and not both.
class small_engine : public testing::Test {
  protected:
    small_engine() {
        engine_options options = tests::options_in(directory.path());
        options.cache_budget_bytes = std::size_t{3} << 19;  // five blocks of 256 tokens
        small = tests::load(options);
    }
    /// Returns: an agent that is on disk only.
    storage::agent_id evicted(const char* name, const std::string& first_words) {
        const auto answer = run(*small, ask(name, chat_of({first_words + paste(60)}), 8));
        EXPECT_TRUE(answer->finished && answer->finished->saved);
        const auto id = *storage::agent_id::parse(name);
        const std::size_t before = frames_free();
        EXPECT_TRUE(small->evict(id));
        needed = frames_free() - before;
        return id;
    }
    std::size_t frames_free() const {
        return small->pool().frames_total - small->pool().frames_held;
    }
    static storage::result<void> nowhere(std::span<const std::byte>) { return {}; }

    const temp_dir directory;
    std::unique_ptr<engine> small;
    std::size_t needed = 0;
};

TEST_F(small_engine, an_export_waits_for_room_that_a_running_answer_gives_back) {
    const auto a = evicted("a", "");
    generation_request endless = ask("b", chat_of({"Others, too. " + paste(50)}), 512);
    for (storage::token_id special = 0; special < 4; ++special)
        endless.sampling.biases.push_back({special, -100.0f});
    const auto said = std::make_shared<tests::transcript>();
    const auto id = small->submit(endless, said);
    said->wait_for_tokens(1);
    ASSERT_LT(frames_free(), needed);
    std::jthread canceller([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        small->cancel(id);
    });
    const auto written = small->export_agent(a, nowhere);
    EXPECT_TRUE(written) << written.error().what;
    EXPECT_TRUE(said->wait());
}

TEST_F(small_engine, an_export_gives_up_on_room_that_is_not_given_back) {
    const auto a = evicted("a", ""), b = evicted("b", "Others, too. ");
    std::promise<void> begun, ended;
    const std::shared_future<void> end = ended.get_future().share();
    std::jthread slow([&, is_first = true]() mutable {
        EXPECT_TRUE(small->export_agent(b, [&](std::span<const std::byte>) {
            if (std::exchange(is_first, false)) begun.set_value();
            end.wait();
            return storage::result<void>();
        }));
    });
    begun.get_future().wait();
    ASSERT_LT(frames_free(), needed);
    EXPECT_EQ(small->export_agent(a, nowhere).error().code, storage::errc::pool_exhausted);
    ended.set_value();
    slow.join();
    EXPECT_TRUE(small->export_agent(a, nowhere));
}

// Goal: the early save of a long prompt does not cost its unfinished block twice.
TEST(engine_export, an_answer_writes_each_of_its_blocks_once) {
    const temp_dir directory;
    const auto engine = load_in(directory.path());
    const auto answer = run(*engine, ask("a", chat_of({paste(60)})));
    ASSERT_TRUE(answer->finished);
    engine->drain(std::chrono::steady_clock::now() + std::chrono::seconds(60));
    const int prompt = answer->usage.prompt_tokens;
    ASSERT_GT(prompt, 600);
    const int tokens = prompt + answer->finished->output_tokens;
    const auto most = static_cast<std::uint64_t>(tokens / 256) + 1;
    EXPECT_LE(engine->store_probe().blocks_written.load(), most);
}

}  // namespace
}  // namespace semantic::engine
