// SPDX-License-Identifier: Apache-2.0
// What it costs an agent to have its own text drafted from (engine/README.md, Drafts), at 16K and
// 128K tokens: the bytes that an answer keeps, indexing a token that came, and one search for a
// draft. Three texts: tokens as frequent as words are, a page that is said again and again, and one
// token alone, with which each search compares all that it may.
// Run: build/bin/drafts_bench

#include <benchmark/benchmark.h>
#include <random>
#include <span>
#include <vector>

#include "engine/scheduler/speculation/repeat_index.hpp"

namespace {

using namespace semantic::engine;
using semantic::storage::token_id;

enum text_kind { words, pages, one_token };

std::vector<token_id> make_text(text_kind kind, std::size_t count) {
    constexpr std::size_t vocabulary = 32'000, page = 1'000;
    std::vector<double> weights;
    for (std::size_t i = 0; i < vocabulary; ++i)
        weights.push_back(1.0 / static_cast<double>(i + 2));
    std::discrete_distribution<token_id> draw(weights.begin(), weights.end());
    std::mt19937 random(1);
    std::vector<token_id> text;
    while (text.size() < count) {
        const bool is_drawn = kind == words || (kind == pages && text.size() < page);
        const token_id again = kind == pages && !is_drawn ? text[text.size() - page] : 7;
        text.push_back(is_drawn ? draw(random) : again);
    }
    return text;
}

repeat_index index_all(std::span<const token_id> text) {
    repeat_index made(text.size());
    for (std::size_t known = 0; known < text.size(); known += repeat_index::added_most)
        made.add(text);
    return made;
}

// Of each token: the time of a whole text, divided by its tokens.
void index_a_token(benchmark::State& run) {
    const auto text = make_text(text_kind(run.range(0)), static_cast<std::size_t>(run.range(1)));
    std::size_t bytes = 0;
    for (auto _ : run) {
        const repeat_index made = index_all(text);
        benchmark::DoNotOptimize(bytes = made.memory_bytes());
    }
    run.counters["bytes"] = static_cast<double>(bytes);
    run.counters["a_token"] = benchmark::Counter(
        static_cast<double>(text.size()),
        benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(index_a_token)
    ->ArgNames({"text", "tokens"})
    ->ArgsProduct({{words, pages, one_token}, {16 << 10, 128 << 10}})
    ->Unit(benchmark::kMillisecond);

// A step's: the token that came is indexed, and 15 tokens that may follow are looked for.
void look_for_a_draft(benchmark::State& run) {
    const auto text = make_text(text_kind(run.range(0)), static_cast<std::size_t>(run.range(1)));
    const std::size_t steps = 1'000;
    repeat_index index = index_all(std::span(text).first(text.size() - steps));
    std::size_t known = text.size() - steps;
    for (auto _ : run) {
        if (known == text.size()) {
            run.PauseTiming();
            known = text.size() - steps;
            index = index_all(std::span(text).first(known));
            run.ResumeTiming();
        }
        const auto so_far = std::span(text).first(++known);
        index.add(so_far);
        const repeat_index::match found = index.find(so_far);
        if (found.alike > 0) benchmark::DoNotOptimize(continue_from(so_far, found, 15));
    }
}
BENCHMARK(look_for_a_draft)
    ->ArgNames({"text", "tokens"})
    ->ArgsProduct({{words, pages, one_token}, {16 << 10, 128 << 10}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
