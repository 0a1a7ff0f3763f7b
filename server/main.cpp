// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stop_token>
#include <unistd.h>

#include "engine/load_engine.hpp"
#include "server/app.hpp"
#include "server/config/config.hpp"
#include "server/config/hub_model.hpp"
#include "server/config/model_path.hpp"
#include "server/models/client_memory.hpp"
#include "server/models/memory_limits.hpp"
#include "server/models/memory_plan.hpp"
#include "server/models/registry.hpp"
#include "server/runtime/descriptors.hpp"
#include "server/runtime/logging.hpp"
#include "server/runtime/memory.hpp"
#include "server/runtime/start_failure.hpp"
#include "server/runtime/version.hpp"
#include "server/service/service_manager.hpp"
#include "storage/files/unreadable_page.hpp"
#include "storage/objects/encryption/encrypted_objects.hpp"
#include "storage/objects/open_object_store.hpp"
#include "storage/objects/redis/agent_leases.hpp"
#include "storage/objects/redis/node_news.hpp"
#include "storage/objects/redis/uploaded_blocks.hpp"

namespace {

using namespace semantic;

constexpr std::chrono::milliseconds redis_patience{300};

/// Finds the model of --model hf:ORG/NAME in the cache, and fetches it from the hub where it is not
/// there. Only that option asks a hub: names in models-file or in requests are looked for in the
/// cache. Blocks. `manager` hears of the progress, so that systemd does not give up the start.
storage::result<server::found_model> bring_model(const server::config& settings,
                                                 const server::model_places& places,
                                                 const server::service_manager& manager) {
    static constexpr std::chrono::seconds report_every{10};
    server::hub_report report;
    report.say = [](const std::string& text) { server::log_event(server::log_level::info, text); };
    report.on_progress = [&manager, rate = server::hub_rate(),
                          reported = std::chrono::steady_clock::time_point()](
                             const storage::hub_progress& now) mutable {
        const std::string text = "fetching the model: " + rate.text(now);
        const auto at = std::chrono::steady_clock::now();
        if (at - reported < report_every && now.done_bytes < now.all_bytes) return;
        reported = at;
        server::log_event(server::log_level::info, text);
        manager.tell("STATUS=" + text + "\nEXTEND_TIMEOUT_USEC=60000000");
    };
    const server::hub_limits limits{
        server::find_memory_limit(std::uint64_t{settings.memory_limit_mb} << 20).bytes, true};
    return server::find_or_fetch_hub_model(settings.model, places,
                                           server::hub_settings::of_environment(), limits, report);
}

/// Finds all models that the options name: in models-file, in models-dir, by --model, and the
/// embedded one. Blocks. Throws std::runtime_error with the fault.
server::registry find_models(const server::config& settings, const char* argv0,
                             const server::service_manager& manager) {
    const auto places = server::model_places::of_environment();
    server::registry_sources sources;
    sources.models_file_name = settings.models_file;
    if (!settings.models_file.empty()) {
        auto file = server::read_models_file(settings.models_file);
        if (!file) throw std::runtime_error(file.error().what);
        sources.file = std::move(*file);
    }
    if (!settings.models_directory.empty()) {
        auto folder = server::models_in(settings.models_directory, places);
        if (!folder) throw std::runtime_error("models-dir " + folder.error().what);
        for (const std::string& note : folder->notes)
            server::log_event(server::log_level::warning, note);
        sources.folder = std::move(folder->models);
    }
    sources.wanted = settings.model;
    sources.embedded = server::find_embedded_model(server::executable_path(argv0));
    sources.find = [&](const std::string& name) {
        if (name == settings.model && name.starts_with(server::hub_mark))
            return bring_model(settings, places, manager);
        return name.starts_with(server::hub_mark) ? server::find_hub_model(name, places)
                                                  : server::find_model(name, places);
    };
    auto made = server::make_registry(sources);
    if (!made) throw std::runtime_error(made.error().what);
    for (const std::string& note : made->notes) server::log_event(server::log_level::warning, note);
    return std::move(made->models);
}

/// The options of the engine of `model`: the server's, overridden by those in models-file.
engine::engine_options engine_options_of(const server::config& settings,
                                         const server::registered_model& model) {
    const char* home = std::getenv("HOME");
    engine::engine_options options = server::make_engine_options(
        server::with_settings(settings, model.settings), model.path, home == nullptr ? "" : home);
    options.model_id = model.name;
    options.on_warning = [](std::string message) {
        server::log_event(server::log_level::warning, message);
    };
    return options;
}

void warn(std::string message) {
    server::log_event(server::log_level::warning, std::move(message));
}

/// Adds to `shared` what the servers on one object store keep in Redis: leases of agents, each
/// other's news and the list of uploaded blocks. Connects later, so a Redis that does not answer
/// now is no error.
void open_redis(const server::config& settings, engine::shared_memory& shared) {
    if (settings.redis.empty()) return;
    std::string why;
    storage::redis_address address =
        *storage::parse_redis_url(settings.redis, why);  // checked with the options
    address.password = storage::process_environment("REDISCLI_AUTH").value_or("");
    storage::agent_leases_options leases;
    leases.address = address;
    leases.url = settings.node_url;
    leases.lasts = settings.lease;
    leases.on_warning = warn;
    shared.leases = std::make_shared<storage::agent_leases>(std::move(leases));
    storage::node_news_options news;
    news.address = address;
    news.url = settings.node_url;
    news.on_warning = warn;
    shared.news = std::make_shared<storage::node_news>(std::move(news));
    shared.blocks = std::make_shared<storage::uploaded_blocks>(address, redis_patience);
}

/// Opens the object store that servers share; nothing where none is set. Throws std::runtime_error
/// for a wrong URL, wrong credentials or a store that lacks conditional writes; one that does not
/// answer is only logged, since it may do so later. `stop` ends its running transfers.
std::optional<engine::shared_memory> open_shared(const server::config& settings,
                                                 std::stop_token stop) {
    if (settings.object_store.empty()) return std::nullopt;
    // Uploads can wait long; a look-up delays an answer. So each has a connection of its own.
    const auto open = [&](storage::object_patience patience) {
        auto opened =
            storage::open_object_store(settings.object_store, storage::process_environment,
                                       storage::posix_file_system(), stop, patience);
        if (!opened) throw std::runtime_error("object-store: " + opened.error().what);
        auto store = storage::encrypted_with(std::move(*opened), storage::posix_file_system(),
                                             settings.object_store_key_file);
        if (!store) throw std::runtime_error("object-store-key-file: " + store.error().what);
        return std::shared_ptr<storage::object_store>(std::move(*store));
    };
    engine::shared_memory shared;
    shared.uploads = open(storage::object_patience::much);
    shared.lookups = open(storage::object_patience::little);
    shared.wait = settings.object_store_wait;
    open_redis(settings, shared);
    if (settings.held_elsewhere == "redirect") shared.when_held = engine::held_elsewhere::redirect;
    if (settings.held_elsewhere == "serve") shared.when_held = engine::held_elsewhere::serve;
    const auto good = storage::check_conditions(*shared.lookups);
    if (!good && good.error().code != storage::object_errc::unavailable)
        throw std::runtime_error("object-store: " + good.error().what);
    if (!good)
        server::log_event(server::log_level::warning,
                          "the object store does not answer: " + good.error().what);
    return shared;
}

/// Loads models within the memory that plan_for() gives them. Refuses a model that does not fit.
class loader {
  public:
    loader(const server::config& settings, const server::registry& models,
           const server::app_options& options, std::optional<engine::shared_memory> shared)
        : settings_(settings),
          models_(models),
          feed_(options.feed),
          kv_events_(options.kv_events),
          shared_(std::move(shared)) {}

