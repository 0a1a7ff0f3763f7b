// SPDX-License-Identifier: Apache-2.0
// What a start that cannot be says, and what becomes of requests when time is up.

#include <gtest/gtest.h>

#include "engine/engine.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::load;
using tests::long_paste;
using tests::options_in;
using tests::run;
using tests::transcript;

TEST(engine, draining_refuses_new_requests_lets_running_ones_end_and_saves) {
    tests::temp_dir dir;
    {
        auto engine = load(options_in(dir.path()));
        auto sink = std::make_shared<transcript>();
        engine->submit(ask("a", chat_of({"Tell me a short story."}), 32), sink);
        engine->drain(std::chrono::steady_clock::now() + std::chrono::seconds(60));
        EXPECT_EQ(sink->ends, 1);
        EXPECT_TRUE(sink->finished);
        auto late = run(*engine, ask("b", chat_of({"Hello."})));
        ASSERT_TRUE(late->failed);
        EXPECT_EQ(late->failed->kind, failure_kind::shutting_down);
    }
    EXPECT_EQ(load(options_in(dir.path()))->pool().agents_warm, 1u);
}

TEST(engine, a_drain_whose_deadline_has_passed_cancels_and_still_saves) {
    tests::temp_dir dir;
    {
        auto engine = load(options_in(dir.path()));
        auto sink = std::make_shared<transcript>();
        engine->submit(ask("a", chat_of({long_paste(100)}), 4000), sink);
        sink->wait_for_tokens(1);
        engine->drain(std::chrono::steady_clock::now());
        EXPECT_EQ(sink->ends, 1);
    }
    EXPECT_EQ(load(options_in(dir.path()))->pool().agents_warm, 1u);
}

TEST(engine, a_request_past_its_deadline_ends_with_what_it_has) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    generation_request request = ask("a", chat_of({long_paste(20)}), 4000);
    request.deadline = std::chrono::steady_clock::now();
    auto said = run(*engine, std::move(request));
    ASSERT_TRUE(said->finished);
    EXPECT_EQ(said->finished->why, stop_reason::deadline);
}

TEST(load_engine, a_folder_that_is_no_model_is_one_clear_error) {
    tests::temp_dir dir, model;
    engine_options options = options_in(dir.path());
    options.model_directory = model.path();
    auto loaded = load_engine(options, {});
    ASSERT_FALSE(loaded);
    EXPECT_NE(loaded.error().what.find("config.json"), std::string::npos) << loaded.error().what;
    options = options_in(dir.path());
    options.kernels = "abacus";
    EXPECT_NE(load_engine(options, {}).error().what.find("abacus"), std::string::npos);
}

}  // namespace
}  // namespace semantic::engine
