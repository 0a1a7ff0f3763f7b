// SPDX-License-Identifier: Apache-2.0
// Several models loaded at once: who answers, where a model is loaded, and what is said of them.

#include <gtest/gtest.h>

#include <future>
#include <map>
#include <mutex>
#include <thread>

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

/// Loads "a", "b", "c" and "d" as scripted engines, which answer at once unless they are held.
struct four_loads {
    std::mutex mutex;
    std::map<std::string, bool> is_held;
    std::map<std::string, scripted_engine*> engines;
    std::map<std::string, std::string> faults;
    std::string order;                  // of loads
    std::vector<std::size_t> loaded{};  // what the last load got as loaded

    storage::result<std::unique_ptr<engine::engine>> load(std::size_t model,
                                                          const std::vector<std::size_t>& others) {
        const std::string name(1, static_cast<char>('a' + model));
        std::lock_guard lock(mutex);
        order += name;
        loaded = others;
        if (auto fault = faults.find(name); fault != faults.end())
            return storage::failure{storage::errc::corrupt, fault->second};
        auto made = std::make_unique<scripted_engine>(name);
        if (!is_held[name]) made->on_submit = answer_with({"from " + name});
        engines[name] = made.get();
        return std::unique_ptr<engine::engine>(std::move(made));
    }
};

class several_models : public ::testing::Test {
  protected:
    several_models() {
        options_ = test_server::default_options();
        options_.models = registry({{"a"}, {"b", {"haiku"}}, {"c"}, {"d"}}, 0);
        options_.settings.max_loaded = 2;
        options_.settings.shutdown_grace = seconds(0);
        options_.load_beside = [loads = loads_](std::size_t model, const auto& others,
                                                const auto&) { return loads->load(model, others); };
    }
    void start(bool auto_swap = false) {
        options_.settings.auto_swap = auto_swap;
        options_.settings.model_turn = seconds(1);
        server_ = std::make_unique<test_server>(std::move(options_));
        server_->ready();
    }
    http_reply ask(const std::string& bytes) {
        http_client client(server_->port());
        return client.request(bytes);
    }
    http_reply ask_model(const std::string& model) {
        return ask(post("/v1/messages",
                        R"({"max_tokens":9,"messages":[{"role":"user","content":"x"}],"model":")" +
                            model + "\"}"));
    }
    http_reply change(const std::string& action, const std::string& model) {
        return ask(post("/admin/models/" + action, R"({"model_id":")" + model + "\"}"));
    }
    static bool has(const http_reply& reply, const std::string& text) {
        return reply.body.find(text) != std::string::npos;
    }
    std::string order() {
        std::lock_guard lock(loads_->mutex);
        return loads_->order;
    }

    std::shared_ptr<four_loads> loads_ = std::make_shared<four_loads>();
    app_options options_;
    std::unique_ptr<test_server> server_;
};

TEST_F(several_models, a_model_is_loaded_beside_another_and_each_answers_its_own_requests) {
    start();
    EXPECT_EQ(change("load", "b").status, 200);
    EXPECT_EQ(loads_->loaded, std::vector<std::size_t>{0});
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(has(ask_model("a"), "from a"));
        EXPECT_TRUE(has(ask_model("b"), "from b"));
        EXPECT_TRUE(has(ask_model("haiku"), "from b"));
        EXPECT_TRUE(has(ask_model("claude-opus"), "from a")) << "unknown: the usual one";
    }
    EXPECT_EQ(ask_model("c").status, 404) << "not loaded";
    EXPECT_EQ(order(), "ab");
    const auto models = ask(get("/v1/models"));
    EXPECT_TRUE(has(models, R"("id":"a")"));
    std::size_t loaded = 0;
    for (std::size_t at = 0; (at = models.body.find(R"("loaded")", at)) != std::string::npos; ++at)
        ++loaded;
    EXPECT_EQ(loaded, 2u) << models.body;
    const auto ready = ask(get("/health/ready"));
    EXPECT_TRUE(has(ready, R"("models":["a","b"])")) << ready.body;
    EXPECT_TRUE(has(ask(get("/debug/memory")), R"("model":"b")"));
}

