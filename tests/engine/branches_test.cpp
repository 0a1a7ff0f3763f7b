// SPDX-License-Identifier: Apache-2.0
// Requests in a session's name that are no turns of its conversation, and conversations without a
// name.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::chat_of;
using tests::load;
using tests::long_paste;
using tests::options_in;
using tests::run;
using tests::temp_dir;
using tests::transcript;

class branches : public ::testing::Test {
  protected:
    static constexpr const char* session = "sess_a";

    static generation_request in_session(conversation chat, int max_tokens = 8) {
        generation_request request = tests::ask(session, std::move(chat), max_tokens);
        request.agent_may_branch = true;
        return request;
    }
    static conversation with_tool(conversation chat) {
        chat.tools.push_back({"look", "Looks something up.", R"({"type":"object"})"});
        return chat;
    }
    std::shared_ptr<transcript> ask(conversation chat) {
        return run(*engine_, in_session(std::move(chat)));
    }
    int remembered() const { return engine_->inspect(*storage::agent_id::parse(session))->tokens; }
    static int not_reused(const transcript& answer) {
        return answer.usage.prompt_tokens - answer.usage.reused_tokens;
    }

    temp_dir dir_;
    std::unique_ptr<engine> engine_ = load(options_in(dir_.path()));
};

TEST_F(branches, a_title_between_two_turns_takes_nothing_from_the_session) {
    const std::string paste = long_paste(10), system = "You are a nurse.";
    const auto first = ask(with_tool(chat_of({paste}, system)));
    EXPECT_EQ(first->agent, session);
    const int before = remembered();
    const auto title = ask(chat_of({"A title for this, please: " + paste.substr(0, 40)}));
    EXPECT_TRUE(title->agent.starts_with("msg_")) << title->agent;
    EXPECT_EQ(title->usage.why, miss_reason::tools_changed);
    EXPECT_EQ(remembered(), before);
    const auto second = ask(with_tool(chat_of({paste, first->text, "And now?"}, system)));
    EXPECT_EQ(second->agent, session);
    EXPECT_GE(second->usage.reused_tokens, before);
    EXPECT_EQ(second->usage.why, miss_reason::none);
}

TEST_F(branches, what_is_longer_with_other_tools_or_shorter_with_the_same_replaces_nothing) {
    const auto first = ask(chat_of({long_paste(4)}));
    const int before = remembered();
    EXPECT_NE(ask(with_tool(chat_of({long_paste(8)})))->agent, session);
    EXPECT_NE(ask(chat_of({"Hello."}))->agent, session);
    // Its beginning alone is shared, and no turn of it.
    const auto second = ask(chat_of({long_paste(4), first->text, "Go on."}));
    EXPECT_EQ(second->agent, session);
    const auto early = ask(chat_of({long_paste(4)}));
    EXPECT_NE(early->agent, session);
    EXPECT_EQ(not_reused(*early), 1);
    EXPECT_GT(remembered(), before);
}

TEST_F(branches, a_branch_goes_on_as_itself) {
    ask(with_tool(chat_of({long_paste(10)})));
    const auto one = ask(chat_of({"Tell me of day 3: " + long_paste(2)}));
    const auto two = ask(chat_of({"Tell me of day 3: " + long_paste(2), one->text, "And 4?"}));
    EXPECT_EQ(two->agent, one->agent);
    EXPECT_GE(two->usage.reused_tokens, one->usage.prompt_tokens);
}

TEST_F(branches, are_found_by_the_sessions_name_also_after_a_restart) {
    const auto id = *storage::agent_id::parse(session);
    const std::string paste = long_paste(4);
    const auto first = ask(with_tool(chat_of({paste})));
    const auto title = ask(chat_of({"A title, please."}));
    const auto other = run(*engine_, tests::ask("", chat_of({"Who are you?"}), 8));
    ASSERT_NE(title->agent, session);
    const std::vector<storage::agent_id> names{*storage::agent_id::parse(title->agent)};
    EXPECT_EQ(engine_->branches(id), names);
    EXPECT_TRUE(engine_->branches(names[0]).empty());
    // A request that continues it takes nothing from the session's.
    const auto more =
        run(*engine_, tests::ask("", chat_of({"A title, please.", title->text, "Why?"}), 8));
    ASSERT_EQ(more->agent, title->agent);
    EXPECT_EQ(engine_->branches(id), names);
    engine_.reset();
    engine_ = load(options_in(dir_.path()));
    EXPECT_EQ(engine_->branches(id), names);
    EXPECT_TRUE(engine_->erase(names[0]));
    EXPECT_TRUE(engine_->branches(id).empty());
}

TEST_F(branches, a_turn_that_is_asked_again_or_goes_another_long_way_is_the_sessions) {
    const auto first = ask(chat_of({long_paste(4)}));
    EXPECT_EQ(ask(chat_of({long_paste(4)}))->agent, session) << "again";
    EXPECT_EQ(ask(chat_of({long_paste(4), "Not what it said.", "Go on."}))->agent, session);
    EXPECT_EQ(ask(chat_of({"Another beginning. " + long_paste(9)}))->agent, session);
    // An agent by its own name has the memory that it was last asked for.
    generation_request named = in_session(chat_of({"Hello."}));
    named.agent_may_branch = false;
    EXPECT_EQ(run(*engine_, named)->agent, session);
}

