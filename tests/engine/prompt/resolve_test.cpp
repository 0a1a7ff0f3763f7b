#include "engine/prompt/resolve.hpp"

#include <gtest/gtest.h>

#include "storage/pool/block_pool.hpp"
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
        : pool_(storage::kv_layout({{1, 64, 64, 0}}, {}, 256), std::size_t{4} << 20),
          words_(*tokenizer::load(model_)),
          chat_(*chat_template::make("chatml")),
          store_(open()) {}

    std::unique_ptr<storage::agent_cache_store> open() {
        storage::store_options options;
        options.directory = dir_.path();
        return std::move(*storage::agent_cache_store::open(options, pool_));
    }

    // What the store holds once `chat` has been read as agent `id`.
    void remember(const resolver& prompts, const std::string& id, const conversation& chat) {
        auto idle = [](const storage::agent_id&) { return false; };
        auto prompt = prompts.resolve(ask(id, chat), idle);
        storage::agent_state state{*storage::agent_id::parse(id)};
        state.tokens = prompt->tokens;
        state.text = prompt->text;
        state.token_ends = prompt->token_ends;
        state.notes = prompt->notes;
        put(std::move(state));
    }
    // With blocks that hold nothing in particular.
    void put(storage::agent_state state) {
        storage::kv_sequence sequence(pool_, {}, 0);
        ASSERT_TRUE(sequence.reserve(static_cast<int>(state.tokens.size())));
        sequence.advance(static_cast<int>(state.tokens.size()));
        state.blocks = sequence.share();
        store_->put(std::move(state));
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

// A template that prints the day, and a clock that the test moves.
class resolver_and_days : public resolver_ {
  protected:
    resolver_and_days() { chat_ = *chat_template::make("llama3"); }

    resolved_prompt resolve(std::optional<std::string> agent, const conversation& chat) {
        generation_request request;
        if (agent) request.agent = *storage::agent_id::parse(*agent);
        request.chat = chat;
        return *prompts_.resolve(request, nobody_is_busy);
    }

    /// Stores what the request would leave behind, with `answer` as the model's words.
    storage::agent_id remember(std::optional<std::string> agent, const conversation& chat,
                               const std::string& answer) {
        resolved_prompt prompt = resolve(std::move(agent), chat);
        storage::agent_state state{.id = prompt.agent};
        state.text = prompt.text + answer;
        std::vector<std::uint32_t> ends;
        state.tokens = words_.encode(state.text, ends);
        state.token_ends = ends;
        storage::kv_sequence cache(pool_, {}, 0);
        EXPECT_TRUE(cache.reserve(static_cast<int>(state.tokens.size())));
        cache.advance(static_cast<int>(state.tokens.size()));
        state.blocks = cache.share();
        state.notes = prompt.notes;
        store_->put(std::move(state));
        return prompt.agent;
    }

    std::string day_ = "2026-03-01";
    resolver prompts_{words_, chat_, *store_, words_.vocabulary(), [this] { return day_; }};
};

bool tells(const resolved_prompt& prompt, const char* day) {
    return prompt.text.find("Today Date: " + std::string(day)) != std::string::npos;
}

TEST_F(resolver_and_days, a_new_agent_is_told_today) {
    EXPECT_TRUE(tells(resolve("a", chat_of({"Hello."})), "01 Mar 2026"));
    day_ = "2026-03-02";
    EXPECT_TRUE(tells(resolve("a", chat_of({"Hello."})), "02 Mar 2026"));
    EXPECT_TRUE(tells(resolve({}, chat_of({"Hello."})), "02 Mar 2026"));
}

TEST_F(resolver_and_days, an_agent_keeps_the_day_it_was_told_and_its_memory) {
    remember("a", chat_of({"Hello."}), "Hi.<|eot_id|>");
    day_ = "2026-03-02";
    resolved_prompt next = resolve("a", chat_of({"Hello.", "Hi.", "And now?"}));
    EXPECT_TRUE(tells(next, "01 Mar 2026"));
    EXPECT_EQ(next.match, match_kind::extend);
    EXPECT_EQ(next.notes.at("day"), "2026-03-01");
    EXPECT_TRUE(tells(resolve("b", chat_of({"Hello."})), "02 Mar 2026"));
}

TEST_F(resolver_and_days, an_anonymous_conversation_of_yesterday_is_found_today) {
    storage::agent_id yesterdays = remember({}, chat_of({"Hello."}), "Hi.<|eot_id|>");
    day_ = "2026-03-02";
    remember({}, chat_of({"Something else."}), "Yes.<|eot_id|>");
    resolved_prompt next = resolve({}, chat_of({"Hello.", "Hi.", "And now?"}));
    EXPECT_EQ(next.agent.str(), yesterdays.str());
    EXPECT_EQ(next.match, match_kind::extend);
    EXPECT_TRUE(tells(next, "01 Mar 2026"));
    // Another agent that takes the conversation up shares its memory, and so its day.
    resolved_prompt elsewhere = resolve("b", chat_of({"Hello.", "Hi.", "And now?"}));
    EXPECT_GT(elsewhere.reuse_tokens, 0);
    EXPECT_TRUE(tells(elsewhere, "01 Mar 2026"));
    // A conversation that nobody remembers is told today.
    EXPECT_TRUE(tells(resolve({}, chat_of({"Good day.", "Hi.", "And now?"})), "02 Mar 2026"));
}

TEST_F(resolver_and_days, a_template_without_a_day_notes_none) {
    chat_ = *chat_template::make("chatml");
    EXPECT_FALSE(resolve("a", chat_of({"Hello."})).notes.contains("day"));
}

TEST_F(resolver_, what_a_request_says_about_thinking_reaches_the_template) {
    chat_ = *chat_template::make("qwen3");
    resolver prompts(words_, chat_, *store_, words_.vocabulary());
    generation_request request = ask("a", chat_of({"Hello."}));
    EXPECT_FALSE(prompts.resolve(request, nobody_is_busy)->text.ends_with("</think>\n\n"));
    request.thinking.enabled = false;
    EXPECT_TRUE(prompts.resolve(request, nobody_is_busy)->text.ends_with("</think>\n\n"));
    EXPECT_GT(*prompts.count_tokens(request.chat, request.thinking),
              *prompts.count_tokens(request.chat));
    chat_ = *chat_template::make("harmony");
    request.thinking.effort = "high";
    EXPECT_NE(prompts.resolve(request, nobody_is_busy)->text.find("Reasoning: high\n"),
              std::string::npos);
}

TEST_F(resolver_, a_memory_without_a_cut_before_the_parting_is_too_short) {
    resolver prompts(words_, chat_, *store_, words_.vocabulary());
    auto whole = prompts.resolve(ask("x", chat_of({"Hello there."})), nobody_is_busy);
    storage::agent_state state{*storage::agent_id::parse("a")};
    state.text = whole->text;
    state.tokens = {whole->tokens.back()};  // one token that stands for everything
    state.token_ends = {static_cast<std::uint32_t>(whole->text.size())};
    put(std::move(state));
    auto prompt = prompts.resolve(ask("a", chat_of({"Hello you."})), nobody_is_busy);
    ASSERT_TRUE(prompt);
    EXPECT_EQ(prompt->reuse_tokens, 0);
    EXPECT_EQ(prompt->why, miss_reason::too_short);
}

// Every text an agent may have; whoever shares most with the prompt must be its source, though
// many more share nearly as much.
TEST_F(resolver_, the_longest_prefix_of_all_agents_is_found_among_many_that_are_nearly_as_long) {
    resolver prompts(words_, chat_, *store_, words_.vocabulary());
    std::string words = "one two three four five six seven eight nine ten ";
    for (int i = 0; i < 60; ++i) {
        std::string text = words.substr(0, words.size() - static_cast<std::size_t>(i % 7)) + "x" +
                           std::to_string(i);
        remember(prompts, "near" + std::to_string(i), chat_of({text}));
    }
    remember(prompts, "best", chat_of({words + "eleven twelve and so on"}));
    auto prompt =
        prompts.resolve(ask("", chat_of({words + "eleven twelve but not on"})), nobody_is_busy);
    ASSERT_TRUE(prompt);
    ASSERT_NE(prompt->source, nullptr);
    EXPECT_EQ(prompt->source->id.str(), "best");
    std::string reused(prompt->text, 0,
                       prompt->token_ends[static_cast<std::size_t>(prompt->reuse_tokens) - 1]);
    EXPECT_NE(reused.find("twelve"), std::string::npos) << reused;
}

}  // namespace
}  // namespace semantic::engine