TEST_F(several_models, one_model_more_than_max_loaded_is_refused_until_one_is_unloaded) {
    start();
    EXPECT_EQ(change("load", "b").status, 200);
    const auto refused = change("load", "c");
    EXPECT_EQ(refused.status, 409);
    EXPECT_TRUE(has(refused, "2 models are loaded, as many as max-loaded allows")) << refused.body;
    EXPECT_EQ(change("unload", "b").status, 200);
    EXPECT_EQ(change("load", "c").status, 200);
    EXPECT_TRUE(has(ask_model("c"), "from c"));
    EXPECT_EQ(change("unload", "b").status, 409) << "it is not loaded";
    EXPECT_EQ(change("swap", "d").status, 200);
    EXPECT_TRUE(has(ask_model("d"), "from d"));
    EXPECT_TRUE(has(ask_model("c"), "from c"));
    EXPECT_EQ(ask_model("a").status, 404) << "the usual model was exchanged";
    EXPECT_EQ(change("swap", "c").status, 200) << "it is there";
    EXPECT_EQ(order(), "abcd");
}

TEST_F(several_models, the_other_answers_while_one_is_unloaded_or_fails_to_load) {
    loads_->faults["c"] = "its file is torn";
    start();
    EXPECT_EQ(change("load", "b").status, 200);
    EXPECT_EQ(change("unload", "a").status, 200);
    EXPECT_TRUE(has(ask_model("b"), "from b"));
    EXPECT_TRUE(has(ask_model("anything"), "from b")) << "the usual one now";
    const auto failed = change("load", "c");
    EXPECT_NE(failed.status, 200);
    EXPECT_TRUE(has(failed, "its file is torn"));
    EXPECT_TRUE(has(ask_model("b"), "from b"));
    EXPECT_EQ(ask(get("/health/ready")).status, 200);
    EXPECT_EQ(change("load", "a").status, 200);
    EXPECT_TRUE(has(ask_model("a"), "from a"));
}

TEST_F(several_models, metrics_have_one_family_with_a_label_for_each_model) {
    start();
    EXPECT_EQ(change("load", "b").status, 200);
    const auto text = ask(get("/metrics")).body;
    for (const char* model : {"a", "b"})
        EXPECT_NE(text.find("\nsemantic_pool_bytes{model=\"" + std::string(model) + "\"} "),
                  std::string::npos);
    const std::string type = "# TYPE semantic_pool_bytes ";
    EXPECT_EQ(text.find(type), text.rfind(type));
    EXPECT_NE(text.find("\nsemantic_disk_bytes "), std::string::npos) << "of all models";
}

TEST_F(several_models, requests_have_their_models_loaded_beside_and_then_in_the_idlest_place) {
    start(true);
    EXPECT_TRUE(has(ask_model("b"), "from b"));
    EXPECT_TRUE(has(ask_model("a"), "from a"));
    EXPECT_EQ(order(), "ab") << "both stay";
    EXPECT_TRUE(has(ask_model("c"), "from c"));
    EXPECT_TRUE(has(ask_model("a"), "from a"));
    EXPECT_EQ(order(), "abc") << "in the place of b, which was used longest ago";
    EXPECT_TRUE(has(ask_model("b"), "from b"));
    EXPECT_TRUE(has(ask_model("a"), "from a"));
    EXPECT_EQ(order(), "abcb");
}

TEST_F(several_models, a_model_at_work_keeps_its_place_while_another_is_idle) {
    loads_->is_held["a"] = true;
    start(true);
    auto busy = std::async(std::launch::async, [this] { return ask_model("a"); });
    scripted_engine& engine = *loads_->engines["a"];
    const auto id = engine.wait_for_request(1);
    EXPECT_TRUE(has(ask_model("b"), "from b"));
    EXPECT_TRUE(has(ask_model("c"), "from c"));
    EXPECT_EQ(order(), "abc");
    answer_with({"late"})(engine, id);
    EXPECT_TRUE(has(busy.get(), "late"));
    EXPECT_TRUE(has(ask_model("d"), "from d"));
}

TEST_F(several_models, one_of_several_that_are_always_asked_gives_way_after_its_turn) {
    start(true);
    EXPECT_TRUE(has(ask_model("b"), "from b"));
    std::atomic<bool> ended{false};
    const auto keep_asking = [&](const char* model) {
        while (!ended)
            if (ask_model(model).status != 200) return false;
        return true;
    };
    auto first = std::async(std::launch::async, keep_asking, "a");
    auto second = std::async(std::launch::async, keep_asking, "b");
    EXPECT_TRUE(has(ask_model("c"), "from c"));
    ended = true;
    EXPECT_TRUE(first.get());
    EXPECT_TRUE(second.get());
}

TEST_F(several_models, a_stop_ends_all_models) {
    start();
    EXPECT_EQ(change("load", "b").status, 200);
    EXPECT_EQ(server_->stop(), 0);
}

}  // namespace
}  // namespace semantic::server
