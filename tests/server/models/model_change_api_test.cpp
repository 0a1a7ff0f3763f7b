// SPDX-License-Identifier: Apache-2.0
// Several models over real sockets: which one a request means, and how one takes the other's place.

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::answer_with;
using tests::get;
using tests::http_client;
using tests::http_reply;
using tests::post;
using tests::scripted_engine;

/// Loads "a" (also called gpt-5) and "b" (also called haiku) as scripted engines.
struct two_loads {
    std::mutex mutex;
    std::map<std::string, std::string> faults;
    std::map<std::string, std::shared_future<void>> gates;  // a load waits there
    std::map<std::string, scripted_engine*> engines;        // the last one of each
    bool answers = true;

    storage::result<std::unique_ptr<engine::engine>> load(std::size_t model) {
        const std::string name = model == 0 ? "a" : "b";
        std::unique_lock lock(mutex);
        if (auto gate = gates.find(name); gate != gates.end()) {
            auto open = gate->second;
            lock.unlock();
            open.wait();
            lock.lock();
        }
        if (auto fault = faults.find(name); fault != faults.end())
            return storage::failure{storage::errc::corrupt, fault->second};
        auto made = std::make_unique<scripted_engine>(name);
        if (answers) made->on_submit = answer_with({"hi"});
        engines[name] = made.get();
        return std::unique_ptr<engine::engine>(std::move(made));
    }
};

app_options options_of(const std::shared_ptr<two_loads>& loads) {
    app_options options = test_server::default_options();
    options.models = registry({{"a", {"gpt-5"}}, {"b", {"haiku"}}}, 0);
    options.load = [loads](std::size_t model, const auto&) { return loads->load(model); };
    return options;
}

class model_change : public ::testing::Test {
  protected:
    void start(bool strict = false) {
        app_options options = options_of(loads_);
        options.settings.strict_model_names = strict;
        server_ = std::make_unique<test_server>(std::move(options));
        server_->ready();
    }
    http_reply ask(const std::string& bytes) {
        http_client client(server_->port());
        return client.request(bytes);
    }
    http_reply message(const std::string& model, const char* path = "/v1/messages") {
        return ask(
            post(path, R"({"model":")" + model +
                           R"(","max_tokens":9,"messages":[{"role":"user","content":"x"}]})"));
    }
    http_reply swap(const std::string& model, const std::string& more = "") {
        return ask(post("/admin/models/swap", R"({"model":")" + model + "\"" + more + "}"));
    }
    static bool has(const http_reply& reply, const std::string& text) {
        return reply.body.find(text) != std::string::npos;
    }
    /// Waits until /health/ready says so.
    bool sees(const std::string& text) {
        for (int i = 0; i < 500; ++i) {
            if (has(ask(get("/health/ready")), text)) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return false;
    }

    std::shared_ptr<two_loads> loads_ = std::make_shared<two_loads>();
    std::unique_ptr<test_server> server_;
};

TEST_F(model_change, are_both_listed_with_their_state_and_found_by_alias) {
    start();
    http_reply all = ask(get("/v1/models"));
    EXPECT_TRUE(has(all, R"("id":"a")") && has(all, R"("state":"loaded","aliases":["gpt-5"])"))
        << all.body;
    EXPECT_TRUE(has(all, R"("id":"b")") && has(all, R"("state":"available","aliases":["haiku"])"));
    EXPECT_TRUE(has(ask(get("/v1/models/haiku")), R"("id":"b")"));
    EXPECT_EQ(ask(get("/v1/models/c")).status, 404);
    EXPECT_EQ(ask(get("/admin/models/available")).body, R"({"models":["a","b"]})");
    EXPECT_TRUE(has(ask(get("/admin/models/current")), R"("model_id":"a")"));
}

TEST_F(model_change, a_request_for_one_that_is_not_loaded_is_told_what_loads_it_in_its_dialect) {
    start();
    for (const char* path : {"/v1/messages", "/v1/chat/completions"}) {
        EXPECT_EQ(message("a", path).status, 200);
        EXPECT_EQ(message("gpt-5", path).status, 200);
        EXPECT_EQ(message("claude-opus", path).status, 200) << "clients send any name";
        for (const char* name : {"b", "haiku"}) {
            http_reply refused = message(name, path);
            EXPECT_EQ(refused.status, 404) << path;
            EXPECT_TRUE(has(refused, R"(POST /admin/models/swap {\"model_id\": \"b\"})"))
                << refused.body;
            EXPECT_TRUE(has(refused, "model_not_loaded"));
        }
    }
    EXPECT_EQ(loads_->engines["a"]->request_count(), 6u);
}

