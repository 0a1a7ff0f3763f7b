// SPDX-License-Identifier: Apache-2.0
// Drafts change when tokens come, and never which: the same answers, ends and memories as without.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "engine/grammar/forms/answer_grammar.hpp"
#include "tests/engine/scheduler/bare_batch.hpp"

namespace semantic::engine {
namespace {

using tests::alone;
using tests::bare_batch;
using tests::endless;
using tests::notes;
using tests::run_options;
using tests::turn;

const std::string recurrent_model = SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny-recurrent";
const storage::kv_recipe wide = storage::kv_recipe({8, true}, {8, true}).with_wide_tail(16);

/// A list that goes on as it began: what comes next came before.
std::string repetition(int lines, int variant) {
    std::string text;
    for (int i = 0; i < lines; ++i)
        text += "- item " + std::to_string(variant) + ": the cat sat on the mat and slept.\n";
    return turn(text) + "- item " + std::to_string(variant) + ": the cat";
}

run_options with_drafts(bool are_run, const storage::kv_recipe& recipe = {4, 64},
                        const std::string& model = tests::model_folder) {
    run_options options;
    options.model = model;
    options.drafts = are_run ? draft_rule::always : draft_rule::never;
    options.recipe = recipe;
    if (model == recurrent_model) options.pool_tokens = 256 * 1024;  // each state takes many frames
    return options;
}

/// One of many requests: all that may end an answer, and all that a draw depends on.
generation_request drawn_request(std::mt19937_64& random) {
    constexpr std::array<float, 4> temperatures{0.0F, 0.0F, 0.3F, 1.0F};
    generation_request request = endless(1 + static_cast<int>(random() % 60), random(),
                                         temperatures[random() % temperatures.size()]);
    if (random() % 3 == 0) request.stop_sequences = {"mat and"};
    if (random() % 3 == 0) request.stop_sequences.push_back("t");
    if (random() % 4 == 0)
        request.ending.stop_tokens = {static_cast<token_id>(300 + random() % 99)};
    if (random() % 4 == 0) request.ending.min_tokens = 10;
    if (random() % 4 == 0) request.top_scores = 2;
    if (random() % 5 == 0) request.choices = 2;
    if (random() % 4 == 0) request.sampling.frequency_penalty = 0.5F;
    if (random() % 4 == 0) request.sampling.biases.clear();
    return request;
}

std::uint64_t sum_of(const std::array<std::atomic<std::uint64_t>, draft_origin_count>& counts) {
    std::uint64_t sum = 0;
    for (const auto& count : counts) sum += count;
    return sum;
}
std::uint64_t taken_by(const bare_batch& runs) { return sum_of(runs.probe_.drafts_taken); }
std::uint64_t drafted_by(const bare_batch& runs) { return sum_of(runs.probe_.tokens_drafted); }

/// What the ends of all answers say of drafts is what the metrics count, by source.
void expect_ends_say_what_is_counted(const bare_batch& runs) {
    ASSERT_TRUE(runs.failures.empty()) << "which say nothing of their drafts";
    draft_usage said;
    for (const auto& [id, end] : runs.finishes) said.add(end.drafts);
    for (std::size_t i = 0; i < draft_origin_count; ++i) {
        const auto& [drafted, taken] = said.by_origin[i];
        EXPECT_EQ(static_cast<std::uint64_t>(drafted), runs.probe_.tokens_drafted[i]);
        EXPECT_EQ(static_cast<std::uint64_t>(taken), runs.probe_.drafts_taken[i]);
    }
}

struct compared {
    bare_batch& plain;
    bare_batch& drafting;
    std::size_t answers = 0;
    std::size_t states = 0;  // recurrent ones

