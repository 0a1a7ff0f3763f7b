// SPDX-License-Identifier: Apache-2.0
// What HTTP costs: agents that answer at the same time, asked in process and over the server's
// socket in turn, of one engine in one run. What lies between the two is the wire: the server's
// work, and the client's, which shares the machine.
// Run: build/bin/engine_bench MODEL_DIR [AGENTS] [CONTEXT_TOKENS] [ANSWER_TOKENS] [ROUNDS]

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.hpp"
#include "perf/bench/measure/burst.hpp"
#include "perf/bench/report/statistics.hpp"
#include "perf/inside/direct_agents.hpp"
#include "perf/inside/scratch_directory.hpp"
#include "perf/inside/served_agents.hpp"

namespace {

using namespace semantic;

constexpr int turn_tokens = 32;

/// One round in one way, and what it cost in addition to computing.
struct round_result {
    bench::burst burst;
    double seconds = 0;
    double server_cpu = 0;  // of the thread that serves connections
    double client_cpu = 0;
};

template <class Speak>
round_result measure(perf::served_agents& served, Speak speak) {
    const auto start = std::chrono::steady_clock::now();
    const double server = served.server_cpu_seconds(), client = served.client_cpu_seconds();
    round_result found;
    found.burst = speak();
    found.server_cpu = served.server_cpu_seconds() - server;
    found.client_cpu = served.client_cpu_seconds() - client;
    found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return found;
}

void print_row(int round, const char* way, const round_result& found) {
    const bench::burst& b = found.burst;
    const double cores = found.seconds * std::thread::hardware_concurrency();
    std::printf("%6d %-10s %8.0f %8.0f %7.0f %12.1f %15.1f %11.2f %11.2f %9.2f %9.2f\n", round, way,
                b.prompt, b.reused, b.tokens, b.total_speed, b.together_speed, b.itl.p50 * 1e3,
                b.itl.p99 * 1e3, 100 * found.server_cpu / cores, 100 * found.client_cpu / cores);
    std::fflush(stdout);
}

void print_ratios(const char* measure, const std::vector<double>& ratios) {
    std::printf("over HTTP / in process, %s: median %.3f, half of the rounds %.3f to %.3f\n",
                measure, bench::median(ratios), bench::percentile(ratios, 0.25),
                bench::percentile(ratios, 0.75));
}

/// Rounds begin with either way in turn, so that neither is always the one on the longer context.
void compare(perf::direct_agents& direct, perf::served_agents& served, int answer, int rounds) {
    std::printf("%6s %-10s %8s %8s %7s %12s %15s %11s %11s %9s %9s\n", "round", "asked", "context",
                "reused", "tokens", "total tok/s", "together tok/s", "ITL p50 ms", "ITL p99 ms",
                "HTTP cpu%", "client");
    std::vector<double> total, together;
    for (int round = 1; round <= rounds; ++round) {
        round_result in_process, over_http;
        for (const bool http : {round % 2 == 0, round % 2 != 0}) {
            if (http)
                over_http = measure(served, [&] { return served.speak(turn_tokens, answer); });
            else
                in_process = measure(served, [&] { return direct.speak(turn_tokens, answer); });
        }
        print_row(round, "in process", in_process);
        print_row(round, "over HTTP", over_http);
        total.push_back(over_http.burst.total_speed / in_process.burst.total_speed);
        together.push_back(over_http.burst.together_speed / in_process.burst.together_speed);
    }
    print_ratios("from the first token to the last", total);
    print_ratios("while all answer", together);
}

int number(int argc, char** argv, int index, int otherwise) {
    if (argc <= index) return otherwise;
    const int value = std::atoi(argv[index]);
    if (value < 1) throw std::runtime_error(std::string("not a number above 0: ") + argv[index]);
    return value;
}

int run(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr,
                     "usage: engine_bench MODEL_DIR [AGENTS] [CONTEXT_TOKENS] [ANSWER_TOKENS] "
                     "[ROUNDS]\n");
        return 2;
    }
    const int count = number(argc, argv, 2, 16), context = number(argc, argv, 3, 1024),
              answer = number(argc, argv, 4, 96), rounds = number(argc, argv, 5, 12);
    const perf::scratch_directory caches("semantic-engine-bench");
    engine::engine_options options;
    options.kv_recipe = "k4v4";  // random weights have no recipe that suits them
    options.model_directory = argv[1];
    options.cache_directory = caches.path();
    options.chat_template = "chatml";
    options.max_batch = count;
    perf::served_agents served(options, count);
    perf::direct_agents direct(served.engine(), count);
    served.prime(context);
    direct.prime(context);
    compare(direct, served, answer, rounds);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "engine_bench: %s\n", error.what());
        return 1;
    }
}
