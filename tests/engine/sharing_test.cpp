// SPDX-License-Identifier: Apache-2.0
// Blocks that agents share, agents that are named, forked, evicted and erased.

#include <gtest/gtest.h>

#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::ask;
using semantic::tests::chat_of;
using semantic::tests::load;
using semantic::tests::long_paste;
using semantic::tests::options_in;
using semantic::tests::run;
using semantic::tests::temp_dir;
using semantic::tests::transcript;

storage::agent_id id_of(const std::string& name) { return *storage::agent_id::parse(name); }

std::uint64_t bytes_of(const engine& runner, const char* agent) {
    const auto found = runner.inspect(id_of(agent));
    return found ? found->pool_bytes : 0;
}

std::uint64_t held_bytes(const engine& runner) {
    return runner.pool().frames_held * runner.pool().frame_bytes;
}

TEST(sharing, ten_agents_with_one_system_prompt_hold_it_once) {
    temp_dir dir;
    engine_options options = options_in(dir.path());
    options.block_tokens = 16;
    auto engine = load(options);
    const std::string system = long_paste(10);
    for (int i = 0; i < 10; ++i)
        run(*engine,
            ask("a" + std::to_string(i), chat_of({"I am " + std::to_string(i)}, system), 2));
    std::uint64_t sum = 0, own = 0;
    for (const agent_info& agent : engine->agents({})) {
        sum += agent.pool_bytes;
        own += agent.pool_bytes - agent.pool_bytes_shared;
    }
    const std::uint64_t one = bytes_of(*engine, "a0");
    EXPECT_GT(sum, 9 * one) << "each has all of it";
    EXPECT_EQ(held_bytes(*engine), own + (sum - own) / 10) << "the shared part is there once";
    EXPECT_LT(held_bytes(*engine), 3 * one);
}

TEST(sharing, a_tenants_usage_counts_what_its_agents_share_once_and_others_never) {
    temp_dir dir;
    engine_options options = options_in(dir.path());
    options.block_tokens = 16;
    auto engine = load(options);
    EXPECT_EQ(engine->memory_of({}).disk_bytes, 0u);
    run(*engine, ask("a", chat_of({long_paste(5)}), 4));
    const memory_usage one = engine->memory_of({});
    EXPECT_EQ(one.pool_bytes, held_bytes(*engine));
    EXPECT_EQ(one.disk_bytes, engine->inspect(id_of("a"))->disk_bytes);
    ASSERT_TRUE(engine->fork(id_of("a"), id_of("b")));
    const memory_usage two = engine->memory_of({});
    EXPECT_EQ(two.pool_bytes, one.pool_bytes);
    EXPECT_LT(two.disk_bytes, one.disk_bytes * 3 / 2) << "one more manifest";
    generation_request request = ask("a", chat_of({long_paste(5)}), 4);
    request.tenant = engine->tenant("key");
    run(*engine, request);
    EXPECT_EQ(engine->memory_of({}).pool_bytes, two.pool_bytes);
    EXPECT_EQ(engine->memory_of({}).disk_bytes, two.disk_bytes);
    EXPECT_EQ(engine->memory_of(request.tenant).pool_bytes, held_bytes(*engine) - two.pool_bytes);
}

TEST(sharing, a_fork_copies_nothing_and_both_go_on_as_if_alone) {
    temp_dir dir;
    engine_options options = options_in(dir.path());
    options.block_tokens = 16;
    std::vector<std::string> turns{long_paste(5) + "My dog is called Biscuit."};
    {
        auto engine = load(options);
        turns.push_back(run(*engine, ask("a", chat_of(turns)))->text);
        const auto held = held_bytes(*engine);
        const auto blocks = engine->store_probe().blocks_written.load();
        ASSERT_TRUE(engine->fork(id_of("a"), id_of("b")));
        EXPECT_EQ(held_bytes(*engine), held);
        EXPECT_EQ(engine->store_probe().blocks_written.load(), blocks);
        EXPECT_EQ(bytes_of(*engine, "b"), held);
        EXPECT_EQ(engine->fork(id_of("a"), id_of("b")).error().code, storage::errc::bad_value);
        EXPECT_EQ(engine->fork(id_of("nobody"), id_of("c")).error().code, storage::errc::not_found);
        EXPECT_FALSE(engine->fork(id_of("a"), id_of("c").owned_by(engine->tenant("other"))));
    }
    auto engine = load(options);  // the fork survives
    auto go_on = [&](const char* agent, const char* question) {
        auto more = turns;
        more.push_back(question);
        auto said = run(*engine, ask(agent, chat_of(more)));
        EXPECT_GT(said->usage.reused_tokens, said->usage.prompt_tokens / 2) << agent;
        EXPECT_EQ(said->usage.why, miss_reason::none);
        temp_dir alone;
        engine_options fresh = options;
        fresh.cache_directory = alone.path();
        EXPECT_EQ(said->tokens, run(*load(fresh), ask("x", chat_of(more)))->tokens);
    };
    go_on("b", "What is my dog called?");
    ASSERT_TRUE(engine->erase(id_of("b")));
    go_on("a", "What is 2 plus 3?");
}

