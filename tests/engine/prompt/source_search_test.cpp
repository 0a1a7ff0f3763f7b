// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/source_search.hpp"

#include <gtest/gtest.h>

#include "engine/prompt/prompt_notes.hpp"
#include "engine/prompt/prompt_tokens.hpp"
#include "tests/engine/prompt/stored_prompts.hpp"

namespace semantic::engine {
namespace {

using tests::nobody_is_busy;

class source_search_ : public tests::stored_prompts {
  protected:
    /// An agent whose memory is the text, without an answer.
    storage::agent_id told(const std::string& id, const std::string& text,
                           const storage::tenant_id& tenant = {}) {
        storage::agent_state state{storage::agent_id::parse(id)->owned_by(tenant)};
        state.text = text;
        state.tokens = words_.encode(text, state.token_ends);
        state.notes[canonical_note] = std::to_string(state.tokens.size());
        const storage::agent_id agent = state.id;
        put(std::move(state));
        return agent;
    }
    static generation_request from(const std::string& agent) { return tests::ask(agent, {}, 1); }
    prompt_source best(const generation_request& request, const std::string& text) const {
        const marked_text marked(text, false);
        searched_prompt prompt = search_.search_for(marked);
        return search_.best(request, prompt);
    }
    prompt_source anonymous(const std::string& text, const busy_agents& busy) const {
        const marked_text marked(text, false);
        searched_prompt prompt = search_.search_for(marked);
        return search_.anonymous_conversation({}, prompt, busy);
    }

