// SPDX-License-Identifier: Apache-2.0
// Requests that have their models loaded: who waits, in which order, how long, and what becomes of
// those whose model does not come.

#include <gtest/gtest.h>

#include <future>
#include <map>
#include <mutex>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::answer_with;
using tests::get;
using tests::http_client;
using tests::http_reply;
using tests::post;
using tests::scripted_engine;

/// Loads "a", "b" and "c" as scripted engines, which answer at once unless they are held.
struct three_loads {
    std::mutex mutex;
    std::map<std::string, std::string> faults;
    std::map<std::string, bool> is_held;
    std::map<std::string, scripted_engine*> engines;  // gone when another model is loaded
    std::map<std::string, int> asked;                 // requests to those that are not held
    std::string order;                                // of loads
    milliseconds takes{0};

    storage::result<std::unique_ptr<engine::engine>> load(std::size_t model) {
        const std::string name(1, static_cast<char>('a' + model));
        std::this_thread::sleep_for(takes);
        std::lock_guard lock(mutex);
        order += name;
        if (auto fault = faults.find(name); fault != faults.end())
            return storage::failure{storage::errc::corrupt, fault->second};
        auto made = std::make_unique<scripted_engine>(name);
        if (!is_held[name])
            made->on_submit = [this, name, answer = answer_with({"hi"})](scripted_engine& engine,
                                                                         engine::request_id id) {
                {
                    std::lock_guard count_lock(mutex);
                    ++asked[name];
                }
                answer(engine, id);
            };
        engines[name] = made.get();
        return std::unique_ptr<engine::engine>(std::move(made));
    }
};

class auto_swap : public ::testing::Test {
  protected:
    auto_swap() {
        options_ = test_server::default_options();
        options_.models = registry({{"a"}, {"b", {"haiku"}}, {"c"}}, 0);
        options_.settings.auto_swap = true;
        options_.settings.model_turn = seconds(1);
        options_.settings.shutdown_grace = seconds(0);
        options_.load = [loads = loads_](std::size_t model, const auto&) {
            return loads->load(model);
        };
    }
    void start() {
        server_ = std::make_unique<test_server>(std::move(options_));
        server_->ready();
    }
    static std::string message(const std::string& model, const std::string& path = "/v1/messages") {
        return post(path,
                    R"({"max_tokens":9,"messages":[{"role":"user","content":"x"}],"model":")" +
                        model + "\"}");
    }
    http_reply ask(const std::string& bytes) {
        http_client client(server_->port());
        return client.request(bytes);
    }
    std::future<http_reply> begin(const std::string& model) {
        return std::async(std::launch::async, [this, model] { return ask(message(model)); });
    }
    /// Waits until so many are in line.
    bool has_waiting(int count) {
        const std::string line = "\nsemantic_model_waiting " + std::to_string(count) + "\n";
        for (int i = 0; i < 500; ++i) {
            if (has(ask(get("/metrics")), line)) return true;
            std::this_thread::sleep_for(milliseconds(5));
        }
        return false;
    }
    static bool has(const http_reply& reply, const std::string& text) {
        return reply.body.find(text) != std::string::npos;
    }
    std::string order() {
        std::lock_guard lock(loads_->mutex);
        return loads_->order;
    }

    int asked(const std::string& model) {
        std::lock_guard lock(loads_->mutex);
        return loads_->asked[model];
    }

    std::shared_ptr<three_loads> loads_ = std::make_shared<three_loads>();
    app_options options_;
    std::unique_ptr<test_server> server_;
};

TEST_F(auto_swap, a_request_has_its_model_loaded_in_every_dialect) {
    start();
    for (const char* path : {"/v1/messages", "/v1/chat/completions"}) {
        EXPECT_EQ(ask(message("haiku", path)).status, 200);
        EXPECT_TRUE(has(ask(get("/admin/models/current")), R"("model_id":"b")"));
        EXPECT_EQ(ask(message("claude-opus", path)).status, 200) << "means what is loaded";
        EXPECT_TRUE(has(ask(get("/admin/models/current")), R"("model_id":"b")"));
        EXPECT_EQ(ask(message("a", path)).status, 200);
    }
    EXPECT_EQ(ask(post("/v1/responses", R"({"model":"c","input":"x"})")).status, 200);
    EXPECT_EQ(ask(post("/v1/messages/count_tokens",
                       R"({"model":"b","messages":[{"role":"user","content":"x"}]})"))
                  .status,
              200);
    EXPECT_EQ(order(), "ababacb");
}

