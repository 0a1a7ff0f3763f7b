// SPDX-License-Identifier: Apache-2.0
// How long it takes to find the stored text that has most in common with a prompt, by number of
// agents. Each text has 32,000 bytes (about 8,000 tokens), the first 24,000 shared by all: the
// worst case, since every comparison reads that far.
// Run: build/bin/prefix_bench

#include <benchmark/benchmark.h>
#include <list>
#include <random>
#include <string>

#include "storage/agents/prefix_index.hpp"

namespace {

using namespace semantic::storage;

std::string letters(std::mt19937& random, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += static_cast<char>('a' + random() % 26);
    return text;
}

void closest_of_agents(benchmark::State& run) {
    std::mt19937 random(1);
    const std::string shared = letters(random, 24'000);
    std::list<std::shared_ptr<const agent_state>> agents;
    prefix_index index;
    for (int i = 0; i < run.range(0); ++i) {
        agent_state state{*agent_id::parse("agent" + std::to_string(i))};
        state.text = shared + letters(random, 8'000);
        agents.push_back(std::make_shared<const agent_state>(std::move(state)));
        index.add(&agents.back());
    }
    const std::string prompt = shared + letters(random, 8'000);
    const auto wanted = static_cast<std::size_t>(run.range(1));
    for (auto _ : run) benchmark::DoNotOptimize(index.closest({}, prompt, wanted));
}
BENCHMARK(closest_of_agents)
    ->ArgNames({"agents", "wanted"})
    ->ArgsProduct({{100, 1'000, 10'000}, {1, 32}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
