// cold-warm-hot, cache: the same turn on memory that is new, on disk only, in RAM.

#include <optional>
#include <string>
#include <vector>

#include "perf/bench/measure.hpp"
#include "perf/bench/statistics.hpp"

namespace semantic::bench {
namespace {

namespace net = boost::asio;

constexpr double to_ms = 1000;
constexpr double to_kib = 1.0 / 1024;

struct warm_turn {
    generation answer;
    std::optional<double> from_disk;  // tokens, by the server's counter
};

/// One turn on memory that is only on disk; none where the server cannot be brought there.
net::awaitable<std::optional<warm_turn>> say_warm(bench_run& run, conversation& talk,
                                                  std::int64_t target) {
    const bool demoted = co_await run.demote(talk);
    if (!demoted) co_return std::nullopt;
    // A restarted server counts from zero: read before and after, on the same server.
    const auto before = co_await run.counter(run.opts.disk_metric);
    warm_turn warm;
    warm.answer = co_await run.say(talk, run.turn_text(run.opts.turn_tokens),
                                   run.opts.decode_tokens, "warm", target);
    const auto after = co_await run.counter(run.opts.disk_metric);
    if (before && after) warm.from_disk = *after - *before;
    co_return warm;
}

std::vector<double> firsts(const std::vector<generation>& answers) {
    std::vector<double> values;
    for (const generation& g : answers) values.push_back(g.first_s);
    return values;
}

/// The median of a number of all answers, or an empty cell for none.
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

struct tiers {
    std::vector<generation> cold, hot, warm;
    std::vector<double> from_disk;
};

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

struct written_turn {
    generation answer;
    std::optional<double> bytes;
};

/// One turn and the bytes that the server wrote because of it.
net::awaitable<written_turn> say_written(bench_run& run, conversation& talk, std::string text,
                                         std::string phase, std::int64_t target) {
    const auto before = co_await run.counter(run.opts.written_metric);
    written_turn turn;
    turn.answer =
        co_await run.say(talk, std::move(text), run.opts.decode_tokens, std::move(phase), target);
    const auto after = co_await run.settled_counter(run.opts.written_metric);
    if (before && after) turn.bytes = *after - *before;
    co_return turn;
}

void add_written_row(table& t, const written_turn& turn, const std::string& phase) {
    const generation& g = turn.answer;
    const double fresh = static_cast<double>(g.computed_tokens() + g.output_tokens);
    const cell none;
    t.rows.push_back({phase, g.prompt_tokens, g.cached_tokens, count_cell(fresh), g.first_s,
                      turn.bytes ? cell(*turn.bytes * to_kib) : none,
                      turn.bytes ? ratio_cell(*turn.bytes, fresh) : none});
}

}  // namespace

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

net::awaitable<void> measure_cache(bench_run& run) {
    table& t = run.out.tables.emplace_back();
    t = {"Bytes written a turn",
         {"turn", "context", "reused", "new tokens", "first token s", "written KiB",
          "bytes a new token"},
         {}};
    table& restored = run.out.tables.emplace_back();
    restored = {"A turn from memory and from disk",
                {"context", "hot ms", "warm ms", "warm/hot", "warm reused", "from disk"},
                {}};
    plot& p = run.out.plots.emplace_back();
    p = {"cache",
         "Bytes written",
         "context, tokens",
         "KiB",
         true,
         true,
         {},
         {{"first turn", {}}, {"a later turn", {}}}};
    const std::int64_t growth =
        (run.opts.turns + 2) * (run.opts.turn_tokens + run.opts.decode_tokens + 16);
    for (const std::int64_t context : run.opts.lengths) {
        if (!run.fits(context + growth, context)) continue;
        for (std::int64_t r = 0; r < run.opts.repeats; ++r) {
            conversation talk = run.new_conversation();
            const written_turn cold =
                co_await say_written(run, talk, run.cold_text(context), "cold", context);
            add_written_row(t, cold, "cold");
            if (!cold.bytes) run.out.note("The server tells no " + run.opts.written_metric + ".");
            const auto x = static_cast<double>(cold.answer.prompt_tokens);
            if (cold.bytes) p.lines[0].points.emplace_back(x, *cold.bytes * to_kib);
            std::vector<generation> hot;
            std::vector<double> written;
            for (std::int64_t i = 0; i < run.opts.turns; ++i) {
                const written_turn turn = co_await say_written(
                    run, talk, run.turn_text(run.opts.turn_tokens), "hot", context);
                add_written_row(t, turn, "hot " + std::to_string(i + 1));
                hot.push_back(turn.answer);
                if (turn.bytes) written.push_back(*turn.bytes * to_kib);
            }
            if (!written.empty()) p.lines[1].points.emplace_back(x, median(written));
            const auto warm = co_await say_warm(run, talk, context);
            const double hot_s = median(firsts(hot));
            const cell none;
            restored.rows.push_back(
                {cold.answer.prompt_tokens, hot_s * to_ms,
                 warm ? cell(warm->answer.first_s * to_ms) : none,
                 warm ? ratio_cell(warm->answer.first_s, hot_s) : none,
                 warm ? cell(warm->answer.cached_tokens) : none,
                 warm && warm->from_disk ? count_cell(*warm->from_disk) : none});
        }
    }
}

}  // namespace semantic::bench
