// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/measure/run.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <ctime>
#include <exception>

#include "perf/bench/client/chat_client.hpp"
#include "perf/bench/client/errors.hpp"
#include "perf/bench/measure/measure.hpp"

namespace semantic::bench {
namespace {

namespace net = boost::asio;

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

/// Takes pointers, because references as parameters of a coroutine are easily left dangling; what
/// they point to outlives the loop.
net::awaitable<void> measure_all(chat_client* client, bench_run* run) {
    co_await client->open();
    run->out.model = client->model();
    co_await measure(*run);
    run->out.complete = true;
}

}  // namespace

outcome run(const options& opts) {
    outcome result;
    report& out = result.found;
    out.command = opts.command;
    out.command_line = opts.command_line;
    out.date = utc_now();
    out.url = opts.url.text();
    out.api_name = name_of(opts.dialect);
    out.model = opts.model;
    out.where = this_machine();

    net::io_context io(1);  // one thread: a client must not take the server's processor
    chat_client client(io, opts, clock::now());
    bench_run state(client, opts, out);
    std::exception_ptr failure;
    const auto on_end = [&failure](std::exception_ptr e) { failure = e; };
    net::co_spawn(io, measure_all(&client, &state), on_end);
    io.run();

    try {
        if (failure) std::rethrow_exception(failure);
    } catch (const time_is_up& end) {
        result.failure = end.what();
        result.status = 3;
    } catch (const std::exception& error) {
        result.failure = error.what();
        result.status = 1;
    }
    if (!result.failure.empty()) out.note("Ended early: " + result.failure);
    return result;
}

}  // namespace semantic::bench
