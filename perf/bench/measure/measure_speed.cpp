// SPDX-License-Identifier: Apache-2.0
// prefill, decode, depth: one stream at a time.

#include <string>
#include <vector>

#include "perf/bench/measure/measure.hpp"
#include "perf/bench/report/statistics.hpp"

namespace semantic::bench {
namespace {

namespace net = boost::asio;

constexpr double to_ms = 1000;

/// Computed tokens a second until the first token.
double prefill_speed(const generation& g) {
    return g.first_s > 0 ? static_cast<double>(g.computed_tokens()) / g.first_s : 0;
}

/// The values of one column, from all samples.
class column {
  public:
    void add(double value) { values_.push_back(value); }
    double median() const { return bench::median(values_); }
    double min() const { return percentile(values_, 0); }
    double max() const { return percentile(values_, 1); }

  private:
    std::vector<double> values_;
};

}  // namespace

net::awaitable<void> measure_prefill(bench_run& run) {
    table& t = run.out.tables.emplace_back();
    t = {"Prefill of cold prompts",
         {"prompt tokens", "reused", "first token s", "tok/s median", "tok/s min", "tok/s max",
          "samples"},
         {}};
    plot& p = run.out.plots.emplace_back();
    p = {"prefill", "Prefill of cold prompts", "prompt tokens", "tokens / s", true, false, {}, {}};
    p.lines.push_back({"prefill", {}});
    for (const std::int64_t length : run.opts.lengths) {
        if (!run.fits(length + 1, length)) continue;
        column tokens, reused, first, speed;
        for (std::int64_t r = 0; r < run.opts.repeats; ++r) {
            conversation talk = run.new_conversation();
            const generation g = co_await run.say(talk, run.cold_text(length), 1, "cold", length);
            tokens.add(static_cast<double>(g.prompt_tokens));
            reused.add(static_cast<double>(g.cached_tokens));
            first.add(g.first_s);
            speed.add(prefill_speed(g));
        }
        t.rows.push_back({count_cell(tokens.median()), count_cell(reused.median()), first.median(),
                          speed.median(), speed.min(), speed.max(), run.opts.repeats});
        p.lines[0].points.emplace_back(tokens.median(), speed.median());
    }
}

net::awaitable<void> measure_decode(bench_run& run) {
    table& t = run.out.tables.emplace_back();
    t = {"Decode of one stream",
         {"sample", "prompt tokens", "tokens", "first byte ms", "first token s", "tok/s",
          "ITL p50 ms", "ITL p99 ms", "ITL max ms"},
         {}};
    plot& p = run.out.plots.emplace_back();
    p = {"decode", "Decode of one stream", "token", "ms since the one before", false, false, {},
         {}};
    column tokens, first_byte, first, speed;
    std::vector<double> gaps;
    for (std::int64_t r = 0; r < run.opts.repeats; ++r) {
        conversation talk = run.new_conversation();
        const generation g =
            co_await run.say(talk, run.cold_text(run.opts.prompt_tokens), run.opts.decode_tokens,
                             "cold", run.opts.prompt_tokens);
        const std::vector<double> own = g.gaps();
        const summary itl = summarise(own);
        gaps.insert(gaps.end(), own.begin(), own.end());
        tokens.add(static_cast<double>(g.output_tokens));
        first_byte.add(g.first_byte_s * to_ms);
        first.add(g.first_s);
        speed.add(g.decode_speed());
        t.rows.push_back({std::to_string(r + 1), g.prompt_tokens, g.output_tokens,
                          g.first_byte_s * to_ms, g.first_s, speed_cell(g.decode_speed()),
                          ms_cell(itl, itl.p50), ms_cell(itl, itl.p99), ms_cell(itl, itl.max)});
        if (r >= 8) continue;  // more lines than colours say nothing
        series& line = p.lines.emplace_back();
        line.name = "sample " + std::to_string(r + 1);
        for (std::size_t i = 0; i < own.size(); ++i) {
            line.points.emplace_back(static_cast<double>(i + 1), own[i] * to_ms);
        }
    }
    const summary itl = summarise(gaps);
    t.rows.push_back({"median",
                      {},
                      count_cell(tokens.median()),
                      first_byte.median(),
                      first.median(),
                      speed.median(),
                      ms_cell(itl, itl.p50),
                      ms_cell(itl, itl.p99),
                      ms_cell(itl, itl.max)});
}

net::awaitable<void> measure_depth(bench_run& run) {
    table& t = run.out.tables.emplace_back();
    t = {"Speed on top of a context",
         {"depth tokens", "new tokens", "first token s", "prefill tok/s", "tokens", "decode tok/s",
          "ITL p50 ms", "samples"},
         {}};
    plot& prefill = run.out.plots.emplace_back();
    prefill = {"depth-prefill",
               "Prefill on top of a context",
               "tokens in front",
               "tokens / s",
               false,
               false,
               {},
               {{"prefill", {}}}};
    plot& decode = run.out.plots.emplace_back();
    decode = {"depth-decode",
              "Decode on top of a context",
              "tokens in front",
              "tokens / s",
              false,
              false,
              {},
              {{"decode", {}}}};
    const std::int64_t chunk = run.opts.prompt_tokens;
    for (const std::int64_t depth : run.opts.lengths) {
        if (!run.fits(depth + chunk + run.opts.decode_tokens, depth)) continue;
        column reused, computed, first, speed, tokens, decoded, itl;
        for (std::int64_t r = 0; r < run.opts.repeats; ++r) {
            conversation talk = run.new_conversation();
            std::string text = run.cold_text(chunk);
            if (depth > 0) {
                co_await run.say(talk, run.cold_text(depth), 1, "context", depth);
                text = run.turn_text(chunk);
            }
            const generation g =
                co_await run.say(talk, text, run.opts.decode_tokens, "on top", depth);
            reused.add(static_cast<double>(g.cached_tokens));
            computed.add(static_cast<double>(g.computed_tokens()));
            first.add(g.first_s);
            speed.add(prefill_speed(g));
            tokens.add(static_cast<double>(g.output_tokens));
            decoded.add(g.decode_speed());
            itl.add(median(g.gaps()));
        }
        t.rows.push_back({count_cell(reused.median()), count_cell(computed.median()),
                          first.median(), speed.median(), count_cell(tokens.median()),
                          speed_cell(decoded.median()), speed_cell(itl.median() * to_ms),
                          run.opts.repeats});
        prefill.lines[0].points.emplace_back(reused.median(), speed.median());
        decode.lines[0].points.emplace_back(reused.median(), decoded.median());
    }
}

}  // namespace semantic::bench
