// SPDX-License-Identifier: Apache-2.0
// Agents at random for as long as one likes: SEMANTIC_SOAK_SECONDS says how long,
// SEMANTIC_SOAK_SEED makes another run of it. Without the first it is skipped.
//
// Goal: whatever happens around a request, it says what it says alone on a cold engine. Method: an
// engine with a small pool runs random conversations of random lengths at the same time; requests
// are cancelled in the middle, conversations forked, and the engine itself is replaced by one with
// other chunks, threads and places that finds the memory on disk. Each answer is compared with that
// of a fresh engine which has nothing else to do, knows the agent's tokens and has to compute all
// of them. Between two engines, memory, threads and descriptors of the process must be what they
// were.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <malloc.h>
#include <random>

#include "tests/engine/tiny_engine.hpp"
#include "tests/support/memory_without_kv.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using clock = std::chrono::steady_clock;
using tests::chat_of;
using tests::load;
using tests::options_in;
using tests::transcript;

constexpr std::size_t agents_max = 12;
constexpr std::size_t conversation_bytes_max = 9000;
constexpr std::chrono::seconds engine_lifetime{20};

int environment_number(const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::atoi(text) : otherwise;
}

/// What the process holds.
struct footprint {
    long resident_kb = 0;
    long threads = 0;
    long descriptors = 0;
};

footprint look() {
    footprint now;
    malloc_trim(0);  // what is freed is not held
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmRSS:")) now.resident_kb = std::atol(line.c_str() + 6);
        if (line.starts_with("Threads:")) now.threads = std::atol(line.c_str() + 8);
    }
    namespace fs = std::filesystem;
    for ([[maybe_unused]] const auto& one : fs::directory_iterator("/proc/self/fd"))
        ++now.descriptors;
    return now;
}

struct agent_talk {
    std::string id;
    std::vector<std::string> turns;  // the user's first
    // While a request runs:
    generation_request asked;
    std::shared_ptr<transcript> heard;
    bool cancelled = false;  // it may end early
};

class soak {
  public:
    explicit soak(unsigned seed) : random_(seed) {}

    void run(std::chrono::seconds time) {
        for (std::size_t i = 0; i < agents_max; ++i)
            talks_.push_back({"agent" + std::to_string(i), {}, {}, nullptr, false});
        const auto end = clock::now() + time;
        while (clock::now() < end && !testing::Test::HasFatalFailure()) {
            one_engine(std::min(clock::now() + engine_lifetime, end));
            seen_.push_back(look());
            report();
        }
        EXPECT_GT(answers_, 0);
        check_footprints();
    }

  private:
    void report() const {
        const footprint& now = seen_.back();
        std::cout << "engines " << seen_.size() << ", answers " << answers_ << ", cancelled "
                  << cancelled_ << ", cut by a full pool " << full_ << ", tokens " << tokens_
                  << ", reused from disk " << from_disk_ << ", resident " << now.resident_kb / 1024
                  << " MB, threads " << now.threads << ", descriptors " << now.descriptors
                  << std::endl;
    }

    int pick(int low, int high) { return std::uniform_int_distribution<>(low, high)(random_); }

    // The first engines still bring in what a process keeps: libraries, arenas of the allocator.
    void check_footprints() {
        if (seen_.size() < 8) return;
        const std::size_t settled = seen_.size() / 4;
        long resident_max = 0;
        for (std::size_t i = settled; i < seen_.size(); ++i) {
            EXPECT_LE(seen_[i].threads, seen_[settled].threads) << "engine " << i;
            EXPECT_LE(seen_[i].descriptors, seen_[settled].descriptors) << "engine " << i;
            if (i < 2 * settled) resident_max = std::max(resident_max, seen_[i].resident_kb);
        }
        EXPECT_LE(seen_.back().resident_kb, resident_max + resident_max / 5);
    }

