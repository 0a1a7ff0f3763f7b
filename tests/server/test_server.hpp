// SPDX-License-Identifier: Apache-2.0
#pragma once
// A whole server in this process, on a port of its own, with a scripted engine.

#include <future>
#include <memory>
#include <string>
#include <thread>

#include "server/app.hpp"
#include "tests/support/http_client.hpp"
#include "tests/support/scripted_engine.hpp"

namespace semantic::server {

class test_server {
  public:
    static app_options default_options() {
        app_options options;
        options.settings.port = 0;
        options.handle_signals = false;
        options.models = registry({{"scripted"}}, 0);
        return options;
    }

    /// `load` is replaced by one that hands out a scripted engine at once, unless it is set.
    explicit test_server(app_options options = default_options()) {
        auto made = std::make_unique<tests::scripted_engine>();
        engine_ = made.get();
        if (!options.load)
            options.load =
                [held = std::make_shared<std::unique_ptr<engine::engine>>(std::move(made))](
                    std::size_t, const auto&) -> storage::result<std::unique_ptr<engine::engine>> {
                return std::move(*held);
            };
        else
            unused_ = std::move(made);
        app_ = std::make_unique<app>(std::move(options));
        status_ = std::async(std::launch::async, [this] { return app_->run(); });
    }
    ~test_server() {
        if (status_.valid()) stop();
    }
    test_server(const test_server&) = delete;
    test_server& operator=(const test_server&) = delete;

    /// Stops and waits. Returns: the exit status.
    int stop() {
        app_->stop();
        return status_.get();
    }
    int wait() { return status_.get(); }
    /// Returns when the server has begun to stop: nobody can connect any more.
    void begin_stop() {
        app_->stop();
        for (int i = 0; i < 2000; ++i) {
            try {
                tests::http_client late(port());
            } catch (const std::runtime_error&) {
                return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        throw std::runtime_error("the server did not begin to stop");
    }
    void reload() { app_->reload(); }
    bool has_ended_within(std::chrono::milliseconds time) {
        return status_.wait_for(time) == std::future_status::ready;
    }
    std::uint16_t port() const { return app_->port(); }
    tests::scripted_engine& engine() { return *engine_; }

    /// Waits until the model is there.
    test_server& ready() {
        for (int i = 0; i < 500; ++i) {
            tests::http_client client(port());
            if (client.request(tests::get("/health/startup")).status == 200) return *this;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        throw std::runtime_error("the server did not get ready");
    }

  private:
    std::unique_ptr<tests::scripted_engine> unused_;
    tests::scripted_engine* engine_ = nullptr;
    std::unique_ptr<app> app_;
    std::future<int> status_;
};

/// A Messages request that the parser takes.
inline std::string message_body(bool stream, const std::string& text = "hi") {
    return R"({"model":"scripted","max_tokens":64,"stream":)" +
           std::string(stream ? "true" : "false") + R"(,"messages":[{"role":"user","content":")" +
           text + R"("}]})";
}

}  // namespace semantic::server
