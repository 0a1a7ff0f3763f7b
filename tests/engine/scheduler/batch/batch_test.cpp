// SPDX-License-Identifier: Apache-2.0
// What a step does with several requests, and with one that fails.

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/engine/scheduler/bare_batch.hpp"

namespace semantic::engine {
namespace {

using tests::alone;
using tests::bare_batch;
using tests::endless;
using tests::notes;
using tests::run_options;
using tests::turn;

TEST(batch, a_short_prompt_behind_a_long_one_starts_within_one_chunk) {
    run_options options;
    options.chunks = {16, 128, 128, std::chrono::milliseconds(200)};
    bare_batch running(options);
    const std::string long_prompt = turn(notes(40));
    ASSERT_GT(running.prompt_tokens(long_prompt), 4 * 128);
    running.add(1, long_prompt, endless(4, 1));
    running.step();
    running.add(2, turn("Hello."), endless(4, 2));
    running.step();
    EXPECT_EQ(running.tokens[2][0].size(), 1u);
    EXPECT_TRUE(running.tokens[1].empty());
    running.run_all();
    EXPECT_EQ(running.tokens[1][0].size(), 4u);
}

TEST(batch, a_prompt_whose_prefix_is_in_the_pool_is_answered_by_the_next_step) {
    bare_batch running(run_options{});
    running.add(1, turn(notes(20)), endless(4, 1));
    running.run_all();
    running.add(2, turn("Hello."), endless(1000, 2));
    running.step();
    bool admitted_now = false;
    running.on_emit = [&](const job& work, const generation_event& event) {
        admitted_now |= work.id == 3 && std::holds_alternative<admitted>(event);
    };
    running.go_on_from(1, 3, endless(4, 3));
    running.step();
    EXPECT_TRUE(admitted_now);
    EXPECT_EQ(running.tokens[3][0].size(), 1u);
    EXPECT_TRUE(running.restoring.empty());
}

TEST(batch, decoding_goes_on_in_every_step_of_a_long_prompt) {
    run_options options;
    options.chunks = {16, 128, 128, std::chrono::milliseconds(1)};
    bare_batch running(options);
    running.add(1, turn("Hello."), endless(1000, 1));
    running.step();
    running.add(2, turn(notes(20)), endless(1, 2));
    std::size_t said = running.tokens[1][0].size();
    while (running.tokens[2].empty()) {
        ASSERT_TRUE(running.step());
        EXPECT_EQ(running.tokens[1][0].size(), ++said);
    }
    EXPECT_GT(said, 2u);
}

// The agent is dirty all the while, for its last block, and nobody is saving it. What was saved
// early shares whole blocks only, so the answer has every block to itself.
TEST(batch, an_answer_behind_a_prompt_saved_early_fills_the_whole_pool_and_ends_with_what_it_has) {
    run_options options;
    options.pool_tokens = 3 * 256;
    bare_batch running(options);
    const std::string prompt = turn(notes(15));
    const int tokens = running.prompt_tokens(prompt);
    ASSERT_GT(tokens, 256);
    ASSERT_LT(tokens, 500);
    running.add(1, prompt, endless(1000, 1));
    running.run_all();
    ASSERT_TRUE(running.finishes.contains(1));
    EXPECT_EQ(running.finishes[1].why, stop_reason::context_full);
    EXPECT_EQ(running.finishes[1].output_tokens, options.pool_tokens - tokens + 1);
}

/// What the agent of a conversation of about 320 tokens says when it goes on.
class second_turn {
  public:
    second_turn(const storage::kv_recipe& recipe, int pool_tokens)
        : running_(options(recipe, pool_tokens)) {
        running_.add(1, turn(notes(15)), endless(20, 1));
        running_.run_all();
        EXPECT_NE(running_.remembered(1) % 16, 0) << "inside a group of tokens, so inside a block";
    }
    std::vector<token_id> hot() {
        running_.go_on_from(1, 2, endless(20, 2));
        return said();
    }
    /// Somebody else has `frames` of the pool for a moment.
    std::vector<token_id> from_disk(std::size_t frames) {
        running_.evict(1);
        const job_ptr work = running_.go_on_from(1, 2, endless(20, 2));
        running_.step();
        auto found = running_.read_prefix(*work);
        const auto kept = *running_.pool().allocate(frames);
        const std::jthread keeper([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            running_.pool().release(kept);
        });
        running_.restored(work, std::move(found));
        return said();
    }

