// SPDX-License-Identifier: Apache-2.0
#pragma once
// The server's own counters, and all probes as Prometheus text.
// Source: https://prometheus.io/docs/instrumenting/exposition_formats/ (text format 0.0.4).

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "engine/engine.hpp"

namespace semantic::server {

class key_accounts;

/// What the HTTP side counts. Thread: any.
class server_probe {
  public:
    /// `route` is a pattern of the route table or "unmatched", `method` one of the known methods or
    /// "other": never what a client made up, so that the number of series stays bounded.
    void count_request(std::string_view route, std::string_view method, int status, double seconds);

    std::atomic<std::int64_t> open_connections{0};
    std::atomic<std::uint64_t> connections_accepted{0};
    std::atomic<std::uint64_t> clients_gone{0};  // answers that nobody waited for to the end
    std::atomic<std::int64_t> answers_running{0};
    std::atomic<std::int64_t> model_waiting{0};  // requests in line for a model
    engine::latency_histogram model_wait;        // of those that did not have it at once
    std::atomic<std::int64_t> uploads{0};        // agents' files on disk that are not read yet
    /// Time from a streamed answer's slot in the batch to the reply's first bytes.
    engine::latency_histogram first_byte;

  private:
    friend std::string render_server_metrics(const server_probe&);
    using key = std::tuple<std::string, std::string, int>;  // route, method, status
    mutable std::mutex mutex_;
    std::map<key, std::uint64_t> requests_;
    std::map<std::string, engine::latency_histogram> durations_;  // by route
};

/// Changes of models; the first load does not count.
struct model_changes {
    std::uint64_t done = 0;
    std::uint64_t failed = 0;
};

/// The metrics of the HTTP side.
std::string render_server_metrics(const server_probe& probe);
/// All metrics as Prometheus text. `engines` may be empty and `accounts` null: their metrics are
/// then absent. `by_model`: an engine's metrics get a label with its model's name; those of the
/// cache directory never do.
std::string render_metrics(const server_probe& probe, const model_changes& changes,
                           std::span<const engine::engine* const> engines, bool by_model,
                           const key_accounts* accounts = nullptr);
/// The metrics of a server with one engine; `engine` may be null.
inline std::string render_metrics(const server_probe& probe, const model_changes& changes,
                                  const engine::engine* engine,
                                  const key_accounts* accounts = nullptr) {
    const std::span<const engine::engine* const> one(&engine, engine == nullptr ? 0u : 1u);
    return render_metrics(probe, changes, one, false, accounts);
}

}  // namespace semantic::server
