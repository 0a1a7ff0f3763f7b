// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/measure/burst.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "perf/bench/report/statistics.hpp"

namespace semantic::bench {

namespace net = boost::asio;

namespace {

/// burst::together_speed.
double speed_together(const std::vector<generation>& answers) {
    double from = 0, to = answers.front().sent_at + answers.front().last_s;
    for (const generation& g : answers) {
        from = std::max(from, g.sent_at + g.first_s);
        to = std::min(to, g.sent_at + g.last_s);
    }
    if (to <= from) return 0;
    double tokens = 0;
    for (const generation& g : answers) {
        if (g.content_s.empty()) continue;
        const auto inside =
            std::count_if(g.content_s.begin(), g.content_s.end(), [&](double seconds) {
                return g.sent_at + seconds > from && g.sent_at + seconds <= to;
            });
        // A delta may carry more than one token.
        tokens += static_cast<double>(inside) * static_cast<double>(g.output_tokens) /
                  static_cast<double>(g.content_s.size());
    }
    return tokens / (to - from);
}

}  // namespace

burst judge(const std::vector<generation>& answers) {
    burst b;
    double from = answers.front().sent_at + answers.front().first_s;
    double to = 0;
    std::vector<double> gaps, firsts, first_bytes, speeds, reused, prompts;
    for (const generation& g : answers) {
        from = std::min(from, g.sent_at + g.first_s);
        to = std::max(to, g.sent_at + g.last_s);
        b.tokens += static_cast<double>(g.output_tokens);
        const std::vector<double> own = g.gaps();
        gaps.insert(gaps.end(), own.begin(), own.end());
        firsts.push_back(g.first_s);
        first_bytes.push_back(g.first_byte_s);
        speeds.push_back(g.decode_speed());
        reused.push_back(static_cast<double>(g.cached_tokens));
        prompts.push_back(static_cast<double>(g.prompt_tokens));
    }
    if (to > from) b.total_speed = (b.tokens - 1) / (to - from);
    b.own_speed = median(speeds);
    b.together_speed = speed_together(answers);
    b.reused = median(reused);
    b.prompt = median(prompts);
    b.itl = summarise(gaps);
    b.first = summarise(firsts);
    b.first_byte = summarise(first_bytes);
    return b;
}

net::awaitable<std::vector<generation>> all_speak(bench_run& run, std::vector<conversation>& talks,
                                                  std::size_t count) {
    std::vector<timed_request> requests;
    for (std::size_t i = 0; i < count; ++i) {
        std::string text = run.turn_text(run.opts.turn_tokens);
        requests.push_back({run.ask(talks[i], std::move(text), run.opts.decode_tokens), {}});
    }
    std::vector<generation> answers = co_await run.client.generate_all(std::move(requests));
    for (std::size_t i = 0; i < count; ++i) {
        run.settle(talks[i], answers[i], std::to_string(count) + " at once",
                   static_cast<std::int64_t>(count));
    }
    co_return answers;
}

}  // namespace semantic::bench