  private:
    static run_options options(const storage::kv_recipe& recipe, int pool_tokens) {
        run_options made;
        made.recipe = recipe;
        made.pool_tokens = pool_tokens;
        return made;
    }
    std::vector<token_id> said() {
        running_.run_all();
        EXPECT_TRUE(running_.finishes.contains(2)) << running_.failures[2].what;
        return running_.tokens[2][0];
    }
    bare_batch running_;
};

// Read again from position 0 it would fit, so it must where it goes on from what is remembered: the
// copy of its partly filled last block is a block more than the pool has.
TEST(batch, a_conversation_that_fills_the_pool_goes_on_and_says_what_it_says_in_a_larger_one) {
    const storage::kv_form rotated{4, true};
    for (const storage::kv_recipe& recipe :
         {storage::kv_recipe(4), storage::kv_recipe(rotated, rotated).with_wide_tail(16)}) {
        SCOPED_TRACE(storage::name_of(recipe));
        const std::vector<token_id> said = second_turn(recipe, 8 * 256).hot();
        ASSERT_EQ(said.size(), 20u);
        EXPECT_EQ(second_turn(recipe, 2 * 256).hot(), said);
        EXPECT_EQ(second_turn(recipe, 2 * 256).from_disk(0), said);
        if (recipe.wide_tail == 0) continue;  // what is read from disk leaves no frame to keep
        EXPECT_EQ(second_turn(recipe, 2 * 256).from_disk(1), said);
    }
}

// Somebody keeps a block of the pool for a moment: a model that is not at work, or a look-up in
// what this one remembers.
TEST(batch, an_answer_waits_two_seconds_for_what_is_kept_beside_it_and_no_longer) {
    using clock = std::chrono::steady_clock;
    const auto layout = make_kv_layout(*model_config::load(tests::model_folder), {4, 64}, 256);
    const auto block = static_cast<std::size_t>(layout.layer_count());
    for (const bool is_other : {true, false})
        for (const bool lets_go : {true, false}) {
            run_options options;
            options.shared =
                std::make_shared<storage::pool_budget>(3 * block * layout.frame_bytes());
            storage::block_pool other(layout, options.shared);
            bare_batch running(options);
            storage::block_pool& keeper = is_other ? other : running.pool();
            const auto kept = *keeper.allocate(block);
            const std::string prompt = turn(notes(15));
            const int tokens = running.prompt_tokens(prompt);
            running.add(1, prompt, endless(1000, 1));
            clock::time_point full{};
            std::jthread owner([&] {
                while (options.shared->held_bytes() < options.shared->bytes()) continue;
                std::this_thread::sleep_for(std::chrono::milliseconds(300));
                if (lets_go) keeper.release(kept);
            });
            running.on_emit = [&](const job&, const generation_event&) { full = clock::now(); };
            running.run_all();
            const auto waited = clock::now() - full;
            owner.join();
            if (!lets_go) keeper.release(kept);
            ASSERT_TRUE(running.finishes.contains(1));
            EXPECT_EQ(running.finishes[1].why, stop_reason::context_full);
            EXPECT_EQ(running.finishes[1].output_tokens, (lets_go ? 3 : 2) * 256 - tokens + 1);
            if (!lets_go) {
                EXPECT_GE(waited, std::chrono::seconds(2));
                EXPECT_LT(waited, std::chrono::seconds(8));
            }
        }
}

/// A batch next to another model that is at work and has two of the three blocks.
struct two_models {
    explicit two_models() {
        options.shared = std::make_shared<storage::pool_budget>(3 * block * layout.frame_bytes());
        other.emplace(layout, options.shared);
        first = *other->allocate(block);
        second = *other->allocate(block);
        options.shared->set_busy(*other, true);
        running.emplace(options);
        running->listen_for_room(told);
    }
    ~two_models() {
        asked.clear();  // what they hold of the store ends first
        running.reset();
        if (!first.empty()) other->release(first);
        if (!second.empty()) other->release(second);
    }
    /// Returns: how many tokens an answer gives whose last one fills the pool.
    int add(request_id id) {
        const std::string prompt = turn(notes(5));
        const int outputs = 3 * 256 - running->prompt_tokens(prompt);
        asked[id] = running->add(id, prompt, endless(outputs, 1));
        return outputs;
    }
    /// Returns: whether another step follows after the first that found no frames.
    bool run_until_short(request_id id) {
        std::size_t said = 0;
        bool more = false;
        do {
            said = running->tokens[id][0].size();
            more = running->step();
        } while (more && (said == 0 || running->tokens[id][0].size() > said));
        return more;
    }
    void leave(std::vector<std::byte*>& frames) {
        other->release(frames);
        frames.clear();
    }
    const storage::kv_layout layout =
        make_kv_layout(*model_config::load(tests::model_folder), {4, 64}, 256);
    const std::size_t block = static_cast<std::size_t>(layout.layer_count());
    run_options options;
    std::optional<storage::block_pool> other;
    std::vector<std::byte*> first, second;
    std::optional<bare_batch> running;
    std::map<request_id, job_ptr> asked;
    int told = 0;
};

// Bytes that become free while the batch tries once more are of the first shortage; the batch is
// notified of the second one too.
TEST(batch, an_answer_that_is_short_of_another_models_memory_again_is_told_of_room_again) {
    two_models both;
    const int outputs = both.add(1);
    ASSERT_TRUE(both.run_until_short(1));
    both.leave(both.first);
    EXPECT_EQ(both.told, 1);
    both.running->run_all();
    EXPECT_FALSE(both.running->finishes.contains(1));
    both.leave(both.second);
    EXPECT_EQ(both.told, 2);
    both.running->run_all();
    ASSERT_TRUE(both.running->finishes.contains(1));
    EXPECT_EQ(both.running->finishes[1].output_tokens, outputs);
}

// A block's frames come back one after another, and the first of them alone is too little.
TEST(batch, an_answer_that_was_told_of_too_little_room_is_told_of_the_rest) {
    two_models both;
    const int outputs = both.add(1);
    ASSERT_TRUE(both.run_until_short(1));
    std::vector<std::byte*> one{both.first.back()};
    both.first.pop_back();
    both.leave(one);
    EXPECT_EQ(both.told, 1);
    both.running->run_all();
    both.leave(both.first);
    EXPECT_EQ(both.told, 2);
    both.leave(both.second);
    both.running->run_all();
    ASSERT_TRUE(both.running->finishes.contains(1));
    EXPECT_EQ(both.running->finishes[1].output_tokens, outputs);
}

TEST(batch, the_turn_ends_once_all_of_its_answer_has_room) {
    two_models both;
    both.add(1);
    ASSERT_TRUE(both.run_until_short(1));
    EXPECT_TRUE(both.options.shared->is_turn_taken());
    both.leave(both.first);
    both.running->step();
    EXPECT_TRUE(both.options.shared->is_turn_taken()) << "a block of two that are still to come";
    both.leave(both.second);
    both.running->step();
    EXPECT_FALSE(both.options.shared->is_turn_taken());
}

TEST(batch, the_turn_is_one_answers_and_not_that_of_those_who_wait_behind_it) {
    two_models both;
    both.add(1);
    ASSERT_TRUE(both.run_until_short(1));
    EXPECT_TRUE(both.options.shared->is_turn_taken());
    both.add(2);
    both.options.shared->wait(*both.other, both.block);
    both.asked[1]->cancelled = true;
    both.running->run_all();
    EXPECT_FALSE(both.options.shared->is_turn_taken());
    EXPECT_TRUE(both.running->tokens[2].empty()) << "the other model stands in front";
    both.options.shared->wait(*both.other, 0);
    both.run_until_short(2);
    EXPECT_FALSE(both.running->tokens[2].empty());
}

TEST(batch, a_request_whose_events_cannot_be_delivered_fails_alone) {
    const std::vector<std::string> prompts{turn("Hello."), turn("Tell me a story."),
                                           turn("What is 2 plus 3?")};
    bare_batch solo({});
    for (bool at_admission : {true, false}) {
        bare_batch running({});
        running.on_emit = [&](const job& work, const generation_event& event) {
            bool is_now = at_admission ? std::holds_alternative<admitted>(event)
                                       : std::holds_alternative<token_text>(event) &&
                                             running.tokens[2][0].size() == 3;
            if (work.id == 2 && is_now) throw std::runtime_error("the pipe burst");
        };
        for (request_id id = 1; id <= 3; ++id) running.add(id, prompts[id - 1], endless(8, id));
        running.run_all();
        for (request_id id : {1, 3}) {
            EXPECT_EQ(running.tokens[id], alone(solo, prompts[id - 1], endless(8, id))) << id;
            EXPECT_TRUE(running.finishes.contains(id)) << id;
        }
        ASSERT_TRUE(running.failures.contains(2));
        EXPECT_EQ(running.failures[2].what, "the pipe burst");
        for (request_id id : {1, 2, 3}) EXPECT_EQ(running.ends[id], 1) << id;
        EXPECT_EQ(running.probe_.running.load(), 0);
        EXPECT_EQ(running.frames_held(), 0u);
    }
}

TEST(batch, a_choice_whose_events_cannot_be_delivered_ends_its_request_and_no_other) {
    bare_batch running({});
    running.on_emit = [&](const job& work, const generation_event& event) {
        auto* token = std::get_if<token_text>(&event);
        if (work.id == 2 && token != nullptr && token->choice == 2 &&
            running.tokens[2][2].size() == 2)
            throw std::runtime_error("the pipe burst");
    };
    generation_request several = endless(8, 2);
    several.choices = 4;
    running.add(1, turn("Hello."), endless(8, 1));
    running.add(2, turn("Hello."), several);
    running.run_all();
    bare_batch solo({});
    EXPECT_EQ(running.tokens[1], alone(solo, turn("Hello."), endless(8, 1)));
    EXPECT_TRUE(running.failures.contains(2));
    EXPECT_EQ(running.ends[2], 1);
    EXPECT_EQ(running.probe_.running.load(), 0);
    EXPECT_EQ(running.frames_held(), 0u);
}

TEST(batch, a_request_for_many_choices_leaves_a_place_to_those_who_wait) {
    run_options options;
    options.max_batch = 2;
    bare_batch running(options);
    std::vector<request_id> order;
    running.on_emit = [&](const job& work, const generation_event& event) {
        bool is_other = work.id == 2 && std::holds_alternative<admitted>(event);
        bool is_choice = std::holds_alternative<choice_finished>(event);
        if (is_other || is_choice) order.push_back(work.id);
    };
    generation_request many = endless(6, 1);
    many.choices = 8;
    running.add(1, turn("Hello."), many);
    running.step();
    running.add(2, turn("Hello."), endless(6, 2));
    running.run_all();
    EXPECT_EQ(running.tokens[1].size(), 8u);
    auto other = std::find(order.begin(), order.end(), 2u);
    ASSERT_NE(other, order.end());
    EXPECT_LE(other - order.begin(), 2) << "behind the two that had the places";
}

// Its prompt is matched, and holds blocks, before the step that is under way can see it.
TEST(batch, a_request_does_not_fail_for_blocks_that_one_on_its_way_will_let_go_of) {
    run_options options;
    options.pool_tokens = 4 * 256;
    bare_batch running(options);
    const std::string prompt = turn(notes(30));
    running.add(1, prompt, endless(4, 1));
    running.run_all();
    auto matched = running.memory_of(1);
    running.inbound = true;
    running.add(2, turn(notes(30, 1)), endless(4, 2));
    for (int i = 0; i < 10 && running.step(); ++i) {
    }
    EXPECT_EQ(running.ends.count(2), 0u);
    running.inbound = false;
    matched.reset();
    running.run_all();
    EXPECT_TRUE(running.finishes.contains(2));
}

// The promise of the whole scheduler, whatever requests run together, come or leave in the middle,
// however prompts are cut, and on any number of threads.
TEST(batch, whatever_runs_beside_a_request_it_says_what_it_says_alone) {
    struct wanted {
        std::string prompt;
        generation_request request;
        std::map<int, std::vector<token_id>> tokens;
    };
    std::vector<wanted> all;
    bare_batch solo({});
    for (int i = 0; i < 16; ++i) {
        wanted one{turn(notes(i * 3 % 14, i) + "Tell me a story."),
                   endless(4 + i % 9, static_cast<std::uint64_t>(i), i % 3 == 0 ? 0.0f : 1.2f),
                   {}};
        if (i % 5 == 4) one.request.choices = 3;
        if (i % 4 == 1) one.request.sampling.repetition_penalty = 1.3f;
        one.tokens = alone(solo, one.prompt, one.request);
        all.push_back(std::move(one));
    }
    std::mt19937 random(20261121);
    for (int round = 0; round < 6; ++round) {
        const int largest = 16 << (random() % 9);
        run_options options;
        options.threads = 1 + round % 2;
        options.max_batch = static_cast<int>(2 + random() % 15);
        options.chunks = {std::min(largest, 512), largest, std::min(largest, 2048),
                          std::chrono::milliseconds(1 + random() % 100)};
        bare_batch together(options);
        std::vector<std::size_t> order(all.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
        order.resize(2 + random() % 15);
        std::map<request_id, job_ptr> jobs;
        std::set<request_id> left;
        bool more = true;
        for (std::size_t next = 0; next < order.size() || more;) {
            while (next < order.size() && (!more || random() % 2)) {
                std::size_t index = order[next++];
                jobs[index + 1] = together.add(index + 1, all[index].prompt, all[index].request);
                more = true;
            }
            if (!jobs.empty() && random() % 16 == 0) {
                auto leaving =
                    std::next(jobs.begin(), static_cast<std::ptrdiff_t>(random() % jobs.size()));
                leaving->second->cancelled = true;
                left.insert(leaving->first);
            }
            more = together.step();
        }
        for (auto& [id, work] : jobs) {
            EXPECT_EQ(together.ends[id], 1);
            auto said = together.tokens[id];
            for (const auto& [choice, tokens] : all[id - 1].tokens) {
                std::vector<token_id>& heard = said[choice];
                ASSERT_LE(heard.size(), tokens.size());
                EXPECT_TRUE(std::equal(heard.begin(), heard.end(), tokens.begin()))
                    << "round " << round << ", request " << id << ", choice " << choice;
                if (!left.contains(id)) {
                    EXPECT_EQ(heard.size(), tokens.size()) << id;
                }
            }
        }
        EXPECT_EQ(together.frames_held(), 0u);
    }
}

}  // namespace
}  // namespace semantic::engine