TEST_F(auto_swap, those_who_wait_for_one_model_are_served_together_and_in_order) {
    loads_->is_held["a"] = true;
    start();
    auto busy = begin("a");
    scripted_engine& engine = *loads_->engines["a"];
    const auto id = engine.wait_for_request(1);
    auto second = begin("c");
    ASSERT_TRUE(has_waiting(1));
    auto first = begin("b");
    ASSERT_TRUE(has_waiting(2));
    auto third = begin("c");
    ASSERT_TRUE(has_waiting(3));
    engine.admit(id);
    engine.finish(id);
    for (auto* each : {&busy, &first, &second, &third}) EXPECT_EQ(each->get().status, 200);
    EXPECT_EQ(order(), "acb") << "c was asked for first, and both of its requests at once";
    EXPECT_EQ(asked("c"), 3) << "with its proof";
}

TEST_F(auto_swap, a_model_that_others_wait_beside_takes_no_more_requests_after_its_turn) {
    loads_->is_held["a"] = true;
    start();
    auto busy = begin("a");
    scripted_engine& engine = *loads_->engines["a"];
    const auto id = engine.wait_for_request(1);
    auto other = begin("b");
    ASSERT_TRUE(has_waiting(1));
    auto still = begin("a");
    engine.wait_for_request(2);  // within the turn
    std::this_thread::sleep_for(milliseconds(1100));
    auto late = begin("a");
    ASSERT_TRUE(has_waiting(2));
    EXPECT_EQ(engine.request_count(), 2u);
    loads_->is_held["a"] = false;
    engine.admit(id);
    engine.finish(id);
    EXPECT_EQ(busy.get().status, 200);
    http_reply cut = still.get();
    EXPECT_EQ(cut.status, 503) << "it had another turn's time to end";
    EXPECT_TRUE(cut.fields.contains("retry-after"));
    EXPECT_EQ(other.get().status, 200);
    EXPECT_EQ(late.get().status, 200);
    EXPECT_EQ(order(), "aba");
}

// Goal: large requests that wait for a model do not keep everybody's large bodies out.
TEST_F(auto_swap, large_bodies_that_wait_for_their_model_take_half_of_the_room) {
    loads_->is_held["a"] = true;
    options_.settings.model_turn = seconds(60);
    options_.settings.body_limit_mb = 1;
    options_.limits.bodies_at_once = 2;
    start();
    const auto large = [](const std::string& model) {
        return post("/v1/messages", R"({"max_tokens":9,"messages":[{"role":"user","content":")" +
                                        std::string(900'000, 'x') + R"("}],"model":")" + model +
                                        "\"}");
    };
    auto busy = begin("a");
    loads_->engines["a"]->wait_for_request(1);
    http_client waiting(server_->port());
    waiting.send(large("b"));
    ASSERT_TRUE(has_waiting(1));
    const http_reply refused = ask(large("b"));
    EXPECT_EQ(refused.status, 529);
    EXPECT_TRUE(refused.fields.contains("retry-after"));
    EXPECT_TRUE(has(refused, "wait for their model")) << refused.body;
    http_client small(server_->port());
    small.send(message("b"));
    EXPECT_TRUE(has_waiting(2));
    EXPECT_EQ(
        ask(post("/api/show", R"({"model":"a","x":")" + std::string(900'000, 'x') + "\"}")).status,
        200)
        << "others are read";
    server_->begin_stop();
    EXPECT_EQ(waiting.read_reply().status, 503);
}

TEST_F(auto_swap, a_request_waits_no_longer_than_it_may) {
    loads_->is_held["a"] = true;
    options_.settings.model_wait = seconds(1);
    options_.settings.model_turn = seconds(60);
    start();
    auto busy = begin("a");
    loads_->engines["a"]->wait_for_request(1);
    http_reply late = ask(message("b"));
    EXPECT_EQ(late.status, 529);
    EXPECT_TRUE(late.fields.contains("retry-after"));
    EXPECT_TRUE(has(late, "b was not loaded within 1 s")) << late.body;
    EXPECT_TRUE(has_waiting(0));
}

