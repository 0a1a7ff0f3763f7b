// SPDX-License-Identifier: Apache-2.0
// Who begins, on real frames and without a model. The decisions alone: policy/admission_test.cpp.

#include "engine/scheduler/batch/admitter.hpp"

#include <gtest/gtest.h>

#include "tests/engine/scheduler/batch/silent_outputs.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

constexpr int block = 256;
constexpr int frames_in_pool = 8;  // of one layer, so as many blocks
constexpr int places = 3;

class admitter_ : public testing::Test {
  protected:
    /// A request that waits. `blocks`: how many its prompt and the answer's first token fill.
    job_ptr wait(request_id id, int blocks) {
        auto work = std::make_shared<job>();
        work->id = id;
        work->prompt = resolved_prompt{*storage::agent_id::parse("a" + std::to_string(id))};
        for (int i = 0; i + 1 < blocks * block; ++i) {
            work->prompt->tokens.push_back(static_cast<token_id>(100 * id) + i % 7);
            work->prompt->text += 'x';
            work->prompt->token_ends.push_back(static_cast<std::uint32_t>(i + 1));
        }
        waiting_.push(work);
        return work;
    }
    /// The request continues a memory of its agent, whose frames only the request holds any more.
    void give_memory(const job_ptr& work, int blocks) {
        storage::agent_state state{work->prompt->agent};
        const auto tokens = static_cast<std::size_t>(blocks * block);
        state.tokens.assign(tokens, 5);
        state.text.assign(tokens, 'y');
        for (std::uint32_t i = 0; i < tokens; ++i) state.token_ends.push_back(i + 1);
        storage::kv_sequence cache(pool_, {}, 0);
        ASSERT_TRUE(cache.reserve(blocks * block));
        cache.advance(blocks * block);
        state.blocks = cache.share();
        store_->put(std::move(state));
        ASSERT_TRUE(store_->save(work->prompt->agent));
        work->prompt->source = store_->find(work->prompt->agent);
        ASSERT_TRUE(store_->evict(work->prompt->agent));
    }
    std::vector<request_id> running() const {
        std::vector<request_id> all;
        for (const auto& run : sequences_.running()) all.push_back(run->work().id);
        return all;
    }
    void end(const job_ptr& work) {
        delivery_.end_request(work, finished{});
        sequences_.remove_ended();
    }
    using ids = std::vector<request_id>;

