// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

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

// A conversation of three turns with a long first one; returns each turn's answer.
std::vector<std::string> three_turns(engine& runner, const std::string& agent,
                                     const std::function<void(int)>& before_turn = {}) {
    std::vector<std::string> questions{long_paste(60) + "My dog is called Biscuit.",
                                       "What is 2 plus 3?", "What is my dog called?"};
    std::vector<std::string> turns, answers;
    for (std::size_t i = 0; i < questions.size(); ++i) {
        if (before_turn) before_turn(static_cast<int>(i));
        turns.push_back(questions[i]);
        auto said = run(runner, ask(agent, chat_of(turns)));
        EXPECT_TRUE(said->finished) << (said->failed ? said->failed->what : "no end");
        answers.push_back(said->text);
        turns.push_back(said->text);
    }
    return answers;
}

TEST(engine, remembers_what_it_was_told_and_streams_token_by_token) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto told = run(*engine, ask("a", chat_of({"My dog is called Biscuit."})));
    ASSERT_TRUE(told->finished);
    EXPECT_EQ(told->finished->why, stop_reason::end_turn);
    EXPECT_TRUE(told->finished->saved);
    EXPECT_EQ(told->finished->output_tokens, static_cast<int>(told->tokens.size()));
    EXPECT_GT(told->tokens.size(), 1u);
    auto asked =
        run(*engine,
            ask("a", chat_of({"My dog is called Biscuit.", told->text, "What is my dog called?"})));
    EXPECT_NE(asked->text.find("Biscuit"), std::string::npos) << asked->text;
    EXPECT_EQ(asked->ends, 1);
}

// The template opens the reasoning; the embedded model, which knows none, never closes it.
TEST(engine, reasoning_ends_when_its_budget_is_spent) {
    tests::temp_dir dir;
    engine_options options = options_in(dir.path());
    options.chat_template = "qwen3-thinking";
    auto engine = load(options);
    generation_request request = ask("a", chat_of({"What is 2 plus 3?"}), 30);
    auto free = run(*engine, request);
    EXPECT_EQ(free->text.find("</think>"), std::string::npos) << free->text;
    request.agent = *storage::agent_id::parse("b");
    request.thinking.budget_tokens = 2;
    auto bounded = run(*engine, request);
    ASSERT_TRUE(bounded->finished);
    ASSERT_GE(bounded->tokens.size(), 3u);
    EXPECT_EQ(bounded->tokens[0], free->tokens[0]);
    EXPECT_EQ(bounded->tokens[1], free->tokens[1]);
    EXPECT_NE(bounded->text.find("</think>\n\n"), std::string::npos) << bounded->text;
    EXPECT_LE(bounded->text.find("\n</think>"), 40u) << bounded->text;
}

TEST(engine, an_unknown_chat_template_is_refused_naming_those_there_are) {
    tests::temp_dir dir;
    engine_options options = options_in(dir.path());
    options.chat_template = "vicuna";
    auto refused = load_engine(options, {});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().what.find("harmony"), std::string::npos) << refused.error().what;
}

TEST(engine, the_second_turn_reuses_everything_before_the_new_text_generated_tokens_too) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto first = run(*engine, ask("a", chat_of({"My dog is called Biscuit."})));
    auto second = run(
        *engine,
        ask("a", chat_of({"My dog is called Biscuit.", first->text, "What is my dog called?"})));
    int first_tokens = first->usage.prompt_tokens + first->finished->output_tokens -
                       1;  // the stop token was not run
    EXPECT_EQ(first->usage.reused_tokens, 0);
    EXPECT_EQ(second->usage.reused_tokens, first_tokens);
    EXPECT_EQ(second->usage.why, miss_reason::none);
    for (const auto& turn : {first, second})
        EXPECT_EQ(
            turn->usage.reused_tokens + turn->usage.created_tokens + turn->usage.recomputed_tokens,
            turn->usage.prompt_tokens);
    EXPECT_EQ(*engine->count_tokens(chat_of({"My dog is called Biscuit."}), {}),
              first->usage.prompt_tokens);
}