    /// Makes the engine of model `number` while the models `loaded` stay. Blocks. Errors: no memory
    /// for it, or what engine::load_engine() reports.
    storage::result<std::unique_ptr<engine::engine>> load(
        std::size_t number, const std::vector<std::size_t>& loaded,
        const std::function<void(engine::load_progress)>& progress) {
        const server::registered_model& model = models_.at(number);
        engine::engine_options options = engine_options_of(settings_, model);
        options.feed = feed_;
        options.shared = shared_;
        options.kv_events = kv_events_;
        std::vector<server::planned_model> others;
        for (const std::size_t each : loaded) others.push_back(planned(each));
        const auto plan = server::plan_for(planned(number), others, pool_bytes_);
        if (!plan) return plan.error();
        server::log_event(server::log_level::info,
                          "memory for " + model.name + ": " + server::to_text(*plan));
        options.cache_budget_bytes = plan->pool;
        const auto clients = server::client_memory::choose(plan->limit.bytes, settings_);
        options.request_bytes = clients.request_bytes;
        options.kept_form_bytes = clients.kept_form_bytes;
        if (plan->paged > 0)
            server::log_event(server::log_level::warning,
                              model.name + " does not fit the memory: " + server::to_text(*plan));
        if (settings_.max_loaded > 1) {
            // All models share one KV pool, of the size that the first plan gave it.
            if (commons_ == nullptr) commons_ = engine::make_engine_commons(plan->pool);
            pool_bytes_ = plan->pool;
            options.commons = commons_;
        }
        return engine::load_engine(std::move(options), storage_of(model, *plan), progress);
    }

  private:
    /// How the model's weights are kept on disk and read; logs how they were loaded. Weights that
    /// do not fit the memory (`paged`) are mapped and never copied.
    engine::weight_storage storage_of(const server::registered_model& model,
                                      const server::memory_plan& plan) const {
        engine::weight_storage disk =
            make_weight_storage(server::with_settings(settings_, model.settings));
        if (plan.paged > 0) disk.copy_bytes_max = 0;
        disk.on_loaded = [name = model.name](const engine::weights_origin& origin) {
            char text[96];
            std::snprintf(text, sizeof text, "%s after %.1f s, packed %s",
                          origin.is_mapped ? "mapped" : "in memory", origin.seconds,
                          origin.is_first ? "now" : "before");
            server::log_event(server::log_level::info, "weights of " + name + ": " + text);
        };
        return disk;
    }

