// SPDX-License-Identifier: Apache-2.0
#include "perf/inside/served_agents.hpp"

#include <boost/asio/co_spawn.hpp>

#include <ctime>
#include <exception>
#include <future>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <utility>

namespace semantic::perf {

namespace net = boost::asio;

namespace {

using load_result = storage::result<std::unique_ptr<engine::engine>>;

double cpu_seconds(clockid_t clock) {
    timespec time{};
    if (clock_gettime(clock, &time) != 0)
        throw std::runtime_error("this system does not tell the CPU time of a thread");
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

net::awaitable<void> open(bench::chat_client& client, bench::bench_run& run) {
    co_await client.wait_until_ready(std::chrono::seconds(60));
    co_await client.open();
    co_await run.prepare();
}

net::awaitable<void> read_texts(bench::bench_run& run, std::vector<bench::conversation>& talks,
                                int count, int tokens) {
    for (int i = 0; i < count; ++i) {
        talks.push_back(run.new_conversation());
        co_await run.say(talks.back(), run.cold_text(tokens), 1, "cold", tokens);
    }
}

net::awaitable<void> speak_once(bench::bench_run& run, std::vector<bench::conversation>& talks,
                                std::vector<bench::generation>& answers) {
    answers = co_await bench::all_speak(run, talks, talks.size());
}

}  // namespace

served_agents::served_agents(const engine::engine_options& options, int count) {
    start(options);
    try {
        options_.url = bench::parse_url("http://127.0.0.1:" + std::to_string(app_->port()));
        options_.run_limit = std::chrono::hours(1);
        options_.agents = {count};
        client_ = std::make_unique<bench::chat_client>(io_, options_, bench::clock::now());
        run_ = std::make_unique<bench::bench_run>(*client_, options_, report_);
        run_client(open(*client_, *run_));
    } catch (...) {
        stop();
        throw;
    }
}

served_agents::~served_agents() { stop(); }

void served_agents::start(const engine::engine_options& options) {
    std::promise<engine::engine*> loaded;
    server::app_options serving;
    serving.settings.port = 0;
    serving.settings.max_batch = options.max_batch;
    serving.handle_signals = false;
    serving.cache_directory = options.cache_directory;
    serving.load = [&](std::size_t, const auto& progress) -> load_result {
        load_result made = engine::load_engine(options, progress);
        if (made)
            loaded.set_value(made->get());
        else
            loaded.set_exception(std::make_exception_ptr(std::runtime_error(made.error().what)));
        return made;
    };
    app_ = std::make_unique<server::app>(std::move(serving));
    server_ = std::thread([this] { app_->run(); });
    try {
        engine_ = loaded.get_future().get();
    } catch (...) {
        stop();
        throw;
    }
}

void served_agents::stop() {
    app_->stop();
    if (server_.joinable()) server_.join();
}

void served_agents::run_client(net::awaitable<void> work) {
    std::exception_ptr failure;
    const auto on_end = [&failure](std::exception_ptr e) { failure = e; };
    net::co_spawn(io_, std::move(work), on_end);
    io_.restart();
    io_.run();
    if (failure) std::rethrow_exception(failure);
}

void served_agents::prime(int context_tokens) {
    run_client(
        read_texts(*run_, talks_, static_cast<int>(options_.agents.front()), context_tokens));
}

bench::burst served_agents::speak(int turn_tokens, int answer_tokens) {
    options_.turn_tokens = turn_tokens;
    options_.decode_tokens = answer_tokens;
    std::vector<bench::generation> answers;
    run_client(speak_once(*run_, talks_, answers));
    return bench::judge(answers);
}

double served_agents::server_cpu_seconds() {
    clockid_t clock{};
    if (pthread_getcpuclockid(server_.native_handle(), &clock) != 0)
        throw std::runtime_error("the server's thread has no clock");
    return cpu_seconds(clock);
}

double served_agents::client_cpu_seconds() const { return cpu_seconds(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace semantic::perf
