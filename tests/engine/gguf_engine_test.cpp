// SPDX-License-Identifier: Apache-2.0
// The engine on model files: weights, tokenizer and template from one GGUF.

#include <gtest/gtest.h>

#include "engine/engine.hpp"
#include "tests/engine/model/gguf_twin.hpp"
#include "tests/engine/text/family_sources.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/gguf_tokenizer.hpp"
#include "tests/support/latent_model.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::load;
using tests::run;

/// One of tests/golden/models as a file, with a token for every byte.
class gguf_engine : public ::testing::Test {
  protected:
    engine_options options_of(const std::string& golden, std::string_view source) {
        auto file = tests::gguf_of(
            tests::published_twin(SEMANTIC_SOURCE_DIR "/tests/golden/models/" + golden));
        tests::add_tokenizer(file, boost::json::parse(tests::byte_tokenizer_json()), "smollm");
        if (!source.empty()) file.pair("tokenizer.chat_template", source);
        engine_options options;
        options.model_directory = dir_ / (golden + ".gguf");
        tests::write_bytes(options.model_directory, file.bytes());
        options.cache_directory = dir_ / "cache";
        options.cache_budget_bytes = std::size_t{16} << 20;
        options.compute_threads = 1;
        options.on_warning = [this](std::string message) {
            warnings_.push_back(std::move(message));
        };
        return options;
    }

    tests::temp_dir dir_;
    std::vector<std::string> warnings_;
};

TEST_F(gguf_engine, a_model_without_a_template_is_served_through_its_familys_and_says_so) {
    const auto base = load(options_of("gemma3", ""));
    EXPECT_EQ(base->info().chat_template, "gemma3");
    EXPECT_EQ(base->info().chat_template_reason, "the model has no chat template");
    ASSERT_EQ(warnings_.size(), 2U);
    EXPECT_EQ(warnings_[0],
              "chat-template gemma3 is used because the model has no chat template: the model may "
              "not have learnt to answer in it");
    EXPECT_TRUE(warnings_[1].starts_with("chat-template gemma3 has no place for ")) << warnings_[1];
}

TEST_F(gguf_engine, a_template_that_is_known_is_taken_without_a_word) {
    const auto chat = load(options_of("smollm2", chatml_source));
    EXPECT_EQ(chat->info().chat_template, "chatml");
    EXPECT_EQ(chat->info().chat_template_reason, "");
    EXPECT_TRUE(warnings_.empty());
}

TEST_F(gguf_engine, another_pre_does_not_read_the_cache_of_the_first) {
    engine_options options = options_of("smollm2", chatml_source);
    const auto request = ask("a", chat_of({"My dog is called Biscuit."}), 2);
    { run(*load(options), request); }
    {
        const auto again = load(options);
        EXPECT_GT(run(*again, request)->usage.reused_tokens, 0);
    }
    options.tokenizer_pre = "gpt-2";
    const auto other = load(options);
    const auto said = run(*other, request);
    EXPECT_EQ(said->usage.reused_tokens, 0);
    EXPECT_NE(said->usage.why, miss_reason::none);
}

}  // namespace
}  // namespace semantic::engine