TEST(engine, the_same_prompt_again_runs_one_token_and_answers_the_same) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto first = run(*engine, ask("a", chat_of({"Tell me a short story."})));
    auto again = run(*engine, ask("a", chat_of({"Tell me a short story."})));
    EXPECT_EQ(again->usage.reused_tokens, again->usage.prompt_tokens - 1);
    EXPECT_EQ(again->usage.recomputed_tokens, 1);
    EXPECT_EQ(again->tokens, first->tokens);
}

// The test of the whole design: what a query sees never depends on how its prefix came to be in
// memory.
TEST(engine, greedy_answers_are_equal_cold_hot_restored_and_whatever_the_chunks_and_threads) {
    for (int kv_bits : {4, 8, 16}) {
        std::vector<std::string> reference;
        for (int chunk : {4096, 256}) {
            for (int threads : {1, 2}) {
                tests::temp_dir dir;
                engine_options options = options_in(dir.path());
                options.kv_recipe = kv_bits == 0 ? "auto" : std::to_string(kv_bits);
                options.compute_threads = threads;
                options.prefill_max_chunk_tokens = chunk;
                options.prefill_min_chunk_tokens = std::min(chunk, 512);
                options.chunked_prefill_threshold_tokens = std::min(chunk, 2048);
                auto engine = load(options);
                std::vector<std::string> hot = three_turns(*engine, "a");
                if (reference.empty()) reference = hot;
                EXPECT_EQ(hot, reference) << "chunk " << chunk << ", threads " << threads;
            }
        }
        // Restored: a new engine on the same directory before every turn.
        tests::temp_dir dir;
        std::vector<std::string> turns;
        std::vector<std::string> questions{long_paste(60) + "My dog is called Biscuit.",
                                           "What is 2 plus 3?", "What is my dog called?"};
        for (std::size_t i = 0; i < questions.size(); ++i) {
            engine_options options = options_in(dir.path());
            options.kv_recipe = kv_bits == 0 ? "auto" : std::to_string(kv_bits);
            auto engine = load(options);
            turns.push_back(questions[i]);
            auto said = run(*engine, ask("a", chat_of(turns)));
            EXPECT_EQ(said->text, reference[i])
                << "restored, turn " << i << ", kv bits " << kv_bits;
            EXPECT_EQ(said->usage.restored_tokens, said->usage.reused_tokens);
            EXPECT_EQ(said->usage.reused_tokens > 0, i > 0);
            turns.push_back(said->text);
        }
        // Cold: the whole last prompt on a fresh server.
        tests::temp_dir cold_dir;
        engine_options options = options_in(cold_dir.path());
        options.kv_recipe = kv_bits == 0 ? "auto" : std::to_string(kv_bits);
        auto cold = load(options);
        turns.pop_back();
        EXPECT_EQ(run(*cold, ask("b", chat_of(turns)))->text, reference.back())
            << "cold, kv bits " << kv_bits;
    }
}

TEST(engine, agents_that_run_together_say_what_each_says_alone) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    std::vector<std::string> prompts;
    for (int i = 0; i < 8; ++i)
        prompts.push_back(long_paste(i * 5) + "The code word number " + std::to_string(i) +
                          " is maple" + std::to_string(i) + ". Tell me a short story.");
    std::vector<std::vector<storage::token_id>> alone;
    for (int i = 0; i < 8; ++i) {
        tests::temp_dir own;
        auto solo = load(options_in(own.path()));
        alone.push_back(
            run(*solo, ask("x", chat_of({prompts[static_cast<std::size_t>(i)]}), 64))->tokens);
    }
    std::vector<std::shared_ptr<transcript>> together;
    for (int i = 0; i < 8; ++i) {
        together.push_back(std::make_shared<transcript>());
        engine->submit(
            ask("agent" + std::to_string(i), chat_of({prompts[static_cast<std::size_t>(i)]}), 64),
            together.back());
    }
    for (std::size_t i = 0; i < 8; ++i) {
        ASSERT_TRUE(together[i]->wait());
        EXPECT_EQ(together[i]->tokens, alone[i]) << i;
    }
}

