// SPDX-License-Identifier: Apache-2.0
// Prompts that begin alike and come at once, on the whole engine: their beginning is read once, and
// every answer is the one that the model gives which has read the same tokens and nothing else.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "tests/engine/solo_model.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/sliding_model.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::ask;
using semantic::tests::chat_of;
using semantic::tests::load;
using semantic::tests::long_paste;
using semantic::tests::memory_of;
using semantic::tests::options_in;
using semantic::tests::sliding_model;
using semantic::tests::solo_model;
using semantic::tests::temp_dir;
using semantic::tests::transcript;

TEST(shared_heads, five_sub_agents_at_once_compute_their_head_once) {
    temp_dir dir;
    const auto engine = load(options_in(dir.path()));
    const std::string head = long_paste(60);
    std::vector<std::shared_ptr<transcript>> all;
    for (int i = 0; i < 5; ++i) {
        all.push_back(std::make_shared<transcript>());
        engine->submit(ask("sub" + std::to_string(i),
                           chat_of({"You are agent " + std::to_string(i) + "."}, head), 4),
                       all.back());
    }
    int computed = 0, prompt = 0;
    for (const auto& said : all) {
        ASSERT_TRUE(said->wait());
        ASSERT_TRUE(said->finished);
        prompt = said->usage.prompt_tokens;
        computed += prompt - said->usage.reused_tokens;
    }
    ASSERT_GT(prompt, 1000);
    EXPECT_LE(computed, prompt * 11 / 10 + 5 * 32) << "the head once, and what is each one's own";
}

TEST(shared_heads, a_retry_right_after_a_cancelled_prefill_reuses_what_was_read) {
    for (const bool is_named : {true, false}) {
        temp_dir dir;
        engine_options options = options_in(dir.path());
        options.prefill_min_chunk_tokens = options.prefill_max_chunk_tokens = 64;
        options.chunked_prefill_threshold_tokens = 64;
        const auto engine = load(options);
        const generation_request request = ask(is_named ? "a" : "", chat_of({long_paste(100)}), 4);
        auto first = std::make_shared<transcript>();
        const request_id id = engine->submit(request, first);
        const std::uint64_t chunks = 8;
        while (engine->probe().tokens_prefilled.load() < chunks * 64)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        engine->cancel(id);
        auto retry = std::make_shared<transcript>();
        engine->submit(request, retry);
        ASSERT_TRUE(first->wait() && retry->wait());
        ASSERT_TRUE(retry->finished);
        EXPECT_EQ(first->finished->why, stop_reason::cancelled);
        EXPECT_GE(retry->usage.reused_tokens, static_cast<int>((chunks - 1) * 64)) << is_named;
    }
}

/// Rounds of requests that come at once: prompts of a tree of texts, of two tenants, some of which
/// are cancelled at some time.
class crowd {
  public:
    crowd(const std::string& model, unsigned seed) : random_(seed), options_(small(model)) {
        solo_.emplace(options_, tokens_max);
        engine_options own = options_;
        own.cache_directory = dir_.path();
        // A few conversations at a time, so that they are preempted and evicted too.
        own.cache_budget_bytes = solo_->pool_bytes() * 2;
        engine_ = load(own);
        tenants_ = {storage::tenant_id{}, engine_->tenant("another key")};
        words_.emplace(std::move(*tokenizer::load(model)));
        template_.emplace(std::move(*chat_template::load(model, {})));
    }
    ~crowd() { engine_->drain(std::chrono::steady_clock::now() + std::chrono::seconds(60)); }

    void come_at_once(int count) {
        std::vector<one> all;
        for (int i = 0; i < count; ++i) all.push_back(make());
        for (one& each : all) {
            told_.push_back({each.request.tenant, each.prompt, each.sink});
            each.id = engine_->submit(each.request, each.sink);
            if (random_() % 3 == 0) std::this_thread::sleep_for(some_time());
            if (random_() % 5 == 0) engine_->cancel(all[random_() % all.size()].id);
        }
        for (const one& each : all) ASSERT_TRUE(each.sink->wait()) << "a request never ended";
        for (const one& each : all) ASSERT_NO_FATAL_FAILURE(check(each));
    }
    int compared() const { return compared_; }
    int reused() const { return reused_; }

