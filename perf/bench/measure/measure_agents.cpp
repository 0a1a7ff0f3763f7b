// SPDX-License-Identifier: Apache-2.0
// agents, staggered: several streams at a time.

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "perf/bench/measure/burst.hpp"
#include "perf/bench/measure/measure.hpp"
#include "perf/bench/report/statistics.hpp"

namespace semantic::bench {
namespace {

namespace net = boost::asio;

constexpr double to_ms = 1000;

/// The case of one kind of B, which arrives while A is answered. Times are seconds to B's first
/// token.
struct newcomer {
    const char* name;
    double alone_s = 0;
    double with_a_s = 0;
    double in_line_s = 0;  // if B had waited for A's end
    generation b{};        // while A is answered
    generation a{};
};

/// The times between A's tokens, in seconds, that overlap the time in which B waited for its first
/// token.
std::vector<double> gaps_during(const generation& a, const generation& b) {
    const double from = b.sent_at;
    const double to = b.sent_at + b.first_s;
    std::vector<double> gaps;
    for (std::size_t i = 1; i < a.content_s.size(); ++i) {
        const double start = a.sent_at + a.content_s[i - 1];
        const double end = a.sent_at + a.content_s[i];
        if (end > from && start < to) gaps.push_back(end - start);
    }
    return gaps;
}

/// A conversation for B, with a past where `name` is "warm", and the text that it sends.
net::awaitable<std::pair<conversation, std::string>> make_newcomer(bench_run& run,
                                                                   std::string name) {
    conversation talk = run.new_conversation();
    if (name == "tiny") co_return std::pair(talk, run.cold_text(run.opts.tiny_tokens));
    if (name == "cold") co_return std::pair(talk, run.cold_text(run.opts.prompt_tokens));
    co_await run.say(talk, run.cold_text(run.opts.prompt_tokens), 1, "B's past",
                     run.opts.prompt_tokens);
    if (name == "warm") {
        const bool evicted = co_await run.client.evict(talk.session);
        if (!evicted) run.out.note("B's memory could not be evicted: \"warm\" was in memory.");
    }
    co_return std::pair(talk, run.turn_text(run.opts.turn_tokens));
}

/// Measures B alone, and then B while A is answered.
net::awaitable<void> measure_newcomer(bench_run& run, newcomer& n) {
    constexpr std::int64_t answer_tokens = 16;
    const std::int64_t length = run.opts.prompt_tokens;
    const std::string phase = std::string("B ") + n.name;
    auto [talk, text] = co_await make_newcomer(run, n.name);
    const generation alone = co_await run.say(talk, text, answer_tokens, phase + " alone", length);
    n.alone_s = alone.first_s;

    auto [b_talk, b_text] = co_await make_newcomer(run, n.name);
    conversation a_talk = run.new_conversation();
    std::vector<timed_request> requests;
    requests.push_back({run.ask(b_talk, b_text, answer_tokens), run.opts.delay});
    requests.push_back({run.ask(a_talk, run.cold_text(length), run.opts.decode_tokens), {}});
    const auto answers = co_await run.client.generate_all(std::move(requests));
    n.b = answers[0];
    n.a = answers[1];
    run.settle(a_talk, n.a, std::string("A beside B ") + n.name, length);
    run.out.samples.push_back({phase + " beside A", length, n.b});
    n.with_a_s = n.b.first_s;
    n.in_line_s = std::max(0.0, n.a.sent_at + n.a.end_s - n.b.sent_at) + n.alone_s;
    if (n.a.sent_at + n.a.last_s < n.b.sent_at + n.b.first_s) {
        run.out.note(std::string("A had ended before the first token of B ") + n.name +
                     ": ask for more --decode-tokens.");
    }
}

}  // namespace

net::awaitable<void> measure_agents(bench_run& run) {
    table& t = run.out.tables.emplace_back();
    t = {"Agents that decode at the same time",
         {"agents", "context", "reused", "tokens", "total tok/s", "together tok/s", "tok/s each",
          "ITL p50 ms", "ITL p99 ms", "ITL max ms", "slowest first byte ms", "first token s",
          "slowest first s"},
         {}};
    plot& speed = run.out.plots.emplace_back();
    speed = {"agents", "Agents that decode at the same time",
             "agents", "tokens / s",
             true,     false,
             {},       {{"in all", {}}, {"while all answer", {}}, {"each", {}}}};
    plot& itl = run.out.plots.emplace_back();
    itl = {"agents-itl", "Time between tokens",     "agents", "ms", true, false,
           {},           {{"p50", {}}, {"p99", {}}}};
    const std::vector<std::int64_t>& counts = run.opts.agents;
    const std::int64_t most = *std::max_element(counts.begin(), counts.end());
    const auto rounds = static_cast<std::int64_t>(counts.size()) * run.opts.repeats;
    const std::int64_t longest =
        run.opts.prompt_tokens + rounds * (run.opts.turn_tokens + run.opts.decode_tokens + 16);
    if (!run.fits(longest, run.opts.prompt_tokens)) co_return;

    std::vector<conversation> talks;
    for (std::int64_t i = 0; i < most; ++i) {
        conversation& talk = talks.emplace_back(run.new_conversation());
        co_await run.say(talk, run.cold_text(run.opts.prompt_tokens), 1, "cold",
                         run.opts.prompt_tokens);
    }
    for (const std::int64_t count : counts) {
        for (std::int64_t r = 0; r < run.opts.repeats; ++r) {
            run.client.check_time();
            const auto answers = co_await all_speak(run, talks, static_cast<std::size_t>(count));
            const burst b = judge(answers);
            t.rows.push_back(
                {count, count_cell(b.prompt), count_cell(b.reused), count_cell(b.tokens),
                 speed_cell(b.total_speed), speed_cell(b.together_speed), speed_cell(b.own_speed),
                 ms_cell(b.itl, b.itl.p50), ms_cell(b.itl, b.itl.p99), ms_cell(b.itl, b.itl.max),
                 ms_cell(b.first_byte, b.first_byte.max), b.first.p50, b.first.max});
            const auto x = static_cast<double>(count);
            speed.lines[0].points.emplace_back(x, b.total_speed);
            if (b.together_speed > 0) speed.lines[1].points.emplace_back(x, b.together_speed);
            speed.lines[2].points.emplace_back(x, b.own_speed);
            itl.lines[0].points.emplace_back(x, b.itl.p50 * to_ms);
            itl.lines[1].points.emplace_back(x, b.itl.p99 * to_ms);
        }
    }
}

net::awaitable<void> measure_staggered(bench_run& run) {
    table& b_table = run.out.tables.emplace_back();
    b_table = {"B arrives while A works",
               {"B", "prompt", "reused", "alone: first s", "beside A: first s", "after A: first s",
                "beside / alone"},
               {}};
    table& a_table = run.out.tables.emplace_back();
    a_table = {"A meanwhile",
               {"B", "A's first s", "A's tok/s", "gaps", "ITL p50 ms", "ITL p99 ms", "ITL max ms",
                "A alone: p50 ms", "A alone: max ms"},
               {}};
    plot& p = run.out.plots.emplace_back();
    p = {"staggered",
         "B's time to first token",
         "B",
         "seconds",
         false,
         false,
         {"cold", "warm", "tiny"},
         {{"alone", {}}, {"beside A", {}}, {"after A", {}}}};
    const std::int64_t length = run.opts.prompt_tokens;
    if (!run.fits(length + std::max(run.opts.decode_tokens, run.opts.turn_tokens + 32), length)) {
        co_return;
    }
    for (std::int64_t r = 0; r < run.opts.repeats; ++r) {
        conversation talk = run.new_conversation();
        const generation a = co_await run.say(talk, run.cold_text(length), run.opts.decode_tokens,
                                              "A alone", length);
        const summary a_alone = summarise(a.gaps());
        std::array<newcomer, 3> cases{newcomer{"cold"}, newcomer{"warm"}, newcomer{"tiny"}};
        for (std::size_t i = 0; i < cases.size(); ++i) {
            newcomer& n = cases[i];
            co_await measure_newcomer(run, n);
            b_table.rows.push_back({n.name, n.b.prompt_tokens, n.b.cached_tokens, n.alone_s,
                                    n.with_a_s, n.in_line_s, ratio_cell(n.with_a_s, n.alone_s)});
            const summary itl = summarise(gaps_during(n.a, n.b));
            a_table.rows.push_back({n.name, n.a.first_s, speed_cell(n.a.decode_speed()),
                                    static_cast<std::int64_t>(itl.count), ms_cell(itl, itl.p50),
                                    ms_cell(itl, itl.p99), ms_cell(itl, itl.max),
                                    ms_cell(a_alone, a_alone.p50), ms_cell(a_alone, a_alone.max)});
            if (r > 0) continue;
            const auto x = static_cast<double>(i);
            p.lines[0].points.emplace_back(x, n.alone_s);
            p.lines[1].points.emplace_back(x, n.with_a_s);
            p.lines[2].points.emplace_back(x, n.in_line_s);
        }
    }
}

}  // namespace semantic::bench