    void one_engine(clock::time_point until) {
        engine_options options = options_in(dir_.path());
        options.compute_threads = pick(1, 2);
        options.max_batch = pick(2, 16);
        options.prefill_max_chunk_tokens = 16 << pick(0, 8);
        options.prefill_min_chunk_tokens = std::min(options.prefill_max_chunk_tokens, 512);
        options.chunked_prefill_threshold_tokens = pick(16, 2048);
        options.decode_latency = std::chrono::milliseconds(pick(1, 200));
        options.cache_budget_bytes = static_cast<std::size_t>(pick(4, 24)) << 20;
        options.save_wait = std::chrono::minutes(2);  // an end says that its tokens are on disk
        auto engine = load(options);
        while (clock::now() < until && !testing::Test::HasFatalFailure()) {
            for (agent_talk& talk : talks_) {
                if (!talk.heard) {
                    if (pick(0, 2) == 0) begin(*engine, talk);
                } else if (talk.heard->wait(std::chrono::seconds(0))) {
                    finish(talk);
                }
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        // What still runs is cut, or let to its end for as long as the grace lasts.
        auto grace = std::chrono::seconds(pick(0, 1) * 60);
        for (agent_talk& talk : talks_) talk.cancelled = true;
        engine->drain(clock::now() + grace);
        from_disk_ += engine->probe().tokens_reused_disk.load();
        for (agent_talk& talk : talks_)
            if (talk.heard && !testing::Test::HasFatalFailure()) finish(talk);
    }

    std::string words() {
        std::string text;
        for (int i = pick(0, 12) * pick(0, 6); i >= 0; --i)
            text += "On day " + std::to_string(pick(0, 99)) + " somebody moved " +
                    std::to_string(pick(0, 99)) + " pots. ";
        return text + "What now?";
    }

    void begin(engine& runner, agent_talk& talk) {
        std::size_t bytes = 0;
        for (const std::string& turn : talk.turns) bytes += turn.size();
        if (bytes > conversation_bytes_max || pick(0, 19) == 0) talk.turns.clear();
        // A fork: the conversation of somebody else, as far as it got.
        const agent_talk& other = talks_[static_cast<std::size_t>(pick(0, agents_max - 1))];
        if (pick(0, 9) == 0 && !other.heard) talk.turns = other.turns;
        talk.turns.push_back(words());
        generation_request request;
        if (pick(0, 4) > 0) request.agent = *storage::agent_id::parse(talk.id);
        request.chat = chat_of(talk.turns, pick(0, 1) ? "You are a gardener." : "");
        request.max_tokens = pick(0, 30);
        if (pick(0, 2) == 0) {  // a long answer: the model has little to say by itself
            request.max_tokens = pick(30, 90);
            for (token_id stop = 0; stop < 4; ++stop)
                request.sampling.biases.push_back({stop, -100.0f});
        }
        request.choices = pick(0, 7) == 0 ? pick(2, 4) : 1;
        request.sampling.temperature = pick(0, 1) ? 0.0f : 1.3f;
        request.sampling.seed = static_cast<std::uint64_t>(pick(0, 1 << 30));
        if (pick(0, 3) == 0) request.sampling.repetition_penalty = 1.2f;
        if (pick(0, 3) == 0) request.stop_sequences = {"the", ". "};
        talk.asked = request;
        talk.heard = std::make_shared<transcript>();
        talk.cancelled = pick(0, 5) == 0;
        // Right away, so perhaps in the middle of the prompt, or at a token of the answer.
        const int cancel_after = talk.cancelled ? pick(0, 8) : 0;
        auto id = std::make_shared<std::atomic<request_id>>(0);
        if (cancel_after > 0)
            talk.heard->on_event_hook =
                [&runner, id, left = cancel_after](const generation_event& event) mutable {
                    if (std::holds_alternative<token_text>(event) && --left <= 0)
                        runner.cancel(*id);
                };
        *id = runner.submit(std::move(request), talk.heard);
        if (talk.cancelled && cancel_after == 0) runner.cancel(*id);
    }

    void finish(agent_talk& talk) {
        ASSERT_TRUE(talk.heard->wait());
        const transcript& heard = *talk.heard;
        EXPECT_EQ(heard.ends, 1);
        // A pool this small can be full of running conversations.
        bool is_full = heard.failed && (heard.failed->kind == failure_kind::overloaded ||
                                        heard.failed->kind == failure_kind::too_large);
        ASSERT_TRUE(heard.finished || is_full) << (heard.failed ? heard.failed->what : "no end");
        bool is_too_long = heard.failed && heard.failed->kind == failure_kind::too_large;
        is_full = is_full || heard.finished->why == stop_reason::context_full;
        bool is_cancelled = heard.finished && heard.finished->why == stop_reason::cancelled;
        EXPECT_TRUE(!is_cancelled || talk.cancelled) << "nobody cancelled it";
        bool is_whole = !is_full && !is_cancelled;
        compare(talk, is_whole);
        ++answers_;
        cancelled_ += is_cancelled ? 1 : 0;
        full_ += is_full ? 1 : 0;
        tokens_ += static_cast<long>(heard.tokens.size());
        if (is_whole && !heard.text.empty())
            talk.turns.push_back(heard.text);
        else
            talk.turns.pop_back();
        if (is_too_long) talk.turns.clear();
        talk.heard.reset();
    }

    void compare(const agent_talk& talk, bool is_whole) {
        if (talk.heard->tokens.empty() && !is_whole) return;
        ASSERT_TRUE(talk.heard->finished && talk.heard->finished->saved) << talk.id;
        tests::temp_dir dir;
        tests::copy_memory_without_kv(dir_.path(), dir.path());
        engine_options options = options_in(dir.path());
        options.compute_threads = 1;
        auto alone = load(options);
        generation_request same = talk.asked;
        same.agent = *storage::agent_id::parse(talk.heard->agent);
        auto expected = tests::run(*alone, same);
        ASSERT_TRUE(expected->finished);
        ASSERT_EQ(expected->usage.reused_tokens, 0) << "it did not compute everything";
        for (const auto& [choice, text] : talk.heard->choices) {
            const std::string& whole = expected->choices[choice];
            if (is_whole) {
                ASSERT_EQ(text, whole) << talk.id << ", choice " << choice;
            } else {
                ASSERT_TRUE(whole.starts_with(text)) << text << "\nis no start of\n" << whole;
            }
        }
        if (is_whole) {
            ASSERT_EQ(talk.heard->tokens, expected->tokens) << talk.id;
            ASSERT_EQ(talk.heard->finished->why, expected->finished->why);
        }
    }

    tests::temp_dir dir_;
    std::mt19937 random_;
    std::vector<agent_talk> talks_;
    std::vector<footprint> seen_;
    long answers_ = 0;
    long cancelled_ = 0;
    long full_ = 0;
    long tokens_ = 0;
    std::uint64_t from_disk_ = 0;
};

TEST(engine_soak, every_answer_is_what_it_would_be_alone_and_nothing_leaks) {
    const int seconds = environment_number("SEMANTIC_SOAK_SECONDS", 0);
    if (seconds <= 0) GTEST_SKIP() << "SEMANTIC_SOAK_SECONDS is not set";
    soak(static_cast<unsigned>(environment_number("SEMANTIC_SOAK_SEED", 20261121)))
        .run(std::chrono::seconds(seconds));
}

}  // namespace
}  // namespace semantic::engine
