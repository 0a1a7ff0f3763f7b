// SPDX-License-Identifier: Apache-2.0
// Ten times as many agents as the pool holds, asked in turn: the worst order for a cache.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::ask;
using semantic::tests::chat_of;
using semantic::tests::load;
using semantic::tests::long_paste;
using semantic::tests::options_in;
using semantic::tests::run;
using semantic::tests::temp_dir;

struct sizes {
    int agents;
    int sentences;  // of an agent's first message, about 20 tokens each
    int turns;
};

/// What the process holds of the machine.
struct holdings {
    std::size_t resident_bytes = 0;
    std::size_t descriptors = 0;

    static holdings now() {
        holdings held;
        std::ifstream statm("/proc/self/statm");
        std::size_t pages = 0;
        statm >> pages >> held.resident_bytes;
        held.resident_bytes *= static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
        const std::filesystem::directory_iterator open("/proc/self/fd");
        held.descriptors = static_cast<std::size_t>(std::distance(begin(open), end(open)));
        return held;
    }
};

struct agent_chat {
    std::string name;
    std::vector<std::string> turns;
    int stored = 0;  // tokens of its memory
};

void ask_next(engine& runner, agent_chat& agent) {
    agent.turns.push_back("And then?");
    auto said = run(runner, ask(agent.name, chat_of(agent.turns), 4));
    ASSERT_TRUE(said->finished) << (said->failed ? said->failed->what : "no end");
    ASSERT_EQ(said->usage.reused_tokens, agent.stored) << said->usage.detail;
    ASSERT_EQ(said->usage.why, miss_reason::none) << said->usage.detail;
    agent.stored = said->usage.prompt_tokens + said->finished->output_tokens - 1;
    agent.turns.push_back(said->text);
}

/// A pool for a tenth of the agents, if each had as many tokens as the first one comes to.
engine_options tight_options(const std::string& directory, const sizes& used) {
    temp_dir other;
    engine_options options = options_in(other.path());
    options.block_tokens = 64;
    auto roomy = load(options);
    run(*roomy, ask("first", chat_of({"Agent 0. " + long_paste(used.sentences)}), 4));
    const std::uint64_t one = roomy->inspect(*storage::agent_id::parse("first"))->pool_bytes;
    options.cache_directory = directory;
    options.cache_budget_bytes = static_cast<std::size_t>(used.agents / 10) * one;
    return options;
}

// SEMANTIC_MANY_AGENTS=1: 500 agents of 2,000 tokens, 5,000 requests.
TEST(many_agents, ten_times_what_the_pool_holds_are_all_answered_from_their_memory) {
    const bool is_long = std::getenv("SEMANTIC_MANY_AGENTS") != nullptr;
    const sizes used = is_long ? sizes{500, 96, 10} : sizes{20, 12, 4};
    temp_dir dir;
    auto engine = load(tight_options(dir.path(), used));
    std::vector<agent_chat> agents;
    for (int i = 0; i < used.agents; ++i) {
        agents.push_back({"agent" + std::to_string(i), {}, 0});
        std::string paste = "Agent " + std::to_string(i) + ". " + long_paste(used.sentences);
        auto said = run(*engine, ask(agents.back().name, chat_of({paste}), 4));
        ASSERT_TRUE(said->finished) << (said->failed ? said->failed->what : "no end");
        agents.back().stored = said->usage.prompt_tokens + said->finished->output_tokens - 1;
        agents.back().turns = {std::move(paste), said->text};
    }
    const int tokens = agents.back().stored;
    std::vector<double> seconds;
    holdings after_first, at_end;
    for (int turn = 0; turn < used.turns; ++turn) {
        for (agent_chat& agent : agents) {
            const auto begin = std::chrono::steady_clock::now();
            ASSERT_NO_FATAL_FAILURE(ask_next(*engine, agent)) << agent.name << " turn " << turn;
            seconds.push_back(
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        }
        if (turn == 0) after_first = holdings::now();
    }
    at_end = holdings::now();
    EXPECT_EQ(engine->probe().requests_failed.load(), 0u);
    EXPECT_GT(engine->probe().tokens_reused_disk.load(), engine->probe().tokens_reused_ram.load());
    EXPECT_EQ(engine->store_probe().save_failures.load(), 0u);
    EXPECT_LE(at_end.descriptors, after_first.descriptors);
    // Texts and tokens of the agents grow with the turns; nothing else may.
    EXPECT_LT(at_end.resident_bytes, after_first.resident_bytes + (std::size_t{48} << 20));
    std::ranges::sort(seconds);
    std::printf(
        "%d agents of %d tokens, %zu requests: p50 %.1f ms, p99 %.1f ms; resident %zu -> "
        "%zu MiB, descriptors %zu -> %zu\n",
        used.agents, tokens, seconds.size(), 1e3 * seconds[seconds.size() / 2],
        1e3 * seconds[seconds.size() * 99 / 100], after_first.resident_bytes >> 20,
        at_end.resident_bytes >> 20, after_first.descriptors, at_end.descriptors);
}

}  // namespace
}  // namespace semantic::engine