    semantic::tests::temp_dir dir_;
    const storage::kv_layout layout_{{{1, 64, 64, 0}}, {}, block};
    const std::shared_ptr<storage::pool_budget> budget_ =
        std::make_shared<storage::pool_budget>(layout_.frame_bytes() * frames_in_pool);
    storage::block_pool pool_{layout_, budget_};
    const std::unique_ptr<storage::agent_cache_store> store_ = [this] {
        storage::store_options options;
        options.directory = dir_.path();
        return std::move(*storage::agent_cache_store::open(options, pool_));
    }();
    const tokenizer words_ =
        *tokenizer::load(std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny");
    const answer_rules answers_{{}, 100000, {}};
    const chunk_policy chunks_{};
    silent_outputs outputs_;
    engine_probe probe_;
    wait_queue waiting_{*store_, probe_};
    sequence_set sequences_;
    open_choices choices_;
    delivery delivery_{pool_, *store_, 256, sequences_, choices_, outputs_, probe_};
    starter starter_{words_, pool_, *store_, answers_, sequences_, delivery_, outputs_, probe_};
    head_sharing heads_{*store_, sequences_, waiting_, starter_, delivery_, probe_};
    admitter admitter_under_test_{pool_,      *store_,  chunks_,  places, waiting_,
                                  sequences_, choices_, starter_, heads_};
    void admit(bool transient_holds = false) { admitter_under_test_.admit(transient_holds); }
};

TEST_F(admitter_, requests_begin_in_order_of_arrival_as_long_as_there_are_places) {
    const job_ptr first = wait(1, 1);
    for (request_id id : {2, 3, 4, 5}) wait(id, 1);
    admit();
    EXPECT_EQ(running(), (ids{1, 2, 3}));
    end(first);
    admit();
    EXPECT_EQ(running(), (ids{2, 3, 4}));
    EXPECT_EQ(waiting_.size(), 1u);
}

TEST_F(admitter_, the_last_frame_is_promised_once) {
    wait(1, 5);
    wait(2, 3);
    admit();
    EXPECT_EQ(running(), (ids{1, 2})) << "5 and 3 of 8 frames";
    EXPECT_EQ(pool_.held_count(), 0u) << "promised, and taken when they are computed";
}

TEST_F(admitter_, a_request_that_does_not_fit_waits_and_is_not_overtaken) {
    const job_ptr first = wait(1, 5);
    wait(2, 4);
    wait(3, 1);
    admit();
    EXPECT_EQ(running(), (ids{1}));
    end(first);
    admit();
    EXPECT_EQ(running(), (ids{2, 3}));
}

TEST_F(admitter_, preempted_sequences_come_before_requests_that_wait_and_need_a_block_more) {
    wait(1, 5);
    const job_ptr second = wait(2, 3);
    admit();
    sequences_.preempt(sequences_.youngest_running());
    wait(3, 1);
    admit();
    EXPECT_EQ(running(), (ids{1})) << "5 and 3 and one more are too many, and 3 has to wait for it";
    end(second);
    admit();
    EXPECT_EQ(running(), (ids{1, 3}));
}

TEST_F(admitter_, what_the_first_would_go_on_from_is_in_no_other_models_way) {
    storage::block_pool other(layout_, budget_);
    const auto taken = *other.allocate(4);
    budget_->set_busy(other, true);
    const job_ptr first = wait(1, 8);
    give_memory(first, 4);
    ASSERT_EQ(pool_.held_count(), 4u);
    admit();
    EXPECT_EQ(running(), ids{});
    EXPECT_EQ(pool_.held_count(), 0u) << "nobody else could have taken them";
    EXPECT_NE(first->prompt->source, nullptr) << "they are on disk";
    other.release(taken);
    budget_->set_busy(other, false);
    admit();
    EXPECT_EQ(running(), ids{1});
}

TEST_F(admitter_, a_model_in_front_of_the_line_begins_first_though_nothing_of_it_runs_yet) {
    storage::block_pool other(layout_, budget_);
    const auto taken = *other.allocate(4);
    budget_->set_busy(other, true);
    budget_->wait(other, 6);
    wait(1, 8);
    admit();
    EXPECT_EQ(running(), ids{});
    other.release(taken);
    budget_->set_busy(other, false);
    admit();
    EXPECT_EQ(running(), ids{}) << "6 frames are the other's before 8 are this one's";
    EXPECT_EQ(budget_->frames_before(pool_), 6u);
    budget_->wait(other, 0);
    admit();
    EXPECT_EQ(running(), ids{1});
}

TEST_F(admitter_, a_model_is_at_work_as_soon_as_a_request_begins) {
    const storage::block_pool other(layout_, budget_);
    wait(1, 1);
    EXPECT_FALSE(budget_->others_are_busy(other));
    admit();
    EXPECT_TRUE(budget_->others_are_busy(other)) << "its first step may take seconds";
}

TEST_F(admitter_, memory_that_no_sequence_runs_on_is_evicted_for_a_request) {
    const job_ptr before = wait(1, 1);
    give_memory(before, 6);
    before->prompt->source.reset();
    const auto state = store_->find(before->prompt->agent);
    ASSERT_TRUE(store_->restore(*state, 6 * block));
    ASSERT_EQ(pool_.held_count(), 6u);
    waiting_.take(waiting_.jobs().front());
    wait(2, 8);
    admit();
    EXPECT_EQ(running(), (ids{2}));
    EXPECT_EQ(pool_.held_count(), 0u);
}

TEST_F(admitter_, a_lone_request_gets_the_frames_that_others_hold_while_they_wait) {
    wait(1, 8);
    const job_ptr second = wait(2, 4);
    give_memory(second, 3);
    ASSERT_EQ(pool_.held_count(), 3u);
    admit(true);
    EXPECT_EQ(running(), (ids{1}));
    EXPECT_EQ(pool_.held_count(), 0u);
    EXPECT_EQ(second->prompt->source->tokens.size(), 3u * block) << "to be read again";
}

TEST_F(admitter_, a_lone_request_waits_for_frames_that_are_held_for_a_moment_only) {
    storage::kv_sequence moment(pool_, {}, 0);
    ASSERT_TRUE(moment.reserve(block));
    wait(1, 8);
    admit(true);
    EXPECT_EQ(running(), ids{});
    admit(false);
    EXPECT_EQ(running(), (ids{1})) << "nothing would ever free them: it tries";
}

}  // namespace
}  // namespace semantic::engine