TEST(engine, requests_of_one_agent_run_in_order_of_arrival) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    std::mutex mutex;
    std::vector<int> order;
    std::vector<std::shared_ptr<transcript>> sinks;
    for (int i = 0; i < 5; ++i) {
        auto sink = std::make_shared<transcript>();
        sink->on_event_hook = [&, i](const generation_event& event) {
            std::lock_guard lock(mutex);
            if (std::holds_alternative<admitted>(event)) order.push_back(i);
            if (std::holds_alternative<finished>(event)) order.push_back(i + 100);
        };
        sinks.push_back(sink);
        engine->submit(ask("one", chat_of({"Question " + std::to_string(i)}), 8), sink);
    }
    for (auto& sink : sinks) ASSERT_TRUE(sink->wait());
    std::lock_guard lock(mutex);
    std::vector<int> admissions;
    for (int event : order)
        if (event < 100) admissions.push_back(event);
    EXPECT_EQ(admissions, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(engine, a_cancelled_request_ends_within_a_step_and_the_retry_resumes_there) {
    tests::temp_dir dir;
    engine_options options = options_in(dir.path());
    options.prefill_max_chunk_tokens = 256;
    options.prefill_min_chunk_tokens = 256;
    options.chunked_prefill_threshold_tokens = 256;
    auto engine = load(options);
    auto sink = std::make_shared<transcript>();
    std::string prompt = long_paste(300);
    request_id id = engine->submit(ask("a", chat_of({prompt}), 8), sink);
    while (engine->probe().steps.load() < 3) std::this_thread::yield();
    engine->cancel(id);
    ASSERT_TRUE(sink->wait());
    ASSERT_TRUE(sink->finished);
    EXPECT_EQ(sink->finished->why, stop_reason::cancelled);
    EXPECT_TRUE(sink->tokens.empty());
    auto retry = run(*engine, ask("a", chat_of({prompt}), 8));
    EXPECT_GE(retry->usage.reused_tokens, 2 * 256);
    EXPECT_LT(retry->usage.reused_tokens, retry->usage.prompt_tokens - 256);
    tests::temp_dir other;
    auto expected = run(*load(options_in(other.path())), ask("b", chat_of({prompt}), 8));
    EXPECT_EQ(retry->tokens, expected->tokens);
    engine->cancel(id);      // already over
    engine->cancel(987654);  // never was
}

TEST(engine, a_restarted_engine_reads_the_memory_back_and_says_so) {
    tests::temp_dir dir;
    std::string first;
    int stored = 0;
    {
        auto engine = load(options_in(dir.path()));
        auto said = run(*engine, ask("a", chat_of({"My dog is called Biscuit."})));
        first = said->text;
        stored = said->usage.prompt_tokens + said->finished->output_tokens - 1;
        EXPECT_TRUE(said->finished->saved);
    }
    auto engine = load(options_in(dir.path()));
    EXPECT_EQ(engine->pool().agents_warm, 1u);
    auto said = run(
        *engine, ask("a", chat_of({"My dog is called Biscuit.", first, "What is my dog called?"})));
    EXPECT_EQ(said->usage.reused_tokens, stored);
    EXPECT_EQ(said->usage.restored_tokens, stored);
    EXPECT_NE(said->text.find("Biscuit"), std::string::npos) << said->text;
    EXPECT_EQ(engine->probe().tokens_reused_disk.load(), static_cast<std::uint64_t>(stored));
    EXPECT_EQ(engine->probe().early_starts.load(), 1u);
}

TEST(engine, another_kv_recipe_does_not_read_the_cache_of_the_first) {
    tests::temp_dir dir;
    { run(*load(options_in(dir.path())), ask("a", chat_of({"My dog is called Biscuit."}))); }
    engine_options options = options_in(dir.path());
    options.kv_recipe = "8";
    auto engine = load(options);
    auto said = run(*engine, ask("a", chat_of({"My dog is called Biscuit."})));
    EXPECT_EQ(said->usage.reused_tokens, 0);
    EXPECT_EQ(said->usage.why, miss_reason::incompatible);
}

TEST(engine, a_damaged_block_is_a_miss_with_a_reason_and_the_answer_is_the_same) {
    tests::temp_dir dir;
    std::vector<std::string> turns{long_paste(60)};
    std::string expected;
    {
        auto engine = load(options_in(dir.path()));
        turns.push_back(run(*engine, ask("a", chat_of(turns)))->text);
        turns.push_back("What is 2 plus 3?");
        expected = run(*engine, ask("b", chat_of(turns)))->text;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
        if (entry.path().extension() != ".safetensors") continue;
        std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(-100, std::ios::end);
        file.put('\x5a');
    }
    auto engine = load(options_in(dir.path()));
    auto said = run(*engine, ask("a", chat_of(turns)));
    EXPECT_EQ(said->text, expected);
    EXPECT_EQ(said->usage.reused_tokens, 0);
    EXPECT_EQ(said->usage.why, miss_reason::corrupt);
    EXPECT_EQ(
        said->usage.reused_tokens + said->usage.created_tokens + said->usage.recomputed_tokens,
        said->usage.prompt_tokens);
    EXPECT_GE(engine->store_probe().blocks_corrupt.load(), 1u);
}

TEST(engine, a_changed_system_prompt_is_named_as_the_reason) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    run(*engine, ask("a", chat_of({"Hello."}, "You are a pirate.")));
    auto said = run(*engine, ask("a", chat_of({"Hello."}, "You are a nurse.")));
    EXPECT_EQ(said->usage.why, miss_reason::system_changed);
    auto later = run(*engine, ask("a", chat_of({"Hallo."}, "You are a nurse.")));
    EXPECT_EQ(later->usage.why, miss_reason::messages_changed);
    EXPECT_GT(later->usage.reused_tokens, 0);
}