    const std::string three_ = "One two three.";
    const std::string five_ = three_ + " Four five.";
    source_search search_{words_, *store_};
};

TEST_F(source_search_, an_agent_that_goes_on_keeps_to_its_own_memory_whoever_knows_more) {
    const auto a = told("a", three_);
    told("b", five_ + " Six.");
    const prompt_source found = best(from("a"), five_);
    EXPECT_EQ(found.state->id, a);
    EXPECT_TRUE(found.as_sampled);
    EXPECT_EQ(found.match.kind, match_kind::extend);
    EXPECT_EQ(found.match.bytes, three_.size());
}

TEST_F(source_search_, what_was_read_ahead_changes_no_token_wherever_it_ended) {
    const std::string text = "Ann: It rains.\nBob, to you alone: psst... \n\n  Really?!\nCid: Yes.";
    const std::vector<token_id> fresh = words_.encode(text);
    for (std::size_t end = 1; end < text.size(); ++end) {
        storage::agent_state state{*storage::agent_id::parse("a" + std::to_string(end))};
        state.text = text.substr(0, end);
        state.tokens = words_.encode(state.text, state.token_ends);
        const char* note = end % 2 == 0 ? open_message_note : partly_read_note;
        state.notes[note] = std::to_string(state.tokens.size());
        const std::string agent = state.id.str();
        put(std::move(state));
        const prompt_source found = best(from(agent), text);
        resolved_prompt prompt{*storage::agent_id::parse(agent), text};
        tokenise(words_, found, prompt);
        ASSERT_EQ(prompt.tokens, fresh) << "read up to " << text.substr(0, end);
    }
}

TEST_F(source_search_, an_agent_that_parted_from_its_memory_shares_what_another_knows) {
    told("a", three_ + " Something else.");
    const auto b = told("b", five_ + " Six.");
    const prompt_source found = best(from("a"), five_ + " Seven.");
    EXPECT_EQ(found.state->id, b);
    EXPECT_FALSE(found.as_sampled);
    EXPECT_GT(found.match.bytes, three_.size());
}

TEST_F(source_search_, of_two_that_reach_equally_far_the_agents_own_is_taken) {
    const auto a = told("a", five_ + " Six.");
    told("b", five_ + " Six.");
    const prompt_source found = best(from("a"), five_ + " Seven.");
    EXPECT_EQ(found.state->id, a);
    EXPECT_TRUE(found.as_sampled);
}

TEST_F(source_search_, an_answer_that_was_cut_inside_a_character_goes_on_there) {
    const std::string rocket = "\xF0\x9F\x9A\x80";
    storage::agent_state state{*storage::agent_id::parse("a")};
    state.text = three_ + rocket.substr(0, 3);
    state.tokens = words_.encode(state.text, state.token_ends);
    const std::size_t known = state.tokens.size();
    put(std::move(state));
    const prompt_source found = best(from("a"), three_ + rocket + " Four.");
    EXPECT_EQ(found.match.kind, match_kind::extend);
    EXPECT_EQ(found.match.tokens, known);

    resolved_prompt prompt{.agent = *storage::agent_id::parse("a"),
                           .text = three_ + rocket + " Four."};
    tokenise(words_, found, prompt);
    EXPECT_EQ(words_.decode(prompt.tokens), prompt.text);
    EXPECT_EQ(prompt.token_ends.back(), prompt.text.size());
}

TEST_F(source_search_, a_parent_counts_until_the_agent_has_a_memory_of_its_own) {
    const auto parent = told("p", five_);
    generation_request request = from("a");
    request.parent = parent;
    const prompt_source from_parent = best(request, five_ + " Six.");
    EXPECT_EQ(from_parent.state->id, parent);
    EXPECT_TRUE(from_parent.as_sampled);

    const auto a = told("a", "Nothing of the kind.");
    EXPECT_EQ(search_.own_or_parents_memory(request)->id, a);
    EXPECT_FALSE(best(request, five_ + " Six.").as_sampled) << "the parent is one of many then";
}

TEST_F(source_search_, another_tenants_agents_are_not_asked) {
    const auto tenant = store_->tenant("key");
    told("b", five_, tenant);
    EXPECT_EQ(best(from("a"), five_ + " Six.").state, nullptr);
    told("msg_b", five_, tenant);
    EXPECT_EQ(anonymous(five_ + " Six.", nobody_is_busy).state, nullptr);
    generation_request request = from("");
    request.tenant = tenant;
    EXPECT_NE(best(request, five_ + " Six.").state, nullptr);
}

TEST_F(source_search_, an_anonymous_turn_passes_over_agents_with_a_name_and_busy_ones) {
    told("named", five_);
    const auto shorter = told("msg_1", three_);
    const auto longer = told("msg_2", five_);
    const auto is_longer = [&](const storage::agent_id& id) { return id == longer; };
    EXPECT_EQ(anonymous(five_ + " Six.", nobody_is_busy).state->id, longer);
    EXPECT_EQ(anonymous(five_ + " Six.", is_longer).state->id, shorter);
    EXPECT_EQ(anonymous(five_ + " Six.", [](const auto&) { return true; }).state, nullptr);
}

TEST_F(source_search_, of_two_that_reach_equally_far_the_conversation_that_is_continued_is_taken) {
    const auto whole = told("msg_2", three_);
    told("msg_1", three_ + "|");
    told("msg_3", three_ + "|");
    const prompt_source found = anonymous(five_, nobody_is_busy);
    EXPECT_EQ(found.state->id, whole);
    EXPECT_EQ(found.match.kind, match_kind::extend);
}

TEST_F(source_search_, a_prompt_is_tokenised_once_and_only_where_tokens_are_compared) {
    const marked_text marked(five_, false);
    searched_prompt prompt = search_.search_for(marked);
    EXPECT_EQ(best(from("a"), five_).prompt, nullptr) << "nobody to compare with";
    EXPECT_EQ(prompt.known_tokens(), nullptr);
    const auto tokens = prompt.tokens();
    EXPECT_EQ(tokens->tokens, words_.encode(five_));
    EXPECT_EQ(prompt.tokens(), tokens);
    EXPECT_EQ(prompt.known_tokens(), tokens);
}

}  // namespace
}  // namespace semantic::engine
