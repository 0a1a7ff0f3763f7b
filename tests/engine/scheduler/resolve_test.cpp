#include "engine/scheduler/resolve.hpp"

#include <gtest/gtest.h>

#include "storage/block_pool.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;

// A resolver over an empty store, with the embedded model's tokenizer and template.
class resolver_ : public testing::Test {
  protected:
    resolver_()
        : pool_(storage::kv_layout({{1, 64, 64, 0}}, {}, 256), std::size_t{1} << 20),
          words_(*tokenizer::load(model_)),
          chat_(*chat_template::make("chatml")),
          store_(open()) {}

    std::unique_ptr<storage::agent_cache_store> open() {
        storage::store_options options;
        options.directory = dir_.path();
        return std::move(*storage::agent_cache_store::open(options, pool_));
    }

    std::string model_ = std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny";
    tests::temp_dir dir_;
    storage::block_pool pool_;
    tokenizer words_;
    chat_template chat_;
    std::unique_ptr<storage::agent_cache_store> store_;
};

bool nobody_is_busy(const storage::agent_id&) { return false; }

TEST_F(resolver_, a_cold_prompt_is_tokenised_whole) {
    resolver prompts(words_, chat_, *store_, words_.vocabulary());
    auto prompt = prompts.resolve(ask("a", chat_of({"Hello."})), nobody_is_busy);
    ASSERT_TRUE(prompt);
    EXPECT_EQ(prompt->reuse_tokens, 0);
    EXPECT_EQ(prompt->source, nullptr);
    EXPECT_EQ(prompt->tokens.size(), prompt->token_ends.size());
    EXPECT_EQ(prompt->token_ends.back(), prompt->text.size());
    EXPECT_EQ(*prompts.count_tokens(chat_of({"Hello."})), static_cast<int>(prompt->tokens.size()));
}

TEST_F(resolver_, a_token_beyond_the_vocabulary_is_refused_and_named) {
    std::vector<token_id> ids = words_.encode("Hello.");
    int beyond = *std::max_element(ids.begin(), ids.end());
    resolver prompts(words_, chat_, *store_, beyond);
    auto prompt = prompts.resolve(ask("a", chat_of({"Hello."})), nobody_is_busy);
    ASSERT_FALSE(prompt);
    EXPECT_EQ(prompt.error().code, storage::errc::bad_value);
    EXPECT_NE(prompt.error().what.find(words_.bytes(beyond)), std::string::npos);
}

}  // namespace
}  // namespace semantic::engine