    /// What plan_for() has to know of a model.
    server::planned_model planned(std::size_t number) const {
        const server::registered_model& model = models_.at(number);
        return {model.path, server::with_settings(settings_, model.settings)};
    }

    const server::config& settings_;
    const server::registry& models_;
    const std::shared_ptr<engine::activity_feed> feed_;
    const std::shared_ptr<storage::kv_event_feed> kv_events_;
    const std::optional<engine::shared_memory> shared_;
    // One model is loaded at a time, so these two need no lock.
    std::shared_ptr<engine::engine_commons> commons_;
    std::uint64_t pool_bytes_ = 0;
};

/// Runs the server until it is stopped. Returns: the process's exit status. Throws what
/// find_models(), open_shared() and app's constructor throw.
int serve(const server::config& settings, const std::vector<std::string>& arguments) {
    const server::service_manager manager = server::service_manager::of_environment();
    const server::registry models = find_models(settings, arguments.at(0).c_str(), manager);
    server::app_options options;
    options.settings = settings;
    options.settings.max_connections = server::make_room_for_connections(settings.max_connections);
    if (options.settings.max_connections < settings.max_connections)
        server::log_event(server::log_level::warning,
                          "this process may not open enough files for --max-connections " +
                              std::to_string(settings.max_connections) + ": it takes " +
                              std::to_string(options.settings.max_connections) +
                              " (raise the limit with ulimit -n)");
    const std::uint64_t asked = std::uint64_t{settings.memory_limit_mb} << 20;
    const server::memory_limit limit = server::find_memory_limit(asked);
    const auto clients = server::client_memory::choose(limit.bytes, options.settings);
    if (clients.connections < options.settings.max_connections)
        server::log_event(server::log_level::warning,
                          "the memory, " + limit.name + ", has no room for --max-connections " +
                              std::to_string(options.settings.max_connections) + ": it takes " +
                              std::to_string(clients.connections));
    options.settings.max_connections = clients.connections;
    options.limits.request_bytes_max = clients.request_bytes;
    options.models = models;
    options.cache_directory =
        engine_options_of(settings, models.at(models.start())).cache_directory;
    std::stop_source stop_sharing;
    if (settings.kv_events) options.kv_events = std::make_shared<storage::kv_event_feed>();
    auto shared = open_shared(settings, stop_sharing.get_token());
    if (shared) options.news = shared->news;
    loader loads(settings, models, options, std::move(shared));
    options.load_beside = [&](std::size_t model, const std::vector<std::size_t>& others,
                              const auto& progress) { return loads.load(model, others, progress); };
    options.read_again = [&] {
        return server::parse_config({arguments.begin() + 1, arguments.end()}).values;
    };
    options.hangup_ends = isatty(STDIN_FILENO) != 0 || isatty(STDERR_FILENO) != 0;
    options.manager = manager;
    options.sign_of_life_every = server::service_manager::watchdog_every(
        std::getenv("WATCHDOG_USEC"), std::getenv("WATCHDOG_PID"));
    options.out = &std::cout;
    options.err = &std::cerr;
    options.show_progress = isatty(STDERR_FILENO) != 0;
    server::app app(std::move(options));
    const int status = app.run();
    // What is not uploaded yet is uploaded after the next start, so a silent store must not delay
    // the exit.
    stop_sharing.request_stop();
    return status;
}

server::log_options log_options_of(const server::config& settings) {
    return {settings.log_from, settings.log_as, settings.log_file, settings.log_file_mb << 20,
            static_cast<std::size_t>(settings.log_files)};
}

/// Everything that main() does once the process is set up. Returns: the exit status; 1 after
/// printing why the server could not start.
int run(int argc, char** argv) try {
    server::parsed_config parsed = server::parse_config({argv + 1, argv + argc});
    if (parsed.action == server::config_action::help) return std::cout << server::help_text(), 0;
    if (parsed.action == server::config_action::version)
        return std::cout << server::version_text(), 0;
    if (parsed.action == server::config_action::print_config)
        return std::cout << server::print_config(parsed), 0;
    server::start_logging(log_options_of(parsed.values), std::clog);
    for (const std::string& warning : parsed.warnings)
        server::log_event(server::log_level::warning, warning);
    int status = serve(parsed.values, {argv, argv + argc});
    server::stop_logging();
    return status;
} catch (const std::exception& error) {
    server::stop_logging();
    std::cerr << "semantic-server: " + server::start_failure(error) + '\n' << std::flush;
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    server::bound_heaps();
    storage::report_unreadable_pages("semantic-server");
    const int status = run(argc, argv);
    if (status == 0) return status;
    // Skip the exit handlers of libraries: after memory ran out they may hang (OpenBLAS waits there
    // for a thread that cannot get memory).
    std::cout.flush();
    std::_Exit(status);
}