    void expect_same_answer(request_id id) {
        answers += drafting.tokens[id].size();
        EXPECT_EQ(plain.tokens[id], drafting.tokens[id]) << "answer " << id;
        EXPECT_EQ(plain.failures.contains(id), drafting.failures.contains(id));
        ASSERT_EQ(plain.finishes.contains(id), drafting.finishes.contains(id));
        if (!plain.finishes.contains(id)) return;
        EXPECT_EQ(plain.finishes[id].why, drafting.finishes[id].why);
        EXPECT_EQ(plain.finishes[id].stop_sequence, drafting.finishes[id].stop_sequence);
        EXPECT_EQ(plain.finishes[id].output_tokens, drafting.finishes[id].output_tokens);
    }
    void expect_same(request_id id) {
        expect_same_answer(id);
        const auto one = plain.memory_of(id), other = drafting.memory_of(id);
        ASSERT_EQ(one == nullptr, other == nullptr);
        if (one == nullptr) return;
        EXPECT_EQ(one->tokens, other->tokens) << "memory " << id;
        EXPECT_EQ(one->text, other->text);
        ASSERT_EQ(one->states.size(), other->states.size());
        for (std::size_t i = 0; i < one->states.size(); ++i) {
            EXPECT_EQ(one->states[i].tokens, other->states[i].tokens) << "memory " << id;
            expect_same_state(one->states[i].state, other->states[i].state, id);
        }
    }

  private:
    // Which of them has been evicted depends on when answers ended.
    void expect_same_state(const storage::recurrent_ptr& one, const storage::recurrent_ptr& other,
                           request_id id) {
        if (one == nullptr || other == nullptr) return;
        ++states;
        EXPECT_TRUE(std::ranges::equal(one->bytes(), other->bytes())) << "state of memory " << id;
    }
};

/// What some answers are held to: nothing, or a list of people, one of some texts, a pattern.
class drawn_forms {
  public:
    explicit drawn_forms(const std::string& model)
        : words_(*tokenizer::load(model)), grammars_(words_, "chatml") {}
    held_form draw(std::mt19937_64& random) {
        if (random() % 3 != 0) return {};
        const std::array<output_form, 3> forms{
            output_form{.what = output_form::kind::json, .schema_json = people},
            output_form{.what = output_form::kind::choice,
                        .choices = {"- item 1: the cat sat", "- item 2: the cat slept"}},
            output_form{.what = output_form::kind::pattern, .rules = "( sat on the mat[.,]){2,9}"}};
        generation_request request;
        request.form = forms[random() % forms.size()];
        auto made = grammars_.compile(request);
        if (!made) throw std::runtime_error(made.error().what);
        return std::move(*made);
    }

  private:
    static constexpr const char* people = R"({"type":"array","minItems":2,"items":{
        "type":"object","additionalProperties":false,"required":["first_name","years"],
        "properties":{"first_name":{"type":"string","maxLength":9},"years":{"type":"integer"}}}})";
    tokenizer words_;
    answer_grammars grammars_;
};

/// Runs all, also what waits for its prefix to be read from the disk.
void run_out(bare_batch& runs) {
    runs.run_all();
    while (!runs.restoring.empty()) {
        const job_ptr work = std::move(runs.restoring.back());
        runs.restoring.pop_back();
        runs.restored(work, runs.read_prefix(*work));
        runs.run_all();
    }
}

// SEMANTIC_DRAFT_ROUNDS makes it as long as one likes.
const char* asked_rounds() { return std::getenv("SEMANTIC_DRAFT_ROUNDS"); }
int rounds_of(int few) { return asked_rounds() == nullptr ? few : std::atoi(asked_rounds()); }

void print_count(const compared& both) {
    if (asked_rounds() == nullptr) return;
    std::printf("%zu answers and %zu states compared, %llu of %llu tokens of drafts taken\n",
                both.answers, both.states, static_cast<unsigned long long>(taken_by(both.drafting)),
                static_cast<unsigned long long>(drafted_by(both.drafting)));
}

/// Has as many steps run as `after`, while there is something to do, and cancels the request.
void cancel_after(bare_batch& runs, const job_ptr& work, int after) {
    for (int i = 0; i < after && runs.step(); ++i) {
    }
    work->cancelled = true;
}

/// With drafts a cancelled answer has come further, and all of it is what would have come.
void expect_same_beginning(compared& both, request_id id) {
    ++both.answers;
    for (auto& [choice, said] : both.drafting.tokens[id]) {
        auto& other = both.plain.tokens[id][choice];
        const std::size_t alike = std::min(said.size(), other.size());
        EXPECT_TRUE(std::equal(said.begin(), said.begin() + static_cast<std::ptrdiff_t>(alike),
                               other.begin()))
            << "cancelled answer " << id;
    }
}

