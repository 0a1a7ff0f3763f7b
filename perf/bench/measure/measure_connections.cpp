// SPDX-License-Identifier: Apache-2.0
// connections: streams with many connections that say nothing, or read slowly.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <string>
#include <sys/resource.h>
#include <utility>
#include <vector>

#include "perf/bench/client/errors.hpp"
#include "perf/bench/measure/burst.hpp"
#include "perf/bench/measure/measure.hpp"
#include "perf/bench/report/statistics.hpp"

namespace semantic::bench {
namespace {

namespace net = boost::asio;
using net::ip::tcp;

constexpr auto use_tuple = net::as_tuple(net::use_awaitable);
constexpr double to_ms = 1000;
// A slow reader asks for so many replies at once, more than the kernel holds for it ...
constexpr int replies_asked = 32;
// ... with a window as small as the kernel grants, and takes a few bytes now and then.
constexpr int receive_bytes = 4096;
constexpr std::size_t sip_bytes = 16;

/// Raises this process's limit of open files for so many connections. Errors: server_error.
void allow_descriptors(std::int64_t wanted) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    const auto needed = static_cast<rlim_t>(wanted) + 256;
    if (limit.rlim_cur >= needed) return;
    limit.rlim_cur = std::min(needed, limit.rlim_max);
    if (limit.rlim_cur < needed || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        throw server_error("this process may open " + std::to_string(limit.rlim_max) +
                           " files, and needs " + std::to_string(needed) + " (ulimit -n)");
    }
}

/// Connections that are idle, or that read hardly anything of what they asked for.
class crowd {
  public:
    explicit crowd(const server_url& url) : url_(url) {}

    net::awaitable<void> add_idle(std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) idle_.push_back(co_await connect(0));
    }

    /// Opens connections that ask for many replies and do not read them.
    net::awaitable<void> add_slow_readers(std::int64_t count) {
        const std::string one =
            "GET " + url_.base_path + "/metrics HTTP/1.1\r\nHost: " + url_.authority() + "\r\n\r\n";
        std::string asked;
        for (int i = 0; i < replies_asked; ++i) asked += one;
        for (std::int64_t i = 0; i < count; ++i) {
            tcp::socket& reader = slow_.emplace_back(co_await connect(receive_bytes));
            auto [error, sent] = co_await net::async_write(reader, net::buffer(asked), use_tuple);
            if (error) throw server_error("a slow reader cannot ask: " + error.message());
        }
    }

    /// Every slow reader takes a few bytes. Returns: bytes taken.
    std::size_t sip() {
        std::array<char, sip_bytes> bytes;
        std::size_t taken = 0;
        for (tcp::socket& reader : slow_) {
            boost::system::error_code ignored;
            taken += reader.read_some(net::buffer(bytes), ignored);
        }
        return taken;
    }

    /// Connections that the server has not closed.
    std::int64_t open_count() {
        std::int64_t open = 0;
        for (std::vector<tcp::socket>* some : {&idle_, &slow_})
            for (tcp::socket& one : *some) open += is_open(one) ? 1 : 0;
        return open;
    }

    void leave() {
        idle_.clear();
        slow_.clear();
    }

  private:
    /// Opens a connection. `receive`: the size of its receive buffer; 0: the usual one. Errors:
    /// server_error.
    net::awaitable<tcp::socket> connect(int receive) {
        const tcp::endpoint to(net::ip::make_address(url_.addresses.front()), url_.port);
        tcp::socket socket(co_await net::this_coro::executor, to.protocol());
        if (receive > 0) socket.set_option(net::socket_base::receive_buffer_size(receive));
        auto [error] = co_await socket.async_connect(to, use_tuple);
        if (error) {
            throw server_error("connection " + std::to_string(idle_.size() + slow_.size() + 1) +
                               ": " + error.message());
        }
        socket.non_blocking(true);
        co_return socket;
    }

    static bool is_open(tcp::socket& socket) {
        char byte = 0;
        boost::system::error_code error;
        socket.receive(net::buffer(&byte, 1), net::socket_base::message_peek, error);
        return !error || error == net::error::would_block;
    }

    const server_url& url_;
    std::vector<tcp::socket> idle_, slow_;
};

/// Has the slow readers read on until `stop`.
net::awaitable<void> keep_sipping(bench_run& run, crowd& readers, const bool& stop) {
    while (!stop) {
        readers.sip();
        co_await run.client.pause(std::chrono::milliseconds(250));
    }
}

/// Waits until the server has replied to the slow readers as far as it can, since their asking is
/// not what is measured.
net::awaitable<void> wait_until_calm(bench_run& run) {
    constexpr int polls_max = 600;
    constexpr int calm_polls = 5;
    constexpr auto at_once = std::chrono::milliseconds(20);
    for (int i = 0, calm = 0; i < polls_max && calm < calm_polls; ++i) {
        const auto start = clock::now();
        co_await run.client.metrics();
        calm = clock::now() - start < at_once ? calm + 1 : 0;
        co_await run.client.pause(std::chrono::milliseconds(100));
    }
}

