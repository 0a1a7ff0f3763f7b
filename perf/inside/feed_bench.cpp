// SPDX-License-Identifier: Apache-2.0
// What telling of a step costs the engine: with nobody who watches, and with a reader who takes
// what there is every 50 steps, as /ws does. A step reports 16 sequences.
// Run: build/bin/feed_bench

#include <benchmark/benchmark.h>
#include <string>

#include "engine/types/activity_feed.hpp"

namespace {

using namespace semantic::engine;
using semantic::storage::agent_id;

constexpr int sequences = 16;
constexpr int steps_between_reads = 50;

step_run step_of_16() {
    step_run step;
    for (int i = 0; i < sequences; ++i)
        step.shares.push_back({1, *agent_id::parse("agent-number-" + std::to_string(i)), 1, true});
    return step;
}

void tell_of_a_step(benchmark::State& run) {
    activity_feed feed;
    const bool is_watched = run.range(0) != 0;
    if (is_watched) feed.watch(true);
    const step_run step = step_of_16();
    int untold = 0;
    for (auto _ : run) {
        feed.publish([&] { return step; });
        benchmark::ClobberMemory();
        if (is_watched && ++untold == steps_between_reads) {
            benchmark::DoNotOptimize(feed.take());
            untold = 0;
        }
    }
}
BENCHMARK(tell_of_a_step)->ArgName("watched")->Arg(0)->Arg(1);

}  // namespace

BENCHMARK_MAIN();