// The second answer reads the keys and values that the first one has left.
void expect_same_answers(const storage::kv_recipe& recipe, int rounds, std::uint64_t seed,
                         const std::string& model = tests::model_folder) {
    bare_batch plain(with_drafts(false, recipe, model)), drafting(with_drafts(true, recipe, model));
    compared both{plain, drafting};
    std::mt19937_64 random(seed);
    drawn_forms forms(model);
    request_id id = 0;
    for (int round = 0; round < rounds; ++round) {
        const std::size_t together = 1 + random() % 3;
        std::vector<request_id> asked;
        for (std::size_t i = 0; i < together; ++i) {
            const auto request = drawn_request(random);
            const std::string prompt =
                repetition(2 + static_cast<int>(random() % 12), static_cast<int>(random() % 50));
            asked.push_back(++id);
            const held_form form = forms.draw(random);
            for (bare_batch* each : {&plain, &drafting})
                each->add(id, prompt, request)->form = form;
        }
        if (random() % 8 == 0) {
            const int after = 1 + static_cast<int>(random() % 12);
            const auto request = endless(60, random(), 0.0F);
            ++id;
            for (bare_batch* each : {&plain, &drafting})
                cancel_after(*each, each->add(id, repetition(6, 1), request), after);
        }
        const bool has_cancelled = id != asked.back();
        run_out(plain);
        run_out(drafting);
        if (has_cancelled) expect_same_beginning(both, id);
        for (const request_id each : asked) {
            both.expect_same(each);
            if (plain.memory_of(each) == nullptr) continue;
            const auto request = endless(12, random());
            ++id;
            plain.go_on_from(each, id, request);
            drafting.go_on_from(each, id, request);
            run_out(plain);
            run_out(drafting);
            both.expect_same(id);
        }
    }
    EXPECT_GT(taken_by(drafting), both.answers / 2) << "hardly anything was drafted";
    EXPECT_LT(drafting.probe_.steps, plain.probe_.steps);
    EXPECT_EQ(drafted_by(plain), 0u);
    expect_ends_say_what_is_counted(drafting);
    EXPECT_EQ(drafting.pool().layout().has_states(), both.states > 0);
    EXPECT_EQ(plain.frames_held(), 0u);
    EXPECT_EQ(drafting.frames_held(), 0u);
    print_count(both);
}

TEST(drafts, change_no_answer_and_no_memory) { expect_same_answers({4, 64}, rounds_of(12), 1); }

TEST(drafts, change_no_answer_at_16_bits) { expect_same_answers({16, 64}, rounds_of(6), 2); }

TEST(drafts, change_no_answer_across_the_groups_of_a_wide_tail) {
    expect_same_answers(wide, rounds_of(12), 3);
}

// All that this model knows of a text is in its recurrent states.
TEST(drafts, change_no_answer_and_no_state_of_recurrent_layers) {
    expect_same_answers({4, 64}, rounds_of(4), 4, recurrent_model);
}

// Places are `step` apart; with SEMANTIC_DRAFT_ROUNDS all of them.
int step_of(int few) { return asked_rounds() == nullptr ? few : 1; }
constexpr int longest = 40;

// The limits of one answer, and stop strings that end it at each place, lie at each place inside a
// draft.
void expect_same_ends_at_any_place(const std::string& model, int step) {
    const std::string prompt = repetition(6, 7);
    bare_batch plain(with_drafts(false, {4, 64}, model)),
        drafting(with_drafts(true, {4, 64}, model));
    const tokenizer words = *tokenizer::load(model);
    std::string text;
    for (const token_id token : alone(plain, prompt, endless(longest, 1, 0.0F))[0])
        text += words.bytes(token);
    std::vector<generation_request> requests;
    for (int most = 1; most < longest; most += step) requests.push_back(endless(most, 1, 0.0F));
    for (std::size_t end = 3; end < text.size(); end += 3 * static_cast<std::size_t>(step)) {
        requests.push_back(endless(longest, 1, 0.0F));
        requests.back().stop_sequences = {text.substr(end - 3, 3)};
    }
    compared both{plain, drafting};
    request_id id = 1;  // alone()'s
    for (const generation_request& request : requests) plain.add(++id, prompt, request);
    plain.run_all();
    id = 1;
    for (const generation_request& request : requests) {
        drafting.add(++id, prompt, request);
        drafting.run_all();
        both.expect_same(id);
    }
    EXPECT_GT(taken_by(drafting), requests.size());
    print_count(both);
}

