// SPDX-License-Identifier: Apache-2.0
// Goal: a model that is rendered through its own template remembers as any other does.

#include <gtest/gtest.h>

#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::load;
using tests::options_in;
using tests::run;

TEST(engine_own_template, answers_and_remembers_as_through_its_familys_renderer) {
    tests::temp_dir native_dir, own_dir;
    engine_options options = options_in(own_dir.path());
    options.chat_template = "jinja";
    auto native = load(options_in(native_dir.path()));
    auto own = load(options);
    EXPECT_EQ(native->info().chat_template, "chatml");
    EXPECT_EQ(own->info().chat_template, "jinja");
    const char* told = "My dog is called Biscuit.";
    const char* question = "What is my dog called?";
    auto expected = run(*native, ask("a", chat_of({told})));
    auto first = run(*own, ask("a", chat_of({told})));
    ASSERT_TRUE(first->finished) << (first->failed ? first->failed->what : "no end");
    EXPECT_EQ(first->tokens, expected->tokens);
    expected = run(*native, ask("a", chat_of({told, first->text, question})));
    auto second = run(*own, ask("a", chat_of({told, first->text, question})));
    ASSERT_TRUE(second->finished) << (second->failed ? second->failed->what : "no end");
    EXPECT_EQ(second->tokens, expected->tokens);
    EXPECT_EQ(second->usage.reused_tokens, expected->usage.reused_tokens);
    // The question alone, appended to the engine's memory.
    generation_request next = ask("a", chat_of({"And my cat?"}));
    next.append = true;
    auto third = run(*own, next);
    ASSERT_TRUE(third->finished) << (third->failed ? third->failed->what : "no end");
    EXPECT_GT(third->usage.reused_tokens, second->usage.prompt_tokens);
}

TEST(engine_own_template, a_cache_is_not_read_under_another_template) {
    tests::temp_dir dir;
    engine_options options = options_in(dir.path());
    run(*load(options), ask("a", chat_of({"My dog is called Biscuit."})));
    options.chat_template = "jinja";
    auto again = run(*load(options), ask("a", chat_of({"My dog is called Biscuit."})));
    ASSERT_TRUE(again->finished);
    EXPECT_EQ(again->usage.reused_tokens, 0);
}

}  // namespace
}  // namespace semantic::engine
