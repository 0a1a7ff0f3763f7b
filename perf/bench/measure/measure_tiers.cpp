// SPDX-License-Identifier: Apache-2.0
// cold-warm-hot: the same turn on memory that is new, on disk only, in RAM.

#include <optional>
#include <string>
#include <vector>

#include "perf/bench/measure/measure.hpp"
#include "perf/bench/report/statistics.hpp"

namespace semantic::bench {
namespace {

namespace net = boost::asio;

/// The median of a number of all answers; an empty cell where there are none.
template <class Member>
cell median_count(const std::vector<generation>& answers, Member member) {
    if (answers.empty()) return {};
    std::vector<double> values;
    for (const generation& g : answers) values.push_back(static_cast<double>(member(g)));
    return count_cell(median(values));
}

cell seconds_cell(const std::vector<generation>& answers) {
    if (answers.empty()) return {};
    return median(firsts(answers));
}

std::int64_t prompt_of(const generation& g) { return g.prompt_tokens; }
std::int64_t reused_of(const generation& g) { return g.cached_tokens; }
std::int64_t computed_of(const generation& g) { return g.computed_tokens(); }

/// The answers of all samples at one context.
struct tiers {
    std::vector<generation> cold, hot, warm;
    std::vector<double> from_disk;
};

/// Adds a row and points for one context: the medians of its samples.
void add_tier_row(table& t, plot& p, const tiers& m) {
    const double cold = median(firsts(m.cold));
    const double hot = median(firsts(m.hot));
    const double warm = median(firsts(m.warm));
    const cell none;
    t.rows.push_back(
        {median_count(m.cold, prompt_of), median_count(m.cold, reused_of), cold, hot,
         median_count(m.hot, reused_of), median_count(m.hot, computed_of), seconds_cell(m.warm),
         median_count(m.warm, reused_of), median_count(m.warm, computed_of),
         m.from_disk.empty() ? none : count_cell(median(m.from_disk)), ratio_cell(cold, hot),
         ratio_cell(cold, warm), m.warm.empty() ? none : ratio_cell(warm, hot)});
    const auto x = static_cast<double>(m.cold.front().prompt_tokens);
    p.lines[0].points.emplace_back(x, cold);
    if (!m.warm.empty()) p.lines[1].points.emplace_back(x, warm);
    p.lines[2].points.emplace_back(x, hot);
}

}  // namespace

std::vector<double> firsts(const std::vector<generation>& answers) {
    std::vector<double> values;
    for (const generation& g : answers) values.push_back(g.first_s);
    return values;
}

std::optional<double> growth(const std::optional<double>& before,
                             const std::optional<double>& after) {
    if (!before || !after) return std::nullopt;
    return *after - *before;
}

net::awaitable<std::optional<warm_turn>> say_warm(bench_run& run, conversation& talk,
                                                  std::int64_t target) {
    const bool demoted = co_await run.demote(talk);
    if (!demoted) co_return std::nullopt;
    const std::vector<std::string> names{run.opts.disk_metric, run.opts.read_metric,
                                         run.opts.restore_metric};
    // Read after demote(), since a restarted server counts from zero.
    const auto before = co_await run.counters(names);
    warm_turn warm;
    warm.answer = co_await run.say(talk, run.turn_text(run.opts.turn_tokens),
                                   run.opts.decode_tokens, "warm", target);
    const auto after = co_await run.counters(names);
    warm.from_disk = growth(before[0], after[0]);
    warm.read_bytes = growth(before[1], after[1]);
    warm.restore_s = growth(before[2], after[2]);
    co_return warm;
}

net::awaitable<void> measure_cold_warm_hot(bench_run& run) {
    table& t = run.out.tables.emplace_back();
    t = {"Time to first token: cold prompt, and a turn on memory in RAM (hot) or on disk (warm)",
         {"context", "cold reused", "cold s", "hot s", "hot reused", "hot new", "warm s",
          "warm reused", "warm new", "from disk", "cold/hot", "cold/warm", "warm/hot"},
         {}};
    plot& p = run.out.plots.emplace_back();
    p = {"cold-warm-hot",
         "Time to first token",
         "context, tokens",
         "seconds",
         true,
         true,
         {},
         {{"cold", {}}, {"warm", {}}, {"hot", {}}}};
    const std::int64_t growth = 3 * (run.opts.turn_tokens + run.opts.decode_tokens);
    for (const std::int64_t context : run.opts.lengths) {
        if (!run.fits(context + growth, context)) continue;
        tiers m;
        for (std::int64_t r = 0; r < run.opts.repeats; ++r) {
            conversation talk = run.new_conversation();
            m.cold.push_back(co_await run.say(talk, run.cold_text(context), run.opts.decode_tokens,
                                              "cold", context));
            m.hot.push_back(co_await run.say(talk, run.turn_text(run.opts.turn_tokens),
                                             run.opts.decode_tokens, "hot", context));
            const auto warm = co_await say_warm(run, talk, context);
            if (!warm) continue;
            m.warm.push_back(warm->answer);
            if (warm->from_disk) m.from_disk.push_back(*warm->from_disk);
        }
        add_tier_row(t, p, m);
    }
}

}  // namespace semantic::bench
