// SPDX-License-Identifier: Apache-2.0
#include "server/app.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "server/coordination/session_keeper.hpp"
#include "server/handlers/routes.hpp"
#include "server/live/node_board.hpp"
#include "server/models/memory_limits.hpp"
#include "server/responses/response_keeper.hpp"
#include "server/runtime/logging.hpp"
#include "server/runtime/start_failure.hpp"
#include "server/runtime/tokens.hpp"
#include "server/runtime/version.hpp"
#include "server/runtime/workers.hpp"

namespace semantic::server {

namespace {

using clock = std::chrono::steady_clock;

// Threads for each kind of work. No tenant has all of them; compute has its own threads.
constexpr std::size_t worker_count = 3;
// A tenant has at most two of these at once. On a machine with two cores their niceness leaves
// about three quarters of the time to the threads that compute answers.
constexpr int short_job_niceness = 5;
// With this niceness a large job gets about a tenth of a core while a thread computes answers. Long
// jobs keep the normal one, because answers wait for what they write.
constexpr int large_job_niceness = 10;
// Each may take as much memory as several bodies.
constexpr std::size_t large_job_count = 2;
// Each holds an agent's blocks in the pool for as long as its client takes; more of them wait.
constexpr std::size_t transfer_count = 3;
// How long connections have to send the last bytes of answers that the stop cut off.
constexpr std::chrono::seconds farewell{2};

// The progress on a terminal is one line that is overwritten again and again.
constexpr const char* erase_line = "\r\x1b[K";

http_limits limits_of(const app_options& options) {
    http_limits limits = options.limits;
    limits.body_bytes_max = options.settings.body_limit_mb << 20;
    return limits;
}

/// Shares out the memory for clients. Bodies get no more than all requests that are read at once
/// could take.
client_memory choose_client_memory(const app_options& options) {
    const std::uint64_t asked = std::uint64_t{options.settings.memory_limit_mb} << 20;
    auto chosen = client_memory::choose(find_memory_limit(asked).bytes, options.settings);
    const std::size_t bodies =
        options.limits.bodies_at_once * (options.settings.body_limit_mb << 20);
    chosen.body_bytes = std::min(chosen.body_bytes, bodies);
    return chosen;
}

/// HOST:PORT as a URL writes it: an IPv6 address is in brackets.
std::string authority(const std::string& host, std::uint16_t port) {
    std::string name = host.find(':') == std::string::npos ? host : "[" + std::string(host) + "]";
    return name + ":" + std::to_string(port);
}

/// Whether SIGHUP is to be handled: not where the parent had it ignored (nohup), because such a
/// server is to outlive its terminal.
bool heeds_hangup() {
    struct sigaction now {};
    return ::sigaction(SIGHUP, nullptr, &now) != 0 || now.sa_handler != SIG_IGN;
}

const char* name_of(int signal) {
    if (signal == SIGHUP) return "SIGHUP";
    return signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

}  // namespace

struct app::signals {
    explicit signals(net::io_context& context) : set(context, SIGTERM, SIGINT) {
        if (heeds_hangup()) set.add(SIGHUP);
    }
    net::signal_set set;
    int received = 0;
};

app::app(app_options options)
    : options_(std::move(options)),
      context_(options_.settings.io_threads),
      short_jobs_(worker_count, worker_count - 1, short_job_niceness),
      long_jobs_(worker_count, worker_count - 1),
      large_jobs_(large_job_count, 1, large_job_niceness),
      transfers_(transfer_count, transfer_count - 1),
      slots_(options_.limits, needs_key(options_.settings)),
      client_memory_(choose_client_memory(options_)),
      bodies_(client_memory_.body_bytes, options_.limits.body_bytes_free,
              shared_slots::share(client_memory_.body_bytes, needs_key(options_.settings))),
      replies_(options_.settings.body_limit_mb << 20, options_.limits.body_bytes_free),
      waking_(context_.get_executor()),
      coordination_(client_memory_.sessions),
      runs_(client_memory_.runs),
      responses_(client_memory_.response_bytes, client_memory_.background),
      live_(context_.get_executor(), options_.feed, long_jobs_.get_executor("server")),
      kv_(options_.kv_events),
      accounts_({options_.settings.requests_per_minute, options_.settings.tokens_per_minute,
                 options_.settings.concurrent_requests}),
      engines_(static_cast<std::size_t>(options_.settings.max_loaded)),
      models_(options_.models, options_.settings),
      switcher_(engines_, switching()),
      queue_(make_queue()),
      services_{options_.settings,
                options_.limits,
                routes(),
                engines_,
                models_,
                switcher_,
                queue_.get(),
                probe_,
                stopping_,
                own_workers(),
                short_jobs_,
                long_jobs_,
                large_jobs_,
                transfers_,
                slots_,
                sockets_,
                turns_,
                waking_,
                options_.cache_directory,
                seed_,
                bodies_,
                replies_,
                coordination_,
                runs_,
                responses_,
                live_,
                kv_,
                accounts_,
                options_.news.get()},
      listener_(context_, services_, sessions_) {
    options_.limits = limits_of(options_);
    accounts_.open_all(options_.settings);
    listener_.open(options_.settings.host, options_.settings.port);
    port_ = listener_.port();
    if (options_.news)
        options_.news->describe_by(
            [this, self = own_node()]() mutable { return self.text(services_); });
    if (options_.handle_signals) {
        // A write to a closed connection or beyond `ulimit -f` must be an error code and not end
        // the process.
        std::signal(SIGPIPE, SIG_IGN);
        std::signal(SIGXFSZ, SIG_IGN);
        signals_ = std::make_unique<signals>(context_);
        wait_for_signal();
    }
}

app::~app() {
    if (options_.news) options_.news->describe_by({});
    if (queue_) queue_->close();
    switcher_.close(clock::now());
    switcher_.join();
    short_jobs_.join();
    long_jobs_.join();
    large_jobs_.join();
    transfers_.join();
    context_.destroy_waiting();
}

int app::run() {
    if (!serves_this_machine_only(options_.settings) && !needs_key(options_.settings))
        log_event(log_level::warning,
                  "listening on " + options_.settings.host +
                      " without api-key: anyone who reaches this port may use the server");
    log_event(log_level::info,
              "listening on " + authority(options_.settings.host, port_) + ", loading the model");
    tasks_.spawn(listener_.executor(), listener_.run(), "accepting connections");
    if (options_.sign_of_life_every)
        tasks_.spawn(context_.get_executor(), give_signs_of_life(*options_.sign_of_life_every),
                     "signs of life");
    auto guard = net::make_work_guard(context_);
    std::vector<std::thread> threads;
    const auto join = [&] {
        for (std::thread& thread : threads) thread.join();
    };
    try {
        for (int i = 1; i < options_.settings.io_threads; ++i)
            threads.emplace_back([this] { context_.run(); });
        if (auto begun = switcher_.ask(0, models_.list().start(), {}); !begun)
            throw std::runtime_error(begun.error().message);
    } catch (...) {
        context_.stop();
        join();
        throw;
    }
    context_.run();
    join();
    return exit_status_.load();
}

switch_options app::switching() {
    switch_options how;
    how.load = [this](std::size_t model, const auto& report) { return load_engine(model, report); };
    how.on_step = [this](const slot_state& now) { on_step(now); };
    how.on_settled = [this](const slot_state& now) { on_settled(now); };
    how.farewell = farewell;
    return how;
}

std::unique_ptr<model_queue> app::make_queue() {
    const config& settings = options_.settings;
    if (!settings.auto_swap) return nullptr;
    queue_options how;
    how.slice = settings.model_turn;
    how.wait = settings.model_wait;
    how.idle_max = settings.model_ttl;
    how.waiting_max = static_cast<std::size_t>(settings.max_queued);
    how.start = models_.list().start();
    how.name_of = [this](std::size_t model) { return models_.list().at(model).name; };
    how.fault_of = [this](std::size_t model, std::size_t slot) {
        return fault_of_model(models_, engines_, model, slot);
    };
    return std::make_unique<model_queue>(engines_, switcher_, probe_, std::move(how));
}

storage::result<std::unique_ptr<engine::engine>> app::load_engine(
    std::size_t model, const std::function<void(engine::load_progress)>& report) {
    auto progress = [&](engine::load_progress now) {
        show_progress(now);
        report(std::move(now));
    };
    std::string why;
    try {
        std::vector<std::size_t> others = engines_.models_beside();
        std::erase(others, model);
        auto loaded = options_.load_beside ? options_.load_beside(model, others, progress)
                                           : options_.load(model, progress);
        if (loaded) {
            // A running server already has its sessions. What their agents remember was computed by
            // another model, so it is forgotten here; the engine finds this model's memory again
            // from whole conversations.
            if (started_.load()) {
                coordination_.forget_all();
            } else {
                for (const std::string& fault : load_sessions(coordination_, runs_, **loaded))
                    log_event(log_level::warning, "not loaded: " + fault);
                for (const std::string& fault : load_responses(responses_, **loaded))
                    log_event(log_level::warning, "response not loaded: " + fault);
            }
            models_.was_loaded(model, (*loaded)->info());
            return loaded;
        }
        why = loaded.error().what;
    } catch (const std::exception& error) {
        why = start_failure(error);
    }
    models_.has_failed(model, why);
    return storage::failure{storage::errc::not_found, std::move(why)};
}

void app::on_step(const slot_state& now) {
    if (now.is_start || !started_.load()) return;
    const bool has_broken = now.phase == slot_phase::releasing && !now.why.empty();
    if (has_broken) models_.has_failed(now.model.value(), now.why);
    std::string line = std::string("model change: ") + to_string(now.phase);
    if (now.model) line += " " + models_.list().at(*now.model).name;
    if (now.target) line += ", then " + models_.list().at(*now.target).name;
    if (!now.why.empty()) line += ": " + now.why;
    log_event(now.why.empty() ? log_level::info : log_level::warning, line);
}

void app::on_settled(const slot_state& now) {
    if (options_.kv_events)
        options_.kv_events->publish(
            []() -> storage::kv_event { return storage::models_changed{}; });
    if (started_.exchange(now.phase == slot_phase::ready || started_.load())) return;
    if (now.phase == slot_phase::ready)
        net::post(context_, [this] { on_loaded(); });
    else
        net::post(context_, [this, why = now.why] { on_load_failed(why); });
}

void app::show_progress(const engine::load_progress& progress) {
    if (!options_.show_progress || options_.err == nullptr) return;
    char line[160];
    std::snprintf(line, sizeof line, "%sloading: %s, %.0f %%", erase_line, progress.stage.c_str(),
                  progress.fraction * 100);
    std::string files;
    if (progress.files.size() > 1) {
        const auto done = std::count_if(progress.files.begin(), progress.files.end(),
                                        [](const auto& file) { return file.fraction >= 1.0; });
        files =
            ", " + std::to_string(done) + " of " + std::to_string(progress.files.size()) + " files";
    }
    const char* end = progress.fraction >= 1.0 ? erase_line : "";
    *options_.err << line + files + end << std::flush;
}

void app::on_loaded() {
    const engine_lease engine = engines_.look();
    if (stopping_.load() || !engine) return;
    const engine::model_info& info = engine->info();
    double pool_mb = static_cast<double>(info.pool_bytes) / (1 << 20);
    char size[128];
    std::snprintf(size, sizeof size, "pool %.0f MB = %llu agents of 4096 tokens or %llu of 16384",
                  pool_mb, static_cast<unsigned long long>(info.pool_agents_4k),
                  static_cast<unsigned long long>(info.pool_agents_16k));
    std::string kv = "KV " + info.kv_recipe;
    if (!info.kv_recipe_reason.empty()) kv += " (" + info.kv_recipe_reason + ")";
    const std::string answers = "tool calls " + std::string(name_of(info.answers.calls)) +
                                ", reasoning " + std::string(name_of(info.answers.thinking));
    std::string line = "semantic-server " + std::string(server_version) + " listening on http://" +
                       authority(options_.settings.host, port_) + " (model " + info.id +
                       ", kernels " + info.kernels + ", " + kv + ", " + answers + ", " + size +
                       ", cache " + options_.cache_directory + ")";
    options_.manager.tell("READY=1\nSTATUS=" + info.id + " is loaded");
    if (options_.out != nullptr) *options_.out << line + '\n' << std::flush;
    log_event(log_level::info, "ready: " + line);
    if (info.pool_agents_4k == 0)
        log_event(log_level::warning,
                  "the pool holds no conversation of 4096 tokens, which takes " +
                      std::to_string((info.kv_bytes_per_token * 4096 >> 20) + 1) +
                      " MiB: longer ones are refused; --memory-limit-mb or --cache-budget-mb "
                      "would have to be larger, or --weights q4 or a --kv-recipe of fewer bits "
                      "leave room");
}

void app::on_load_failed(const std::string& why) {
    // One write, because the log may write to the same stream.
    const std::string line =
        (options_.show_progress ? erase_line : "") + ("semantic-server: " + why);
    if (options_.err != nullptr) *options_.err << line + '\n' << std::flush;
    exit_status_.store(1);
    listener_.stop();
    context_.stop();
}

net::awaitable<void> app::give_signs_of_life(std::chrono::microseconds every) {
    net::steady_timer timer(co_await net::this_coro::executor);
    for (;;) {
        options_.manager.tell("WATCHDOG=1");
        timer.expires_after(every);
        auto [error] = co_await timer.async_wait(use_tuple);
        if (error) co_return;
    }
}

void app::wait_for_signal() {
    signals_->set.async_wait([this](boost::system::error_code error, int number) {
        if (error) return;
        if (number == SIGHUP && !options_.hangup_ends) {
            net::post(own_workers(), [this] { reload(); });
            wait_for_signal();
            return;
        }
        log_event(log_level::info, std::string(name_of(number)) + ": stopping");
        if (++signals_->received > 1) {
            log_event(log_level::warning, "second signal: leaving at once");
            std::_Exit(128 + number);
        }
        begin_stop();
        wait_for_signal();
    });
}

void app::reload() {
    if (!options_.read_again) return;
    std::string why;
    try {
        const config fresh = options_.read_again();
        if (needs_key(fresh) == needs_key(options_.settings)) {
            options_.settings.file_keys.replace(fresh.file_keys.now());
            accounts_.open_all(options_.settings);
            sockets_.check_keys();
            log_from(fresh.log_from);
            log_event(log_level::info,
                      "read again: " + std::to_string(fresh.file_keys.now().size()) +
                          " keys of the key file, log level " + to_string(fresh.log_from));
            return;
        }
        why = "a server with keys cannot become one without, nor the other way round";
    } catch (const std::exception& error) {
        why = error.what();
    }
    log_event(log_level::warning, "not read again, all is as before: " + why);
}

void app::stop() {
    net::post(context_, [this] { begin_stop(); });
}

void app::begin_stop() {
    if (stopping_.exchange(true)) return;
    options_.manager.tell("STOPPING=1");
    listener_.stop();
    live_.stop();
    const clock::time_point until = clock::now() + options_.settings.shutdown_grace;
    const bool any_engine = switcher_.close(until);
    if (queue_) queue_->close();
    if (!any_engine && options_.handle_signals) {
        tasks_.spawn(context_.get_executor(), leave_at_once(), "stopping");
        return;
    }
    tasks_.spawn(context_.get_executor(), stop_in_order(until), "stopping");
}

/// Only requests that waited for a model still get a reply, in `last_words`.
net::awaitable<void> app::leave_at_once() {
    constexpr std::chrono::milliseconds last_words{200};
    if (queue_) {
        net::steady_timer timer(co_await net::this_coro::executor, last_words);
        [[maybe_unused]] auto [error] = co_await timer.async_wait(use_tuple);
    }
    stop_logging();
    std::_Exit(0);
}

net::awaitable<void> app::wait_for_answers(clock::time_point until) {
    net::steady_timer timer(co_await net::this_coro::executor);
    while (probe_.answers_running.load() > 0 && clock::now() < until) {
        timer.expires_after(std::chrono::milliseconds(10));
        [[maybe_unused]] auto [error] = co_await timer.async_wait(use_tuple);
    }
}

net::awaitable<void> app::save_all(clock::time_point until) {
    for (std::size_t i = 0; i < engines_.size(); ++i) {
        if (!has_engine(engines_.at(i).state().phase)) continue;
        engine::engine* engine = engines_.at(i).own();
        auto drain = [engine, until] { return engine->drain(std::max(until, clock::now())), true; };
        if (engine != nullptr) co_await run_on(own_workers(), drain);
    }
}

net::awaitable<void> app::stop_in_order(clock::time_point until) {
    co_await wait_for_answers(until);
    if (probe_.answers_running.load() > 0)
        log_event(log_level::warning, "the grace is over: cutting running answers");
    // Only a server that owns its process can leave without waiting for a load (leave_at_once).
    auto join = [this, is_hasty = options_.handle_signals] {
        if (is_hasty) return switcher_.join_those_with_engine();
        return switcher_.join(), true;
    };
    const bool is_all = co_await run_on(own_workers(), join);
    co_await save_all(until);
    co_await wait_for_answers(clock::now() + farewell);
    if (!is_all) co_await leave_at_once();  // another model is being loaded
    responses_.tasks.cancel();
    kv_.tasks.cancel();
    sessions_.cancel();
    const bool is_quiet = co_await responses_.tasks.wait(clock::now() + farewell) &&
                          co_await kv_.tasks.wait(clock::now() + farewell);
    if (!co_await sessions_.wait(clock::now() + farewell) || !is_quiet)
        log_event(log_level::warning, "connections were still open at the end");
    log_event(log_level::info, "stopped");
    context_.stop();
}

}  // namespace semantic::server
