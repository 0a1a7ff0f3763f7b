// SPDX-License-Identifier: Apache-2.0
#pragma once
// A server in front of an engine, both in this process, and agents that ask it over its socket with
// the client of semantic-bench.
// Owner: the caller. Thread: all calls from the one that made it, which is the client's, too; the
// server has its own. Errors: std::runtime_error where the model cannot be loaded; those of
// bench::http_client.

#include <boost/asio/io_context.hpp>

#include <memory>
#include <thread>
#include <vector>

#include "engine/engine.hpp"
#include "perf/bench/measure/burst.hpp"
#include "perf/bench/measure/measure.hpp"
#include "server/app.hpp"

namespace semantic::perf {

class served_agents {
  public:
    /// Blocks until the model is loaded and the client knows how many words make a token.
    served_agents(const engine::engine_options& options, int count);
    ~served_agents();
    served_agents(const served_agents&) = delete;
    served_agents& operator=(const served_agents&) = delete;

    /// The one of the server, for as long as this object lives.
    engine::engine& engine() noexcept { return *engine_; }

    /// Each agent reads a text of its own.
    void prime(int context_tokens);
    /// All of them answer a further turn of `turn_tokens`.
    bench::burst speak(int turn_tokens, int answer_tokens);

    /// CPU seconds so far of the thread that serves all connections.
    double server_cpu_seconds();
    /// The same of the calling thread, which is the client's.
    double client_cpu_seconds() const;

  private:
    void start(const engine::engine_options& options);
    void stop();
    void run_client(boost::asio::awaitable<void> work);

    engine::engine* engine_ = nullptr;
    std::unique_ptr<server::app> app_;
    std::thread server_;
    bench::options options_;
    bench::report report_;
    boost::asio::io_context io_{1};
    std::unique_ptr<bench::chat_client> client_;
    std::unique_ptr<bench::bench_run> run_;
    std::vector<bench::conversation> talks_;
};

}  // namespace semantic::perf
