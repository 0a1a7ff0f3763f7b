// The batch step by step, without graph, threads or timing: what runs beside what is the test's
// choice, and so is what fails.

#include "engine/scheduler/batch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <stdexcept>

#include "engine/model/compute_arena.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

const std::string model_folder = std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny";

struct run_options {
    int threads = 1;
    int max_batch = 16;
    chunk_policy chunks;
    int pool_tokens = 32 * 1024;
};

/// A batch on the embedded model, and what came out of it for every request.
class bare_batch {
  public:
    explicit bare_batch(run_options options)
        : config_(*model_config::load(model_folder)),
          words_(*tokenizer::load(model_folder)),
          arena_(options.threads),
          pool_(make_kv_layout(config_, {4, 64}, 256), pool_bytes(options.pool_tokens)),
          store_(open()) {
        arena_.run([&] {
            transformer_limits limits{options.chunks.max_tokens + options.max_batch,
                                      options.max_batch + 1};
            model_ = std::move(*transformer::load(model_folder, config_, pool_.layout(),
                                                  *find_kernels("auto"), limits, {}, {}));
        });
        batch_options of;
        of.chunks = options.chunks;
        of.max_batch = options.max_batch;
        of.vocabulary = config_.vocabulary;
        of.answers = {config_.eos_tokens, config_.context_tokens_max, {}};
        batch_.emplace(
            *model_, words_, pool_, *store_, of, probe_,
            batch_outputs{[this](const job_ptr& work, generation_event event) {
                              if (on_emit) on_emit(*work, event);
                              keep(work->id, event);
                          },
                          [this](ended_request ended) {
                              if (ended.remembered)
                                  save(ended.work->prompt->agent, storage::save_extent::everything);
                              ++ends[ended.work->id];
                              keep(ended.work->id, ended.last);
                          },
                          [this](const auto& agent, auto extent) { save(agent, extent); },
                          [] { return false; },
                          [](const job_ptr&) { FAIL() << "nothing is stored"; }});
    }

    job_ptr add(request_id id, const std::string& prompt, generation_request request) {
        resolved_prompt resolved{agent_of(id), prompt};
        resolved.tokens = words_.encode(prompt, resolved.token_ends);
        return add(id, std::move(resolved), std::move(request));
    }
    /// Asks once more behind all that the agent of request `before` remembers.
    job_ptr go_on_from(request_id before, request_id id, generation_request request) {
        resolved_prompt resolved{agent_of(before)};
        resolved.source = store_->find(resolved.agent);
        resolved.text = resolved.source->text + "!";
        resolved.tokens = resolved.source->tokens;
        resolved.token_ends = resolved.source->token_ends;
        resolved.reuse_tokens = static_cast<int>(resolved.tokens.size());
        resolved.tokens.push_back(words_.encode("!").front());
        resolved.token_ends.push_back(static_cast<std::uint32_t>(resolved.text.size()));
        return add(id, std::move(resolved), std::move(request));
    }
    /// Returns: whether another step can make progress.
    bool step() {
        bool more = false;
        arena_.run([&] { more = batch_->run_step(); });
        return more;
    }
    void run_all() {
        while (step()) {
        }
    }
    int prompt_tokens(const std::string& prompt) const {
        return static_cast<int>(words_.encode(prompt).size());
    }

    /// Called before an event is kept; may throw.
    std::function<void(const job&, const generation_event&)> on_emit;
    std::map<request_id, std::map<int, std::vector<token_id>>> tokens;  // by choice
    std::map<request_id, finished> finishes;
    std::map<request_id, failed> failures;
    std::map<request_id, int> ends;
    engine_probe probe_;

    /// Once nothing is remembered any more.
    std::size_t frames_held() {
        for (const auto& agent : store_->list()) EXPECT_TRUE(store_->erase(agent.id));
        return pool_.held_count();
    }

  private:
    static storage::agent_id agent_of(request_id id) {
        return *storage::agent_id::parse("a" + std::to_string(id));
    }
    job_ptr add(request_id id, resolved_prompt resolved, generation_request request) {
        auto work = std::make_shared<job>();
        work->id = id;
        work->request = std::move(request);
        work->prompt = std::move(resolved);
        batch_->add(work);
        return work;
    }
    std::size_t pool_bytes(int tokens_held) const {
        auto layout = make_kv_layout(config_, {4, 64}, 256);
        return static_cast<std::size_t>(tokens_held / 256 * layout.layer_count()) *
               layout.frame_bytes();
    }
    std::unique_ptr<storage::agent_cache_store> open() {
        storage::store_options options;
        options.directory = dir_.path();
        return std::move(*storage::agent_cache_store::open(options, pool_));
    }
    void save(const storage::agent_id& agent, storage::save_extent extent) {
        EXPECT_TRUE(store_->save(agent, extent));
    }
    void keep(request_id id, const generation_event& event) {
        if (auto* token = std::get_if<token_text>(&event))
            tokens[id][token->choice].push_back(token->token);
        if (auto* end = std::get_if<finished>(&event)) finishes[id] = *end;
        if (auto* end = std::get_if<failed>(&event)) failures[id] = *end;
    }

    tests::temp_dir dir_;
    model_config config_;
    tokenizer words_;
    compute_arena arena_;
    storage::block_pool pool_;
    std::unique_ptr<storage::agent_cache_store> store_;
    std::unique_ptr<transformer> model_;
    std::optional<batch> batch_;
};

std::string turn(const std::string& text) {
    return "<|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n";
}

std::string notes(int sentences, int variant = 0) {
    std::string text;
    for (int i = 0; i < sentences; ++i)
        text += "On day " + std::to_string(i + variant) + " the gardener moved " +
                std::to_string(i * (7 + variant) % 100) + " pots to the north wall. ";
    return text;
}

/// Never ends by itself before `max_tokens`.
generation_request endless(int max_tokens, std::uint64_t seed, float temperature = 1.0f) {
    generation_request request;
    request.max_tokens = max_tokens;
    request.sampling.temperature = temperature;
    request.sampling.seed = seed;
    for (token_id special = 0; special < 4; ++special)
        request.sampling.biases.push_back({special, -100.0f});
    return request;
}

// What a request gives when nothing else runs.
std::map<int, std::vector<token_id>> alone(bare_batch& solo, const std::string& prompt,
                                           const generation_request& request) {
    request_id id = solo.ends.size() + 1;
    solo.add(id, prompt, request);
    solo.run_all();
    EXPECT_TRUE(solo.finishes.contains(id));
    return solo.tokens[id];
}

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

// The fixture fails when anything is to be read.
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

// The promise of the whole scheduler, over what it may do: whoever runs beside whom, whoever comes
// or leaves in the middle, however prompts are cut, on however many threads.
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
                std::size_t which = order[next++];
                jobs[which + 1] = together.add(which + 1, all[which].prompt, all[which].request);
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