/// The results of all rounds under one condition.
struct pace {
    std::vector<double> total, of_alone, p50, p99, first;
    std::int64_t still_open = 0;

    void add(const burst& b) {
        total.push_back(b.total_speed);
        p50.push_back(b.itl.p50);
        p99.push_back(b.itl.p99);
        first.push_back(b.first.p50);
    }
};

/// Takes a turn of each conversation. `talks` is a copy, so that every round continues the same
/// past and contexts do not grow.
net::awaitable<burst> speak(bench_run& run, std::vector<conversation> talks) {
    run.client.check_time();
    co_return judge(co_await all_speak(run, talks, talks.size()));
}

/// speak() while the slow readers read on.
net::awaitable<burst> speak_with_readers(bench_run& run, crowd& others,
                                         const std::vector<conversation>& talks) {
    bool stop = false;
    bool has_stopped = false;
    const auto on_end = [&has_stopped](std::exception_ptr) { has_stopped = true; };
    const auto executor = co_await net::this_coro::executor;
    net::co_spawn(executor, keep_sipping(run, others, stop), on_end);
    burst found;
    std::exception_ptr failure;
    try {
        found = co_await speak(run, talks);
    } catch (...) {
        failure = std::current_exception();
    }
    stop = true;
    while (!has_stopped) co_await run.client.pause(std::chrono::milliseconds(10));
    if (failure) std::rethrow_exception(failure);
    co_return found;
}

struct paces {
    pace alone, idle, crowded;
};

/// Measures every condition once, between two measurements without other connections, so that a
/// drift of the machine's speed cancels out in the ratios.
net::awaitable<void> measure_round(bench_run& run, const std::vector<conversation>& talks,
                                   paces& found) {
    const options& o = run.opts;
    crowd others(o.url);
    co_await others.add_idle(o.idle_connections);
    found.idle.add(co_await speak(run, talks));
    found.idle.still_open = others.open_count();
    co_await others.add_slow_readers(o.slow_readers);
    co_await wait_until_calm(run);
    found.crowded.add(co_await speak_with_readers(run, others, talks));
    found.crowded.still_open = others.open_count();
    others.leave();
    const double before = found.alone.total.back();
    found.alone.add(co_await speak(run, talks));
    const double alone = (before + found.alone.total.back()) / 2;
    if (alone <= 0 || before <= 0) co_return;
    found.alone.of_alone.push_back(found.alone.total.back() / before);
    found.idle.of_alone.push_back(found.idle.total.back() / alone);
    found.crowded.of_alone.push_back(found.crowded.total.back() / alone);
}

}  // namespace

net::awaitable<void> measure_connections(bench_run& run) {
    table& t = run.out.tables.emplace_back();
    t = {"Streams beside other connections",
         {"beside", "connections", "still open", "streams", "total tok/s", "of alone",
          "of alone, least", "of alone, most", "ITL p50 ms", "ITL p99 ms", "first token s"},
         {}};
    const options& o = run.opts;
    allow_descriptors(o.idle_connections + o.slow_readers + 2 * o.agents.front());
    const std::int64_t longest = o.prompt_tokens + o.turn_tokens + o.decode_tokens + 16;
    if (!run.fits(longest, o.prompt_tokens)) co_return;

    std::vector<conversation> talks;
    for (std::int64_t i = 0; i < o.agents.front(); ++i) {
        conversation& talk = talks.emplace_back(run.new_conversation());
        co_await run.say(talk, run.cold_text(o.prompt_tokens), 1, "cold", o.prompt_tokens);
    }
    paces found;
    found.alone.add(co_await speak(run, talks));
    for (std::int64_t r = 0; r < o.repeats; ++r) co_await measure_round(run, talks, found);
    const auto add_row = [&](const char* company, std::int64_t connections, const pace& p) {
        const auto of_alone = [&p](double share) {
            return speed_cell(percentile(p.of_alone, share));
        };
        t.rows.push_back({company, connections, p.still_open,
                          static_cast<std::int64_t>(talks.size()), median(p.total), of_alone(0.5),
                          of_alone(0), of_alone(1), median(p.p50) * to_ms, median(p.p99) * to_ms,
                          median(p.first)});
    };
    add_row("nobody", 0, found.alone);
    add_row("idle ones", o.idle_connections, found.idle);
    add_row("idle ones and slow readers", o.idle_connections + o.slow_readers, found.crowded);
    run.out.note(
        "\"of alone\": the median of the rounds' ratios to the mean of what was measured alone "
        "before "
        "and after; in the first row alone after to alone before, which says how much drifts by "
        "itself.");
}

}  // namespace semantic::bench