// Two branches and the next turn wait for a turn that runs: each gives way when it has ended.
TEST_F(branches, that_wait_behind_their_session_are_all_answered) {
    const auto first = ask(with_tool(chat_of({long_paste(6)})));
    std::vector<std::shared_ptr<transcript>> sinks;
    const auto submit = [&](conversation chat, int max_tokens) {
        sinks.push_back(std::make_shared<transcript>());
        engine_->submit(in_session(std::move(chat), max_tokens), sinks.back());
    };
    submit(with_tool(chat_of({long_paste(6), first->text, "Go on."})), 60);
    submit(chat_of({"A title."}), 4);
    submit(chat_of({"A title."}), 4);
    submit(with_tool(chat_of({long_paste(6), first->text, "Go on."})), 4);
    submit(chat_of({"A summary."}), 4);
    for (const auto& sink : sinks) {
        ASSERT_TRUE(sink->wait());
        EXPECT_TRUE(sink->finished);
    }
    EXPECT_EQ(sinks[0]->agent, session);
    EXPECT_NE(sinks[1]->agent, session);
    EXPECT_EQ(sinks[3]->agent, session);
    EXPECT_NE(sinks[4]->agent, session);
}

// What clients send with one prompt_cache_key: no name at all.
// A client leaves an answer out that its user has broken off, and maybe the question too.
TEST_F(branches, a_conversation_without_a_name_goes_on_behind_an_answer_that_was_broken_off) {
    const auto ask = [&](std::vector<std::string> turns, int max_tokens = 24) {
        return run(*engine_, tests::ask("", chat_of(std::move(turns)), max_tokens));
    };
    // As by a client that leaves, and on a machine of any speed in the middle of 4,000 tokens.
    const auto break_off = [&](std::vector<std::string> turns) {
        generation_request request = tests::ask("", chat_of(std::move(turns)), 4000);
        request.sampling.biases = {{2, -100.0f}};  // <|im_end|>: it does not end by itself
        request.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(15);
        EXPECT_EQ(run(*engine_, std::move(request))->finished->why, stop_reason::deadline);
    };
    const auto first = ask({long_paste(4)});
    const auto second = ask({long_paste(4), first->text, "Go on."});
    ASSERT_EQ(second->agent, first->agent);
    std::vector<std::string> told{long_paste(4), first->text, "Go on.", second->text};
    const auto turns_and = [&](std::string more) {
        std::vector<std::string> turns = told;
        turns.push_back(std::move(more));
        return turns;
    };
    break_off(turns_and("Tell me everything."));
    const auto third = ask(turns_and("What is my dog called?"));
    EXPECT_EQ(third->agent, first->agent);
    EXPECT_GE(third->usage.reused_tokens,
              second->usage.prompt_tokens + second->finished->output_tokens - 1);
    // The answer that came to its end follows it, so a prompt that diverges before that is another
    // one.
    told.push_back("What is my dog called?");
    told.push_back(third->text);
    break_off(turns_and("Tell me everything."));
    EXPECT_NE(ask({long_paste(4), first->text, "Go back."})->agent, first->agent);
    EXPECT_EQ(ask(turns_and("And now?"))->agent, first->agent);
}

// It came to its end here, but not there: the client had left.
TEST_F(branches, a_conversation_without_a_name_goes_on_where_its_last_answer_is_left_out) {
    const auto ask = [&](conversation chat) {
        return run(*engine_, tests::ask("", std::move(chat), 24));
    };
    const auto first = ask(chat_of({long_paste(4)}));
    const auto second = ask(chat_of({long_paste(4), first->text, "Go on."}));
    conversation without = chat_of({long_paste(4), first->text, "Go on."});
    without.messages.push_back(chat_of({"And now?"}).messages.front());
    const auto third = ask(std::move(without));
    EXPECT_EQ(third->agent, first->agent);
    EXPECT_GE(third->usage.reused_tokens + 4, second->usage.prompt_tokens);
}

TEST_F(branches, a_conversation_that_begins_like_another_one_without_a_name_takes_nothing_from_it) {
    const auto ask = [&](std::vector<std::string> turns) {
        return run(*engine_, tests::ask("", chat_of(std::move(turns)), 24));
    };
    const auto first = ask({long_paste(4)});
    const auto second = ask({long_paste(4), first->text, "Go on."});
    const auto again = ask({long_paste(4), first->text, "Go on."});
    EXPECT_EQ(again->agent, first->agent) << "the last answer once more";
    EXPECT_EQ(not_reused(*again), 1);
    const auto stranger = ask({long_paste(4)});
    EXPECT_NE(stranger->agent, first->agent);
    EXPECT_EQ(not_reused(*stranger), 1);
    const auto third = ask({long_paste(4), first->text, "Go on.", again->text, "And now?"});
    EXPECT_EQ(third->agent, first->agent);
    EXPECT_GE(third->usage.reused_tokens, again->usage.prompt_tokens);
}

TEST_F(branches, eight_conversations_without_a_name_reuse_each_its_own) {
    const std::string system = long_paste(3);
    std::vector<std::vector<std::string>> turns;
    std::vector<std::string> agents;
    for (int i = 0; i < 8; ++i) {
        turns.push_back({"Conversation " + std::to_string(i) + ". " + long_paste(2 + i)});
        const auto answer = run(*engine_, tests::ask("", chat_of(turns.back(), system), 8));
        turns.back().push_back(answer->text);
        turns.back().push_back("And what of it?");
        agents.push_back(answer->agent);
    }
    for (std::size_t i = 0; i < turns.size(); ++i) {
        const auto answer = run(*engine_, tests::ask("", chat_of(turns[i], system), 8));
        EXPECT_EQ(answer->agent, agents[i]);
        EXPECT_LT(not_reused(*answer), 40) << i;
    }
}

}  // namespace
}  // namespace semantic::engine
