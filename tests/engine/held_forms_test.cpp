// SPDX-License-Identifier: Apache-2.0
// A form that takes long to make, through the whole engine: it is nobody else's business.

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>

#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using tests::ask;
using tests::chat_of;
using tests::load;
using tests::options_in;
using tests::run;
using tests::transcript;

/// Some seconds of work where nothing bounds it, and an ordinary form.
std::string slow_schema(int properties) {
    std::string zeros = "0";
    for (int i = 0; i < 10'000; ++i) zeros += ",0";
    std::string schema = R"({"$defs":{"big":{"type":"string","not":[)" + zeros +
                         R"(]}},"type":"object","additionalProperties":false,"properties":{)";
    for (int i = 0; i < properties; ++i)
        schema += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) +
                  R"(":{"minLength":0,"allOf":[{"$ref":"#/$defs/big"}]})";
    return schema + "}}";
}

generation_request held(generation_request request, const std::string& schema) {
    request.form = {.what = output_form::kind::json, .schema_json = schema};
    request.form.is_strict = false;
    storage::work_budget::limits most;
    most.steps = std::numeric_limits<std::uint64_t>::max() / 2;
    most.bytes = std::size_t{1} << 40;
    request.budget = std::make_shared<storage::work_budget>(most);
    return request;
}
generation_request slow_request(const std::string& agent, int properties = 40'000) {
    return held(ask(agent, chat_of({"Hello."}), 8), slow_schema(properties));
}

/// Lets a form that was begun get under way.
void wait_a_moment() { std::this_thread::sleep_for(milliseconds(50)); }

TEST(held_forms, a_form_that_takes_long_holds_up_no_other_request) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto slow = std::make_shared<transcript>();
    const request_id id = engine->submit(slow_request("a"), slow);
    wait_a_moment();
    EXPECT_TRUE(run(*engine, ask("b", chat_of({"Hello."}), 4))->finished);
    EXPECT_TRUE(run(*engine, held(ask("c", chat_of({"Hello."}), 4), R"({"const":1})"))->finished);
    EXPECT_EQ(slow->ends, 0) << "it is still being made";
    engine->cancel(id);
    EXPECT_TRUE(slow->wait(seconds(5)));
}

TEST(held_forms, a_client_that_leaves_is_let_go_while_its_form_is_made) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto slow = std::make_shared<transcript>();
    const request_id id = engine->submit(slow_request("a"), slow);
    wait_a_moment();
    const auto begin = steady_clock::now();
    engine->cancel(id);
    EXPECT_TRUE(slow->wait(seconds(5)));
    EXPECT_LT(steady_clock::now() - begin, seconds(1));
    ASSERT_TRUE(slow->finished);
    EXPECT_EQ(slow->finished->why, stop_reason::cancelled);
    EXPECT_EQ(slow->ends, 1);
    EXPECT_TRUE(run(*engine, ask("a", chat_of({"Hello."}), 4))->finished) << "its agent is free";
}

TEST(held_forms, a_deadline_ends_a_request_whose_form_is_being_made) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    generation_request request = slow_request("a");
    request.deadline = steady_clock::now() + milliseconds(300);
    const auto slow = run(*engine, std::move(request));
    ASSERT_TRUE(slow->finished);
    EXPECT_EQ(slow->finished->why, stop_reason::deadline);
}

TEST(held_forms, a_server_that_stops_waits_for_no_form) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto slow = std::make_shared<transcript>();
    engine->submit(slow_request("a"), slow);
    auto queued = std::make_shared<transcript>();
    engine->submit(held(ask("a", chat_of({"Hello."}), 8), R"({"const":2})"), queued);
    wait_a_moment();
    const auto begin = steady_clock::now();
    engine->drain(steady_clock::now() + seconds(60));
    EXPECT_LT(steady_clock::now() - begin, seconds(10));
    for (const auto& each : {slow, queued}) {
        ASSERT_TRUE(each->failed);
        EXPECT_EQ(each->failed->kind, failure_kind::shutting_down);
        EXPECT_EQ(each->ends, 1);
    }
    engine->resume();
    EXPECT_TRUE(run(*engine, held(ask("a", chat_of({"Hello."}), 4), R"({"const":3})"))->finished);
}

// The later request needs no form, and waits for its turn all the same.
TEST(held_forms, requests_of_an_agent_keep_their_order_while_a_form_is_made) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto first = std::make_shared<transcript>(), second = std::make_shared<transcript>();
    std::atomic<bool> first_began{false}, in_order{true};
    first->on_event_hook = [&](const generation_event& event) {
        if (std::holds_alternative<admitted>(event)) first_began = true;
    };
    second->on_event_hook = [&](const generation_event& event) {
        if (std::holds_alternative<admitted>(event) && !first_began) in_order = false;
    };
    engine->submit(slow_request("a", 300), first);
    engine->submit(ask("a", chat_of({"Hello."}), 4), second);
    ASSERT_TRUE(first->wait());
    ASSERT_TRUE(second->wait());
    EXPECT_TRUE(first->finished && second->finished);
    EXPECT_TRUE(in_order);
    EXPECT_GT(second->usage.reused_tokens, 0) << "it continues what the first has read";
}

TEST(held_forms, too_much_work_is_the_requests_fault_and_named) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    generation_request request = slow_request("a", 3000);
    request.budget = nullptr;  // as the engine makes one
    const auto said = run(*engine, std::move(request));
    ASSERT_TRUE(said->failed);
    EXPECT_EQ(said->failed->kind, failure_kind::bad_request);
    EXPECT_EQ(said->failed->at_fault, request_part::form);
    EXPECT_EQ(said->failed->what,
              "the schema: it takes more work than the 10000000 steps that one request may");
    EXPECT_EQ(said->usage.prompt_tokens, 0) << "it was never admitted";
}

}  // namespace
}  // namespace semantic::engine
