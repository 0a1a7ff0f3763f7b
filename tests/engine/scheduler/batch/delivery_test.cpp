// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/delivery.hpp"

#include <gtest/gtest.h>

#include "tests/engine/scheduler/bare_sequences.hpp"
#include "tests/engine/scheduler/batch/silent_outputs.hpp"

namespace semantic::engine {
namespace {

constexpr int early_save_tokens = 100;

class delivery_ : public tests::bare_sequences {
  protected:
    /// Logits of which the token of "a" is drawn.
    std::vector<float> logits() const {
        std::vector<float> all(static_cast<std::size_t>(words_.vocabulary()));
        all[static_cast<std::size_t>(words_.encode("a").front())] = 50.0f;
        return all;
    }
    /// Request `id` with `choices` choices, the prompt computed.
    sequence& computed(request_id id, int tokens, int choices = 1) {
        generation_request& wanted = job_of(id, tokens)->request;
        wanted.choices = choices;
        wanted.max_tokens = 100;
        wanted.sampling.temperature = 0.0f;
        job_of(id, tokens)->choices_left = choices;
        return add_computed(id, tokens);
    }
    int remembered() {
        const auto state = store_->find(*storage::agent_id::parse("a"));
        return state == nullptr ? 0 : static_cast<int>(state->tokens.size());
    }

    open_choices choices_;
    engine_probe probe_;
    struct kept_outputs final : silent_outputs {
        void emit_event(const job_ptr&, generation_event event) override {
            if (auto* token = std::get_if<token_text>(&event)) shown.push_back(token->choice);
        }
        void commit_end(ended_request ended) override { ends.push_back(std::move(ended)); }
        void save_agent(const storage::agent_id&, storage::save_extent extent) override {
            saves.push_back(extent);
        }
        std::vector<storage::save_extent> saves;
        std::vector<int> shown;  // choices whose tokens were shown, in their order
        std::vector<ended_request> ends;
    };
    kept_outputs outputs_;
    std::vector<storage::save_extent>& saves_ = outputs_.saves;
    std::vector<int>& shown_ = outputs_.shown;
    std::vector<ended_request>& ends_ = outputs_.ends;
    delivery deliver_{pool_, *store_, early_save_tokens, set_, choices_, outputs_, probe_};
};

TEST_F(delivery_, a_prompt_with_enough_new_tokens_is_saved_while_its_answer_is_generated) {
    struct row {
        int tokens, reused;
        bool saved;
    };
    request_id id = 0;
    for (const row& each :
         {row{early_save_tokens - 1, 0, false}, row{early_save_tokens, 0, true},
          row{early_save_tokens + 5, 6, false}, row{early_save_tokens + 5, 5, true}}) {
        SCOPED_TRACE(testing::Message() << each.tokens << " tokens, " << each.reused << " reused");
        saves_.clear();
        sequence& run = computed(++id, each.tokens);
        run.work_ptr()->prompt->reuse_tokens = each.reused;
        deliver_.take_token(run, logits());
        EXPECT_EQ(saves_.size(), each.saved ? 1u : 0u);
        deliver_.take_token(run, logits());
        EXPECT_EQ(saves_.size(), each.saved ? 1u : 0u) << "once, with the first token";
    }
}

TEST_F(delivery_, what_is_saved_early_ends_with_a_whole_block) {
    deliver_.take_token(computed(1, 700), logits());
    EXPECT_EQ(saves_, std::vector{storage::save_extent::everything});
    EXPECT_EQ(remembered(), 512);
}

TEST_F(delivery_, a_prompt_of_several_choices_is_published_for_them_however_short) {
    sequence& run = computed(1, 3, 2);
    deliver_.take_token(run, logits());
    EXPECT_EQ(saves_, std::vector{storage::save_extent::full_blocks});
    EXPECT_EQ(remembered(), 3);
    ASSERT_FALSE(choices_.empty());
    EXPECT_EQ(choices_.front().logits, logits());
    EXPECT_EQ(choices_.front().next, 1);
}

TEST_F(delivery_, a_request_ends_with_the_last_of_its_choices_and_counts_the_tokens_of_all) {
    sequence& first = computed(1, 3, 2);
    sequence& second = add_computed(1, 3, 1);
    deliver_.end_choice(first, finished{stop_reason::end_turn, "", 5, false});
    EXPECT_TRUE(ends_.empty());
    deliver_.end_choice(second, finished{stop_reason::max_tokens, "", 7, false});
    ASSERT_EQ(ends_.size(), 1u);
    const auto& last = std::get<finished>(ends_[0].last);
    EXPECT_EQ(last.why, stop_reason::end_turn) << "of the first choice";
    EXPECT_EQ(last.output_tokens, 12);
    EXPECT_TRUE(ends_[0].remembered);
}

TEST_F(delivery_, a_choice_that_has_ended_takes_no_token) {
    sequence& run = computed(1, 3);
    set_.end(run);
    deliver_.take_token(run, logits());
    EXPECT_TRUE(shown_.empty());
    EXPECT_EQ(run.output_tokens(), 0);
}

TEST_F(delivery_, a_request_that_is_ended_from_outside_ends_once_with_all_its_choices) {
    sequence& run = computed(1, 3, 3);
    deliver_.take_token(run, logits());
    add_computed(1, 3, 1);
    const job_ptr work = run.work_ptr();
    deliver_.end_request(work, finished{stop_reason::cancelled, "", 0, false});
    deliver_.end_request(work, finished{stop_reason::cancelled, "", 0, false});
    ASSERT_EQ(ends_.size(), 1u);
    EXPECT_EQ(std::get<finished>(ends_[0].last).output_tokens, 1);
    EXPECT_TRUE(choices_.empty()) << "the third choice does not begin any more";
    set_.remove_ended();
    EXPECT_TRUE(set_.empty());
}

}  // namespace
}  // namespace semantic::engine