TEST(drafts, an_answer_ends_at_any_place_inside_one) {
    expect_same_ends_at_any_place(tests::model_folder, step_of(7));
}

TEST(drafts, an_answer_with_recurrent_layers_ends_at_any_place_inside_one) {
    expect_same_ends_at_any_place(recurrent_model, step_of(13));
}

/// Has the client leave when it has had `tokens` tokens.
void leave_after(bare_batch& runs, request_id id, const std::string& prompt, int tokens) {
    job_ptr work;
    int seen = 0;
    runs.on_emit = [&](const job&, const generation_event& event) {
        if (std::holds_alternative<token_text>(event) && ++seen == tokens) work->cancelled = true;
    };
    work = runs.add(id, prompt, endless(2 * longest, 1, 0.0F));
    runs.run_all();
    runs.on_emit = nullptr;
}

// A client that leaves at each place inside a draft has what would have come, and its agent goes on
// as one that said no more.
void expect_same_when_left_at_any_place(const std::string& model, int step) {
    const std::string prompt = repetition(6, 7);
    bare_batch plain(with_drafts(false, {4, 64}, model)),
        drafting(with_drafts(true, {4, 64}, model));
    compared both{plain, drafting};
    int inside = 0;
    request_id id = 0;
    for (int place = 1; place < longest; place += step) {
        const request_id left = ++id, next = ++id;
        leave_after(drafting, left, prompt, place);
        EXPECT_EQ(drafting.finishes[left].why, stop_reason::cancelled);
        const int said = static_cast<int>(drafting.tokens[left][0].size());
        inside += said > place ? 1 : 0;
        plain.add(left, prompt, endless(said, 1, 0.0F));
        plain.run_all();
        EXPECT_EQ(plain.tokens[left], drafting.tokens[left]);
        EXPECT_EQ(plain.memory_of(left)->tokens, drafting.memory_of(left)->tokens);
        for (bare_batch* each : {&plain, &drafting}) {
            each->go_on_from(left, next, endless(12, id, 0.0F));
            run_out(*each);
        }
        both.expect_same_answer(next);
    }
    EXPECT_GT(inside, 0) << "none left inside a draft";
    expect_ends_say_what_is_counted(drafting);
    print_count(both);
}

TEST(drafts, a_client_leaves_at_any_place_inside_one) {
    expect_same_when_left_at_any_place(tests::model_folder, step_of(5));
}

TEST(drafts, a_client_of_recurrent_layers_leaves_at_any_place_inside_one) {
    expect_same_when_left_at_any_place(recurrent_model, step_of(13));
}

/// A pool for the states of three answers and a block of each, which have two at their end; without
/// states for two blocks in all.
run_options with_tight_pool(run_options options, const storage::kv_layout& layout) {
    options.pool_tokens = 2 * 256;
    if (layout.has_states())
        options.shared = std::make_shared<storage::pool_budget>(
            (3 * 2 * layout.state_frames() + 3) * layout.frame_bytes());
    return options;
}

// The pool has no frames for all of them: they give way to each other, and begin again.
void expect_same_answers_of_preempted(const std::string& model, int rounds) {
    bare_batch plain(with_drafts(false, {4, 64}, model));
    bare_batch drafting(with_tight_pool(with_drafts(true, {4, 64}, model), plain.pool().layout()));
    compared both{plain, drafting};
    std::mt19937_64 random(5);
    drawn_forms forms(model);
    request_id id = 0;
    for (int round = 0; round < rounds; ++round) {
        const request_id first = id + 1;
        for (int i = 0; i < 3; ++i) {
            // Long enough to be in each other's way.
            generation_request request = endless(200, random(), random() % 2 == 0 ? 0.0F : 0.3F);
            if (random() % 3 == 0) request.top_scores = 2;
            if (random() % 3 == 0) request.sampling.frequency_penalty = 0.5F;
            const held_form form = forms.draw(random);
            ++id;
            for (bare_batch* each : {&plain, &drafting})
                each->add(id, repetition(5, static_cast<int>(id % 50)), request)->form = form;
        }
        run_out(plain);
        run_out(drafting);
        for (request_id each = first; each <= id; ++each) both.expect_same_answer(each);
    }
    EXPECT_GT(drafting.saves, plain.saves) << "nobody gave way";
    EXPECT_GT(taken_by(drafting), 0u);
    expect_ends_say_what_is_counted(drafting);
    EXPECT_EQ(drafting.frames_held(), 0u);
    print_count(both);
}

