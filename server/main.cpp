#include <cstdlib>
#include <iostream>
#include <unistd.h>

#include "server/app.hpp"
#include "server/config/config.hpp"
#include "server/config/model_path.hpp"
#include "server/runtime/descriptors.hpp"
#include "server/runtime/logging.hpp"
#include "server/runtime/start_failure.hpp"
#include "server/runtime/version.hpp"

namespace {

using namespace semantic;

/// What --model names, else the embedded model.
storage::result<server::found_model> find_model(const server::config& settings, const char* argv0) {
    std::string named = settings.model;
    if (named.empty()) named = server::find_embedded_model(server::executable_path(argv0));
    if (named.empty())
        return storage::failure{
            storage::errc::not_found,
            "the embedded model is not beside this program; name one with --model"};
    return server::find_model(named, server::model_places::of_environment());
}

int serve(const server::config& settings, const char* argv0) {
    const char* home = std::getenv("HOME");
    auto model = find_model(settings, argv0);
    if (!model) throw std::runtime_error(model.error().what);
    engine::engine_options engine_options =
        server::make_engine_options(settings, std::move(model->path), home == nullptr ? "" : home);
    engine_options.model_id = std::move(model->id);
    engine_options.on_warning = [](std::string what) {
        server::log_event(server::log_level::warning, what);
    };
    server::app_options options;
    options.settings = settings;
    options.settings.max_connections = server::make_room_for_connections(settings.max_connections);
    if (options.settings.max_connections < settings.max_connections)
        server::log_event(server::log_level::warning,
                          "this process may not open enough files for --max-connections " +
                              std::to_string(settings.max_connections) + ": it takes " +
                              std::to_string(options.settings.max_connections) +
                              " (raise the limit with ulimit -n)");
    options.cache_directory = engine_options.cache_directory;
    options.load = [&](const auto& progress) {
        return engine::load_engine(engine_options, progress);
    };
    options.out = &std::cout;
    options.err = &std::cerr;
    options.show_progress = isatty(STDERR_FILENO) != 0;
    server::app app(std::move(options));
    return app.run();
}

int run(int argc, char** argv) try {
    server::parsed_config parsed = server::parse_config({argv + 1, argv + argc});
    if (parsed.action == server::config_action::help) return std::cout << server::help_text(), 0;
    if (parsed.action == server::config_action::version)
        return std::cout << "semantic-server " << server::server_version << "\n", 0;
    if (parsed.action == server::config_action::print_config)
        return std::cout << server::print_config(parsed), 0;
    server::start_logging(parsed.values.log_from, std::clog);
    for (const std::string& warning : parsed.warnings)
        server::log_event(server::log_level::warning, warning);
    int status = serve(parsed.values, argv[0]);
    server::stop_logging();
    return status;
} catch (const std::exception& error) {
    server::stop_logging();
    std::cerr << "semantic-server: " << server::start_failure(error) << std::endl;
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    const int status = run(argc, argv);
    if (status == 0) return status;
    // What failed for want of memory may fail for ever in the exit handlers of libraries: OpenBLAS
    // waits there for a thread that asks for memory until it gets some.
    std::cout.flush();
    std::_Exit(status);
}