TEST_F(model_change, names_that_nobody_knows_are_refused_when_names_are_strict) {
    start(true);
    EXPECT_EQ(message("gpt-5").status, 200);
    http_reply refused = message("claude-opus");
    EXPECT_EQ(refused.status, 404);
    EXPECT_TRUE(has(refused, "knows a, b")) << refused.body;
}

TEST_F(model_change, one_takes_the_others_place_and_back) {
    start();
    http_reply done = swap("haiku");
    EXPECT_EQ(done.status, 200) << done.body;
    EXPECT_TRUE(has(done, R"("old_model_id":"a","new_model_id":"b")")) << done.body;
    EXPECT_TRUE(has(ask(get("/admin/models/current")), R"("model_id":"b")"));
    EXPECT_TRUE(has(ask(get("/v1/models/a")), R"("state":"available")"));
    EXPECT_EQ(message("b").status, 200);
    EXPECT_EQ(message("claude-opus").status, 200) << "such names mean what is loaded";
    EXPECT_EQ(message("a").status, 404);
    EXPECT_EQ(swap("a").status, 200);
    EXPECT_EQ(message("a").status, 200);
    EXPECT_TRUE(has(swap("gpt-5"), "loaded already"));
}

TEST_F(model_change, a_swap_for_nonsense_changes_nothing) {
    start();
    http_reply unknown = swap("c");
    EXPECT_EQ(unknown.status, 404);
    EXPECT_TRUE(has(unknown, "knows a, b")) << unknown.body;
    EXPECT_EQ(swap("b", R"(,"timeout_seconds":301)").status, 400);
    EXPECT_EQ(swap("").status, 400);
    EXPECT_EQ(ask(post("/admin/models/swap", "{")).status, 400);
    EXPECT_TRUE(has(ask(get("/health/ready")), R"("status":"ready","model":"a")"));
}

TEST_F(model_change, one_is_unloaded_and_loaded_again_by_request) {
    start();
    EXPECT_EQ(ask(post("/admin/models/unload", R"({"model_id":"b"})")).status, 409);
    EXPECT_EQ(ask(post("/admin/models/load", R"({"model_id":"b"})")).status, 409);
    http_reply done = ask(post("/admin/models/unload", R"({"model_id":"a"})"));
    EXPECT_EQ(done.status, 200) << done.body;
    EXPECT_TRUE(has(done, R"("model_id":"a","message":"a is unloaded")")) << done.body;
    EXPECT_TRUE(has(ask(get("/v1/models/a")), R"("state":"available")"));
    EXPECT_TRUE(has(ask(get("/admin/models/current")), R"("model_id":null)"));
    EXPECT_EQ(ask(get("/health/ready")).status, 503);
    EXPECT_EQ(ask(get("/metrics")).status, 200);
    http_reply refused = message("a");
    EXPECT_EQ(refused.status, 503);
    EXPECT_TRUE(has(refused, "POST /admin/models/load loads one")) << refused.body;
    EXPECT_EQ(ask(post("/admin/models/unload", "")).status, 200) << "there is none already";
    done = ask(post("/admin/models/load", R"({"model_id":"b"})"));
    EXPECT_TRUE(has(done, R"("message":"b is loaded")")) << done.body;
    EXPECT_EQ(message("b").status, 200);
    EXPECT_EQ(ask(post("/admin/models/offload", "")).status, 200) << "the earlier system's name";
    EXPECT_EQ(swap("a").status, 200) << "a swap loads, too";
    EXPECT_EQ(message("a").status, 200);
}

