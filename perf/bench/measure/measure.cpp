// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/measure/measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>
#include <utility>

#include "perf/bench/client/errors.hpp"

namespace semantic::bench {
namespace {

namespace net = boost::asio;

// Allows for the template's tokens around a turn and the error of the ruler.
constexpr std::int64_t slack_tokens = 64;
// So many tokens of a cold prompt may be reused, since every prompt has the chat template's
// opening.
constexpr std::int64_t cold_reuse_max = 64;
constexpr std::chrono::seconds restart_limit{120};

std::uint64_t random_id() {
    std::random_device device;
    return (std::uint64_t{device()} << 32U) | device();
}

void show_progress(const std::string& phase, std::int64_t target, const generation& g) {
    std::fprintf(stderr,
                 "  %-16s %7lld: %lld prompt tokens (%lld reused), first after %.3f s, "
                 "%lld tokens in %.3f s\n",
                 phase.c_str(), static_cast<long long>(target),
                 static_cast<long long>(g.prompt_tokens), static_cast<long long>(g.cached_tokens),
                 g.first_s, static_cast<long long>(g.output_tokens), g.end_s);
}

}  // namespace

bench_run::bench_run(chat_client& the_client, const options& the_options, report& the_report)
    : client(the_client),
      opts(the_options),
      out(the_report),
      run_id_(random_id()),
      seed_(the_options.seed * 1'000'003) {}

net::awaitable<void> bench_run::prepare() {
    constexpr std::size_t few = 50;
    constexpr std::size_t many = 400;
    std::int64_t counted[2] = {0, 0};
    for (int i = 0; i < 2; ++i) {
        conversation talk = new_conversation();
        const std::string text = cold_prompt(random_id(), next_seed(), i == 0 ? few : many);
        generation_request request = ask(talk, text, i == 0 ? 4 : 1);
        const auto count = co_await client.count_tokens(talk.messages);
        // The short request also warms the server up and is no sample.
        if (i == 0 || !count) {
            const generation answer = co_await client.generate(std::move(request));
            counted[i] = answer.prompt_tokens;
        }
        if (count) counted[i] = *count;
    }
    ruler_ = token_ruler::through(few, counted[0], many, counted[1]);
}

conversation bench_run::new_conversation() {
    return {"bench-" + hex_id(run_id_) + "-" + std::to_string(++sessions_), {}};
}

std::string bench_run::cold_text(std::int64_t tokens) {
    return cold_prompt(random_id(), next_seed(), ruler_.words_for(tokens));
}

std::string bench_run::turn_text(std::int64_t tokens) {
    return words(next_seed(), ruler_.words_for_turn(tokens));
}

generation_request bench_run::ask(conversation& talk, std::string text, std::int64_t max_tokens) {
    talk.messages.push_back({"user", std::move(text)});
    asked_ = max_tokens;
    return {talk.messages, max_tokens, talk.session};
}

void bench_run::settle(conversation& talk, const generation& answer, std::string phase,
                       std::int64_t target) {
    // Servers refuse an empty message; an answer may have no text when its tokens have none.
    talk.messages.push_back({"assistant", answer.text.empty() ? "." : answer.text});
    show_progress(phase, target, answer);
    check_answer(answer, phase, asked_);
    out.samples.push_back({std::move(phase), target, answer});
}

net::awaitable<generation> bench_run::say(conversation& talk, std::string text,
                                          std::int64_t max_tokens, std::string phase,
                                          std::int64_t target) {
    client.check_time();
    generation_request request = ask(talk, std::move(text), max_tokens);
    generation answer = co_await client.generate(std::move(request));
    settle(talk, answer, std::move(phase), target);
    co_return answer;
}

void bench_run::check_answer(const generation& answer, const std::string& phase,
                             std::int64_t asked) {
    if (phase == "cold" && answer.cached_tokens > cold_reuse_max) {
        out.note("A prompt meant to be cold had " + std::to_string(answer.cached_tokens) +
                 " tokens reused; speeds count computed tokens only.");
    }
    if (!answer.cached_reported) {
        out.note("The server does not report reused tokens: reuse is not proven.");
    }
    if (answer.output_tokens < asked) {
        out.note(
            "Answers ended before the number of tokens asked for; the tokens really "
            "generated are counted.");
    }
    const auto tokens = static_cast<double>(answer.output_tokens);
    const auto deltas = static_cast<double>(answer.content_s.size());
    if (deltas == 0) {
        out.note("Some answers had no text; their first token is taken to be the stream's end.");
    } else if (deltas < 0.8 * tokens) {
        out.note(
            "Some tokens carried no text or shared a delta: inter-token times are those "
            "between deltas.");
    }
    const std::vector<double> gaps = answer.gaps();
    const auto none = std::count_if(gaps.begin(), gaps.end(), [](double g) { return g < 20e-6; });
    if (static_cast<double>(none) > 0.2 * static_cast<double>(gaps.size())) {
        out.note("Tokens arrived several at a time: the median time between them says little.");
    }
}

net::awaitable<bool> bench_run::demote(const conversation& talk) {
    if (opts.restart_command.empty()) {
        const bool evicted = co_await client.evict(talk.session);
        if (!evicted) {
            out.note(
                "The server evicts nothing on request and no --restart-command was given: "
                "warm turns were not measured.");
        }
        co_return evicted;
    }
    client.check_time();
    std::cout.flush();
    // Blocks; nothing else runs meanwhile.
    const int status = std::system(opts.restart_command.c_str());
    if (status != 0) {
        throw server_error("--restart-command failed with status " + std::to_string(status));
    }
    co_await client.wait_until_ready(restart_limit);
    co_return true;
}

net::awaitable<std::vector<std::optional<double>>> bench_run::counters(
    std::vector<std::string> metrics) {
    const auto text = co_await client.metrics();
    std::vector<std::optional<double>> values;
    for (const std::string& metric : metrics) {
        const auto brace = metric.find('{');
        std::string label = brace == std::string::npos ? "" : metric.substr(brace + 1);
        if (label.ends_with('}')) label.pop_back();
        values.push_back(text ? read_metric(*text, metric.substr(0, brace), label) : std::nullopt);
    }
    co_return values;
}

net::awaitable<std::optional<double>> bench_run::counter(std::string metric) {
    std::vector<std::string> one{std::move(metric)};
    const auto values = co_await counters(std::move(one));
    co_return values.front();
}

net::awaitable<std::optional<double>> bench_run::settled_counter(std::string metric) {
    constexpr int polls_max = 50;
    constexpr int polls_equal = 4;
    std::optional<double> last;
    int equal = 0;
    for (int i = 0; i < polls_max && equal < polls_equal; ++i) {
        const auto now = co_await counter(metric);
        if (!now) co_return std::nullopt;
        equal = now == last ? equal + 1 : 0;
        last = now;
        co_await client.pause(std::chrono::milliseconds(100));
    }
    co_return last;
}

bool bench_run::fits(std::int64_t tokens, std::int64_t point) {
    const std::int64_t limit = client.context_max();
    if (limit == 0 || tokens + slack_tokens <= limit) return true;
    out.note("Left out: " + std::to_string(point) + " tokens need " +
             std::to_string(tokens + slack_tokens) + ", the model holds " + std::to_string(limit) +
             ".");
    return false;
}

net::awaitable<void> measure(bench_run& run) {
    struct entry {
        const char* name;
        net::awaitable<void> (*measure)(bench_run&);
    };
    static constexpr entry table[] = {{"prefill", measure_prefill},
                                      {"decode", measure_decode},
                                      {"depth", measure_depth},
                                      {"agents", measure_agents},
                                      {"connections", measure_connections},
                                      {"staggered", measure_staggered},
                                      {"cache", measure_cache},
                                      {"cold-warm-hot", measure_cold_warm_hot},
                                      {"phases", measure_phases}};
    for (const entry& e : table) {
        if (run.opts.command != e.name) continue;
        co_await run.prepare();
        co_await e.measure(run);
        co_return;
    }
    throw usage_error("no measurement named " + run.opts.command);
}

cell count_cell(double value) { return static_cast<std::int64_t>(std::llround(value)); }

cell ratio_cell(double a, double b) {
    if (b <= 0) return {};
    return a / b;
}

cell speed_cell(double tokens_per_s) {
    if (tokens_per_s <= 0) return {};
    return tokens_per_s;
}

cell ms_cell(const summary& measured, double seconds) {
    if (measured.count == 0) return {};
    return seconds * 1000;
}

}  // namespace semantic::bench
