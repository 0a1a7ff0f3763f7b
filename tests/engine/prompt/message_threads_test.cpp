// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/message_threads.hpp"

#include <gtest/gtest.h>

#include "engine/prompt/prompt_notes.hpp"
#include "tests/engine/prompt/stored_prompts.hpp"

namespace semantic::engine {
namespace {

using tests::chat_of;

class message_threads_ : public tests::stored_prompts {
  protected:
    static generation_request turn(const std::string& message_id, conversation chat) {
        generation_request request;
        request.message_id = message_id;
        request.keeps_thread = true;
        request.chat = std::move(chat);
        return request;
    }
    /// The first prompt of a thread, as agent "a".
    resolved_prompt first(const std::string& message_id) const {
        const generation_request request = turn(message_id, chat_of({"Hello."}));
        resolved_prompt prompt{*storage::agent_id::parse("a"), *chat_.render(request.chat, {})};
        prompt.tokens = words_.encode(prompt.text, prompt.token_ends);
        threads_.note(request, {}, prompt);
        return prompt;
    }
    storage::result<resolved_prompt> next(const std::string& after, const std::string& message_id,
                                          const text_bound* bound = nullptr) const {
        generation_request request = turn(message_id, chat_of({"And then?"}));
        request.continues = after;
        return threads_.resume(request, bound);
    }
    /// Stores what is left when the model has said `answer` to the prompt. `rest`: without KV.
    void answered(const resolved_prompt& prompt, const std::string& message_id,
                  const std::string& answer, const std::string& rest = {}) {
        storage::agent_state state{prompt.agent};
        state.text = prompt.text + answer;
        state.tokens = prompt.tokens;
        state.token_ends = prompt.token_ends;
        std::vector<std::uint32_t> ends;
        for (token_id token : words_.encode(answer, ends)) state.tokens.push_back(token);
        for (std::uint32_t end : ends)
            state.token_ends.push_back(static_cast<std::uint32_t>(prompt.text.size()) + end);
        state.notes = prompt.notes;
        state.messages = prompt.messages;
        state.messages.push_back(
            {message_id, static_cast<std::uint32_t>(state.tokens.size()), rest});
        put(std::move(state));
    }
    bool is_known(const std::string& message_id) const {
        return threads_.find({}, message_id).has_value();
    }

    message_threads threads_{words_, chat_, *store_, words_.vocabulary()};
};

TEST_F(message_threads_, a_later_turn_goes_on_in_the_memorys_tokens_behind_the_answer_named) {
    answered(first("m1"), "m1", "Good day.");
    const auto one = store_->find(*storage::agent_id::parse("a"));
    const auto second = *next("m1", "m2");
    EXPECT_EQ(second.reuse_tokens, static_cast<int>(one->tokens.size()));
    EXPECT_EQ(second.text, *chat_.render(chat_of({"Hello.", "Good day.", "And then?"}), {}));
    answered(second, "m2", "Nothing.");

    const auto branch = *next("m1", "m3");
    EXPECT_EQ(branch.reuse_tokens, static_cast<int>(one->tokens.size()));
    EXPECT_EQ(branch.messages, one->messages) << "answers behind the one named are not there";
    EXPECT_EQ(next("m2", "m3")->messages.size(), 2u);
}

TEST_F(message_threads_, an_answer_is_known_to_its_tenant_and_says_whether_two_others_follow) {
    answered(first("m1"), "m1", "Good day.");
    EXPECT_FALSE(threads_.find({}, "m1")->is_continued);
    EXPECT_EQ(threads_.find(store_->tenant("key"), "m1"), std::nullopt);
    answered(*next("m1", "m2"), "m2", "Nothing.");
    EXPECT_FALSE(threads_.find({}, "m1")->is_continued) << "the next may not have arrived";
    answered(*next("m2", "m3"), "m3", "Still nothing.");
    EXPECT_TRUE(threads_.find({}, "m1")->is_continued);
    EXPECT_FALSE(threads_.find({}, "m2")->is_continued);
    EXPECT_FALSE(threads_.find({}, "m3")->is_continued);
}

TEST_F(message_threads_, an_answer_that_was_not_kept_as_a_threads_is_lost) {
    resolved_prompt prompt = first("m1");
    prompt.notes.erase(thread_tools_note);
    answered(prompt, "m1", "Good day.");
    EXPECT_FALSE(is_known("m1"));
    EXPECT_EQ(next("m1", "m2").error().code, storage::errc::not_found);
    EXPECT_EQ(next("never", "m2").error().code, storage::errc::not_found);
}

TEST_F(message_threads_, an_answer_that_its_agent_has_parted_from_is_lost) {
    answered(first("m1"), "m1", "Good day.");
    answered(first("m2"), "m2", "Another day.");
    EXPECT_FALSE(is_known("m1"));
    EXPECT_TRUE(is_known("m2"));
}

TEST_F(message_threads_, bytes_without_kv_stand_between_the_memory_and_the_next_turn) {
    answered(first("m1"), "m1", "Good", " day.");
    const auto memory = store_->find(*storage::agent_id::parse("a"));
    const auto prompt = *next("m1", "m2");
    EXPECT_TRUE(prompt.text.starts_with(memory->text + " day.")) << prompt.text;
    EXPECT_EQ(prompt.reuse_tokens, static_cast<int>(memory->tokens.size()));
    EXPECT_EQ(prompt.text, *chat_.render(chat_of({"Hello.", "Good day.", "And then?"}), {}));
}

TEST_F(message_threads_, a_turn_notes_where_the_answer_before_begins_and_where_its_own_does) {
    answered(first("m1"), "m1", "Good day.");
    const auto prompt = *next("m1", "m2");
    const std::string& note = prompt.notes.at(answers_note);
    EXPECT_EQ(begin_of(note, "m1"), first("m1").text.size()) << "should this turn be broken off";
    EXPECT_EQ(begin_of(note, "m2"), prompt.text.size());
}

TEST_F(message_threads_, a_prompt_that_cannot_fit_is_refused_before_it_is_tokenised) {
    answered(first("m1"), "m1", "Good day.");
    const std::size_t bytes = next("m1", "m2")->text.size();
    const std::size_t widest = words_.bytes_per_token_max();
    const auto least = static_cast<int>((bytes + widest - 1) / widest);
    const text_bound at(words_, least);
    const text_bound above(words_, least + 1);
    EXPECT_FALSE(next("m1", "m2", &above)->refused);
    const auto refused = *next("m1", "m2", &at);
    ASSERT_TRUE(refused.refused);
    EXPECT_EQ(refused.refused->excess->tokens, least);
    EXPECT_TRUE(refused.tokens.empty());
}

}  // namespace
}  // namespace semantic::engine
