// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/health.hpp"

#include <gtest/gtest.h>

#include "server/runtime/version.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::get;
using tests::http_client;
using tests::post;

/// A loader that waits for the test.
struct held_load {
    std::promise<void> go;
    std::shared_future<void> gone = go.get_future().share();
    std::shared_ptr<std::promise<void>> reported = std::make_shared<std::promise<void>>();
    model_loader loader(storage::errc* fail_with = nullptr) {
        return [gone = gone, reported = reported, fail_with](
                   std::size_t,
                   const auto& progress) -> storage::result<std::unique_ptr<engine::engine>> {
            progress({"reading weights", 0.25, {{"a.safetensors", 0.5}, {"b.safetensors", 1.0}}});
            reported->set_value();
            gone.wait();
            if (fail_with != nullptr) return storage::failure{*fail_with, "no model at /nowhere"};
            return std::unique_ptr<engine::engine>(std::make_unique<tests::scripted_engine>());
        };
    }
};

TEST(health, port_answers_while_the_model_loads) {
    held_load load;
    app_options options = test_server::default_options();
    options.load = load.loader();
    test_server server(std::move(options));
    load.reported->get_future().wait();
    http_client client(server.port());
    EXPECT_EQ(client.request(get("/health/live")).status, 200);
    EXPECT_EQ(client.request(get("/health/ready")).status, 503);
    auto overall = client.request(get("/health"));
    EXPECT_EQ(overall.status, 200);
    EXPECT_TRUE(overall.body.starts_with(R"({"status":"ok","readiness":"starting",)"))
        << overall.body;
    auto startup = client.request(get("/health/startup"));
    EXPECT_EQ(startup.status, 503);
    EXPECT_NE(startup.body.find(R"("reason":"model_loading")"), std::string::npos) << startup.body;
    EXPECT_NE(startup.body.find(R"("files":[{"name":"a.safetensors","fraction":0.5},)"),
              std::string::npos)
        << startup.body;
    auto refused = client.request(post("/v1/messages", message_body(false)));
    EXPECT_EQ(refused.status, 503);
    EXPECT_NE(refused.body.find(R"("type":"error")"), std::string::npos) << refused.body;
    EXPECT_TRUE(refused.fields.contains("retry-after"));
    load.go.set_value();
    server.ready();
    http_client later(server.port());
    EXPECT_EQ(later.request(get("/health/ready")).status, 200);
    EXPECT_EQ(server.stop(), 0);
}

TEST(health, failed_load_ends_the_server_with_one_line) {
    held_load load;
    load.go.set_value();
    auto why = storage::errc::not_found;
    std::ostringstream err;
    app_options options = test_server::default_options();
    options.load = load.loader(&why);
    options.err = &err;
    test_server server(std::move(options));
    EXPECT_EQ(server.wait(), 1);
    EXPECT_EQ(err.str(), "semantic-server: no model at /nowhere\n");
}

TEST(health, terminal_sees_the_progress_and_failure_has_a_line_of_its_own) {
    for (bool is_terminal : {true, false}) {
        held_load load;
        load.go.set_value();
        auto why = storage::errc::not_found;
        std::ostringstream err;
        app_options options = test_server::default_options();
        options.load = load.loader(&why);
        options.err = &err;
        options.show_progress = is_terminal;
        test_server server(std::move(options));
        EXPECT_EQ(server.wait(), 1);
        EXPECT_EQ(err.str(), is_terminal ? "\r\x1b[Kloading: reading weights, 25 %, 1 of 2 files"
                                           "\r\x1b[Ksemantic-server: no model at /nowhere\n"
                                         : "semantic-server: no model at /nowhere\n");
    }
}

TEST(health, progress_is_gone_once_the_model_is_there) {
    std::ostringstream err;
    std::ostringstream out;
    app_options options = test_server::default_options();
    options.load = [](std::size_t,
                      const auto& progress) -> storage::result<std::unique_ptr<engine::engine>> {
        progress({"reading weights", 1.0});
        return std::unique_ptr<engine::engine>(std::make_unique<tests::scripted_engine>());
    };
    options.err = &err;
    options.out = &out;
    options.show_progress = true;
    test_server server(std::move(options));
    server.ready();
    EXPECT_EQ(server.stop(), 0);
    EXPECT_EQ(err.str(), "\r\x1b[Kloading: reading weights, 100 %\r\x1b[K");
    EXPECT_TRUE(out.str().starts_with("semantic-server ")) << out.str();
}

TEST(health, taken_port_is_a_startup_error_that_names_it) {
    test_server first;
    app_options options = test_server::default_options();
    options.settings.port = first.port();
    try {
        app second(std::move(options));
        FAIL() << "two servers on one port";
    } catch (const std::runtime_error& error) {
        EXPECT_NE(std::string(error.what()).find(std::to_string(first.port())), std::string::npos);
    }
}

TEST(health, overall_state_is_always_ok_and_says_how_ready_the_server_is) {
    test_server server;
    server.ready();
    http_client client(server.port());
    auto idle = client.request(get("/health"));
    EXPECT_EQ(idle.status, 200);
    EXPECT_TRUE(idle.body.starts_with(R"({"status":"ok","readiness":"ready","model":"scripted")"))
        << idle.body;
    server.engine().usage = {.frames_total = 100,
                             .frames_held = 100,
                             .frame_bytes = 4096,
                             .agents_hot = 3,
                             .agents_dirty = 3};
    EXPECT_EQ(client.request(get("/health/ready")).status, 503);
    auto full = client.request(get("/health"));
    EXPECT_EQ(full.status, 200);
    EXPECT_TRUE(full.body.starts_with(R"({"status":"ok","readiness":"busy",)")) << full.body;
    EXPECT_EQ(client.request(get("/health/live")).body, R"({"status":"alive"})");
}

TEST(health, full_pool_is_not_ready_only_when_nothing_can_be_evicted) {
    const auto pool_of = [](std::uint64_t held, std::uint64_t by_others, std::uint64_t dirty) {
        return engine::pool_usage{.frames_total = 100,
                                  .frames_held = held,
                                  .frames_held_by_others = by_others,
                                  .frame_bytes = 1,
                                  .agents_hot = 3,
                                  .agents_dirty = dirty};
    };
    EXPECT_FALSE(is_pool_exhausted(pool_of(95, 0, 3), 0));  // a twentieth is free
    EXPECT_TRUE(is_pool_exhausted(pool_of(96, 0, 3), 0));   // everything is dirty
    EXPECT_FALSE(is_pool_exhausted(pool_of(96, 0, 2), 0));  // one clean agent
    EXPECT_TRUE(is_pool_exhausted(pool_of(96, 0, 2), 1));   // which is the one that runs
    EXPECT_TRUE(is_pool_exhausted(pool_of(36, 60, 3), 0));  // others have the rest
}

TEST(health, root_names_the_server_and_its_endpoints) {
    test_server server;
    server.ready();
    http_client client(server.port());
    auto root = client.request(get("/"));
    EXPECT_EQ(root.status, 200);
    EXPECT_NE(root.body.find("POST /v1/messages"), std::string::npos);
    EXPECT_NE(root.body.find(std::string(server_version)), std::string::npos);
}

TEST(health, tells_what_the_memory_takes_on_disk) {
    test_server server;
    server.ready();
    http_client client(server.port());
    auto overall = client.request(get("/health"));
    EXPECT_NE(overall.body.find(R"("disk":{"bytes":0,"budget_bytes":0,"saves_out_of_space":0})"),
              std::string::npos)
        << overall.body;
}

}  // namespace
}  // namespace semantic::server