TEST(engine, an_anonymous_conversation_is_recognised_by_its_content) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto first = run(*engine, ask("", chat_of({"My dog is called Biscuit."})));
    EXPECT_EQ(first->agent.substr(0, 4), "msg_");
    EXPECT_EQ(first->agent.size(), 20u);
    auto second =
        run(*engine,
            ask("", chat_of({"My dog is called Biscuit.", first->text, "What is my dog called?"})));
    EXPECT_EQ(second->agent, first->agent);
    EXPECT_GT(second->usage.reused_tokens, first->usage.prompt_tokens);
    auto other = run(*engine, ask("", chat_of({"Quite another matter."})));
    EXPECT_NE(other->agent, first->agent);
}

// The end of an answer may reach the client on one thread while another still cleans up.
TEST(engine, an_agent_is_free_the_moment_its_answer_has_ended) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    std::atomic<bool> done{false};
    std::vector<std::thread> neighbours;  // make the threads of the scheduler wait for a core
    for (int i = 0; i < 4; ++i)
        neighbours.emplace_back([&] {
            while (!done.load(std::memory_order_relaxed)) {
            }
        });
    std::vector<std::string> turns{"My dog is called Biscuit."};
    std::string agent;
    for (int i = 0; i < 12; ++i) {
        auto said = run(*engine, ask("", chat_of(turns)));
        if (i == 0) agent = said->agent;
        EXPECT_EQ(said->agent, agent) << "turn " << i;
        turns.push_back(said->text);
        turns.push_back("Good.");
    }
    done = true;
    for (std::thread& neighbour : neighbours) neighbour.join();
}

TEST(engine, an_agent_starts_from_the_longest_prefix_that_another_has_stored) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    std::string shared = long_paste(40);
    auto first = run(*engine, ask("a", chat_of({"Hello."}, shared)));
    auto second = run(*engine, ask("b", chat_of({"Good evening."}, shared)));
    EXPECT_GT(second->usage.reused_tokens, first->usage.prompt_tokens / 2);
}

TEST(engine, two_tenants_share_nothing_and_cannot_see_each_other_in_the_numbers) {
    tests::temp_dir dir;
    auto asked_by = [](engine& runner, const char* key, const std::string& agent) {
        generation_request request = ask(agent, chat_of({"Hello."}, long_paste(20)), 8);
        if (key != nullptr) request.tenant = runner.tenant(key);
        return run(runner, std::move(request));
    };
    std::vector<storage::token_id> said;
    {
        auto engine = load(options_in(dir.path()));
        for (const char* key : {static_cast<const char*>(nullptr), "one", "two"})
            for (const char* agent : {"a", "b", ""}) {
                auto turn = asked_by(*engine, key, agent);
                bool is_first = std::string_view(agent) == "a";
                EXPECT_EQ(turn->usage.reused_tokens > 0, !is_first) << agent;
                EXPECT_EQ(turn->usage.why, miss_reason::none);
                if (said.empty()) said = turn->tokens;
                EXPECT_EQ(turn->tokens, said);
            }
    }
    auto engine = load(options_in(dir.path()));  // the tenants are the same after a restart
    auto again = asked_by(*engine, "one", "a");
    EXPECT_EQ(again->usage.reused_tokens, again->usage.prompt_tokens - 1);
    EXPECT_EQ(again->tokens, said);
    EXPECT_EQ(asked_by(*engine, "three", "a")->usage.reused_tokens, 0);
}