TEST(drafts, of_answers_that_give_way_are_forgotten) {
    expect_same_answers_of_preempted(tests::model_folder, rounds_of(2));
}

TEST(drafts, of_answers_with_recurrent_layers_that_give_way_are_forgotten) {
    expect_same_answers_of_preempted(recurrent_model, rounds_of(1));
}

// A reader has the tokens of a draft one after another without a wait: so do the times.
TEST(drafts, times_between_tokens_are_those_that_a_reader_sees) {
    bare_batch drafting(with_drafts(true));
    std::vector<std::chrono::steady_clock::time_point> seen;
    drafting.on_emit = [&](const job&, const generation_event& event) {
        if (std::holds_alternative<token_text>(event))
            seen.push_back(std::chrono::steady_clock::now());
    };
    drafting.add(1, repetition(20, 7), endless(200, 1, 0.0F));
    drafting.run_all();
    ASSERT_EQ(seen.size(), 200u);
    EXPECT_GT(taken_by(drafting), 100u);
    const auto& times = drafting.probe_.inter_token;
    std::uint64_t count = 0;
    for (const auto& bucket : times.buckets) count += bucket;
    EXPECT_EQ(count, seen.size() - 1) << "one time for each token after the first";
    const auto read_us = std::chrono::duration<double, std::micro>(seen.back() - seen.front());
    // Each time is cut to whole microseconds, and taken a little before the reader has its token.
    EXPECT_NEAR(static_cast<double>(times.sum_us), read_us.count(), 20'000 + read_us.count() / 4);
}

TEST(drafts, spare_passes_where_an_answer_repeats) {
    bare_batch plain(with_drafts(false)), drafting(with_drafts(true));
    for (bare_batch* each : {&plain, &drafting}) {
        each->add(1, repetition(20, 7), endless(200, 1, 0.0F));
        each->run_all();
    }
    EXPECT_EQ(plain.tokens[1], drafting.tokens[1]);
    EXPECT_LT(drafting.probe_.steps, plain.probe_.steps / 2);
}

// What a pass costs is measured while others run: how much is drafted is the machine's affair.
TEST(drafts, are_run_as_far_as_that_is_faster_and_change_nothing) {
    run_options options = with_drafts(true);
    options.drafts = draft_rule::where_faster;
    bare_batch plain(with_drafts(false)), drafting(options);
    for (bare_batch* each : {&plain, &drafting}) {
        for (request_id id = 1; id <= 3; ++id)
            each->add(id, repetition(10, static_cast<int>(id)), endless(60, id, 0.0F));
        each->run_all();
    }
    EXPECT_EQ(plain.tokens, drafting.tokens);
}

TEST(drafts, a_request_that_is_cancelled_while_one_is_run_ends_with_what_it_has) {
    bare_batch drafting(with_drafts(true));
    const job_ptr work = drafting.add(1, repetition(20, 7), endless(500, 1, 0.0F));
    while (taken_by(drafting) < 20) ASSERT_TRUE(drafting.step());
    work->cancelled = true;
    drafting.run_all();
    const std::size_t said = drafting.tokens[1][0].size();
    ASSERT_TRUE(drafting.finishes.contains(1));
    EXPECT_EQ(drafting.finishes[1].why, stop_reason::cancelled);
    const auto memory = drafting.memory_of(1);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(memory->tokens.size() + 1, work->prompt->tokens.size() + said);
}

TEST(drafts, take_no_room_that_others_memory_has) {
    run_options options = with_drafts(true);
    options.pool_tokens = 2 * 256;
    bare_batch drafting(options);
    drafting.add(1, repetition(3, 1), endless(4, 1));
    drafting.run_all();
    ASSERT_NE(drafting.memory_of(1), nullptr);
    const std::string prompt = repetition(7, 7);
    const int room = 256 - drafting.prompt_tokens(prompt);
    ASSERT_GT(room, 20);
    drafting.add(2, prompt, endless(room - 1, 1, 0.0F));
    drafting.run_all();
    EXPECT_GT(taken_by(drafting), 0u);
    EXPECT_NE(drafting.memory_of(1), nullptr) << "was evicted for a draft";
}

}  // namespace
}  // namespace semantic::engine