TEST_F(auto_swap, the_line_has_an_end) {
    loads_->is_held["a"] = true;
    options_.settings.max_queued = 2;
    options_.settings.model_turn = seconds(60);
    start();
    auto busy = begin("a");
    scripted_engine& engine = *loads_->engines["a"];
    const auto id = engine.wait_for_request(1);
    auto one = begin("b");
    auto two = begin("b");
    ASSERT_TRUE(has_waiting(2));
    http_reply refused = ask(message("c"));
    EXPECT_EQ(refused.status, 529);
    EXPECT_TRUE(has(refused, "2 requests wait for a model already")) << refused.body;
    engine.admit(id);
    engine.finish(id);
    EXPECT_EQ(one.get().status, 200);
    EXPECT_EQ(two.get().status, 200);
}

TEST_F(auto_swap, a_client_that_leaves_the_line_is_forgotten) {
    loads_->is_held["a"] = true;
    options_.settings.model_turn = seconds(60);
    start();
    auto busy = begin("a");
    scripted_engine& engine = *loads_->engines["a"];
    const auto id = engine.wait_for_request(1);
    {
        http_client leaving(server_->port());
        leaving.send(message("b"));
        ASSERT_TRUE(has_waiting(1));
    }
    EXPECT_TRUE(has_waiting(0));
    engine.admit(id);
    engine.finish(id);
    EXPECT_EQ(busy.get().status, 200);
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(order(), "a") << "nothing is loaded for nobody";
}

TEST_F(auto_swap, a_model_that_does_not_load_is_told_to_all_who_wait_and_not_tried_again_at_once) {
    start();
    loads_->faults["b"] = "tensor 3 is torn";
    loads_->takes = milliseconds(200);
    auto one = begin("b");
    auto two = begin("haiku");
    for (auto* each : {&one, &two}) {
        http_reply told = each->get();
        EXPECT_EQ(told.status, 529);
        EXPECT_TRUE(told.fields.contains("retry-after"));
        EXPECT_TRUE(has(told, "b is not loaded: tensor 3 is torn")) << told.body;
    }
    EXPECT_EQ(ask(message("b")).status, 529);
    EXPECT_EQ(ask(message("a")).status, 200);
    EXPECT_EQ(order(), "aba") << "a came back, and b was not tried again";
}

TEST_F(auto_swap, when_nothing_is_loaded_any_more_all_are_told_and_the_next_request_tries_again) {
    start();
    loads_->faults = {{"a", "gone"}, {"b", "torn"}};
    EXPECT_EQ(ask(message("b")).status, 529);
    http_reply told = ask(message("unknown"));
    EXPECT_EQ(told.status, 529);
    EXPECT_TRUE(has(told, "gone")) << told.body;
    loads_->faults.clear();
    EXPECT_EQ(ask(message("c")).status, 200);
}

TEST_F(auto_swap, requests_without_a_model_wait_until_there_is_one) {
    loads_->takes = milliseconds(300);
    start();
    auto other = begin("b");
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(ask(get("/v1/agents")).status, 200);
    EXPECT_EQ(other.get().status, 200);
}

TEST_F(auto_swap, a_model_without_requests_is_unloaded_and_comes_back_with_the_next_one) {
    options_.settings.model_ttl = seconds(1);
    start();
    bool is_gone = false;
    for (int i = 0; i < 500 && !is_gone; ++i) {
        std::this_thread::sleep_for(milliseconds(10));
        is_gone = has(ask(get("/health/ready")), R"("model":null)");
    }
    EXPECT_TRUE(is_gone) << "probes do not keep it";
    EXPECT_EQ(ask(get("/health/ready")).status, 200) << "who asks is served";
    EXPECT_EQ(ask(message("unknown")).status, 200);
    EXPECT_EQ(order(), "aa");
}

TEST_F(auto_swap, a_stop_tells_those_in_line) {
    loads_->is_held["a"] = true;
    options_.settings.model_turn = seconds(60);
    start();
    auto busy = begin("a");
    loads_->engines["a"]->wait_for_request(1);
    auto waiting = begin("b");
    ASSERT_TRUE(has_waiting(1));
    server_->begin_stop();
    http_reply told = waiting.get();
    EXPECT_EQ(told.status, 503);
    EXPECT_TRUE(has(told, "shutting down")) << told.body;
    EXPECT_TRUE(server_->has_ended_within(seconds(10)));
}

}  // namespace
}  // namespace semantic::server