TEST(engine, many_agents_with_one_system_prompt_do_not_make_a_new_one_slow_to_start) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    std::string shared = long_paste(30);
    for (int i = 0; i < 60; ++i)
        run(*engine,
            ask("a" + std::to_string(i), chat_of({"I am number " + std::to_string(i)}, shared), 1));
    auto begin = std::chrono::steady_clock::now();
    auto said = run(*engine, ask("new", chat_of({"I am somebody else."}, shared), 1));
    EXPECT_GT(said->usage.reused_tokens, said->usage.prompt_tokens / 2);
    // Looking into every agent costs 60 times up to 20 ms; a few cost a few.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
}

TEST(engine, what_a_request_leaves_out_is_sampled_as_the_model_prefers) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));  // its generation_config.json says do_sample: false
    generation_request request = ask("a", chat_of({"Tell me a short story."}));
    request.sampling = {};
    auto preferred = run(*engine, request);
    EXPECT_EQ(preferred->tokens,
              run(*engine, ask("b", chat_of({"Tell me a short story."})))->tokens);
    request.agent = *storage::agent_id::parse("c");
    request.sampling.temperature = 1.5f;
    request.sampling.seed = 7;
    auto warm = run(*engine, request);
    EXPECT_NE(warm->tokens, preferred->tokens);
    request.agent = *storage::agent_id::parse("d");
    EXPECT_EQ(run(*engine, request)->tokens, warm->tokens) << "same seed, same text";
}

TEST(engine, max_tokens_0_fills_the_cache_and_answers_nothing) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto warm = run(*engine, ask("a", chat_of({"My dog is called Biscuit."}), 0));
    ASSERT_TRUE(warm->finished);
    EXPECT_EQ(warm->finished->output_tokens, 0);
    EXPECT_TRUE(warm->tokens.empty());
    auto said = run(*engine, ask("a", chat_of({"My dog is called Biscuit."}), 8));
    EXPECT_EQ(said->usage.reused_tokens, said->usage.prompt_tokens - 1);
}

TEST(engine, max_tokens_ends_the_answer_and_the_next_turn_still_extends) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto cut = run(*engine, ask("a", chat_of({"Tell me a short story."}), 5));
    EXPECT_EQ(cut->finished->why, stop_reason::max_tokens);
    EXPECT_EQ(cut->finished->output_tokens, 5);
    auto next = run(*engine, ask("a", chat_of({"Tell me a short story.", cut->text, "Go on."}), 5));
    EXPECT_EQ(next->usage.reused_tokens,
              cut->usage.prompt_tokens + 4);  // the fifth token was never run
}

TEST(engine, a_stop_sequence_ends_the_answer_and_is_not_part_of_it) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto whole = run(*engine, ask("a", chat_of({"Tell me a short story."})));
    ASSERT_GT(whole->text.size(), 20u);
    std::string stop = whole->text.substr(10, 5);
    generation_request request = ask("b", chat_of({"Tell me a short story."}));
    request.stop_sequences = {stop};
    auto cut = run(*engine, std::move(request));
    EXPECT_EQ(cut->finished->why, stop_reason::stop_sequence);
    EXPECT_EQ(cut->finished->stop_sequence, stop);
    EXPECT_EQ(cut->text, whole->text.substr(0, whole->text.find(stop)));
}

