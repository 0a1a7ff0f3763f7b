// SPDX-License-Identifier: Apache-2.0
// How a step's results reach those who asked.

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::load;
using tests::options_in;

/// The events of all requests of a test, in order, and where the groups ended.
struct record {
    std::mutex mutex;
    std::condition_variable changed;
    std::set<int> group;  // requests with an event since the last group's end
    bool open = false;    // there was an event, and the group's end is still to come
    int ended = 0;
    int tokens = 0;
    int tokens_of_all = 0;  // in groups in which every request had a token
};

class part_of_a_record final : public generation_sink {
  public:
    part_of_a_record(record& all, int number, int count)
        : all_(all), number_(number), count_(count) {}
    void on_event(generation_event event) noexcept override {
        std::lock_guard lock(all_.mutex);
        all_.open = true;
        if (std::holds_alternative<token_text>(event)) {
            ++all_.tokens;
            all_.group.insert(number_);
        }
        if (std::holds_alternative<finished>(event) || std::holds_alternative<failed>(event))
            ended_ = true;
    }
    void on_group_end() noexcept override {
        std::lock_guard lock(all_.mutex);
        if (static_cast<int>(all_.group.size()) == count_) all_.tokens_of_all += count_;
        all_.group.clear();
        all_.open = false;
        if (std::exchange(ended_, false)) ++all_.ended;
        all_.changed.notify_all();
    }

  private:
    record& all_;
    const int number_, count_;
    bool ended_ = false;
};

TEST(engine, tokens_of_one_step_are_handed_over_together) {
    // Long answers: a busy machine may be late with the last of the requests.
    constexpr int requests = 4, answer = 400;
    tests::temp_dir dir;
    engine_options options = options_in(dir.path());
    // With drafts those whose text repeats are done before the others.
    options.speculation = draft_rule::never;
    auto engine = load(options);
    record all;
    for (int i = 0; i < requests; ++i) {
        auto request = ask("", chat_of({"Tell me of the sea, part " + std::to_string(i) + "."}));
        request.max_tokens = answer;
        request.form = {.what = output_form::kind::json,
                        .schema_json = R"({"type":"string","minLength":4000})"};
        engine->submit(request, std::make_shared<part_of_a_record>(all, i, requests));
    }
    std::unique_lock lock(all.mutex);
    ASSERT_TRUE(
        all.changed.wait_for(lock, std::chrono::minutes(2), [&] { return all.ended == requests; }));
    EXPECT_FALSE(all.open);  // each group's end was reported
    EXPECT_EQ(all.tokens, requests * answer);
    // They decode together but for the few steps in which the others' prompts are read.
    EXPECT_GE(all.tokens_of_all, requests * answer * 3 / 4);
}

TEST(engine, that_is_destroyed_while_it_answers_tells_its_clients_the_end_first) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    std::vector<std::shared_ptr<tests::transcript>> clients;
    for (const char* agent : {"a", "b", "c"}) {
        clients.push_back(std::make_shared<tests::transcript>());
        generation_request request = ask(agent, chat_of({"Tell me a long story."}), 4000);
        request.sampling.biases = {{0, -100.0f}, {1, -100.0f}, {2, -100.0f}, {3, -100.0f}};
        engine->submit(std::move(request), clients.back());
    }
    ASSERT_TRUE(clients.front()->wait_for_tokens(3));
    engine.reset();
    for (const auto& client : clients) {
        ASSERT_TRUE(client->finished);
        EXPECT_EQ(client->finished->why, stop_reason::cancelled);
    }
}

}  // namespace
}  // namespace semantic::engine