// A fork by name and one by parting from a conversation: the latter's source goes while the answer
// that starts from it is being made.
TEST(sharing, forks_are_whole_on_disk_whatever_becomes_of_what_they_left) {
    temp_dir dir;
    engine_options options = options_in(dir.path());
    options.block_tokens = 16;
    const std::string story = long_paste(8);
    const conversation all = chat_of({story}), parted = chat_of({story + "Then it rained."});
    for (const bool is_erased : {true, false}) {
        {
            auto engine = load(options);
            auto let_go_of_a = [&] {
                if (is_erased) {
                    EXPECT_TRUE(engine->erase(id_of("a")));
                } else {
                    EXPECT_EQ(run(*engine, ask("a", chat_of({"Hello."}), 2))->ends, 1);
                }
            };
            run(*engine, ask("a", all, 4));
            ASSERT_TRUE(engine->evict(id_of("a")));  // what the forks share is on disk alone
            ASSERT_TRUE(engine->fork(id_of("a"), id_of("named")));
            auto sink = std::make_shared<transcript>();
            engine->submit(ask("parted", parted, 40), sink);
            ASSERT_TRUE(sink->wait_for_tokens(1));
            EXPECT_GT(sink->usage.reused_tokens, sink->usage.prompt_tokens / 2);
            let_go_of_a();
            ASSERT_TRUE(sink->wait());
        }
        auto engine = load(options);
        for (const auto& [agent, chat] : {std::pair("named", all), {"parted", parted}}) {
            auto said = run(*engine, ask(agent, chat, 1));
            EXPECT_EQ(said->usage.reused_tokens, said->usage.prompt_tokens - 1) << agent;
            EXPECT_EQ(said->usage.why, miss_reason::none) << agent;
            ASSERT_TRUE(engine->erase(id_of(agent)));
        }
        EXPECT_EQ(engine->store_probe().blocks_missing.load(), 0u);
        EXPECT_EQ(engine->erase(id_of("a")).has_value(), !is_erased);
    }
}

TEST(sharing, an_agent_is_listed_evicted_and_erased_by_its_own_tenant_only) {
    temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const storage::tenant_id tenant = engine->tenant("key");
    const storage::agent_id mine = id_of("a").owned_by(tenant);
    generation_request request = ask("a", chat_of({"Hello."}), 4);
    request.tenant = tenant;
    run(*engine, request);
    EXPECT_TRUE(engine->agents({}).empty());
    EXPECT_FALSE(engine->inspect(id_of("a")));
    EXPECT_EQ(engine->evict(id_of("a")).error().what, "no agent a");
    EXPECT_EQ(engine->evict(id_of("b")).error().what, "no agent b");
    EXPECT_EQ(engine->erase(id_of("a")).error().code, storage::errc::not_found);
    ASSERT_EQ(engine->agents(tenant).size(), 1u);
    EXPECT_EQ(engine->agents(tenant)[0].id, mine);
    EXPECT_TRUE(engine->inspect(mine)->hot);
    EXPECT_GT(engine->inspect(mine)->tokens, 0);
    EXPECT_GT(engine->inspect(mine)->disk_bytes, 0u);
    ASSERT_TRUE(engine->evict(mine));
    EXPECT_FALSE(engine->inspect(mine)->hot);
    EXPECT_EQ(engine->inspect(mine)->pool_bytes, 0u);
    EXPECT_EQ(run(*engine, request)->usage.why, miss_reason::none);
    ASSERT_TRUE(engine->erase(mine));
    EXPECT_FALSE(engine->inspect(mine));
    EXPECT_EQ(run(*engine, request)->usage.reused_tokens, 0);
}

TEST(sharing, an_agent_is_not_in_use_any_more_when_its_client_sees_the_end) {
    temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const auto agent = id_of("a");
    bool in_use_before = false, in_use_at_end = true;
    auto sink = std::make_shared<transcript>();
    sink->on_event_hook = [&](const generation_event& event) {
        const auto found = engine->inspect(agent);
        if (std::holds_alternative<finished>(event))
            in_use_at_end = !found || found->in_use;
        else
            in_use_before = in_use_before || (found && found->in_use);
    };
    for (int turn = 0; turn < 2; ++turn) {
        engine->submit(ask("a", chat_of({"Hello."}), 4), sink);
        ASSERT_TRUE(sink->wait());
        EXPECT_FALSE(in_use_at_end);
        sink->ends = 0;
    }
    EXPECT_TRUE(in_use_before);
}