TEST(engine, a_prompt_that_can_never_fit_is_refused_with_both_numbers) {
    tests::temp_dir dir;
    engine_options options = options_in(dir.path());
    options.cache_budget_bytes = 2 * 8 * 36864;  // two blocks of 8 layers: 512 tokens
    auto engine = load(options);
    EXPECT_EQ(engine->info().context_tokens_max, 512);
    auto said = run(*engine, ask("a", chat_of({long_paste(60)})));
    ASSERT_TRUE(said->failed);
    EXPECT_EQ(said->failed->kind, failure_kind::too_large);
    EXPECT_EQ(said->failed->at_fault, request_part::prompt);
    const int tokens = *engine->count_tokens(chat_of({long_paste(60)}), {});
    EXPECT_NE(said->failed->what.find("512"), std::string::npos);
    EXPECT_NE(said->failed->what.find(std::to_string(tokens)), std::string::npos);
    EXPECT_EQ(said->failed->excess.value().tokens, tokens);
    EXPECT_TRUE(run(*engine, ask("b", chat_of({"Hello."})))->finished)
        << "a refusal must not hurt the next";
}

TEST(engine, more_agents_than_the_pool_holds_are_all_answered_and_come_back_from_disk) {
    tests::temp_dir dir;
    engine_options options = options_in(dir.path());
    options.cache_budget_bytes = 6 * 8 * 36864;  // six blocks
    auto engine = load(options);
    for (int round = 0; round < 2; ++round)
        for (int i = 0; i < 10; ++i) {
            std::string name = "agent" + std::to_string(i);
            auto said =
                run(*engine, ask(name, chat_of({"My name is " + name + ". " + long_paste(12)}), 4));
            ASSERT_TRUE(said->finished) << (said->failed ? said->failed->what : "no end");
            if (round == 1) {
                EXPECT_EQ(said->usage.reused_tokens, said->usage.prompt_tokens - 1) << name;
            }
        }
    EXPECT_GT(engine->probe().tokens_reused_disk.load(), 0u);
    EXPECT_LE(engine->pool().frames_held, engine->pool().frames_total);
}

TEST(engine, one_request_too_many_is_refused_and_the_others_are_answered) {
    tests::temp_dir dir;
    engine_options options = options_in(dir.path());
    options.max_batch = 1;
    options.max_queued = 2;
    auto engine = load(options);
    std::vector<std::shared_ptr<transcript>> sinks;
    for (int i = 0; i < 4; ++i) {
        sinks.push_back(std::make_shared<transcript>());
        engine->submit(ask("a" + std::to_string(i), chat_of({long_paste(50)}), 8), sinks.back());
    }
    int refused = 0;
    for (auto& sink : sinks) {
        ASSERT_TRUE(sink->wait());
        if (sink->failed) {
            EXPECT_EQ(sink->failed->kind, failure_kind::overloaded);
            ASSERT_TRUE(sink->failed->retry_after);
            EXPECT_GE(*sink->failed->retry_after, std::chrono::seconds(1));
            EXPECT_FALSE(sink->queued);
            ++refused;
        }
    }
    EXPECT_EQ(refused, 1);
    EXPECT_FALSE(sinks[0]->queued) << "it had a place";
    EXPECT_EQ(engine->probe().wait_estimate_ms.load(), 0) << "nobody waits any more";
}

TEST(engine, a_request_that_must_wait_is_told_how_many_are_before_it) {
    tests::temp_dir dir;
    engine_options options = options_in(dir.path());
    options.max_batch = 1;
    auto engine = load(options);
    run(*engine, ask("first", chat_of({long_paste(50)}), 8));  // something to estimate from
    std::vector<std::shared_ptr<transcript>> sinks;
    std::vector<request_id> ids;
    for (int i = 0; i < 4; ++i) {
        sinks.push_back(std::make_shared<transcript>());
        generation_request request = ask("a" + std::to_string(i), chat_of({"Hello."}), 5);
        if (i == 0) {  // for as long as it takes
            request.max_tokens = 1'000'000;
            for (token_id stop = 0; stop < 4; ++stop)
                request.sampling.biases.push_back({stop, -100.0f});
        }
        ids.push_back(engine->submit(request, sinks.back()));
    }
    engine->cancel(ids[0]);
    for (auto& sink : sinks) ASSERT_TRUE(sink->wait());
    EXPECT_FALSE(sinks[0]->queued);
    for (int i = 1; i < 4; ++i) {
        const auto& place = sinks[static_cast<std::size_t>(i)]->queued;
        ASSERT_TRUE(place) << i;
        EXPECT_EQ(place->ahead, i - 1);
        EXPECT_GE(place->estimate, std::chrono::seconds(1));
    }
}

}  // namespace
}  // namespace semantic::engine