// Method: somebody loads the model again at once, so that the slot is seldom seen empty.
TEST_F(model_change, one_is_unloaded_although_it_is_back_before_anybody_looks) {
    start();
    std::atomic<bool> over{false};
    std::thread loads([&] {
        while (!over.load()) ask(post("/admin/models/load", R"({"model_id":"a"})"));
    });
    for (int i = 0; i < 20; ++i) {
        http_reply done = ask(post("/admin/models/unload", R"({"model_id":"a"})"));
        const bool is_loading = done.status == 409;
        EXPECT_TRUE(done.status == 200 || is_loading) << done.body;
        if (is_loading) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    over = true;
    loads.join();
}

TEST_F(model_change, one_whose_agents_cannot_be_saved_is_not_unloaded) {
    start();
    loads_->engines["a"]->usage.agents_dirty = 1;
    http_reply kept = ask(post("/admin/models/unload", R"({"timeout_seconds":1})"));
    EXPECT_EQ(kept.status, 500);
    EXPECT_TRUE(has(kept, "could not be saved")) << kept.body;
    EXPECT_EQ(message("a").status, 200);
}

TEST_F(model_change, a_running_answer_ends_while_new_requests_are_told_to_come_back) {
    loads_->answers = false;
    start();
    http_client busy(server_->port());
    busy.send(post("/v1/messages", message_body(true)));
    scripted_engine& engine = *loads_->engines["a"];
    const auto id = engine.wait_for_request(1);
    engine.admit(id);
    EXPECT_EQ(busy.read_head().status, 200);
    loads_->answers = true;  // b's
    http_client admin(server_->port());
    admin.send(post("/admin/models/swap", R"({"model":"b","timeout_seconds":60})"));
    ASSERT_TRUE(sees(R"("phase":"draining","model":"a","target":"b")"));
    EXPECT_EQ(ask(get("/health/ready")).status, 503);
    EXPECT_EQ(ask(get("/health/startup")).status, 200) << "it has started long ago";
    for (const char* path : {"/v1/messages", "/v1/chat/completions", "/v1/agents/x/generate"}) {
        http_reply refused = message("a", path);
        EXPECT_EQ(refused.status, 503) << path;
        EXPECT_TRUE(refused.fields.contains("retry-after"));
        EXPECT_TRUE(has(refused, "the model is being changed to b (draining)")) << refused.body;
    }
    EXPECT_TRUE(has(ask(get("/v1/models/b")), R"("state":"loading")"));
    EXPECT_EQ(swap("b").status, 409) << "one exchange at a time";
    engine.say(id, "last words");
    engine.finish(id);
    std::string rest;
    for (std::string piece = busy.read_chunk(); !piece.empty(); piece = busy.read_chunk())
        rest += piece;
    EXPECT_NE(rest.find("last words"), std::string::npos);
    EXPECT_NE(rest.find("message_stop"), std::string::npos);
    EXPECT_EQ(admin.read_reply().status, 200);
    EXPECT_EQ(busy.request(post("/v1/messages", message_body(false))).status, 200)
        << "the connection serves on, with the other model";
}

TEST_F(model_change, answers_beyond_the_drain_are_cut_and_told_so) {
    loads_->answers = false;
    start();
    http_client stream(server_->port());
    stream.send(post("/v1/messages", message_body(true)));
    http_client plain(server_->port());
    plain.send(post("/v1/chat/completions",
                    R"({"model":"x","messages":[{"role":"user","content":"x"}]})"));
    scripted_engine& engine = *loads_->engines["a"];
    engine.wait_for_request(2);
    engine.admit(1);
    engine.admit(2);
    loads_->answers = true;
    EXPECT_EQ(swap("b", R"(,"timeout_seconds":1)").status, 200);
    http_reply cut = plain.read_reply();
    http_reply streamed = stream.read_reply();
    http_reply& told = cut.status == 200 ? streamed : cut;
    EXPECT_EQ(told.status, 503) << told.body;
    EXPECT_TRUE(told.fields.contains("retry-after")) << told.body;
    EXPECT_TRUE(has(streamed, "event: error") || has(cut, "event: error"));
}

TEST_F(model_change, a_client_that_holds_its_answer_up_is_cut_off_in_the_end) {
    start();
    // Its file is never sent to the end, and the engine is needed until it is.
    http_client slow(server_->port());
    slow.send(
        "PUT /v1/agents/x/cache HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\nab");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    http_reply done = swap("b", R"(,"timeout_seconds":1)");
    EXPECT_EQ(done.status, 200) << done.body;
    EXPECT_TRUE(slow.is_closed_by_server());
}

TEST_F(model_change, the_phases_come_as_events) {
    start();
    http_reply events = swap("b", R"(,"stream":true)");
    EXPECT_EQ(events.status, 200);
    // Each one, however short.
    for (const char* phase : {"draining", "saving", "releasing", "loading", "verifying", "ready"})
        EXPECT_TRUE(has(events, std::string("event: phase\ndata: {\"phase\":\"") + phase))
            << phase << " in " << events.body;
    EXPECT_TRUE(has(events, "event: phase\ndata: {\"phase\":\"ready\",\"model\":\"b\"}"))
        << events.body;
    EXPECT_TRUE(has(events, "event: swapped\ndata: {\"status\":\"success\",\"old_model_id\":\"a\""))
        << events.body;
    loads_->faults["a"] = "torn";
    events = swap("a", R"(,"stream":true)");
    EXPECT_TRUE(has(events, "event: error\n")) << events.body;
    EXPECT_TRUE(has(events, "a is not loaded: torn. b runs")) << events.body;
}

TEST_F(model_change, a_load_that_fails_brings_the_former_model_back_and_says_why) {
    start();
    loads_->faults["b"] = "tensor 3 is torn";
    http_reply failed = swap("b");
    EXPECT_EQ(failed.status, 500);
    EXPECT_TRUE(has(failed, "b is not loaded: tensor 3 is torn. a runs")) << failed.body;
    EXPECT_EQ(message("a").status, 200);
    EXPECT_TRUE(has(ask(get("/health/ready")), R"("last_change_failed":"tensor 3 is torn")"));
    EXPECT_TRUE(
        has(ask(get("/v1/models/b")), R"("state":"failed","state_reason":"tensor 3 is torn")"));
    loads_->faults.clear();
    EXPECT_EQ(swap("b").status, 200) << "and may be tried again";
    EXPECT_FALSE(has(ask(get("/health/ready")), "last_change_failed"));
}

TEST_F(model_change, when_nothing_comes_back_the_server_says_so_and_can_be_asked_again) {
    start();
    loads_->faults = {{"a", "gone"}, {"b", "torn"}};
    http_reply failed = swap("b");
    EXPECT_EQ(failed.status, 500);
    EXPECT_TRUE(has(failed, "torn; gone. No model runs")) << failed.body;
    http_reply ready = ask(get("/health/ready"));
    EXPECT_EQ(ready.status, 503);
    EXPECT_EQ(ready.body, R"({"status":"failed","reason":"no_model","why":"torn; gone"})");
    http_reply refused = message("a");
    EXPECT_EQ(refused.status, 503);
    EXPECT_TRUE(has(refused, "no model is loaded: torn; gone")) << refused.body;
    EXPECT_EQ(ask(get("/metrics")).status, 200);
    loads_->faults.clear();
    EXPECT_EQ(swap("a").status, 200);
    EXPECT_EQ(message("a").status, 200);
}

TEST_F(model_change, a_stop_during_the_drain_of_a_swap_ends_in_time) {
    loads_->answers = false;
    app_options options = options_of(loads_);
    options.settings.shutdown_grace = std::chrono::seconds(0);
    server_ = std::make_unique<test_server>(std::move(options));
    server_->ready();
    http_client busy(server_->port());
    busy.send(post("/v1/messages", message_body(true)));
    scripted_engine& engine = *loads_->engines["a"];
    engine.admit(engine.wait_for_request(1));
    http_client admin(server_->port());
    admin.send(post("/admin/models/swap", R"({"model":"b","timeout_seconds":300})"));
    ASSERT_TRUE(sees(R"("phase":"draining")"));
    server_->begin_stop();
    EXPECT_TRUE(server_->has_ended_within(std::chrono::seconds(10)));
    EXPECT_EQ(loads_->engines.count("b"), 0u) << "nothing is loaded any more";
}

/// In a process of its own, which has to leave by itself.
class stop_while_changing_DeathTest : public ::testing::Test {
  protected:
    stop_while_changing_DeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void stop_during_a_load_of_b(bool proves) {
    auto loads = std::make_shared<two_loads>();
    app_options options = options_of(loads);
    options.handle_signals = true;
    test_server server(std::move(options));
    server.ready();
    std::promise<void> never;
    if (!proves) loads->gates["b"] = never.get_future().share();
    loads->answers = false;  // b's proof never ends
    http_client admin(server.port());
    admin.send(post("/admin/models/swap", R"({"model":"b"})"));
    const std::string phase = proves ? "verifying" : "loading";
    for (bool is_there = false; !is_there;) {
        http_client probe(server.port());
        const auto ready = probe.request(get("/health/ready"));
        is_there = ready.body.find("\"phase\":\"" + phase) != std::string::npos;
    }
    kill(getpid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::seconds(5));
    std::_Exit(99);
}

TEST_F(stop_while_changing_DeathTest, a_signal_while_the_next_model_loads_ends_the_process) {
    EXPECT_EXIT(stop_during_a_load_of_b(false), ::testing::ExitedWithCode(0), "");
}

TEST_F(stop_while_changing_DeathTest, a_signal_while_the_next_model_is_tried_out_ends_the_process) {
    EXPECT_EXIT(stop_during_a_load_of_b(true), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace semantic::server
