// SPDX-License-Identifier: Apache-2.0
#pragma once
// The whole server: owns every long-lived object. The order of the members is the order of
// construction, and what a member needs comes before it. Thread: run() blocks the calling thread
// and makes the others; stop() and port() may be called from any thread.

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "server/config/config.hpp"
#include "server/coordination/run_registry.hpp"
#include "server/coordination/session_registry.hpp"
#include "server/engines/engine_slots.hpp"
#include "server/http/connection/listener.hpp"
#include "server/http/limits.hpp"
#include "server/http/services.hpp"
#include "server/http/shared_slots.hpp"
#include "server/live/kv_followers.hpp"
#include "server/live/live_hub.hpp"
#include "server/live/socket_checks.hpp"
#include "server/models/client_memory.hpp"
#include "server/models/known_models.hpp"
#include "server/models/model_queue.hpp"
#include "server/models/model_switches.hpp"
#include "server/responses/response_registry.hpp"
#include "server/runtime/metrics.hpp"
#include "server/runtime/task_group.hpp"
#include "server/service/service_manager.hpp"
#include "server/usage/key_accounts.hpp"
#include "server/workers/tenant_workers.hpp"
#include "storage/objects/redis/node_news.hpp"

namespace semantic::server {

/// Makes the engine of `model` while the models `others` (numbers in the registry) stay loaded.
/// Blocks for as long as the load takes. Errors: why the model cannot be loaded.
using beside_loader = std::function<storage::result<std::unique_ptr<engine::engine>>(
    std::size_t model, const std::vector<std::size_t>& others,
    const std::function<void(engine::load_progress)>& progress)>;

struct app_options {
    config settings;
    http_limits limits;  // body_bytes_max is taken from `settings`
    registry models{{{"model"}}, 0};
    model_loader load;
    /// As `load`, but is given the numbers of the models that stay loaded meanwhile. Empty: `load`
    /// is used.
    beside_loader load_beside;
    /// Where the engines that `load` makes report what happens. Not null.
    std::shared_ptr<engine::activity_feed> feed = std::make_shared<engine::activity_feed>();
    /// Where they report which KV blocks are on disk; null: clients cannot follow that.
    std::shared_ptr<storage::kv_event_feed> kv_events{};
    /// Where servers on one object store announce themselves to each other; null: nowhere.
    std::shared_ptr<storage::node_news> news{};
    std::string cache_directory;  // for the line that says what runs
    bool handle_signals = true;   // SIGTERM and SIGINT stop the server; SIGHUP: see `hangup_ends`
    /// Reads the configuration again, for SIGHUP. Blocks. Throws config_error. Empty: it is
    /// ignored.
    std::function<config()> read_again;
    service_manager manager{""};  // notified when the server is ready, stops, and that it lives
    /// The time between messages to systemd's watchdog; nothing: it wants none.
    std::optional<std::chrono::microseconds> sign_of_life_every;
    bool hangup_ends = false;     // SIGHUP means that the terminal is gone, and stops the server
    std::ostream* out = nullptr;  // where the ready line goes; null: nowhere
    std::ostream* err = nullptr;  // where a failure goes; null: nowhere
    bool show_progress = false;   // `err` is a terminal
};

class app {
  public:
    /// Opens the port. Throws std::runtime_error with one sentence when it cannot.
    explicit app(app_options options);
    ~app();

    std::uint16_t port() const { return port_; }
    /// Serves until stopped. Returns: the exit status, 0 after an orderly stop, 1 when the model
    /// could not be loaded.
    int run();
    /// As SIGTERM does: stops accepting, lets running answers end within the grace, saves, ends
    /// run().
    void stop();
    /// As SIGHUP does: reads the configuration again and takes over its log level and key file;
    /// one with a fault changes nothing, and the log says why.
    void reload();

  private:
    /// The executor for the server's own work, which belongs to no tenant.
    boost::asio::any_io_executor own_workers() { return short_jobs_.get_executor("server"); }
    /// How `switcher_` loads models, and which of this object's functions hear of its steps.
    switch_options switching();
    /// The queue of requests that wait for another model; null without auto-swap.
    std::unique_ptr<model_queue> make_queue();
    /// Loads a model, and the stored sessions and responses with the first one. Notes success or
    /// failure in `models_`. Blocks; runs on the thread of an engine slot.
    storage::result<std::unique_ptr<engine::engine>> load_engine(
        std::size_t model, const std::function<void(engine::load_progress)>& report);
    /// Logs a step of a change of models; a model that broke is noted in `models_`. Any thread.
    void on_step(const slot_state& now);
    /// Called when a change of models is over; after the first one starts or ends the server. Any
    /// thread.
    void on_settled(const slot_state& now);
    /// Prints the ready line and notifies the service manager. Called once.
    void on_loaded();
    /// Prints why the first model cannot be loaded, and ends run() with status 1.
    void on_load_failed(const std::string& why);
    /// Writes how far the load is over the terminal's last line.
    void show_progress(const engine::load_progress& progress);
    /// Handles the next signal, and then waits for another.
    void wait_for_signal();
    /// Notifies systemd's watchdog again and again. Runs on the threads that serve connections, so
    /// that it goes silent when they hang.
    boost::asio::awaitable<void> give_signs_of_life(std::chrono::microseconds every);
    /// Starts the orderly stop; later calls do nothing.
    void begin_stop();
    /// Waits for answers until `until`, saves all engines' memories, closes connections, and ends
    /// run().
    boost::asio::awaitable<void> stop_in_order(std::chrono::steady_clock::time_point until);
    /// Has every loaded engine write what is not on disk yet, until `until`.
    boost::asio::awaitable<void> save_all(std::chrono::steady_clock::time_point until);
    /// Ends the process with status 0 without waiting for the load of a model, which nothing can
    /// interrupt. Used where no engine has anything to save.
    boost::asio::awaitable<void> leave_at_once();
    /// Waits until no answer runs, but no longer than `until`.
    boost::asio::awaitable<void> wait_for_answers(std::chrono::steady_clock::time_point until);

    /// The members below refer to it, so it is destroyed last. But the coroutines suspended in it
    /// refer to those members, so destroy_waiting() destroys them first.
    struct context : boost::asio::io_context {
        using boost::asio::io_context::io_context;
        void destroy_waiting() { shutdown(); }
    };

    app_options options_;
    context context_;
    tenant_workers short_jobs_;  // parse requests and look up what is kept; also save at the end
    tenant_workers long_jobs_;   // what takes longer, so that short jobs need not wait for it
    tenant_workers large_jobs_;  // what takes much memory, too: one at a time for each tenant
    tenant_workers transfers_;   // export agents to their clients
    shared_slots slots_;
    socket_checks sockets_;
    default_seed seed_;
    const client_memory client_memory_;
    body_budget bodies_;
    body_budget replies_;
    server_probe probe_;
    turns_in_flight turns_;
    waking_streams waking_;
    session_registry coordination_;
    run_registry runs_;
    response_registry responses_;
    live_hub live_;
    kv_followers kv_;
    key_accounts accounts_;
    engine_slots engines_;
    known_models models_;
    model_switches switcher_;
    std::unique_ptr<model_queue> queue_;  // with auto-swap
    std::atomic<bool> stopping_{false};
    std::atomic<int> exit_status_{0};
    task_group sessions_;
    task_group tasks_;  // accepting and stopping
    services services_;
    listener listener_;
    std::uint16_t port_ = 0;
    struct signals;
    std::unique_ptr<signals> signals_;
    std::atomic<bool> started_{false};  // whether the first model has been loaded
};

}  // namespace semantic::server
