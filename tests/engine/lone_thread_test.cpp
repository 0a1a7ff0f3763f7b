// SPDX-License-Identifier: Apache-2.0
// One thread that computes: a machine with one core, or --compute-threads 1.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::load;
using tests::options_in;
using tests::transcript;

TEST(engine, a_lone_thread_hands_out_each_token_before_it_computes_many_more) {
    tests::temp_dir dir;
    engine_options options = options_in(dir.path());
    options.compute_threads = 1;
    auto engine = load(options);
    auto request = ask("a", chat_of({"Tell me of the sea."}));
    request.max_tokens = 400;
    request.form = {.what = output_form::kind::json,
                    .schema_json = R"({"type":"string","minLength":4000})"};
    auto sink = std::make_shared<transcript>();
    std::uint64_t ahead = 0, seen = 0;
    sink->on_event_hook = [&](const generation_event& event) {
        if (std::holds_alternative<token_text>(event))
            ahead = std::max(ahead, engine->probe().tokens_decoded.load() - ++seen);
    };
    engine->submit(request, sink);
    ASSERT_TRUE(sink->wait());
    EXPECT_EQ(seen, 400u);
    EXPECT_LE(ahead, 200u);  // a busy machine may hold a thread up for a while
}

}  // namespace
}  // namespace semantic::engine