// Method: the next prompt begins with the text before a mark, so it is found again in the memory of
// an agent that has gone on from there.
TEST(sharing, the_end_of_each_answer_is_found_by_its_name_after_a_restart) {
    temp_dir dir;
    std::vector<std::string> turns{"My dog is called Biscuit."};
    std::vector<int> ends;
    {
        auto engine = load(options_in(dir.path()));
        for (int turn = 0; turn < 3; ++turn) {
            generation_request request = ask("a", chat_of(turns), turn == 1 ? 3 : 48);
            request.message_id = "msg_" + std::to_string(turn);
            if (turn == 2) request.stop_sequences = {"."};
            auto said = run(*engine, request);
            auto place = engine->find_message({}, *request.message_id);
            ASSERT_TRUE(place);
            EXPECT_EQ(place->agent, id_of("a"));
            // The last token of an answer that is cut off has no KV, nor has what ends a turn.
            const int said_tokens = static_cast<int>(said->tokens.size());
            const int prompt = said->usage.prompt_tokens;
            if (turn < 2) {
                EXPECT_EQ(place->tokens, prompt + said_tokens - 1);
                EXPECT_EQ(place->rest.empty(), turn == 0);
                EXPECT_TRUE(place->is_last);
            }
            ends.push_back(place->tokens);
            turns.push_back(said->text);
            turns.push_back("Go on. Tell me more about it.");
        }
    }
    auto engine = load(options_in(dir.path()));
    for (int turn = 0; turn < 3; ++turn) {
        auto place = engine->find_message({}, "msg_" + std::to_string(turn));
        ASSERT_TRUE(place) << turn;
        EXPECT_EQ(place->tokens, ends[static_cast<std::size_t>(turn)]);
    }
    EXPECT_FALSE(engine->find_message(engine->tenant("key"), "msg_0"));
    // A prompt that diverges from the memory removes the answers after the divergence.
    run(*engine, ask("a", chat_of({"My dog is called Biscuit.", turns[1], "And my cat?"}), 4));
    EXPECT_TRUE(engine->find_message({}, "msg_0"));
    EXPECT_FALSE(engine->find_message({}, "msg_1"));
}

TEST(sharing, a_sub_agent_starts_from_its_parent) {
    temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto parent = run(*engine, ask("parent", chat_of({long_paste(5)})));
    auto request = ask("child", chat_of({long_paste(5), parent->text, "Go on."}));
    request.parent = id_of("parent");
    auto child = run(*engine, std::move(request));
    EXPECT_EQ(child->agent, "child");
    EXPECT_EQ(child->usage.reused_tokens,
              parent->usage.prompt_tokens + parent->finished->output_tokens - 1);
    EXPECT_EQ(engine->agents({}).size(), 2u);
}

// Both answers together need more than the pool has: the later one gives way and is finished later,
// and the text of both is unchanged.
TEST(sharing, answers_that_outgrow_the_pool_are_finished_one_after_the_other) {
    temp_dir dir, alone_dir;
    auto request = [](int i, int choices) {
        auto asked =
            ask("agent" + std::to_string(i),
                chat_of({"I am number " + std::to_string(i) + ". Tell me a short story."}), 80);
        asked.choices = choices;
        asked.sampling.temperature = 1.0f;
        asked.sampling.seed = 7;
        return asked;
    };
    engine_options options = options_in(alone_dir.path());
    options.block_tokens = 16;
    auto alone = load(options);
    options.cache_directory = dir.path();
    options.cache_budget_bytes =
        alone->pool().frame_bytes * 10 * static_cast<std::size_t>(alone->info().layers);
    for (int choices : {1, 3}) {
        auto engine = load(options);
        std::vector<std::shared_ptr<transcript>> sinks;
        for (int i = 0; i < 4; ++i) {
            sinks.push_back(std::make_shared<transcript>());
            engine->submit(request(i, choices), sinks.back());
        }
        for (int i = 0; i < 4; ++i) {
            auto& sink = sinks[static_cast<std::size_t>(i)];
            ASSERT_TRUE(sink->wait());
            ASSERT_TRUE(sink->finished) << sink->failed->what;
            auto expected = run(*alone, request(i, choices));
            EXPECT_EQ(sink->tokens, expected->tokens) << i;
            EXPECT_EQ(sink->choices, expected->choices) << i;
            EXPECT_EQ(sink->finished->why, expected->finished->why) << i;
        }
    }
}

// The prompt is saved while its answer is made, and that must not cost the answer its room.
TEST(sharing, a_pool_that_just_holds_a_conversation_lets_its_answer_fill_it) {
    temp_dir dir;
    engine_options options = options_in(dir.path());
    options.block_tokens = 16;
    std::size_t block_bytes = 0;
    {
        auto whole = load(options);
        block_bytes = whole->pool().frame_bytes * static_cast<std::size_t>(whole->info().layers);
    }
    options.cache_budget_bytes = 8 * block_bytes;
    auto engine = load(options);
    generation_request request = ask("a", chat_of({long_paste(2)}), 1000);
    // Nothing that ends a turn.
    for (storage::token_id token = 0; token < 3; ++token)
        request.sampling.biases.push_back({token, -1000.0f});
    auto said = run(*engine, request);
    ASSERT_TRUE(said->finished) << said->failed->what;
    EXPECT_GT(said->usage.prompt_tokens, 2 * 16);
    EXPECT_EQ(said->finished->why, stop_reason::context_full);
    EXPECT_EQ(said->usage.prompt_tokens + said->finished->output_tokens,
              engine->info().context_tokens_max);
}

}  // namespace
}  // namespace semantic::engine