  private:
    static constexpr int tokens_max = 700;
    struct one {
        generation_request request;
        std::vector<token_id> prompt;
        std::shared_ptr<transcript> sink = std::make_shared<transcript>();
        request_id id = 0;
    };
    static engine_options small(const std::string& model) {
        engine_options options = options_in("");
        options.model_directory = model;
        options.block_tokens = 16;
        options.max_batch = 4;
        options.prefill_min_chunk_tokens = 32;
        options.prefill_max_chunk_tokens = 64;
        options.chunked_prefill_threshold_tokens = 64;
        return options;
    }
    std::chrono::microseconds some_time() { return std::chrono::microseconds(random_() % 4000); }
    one make() {
        // At each of three depths one of two texts; then the request's own.
        std::string system;
        for (int depth = 0; depth < 3; ++depth)
            for (int i = static_cast<int>(random_() % 2) * 40 + depth, end = i + 9; i < end; ++i)
                system += "Rule " + std::to_string(i) + " is that lamp " + std::to_string(i * 3) +
                          " stays lit. ";
        one made;
        const std::string name = "agent" + std::to_string(made_++);
        const auto chat =
            chat_of({"I am " + name + std::string(random_() % 30, 'o') + ". Hello."}, system);
        made.request = ask(name, chat, 1 + static_cast<int>(random_() % 20));
        made.request.tenant = tenants_[random_() % tenants_.size()];
        made.request.agent = made.request.agent->owned_by(made.request.tenant);
        const auto text = template_->render_marked(chat, {});
        std::vector<std::uint32_t> ends;
        made.prompt = words_->encode(text->bytes(), ends, text->content());
        return made;
    }
    void check(const one& each) {
        const transcript& said = *each.sink;
        EXPECT_EQ(said.ends, 1);
        ASSERT_TRUE(said.finished) << said.failed->what;
        if (said.finished->why != stop_reason::cancelled) {
            ASSERT_EQ(said.tokens, solo_->drawn(each.prompt, said.tokens, each.request.sampling))
                << said.agent << " reused " << said.usage.reused_tokens;
            ++compared_;
        }
        if (said.usage.prompt_tokens > 0) {
            ASSERT_EQ(said.usage.prompt_tokens, static_cast<int>(each.prompt.size()));
            check_source(each);
            reused_ += said.usage.reused_tokens;
        }
    }
    // What was reused, somebody of the tenant had.
    void check_source(const one& each) {
        if (each.sink->usage.reused_tokens == 0) return;
        const auto begin = each.prompt.begin();
        const auto end = begin + each.sink->usage.reused_tokens;
        const bool is_own_tenants = std::ranges::any_of(told_, [&](const told& other) {
            return other.tenant == each.request.tenant && other.sink != each.sink &&
                   other.prompt.size() >= static_cast<std::size_t>(end - begin) &&
                   std::equal(begin, end, other.prompt.begin());
        });
        EXPECT_TRUE(is_own_tenants) << each.sink->agent;
    }
    struct told {
        storage::tenant_id tenant;
        std::vector<token_id> prompt;
        std::shared_ptr<transcript> sink;
    };

    std::mt19937 random_;
    temp_dir dir_;
    const engine_options options_;
    std::optional<solo_model> solo_;
    std::unique_ptr<engine> engine_;
    std::vector<storage::tenant_id> tenants_;
    std::optional<tokenizer> words_;
    std::optional<chat_template> template_;
    std::vector<told> told_;
    int made_ = 0, compared_ = 0, reused_ = 0;
};

void meet_in(const std::string& model) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    crowd all(model, seed);
    for (int i = 0; i < 12 && !testing::Test::HasFatalFailure(); ++i) all.come_at_once(10);
    EXPECT_GT(all.compared(), 60);
    EXPECT_GT(all.reused(), 5000);
}

TEST(shared_heads, in_a_crowd_that_comes_and_leaves_every_answer_is_that_of_its_own_tokens) {
    meet_in(options_in("").model_directory);
}

TEST(shared_heads, the_same_where_layers_see_a_window_only) {
    const sliding_model model(40);
    meet_in(model.path());
}

}  // namespace
}  // namespace semantic::engine
