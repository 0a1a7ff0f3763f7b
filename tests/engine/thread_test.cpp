// SPDX-License-Identifier: Apache-2.0
// Goal: a conversation goes on from the name of its last answer alone, token by token where that
// answer ended, also after a restart, and says what it would say if all of it were sent.

#include <gtest/gtest.h>

#include "engine/engine.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
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

/// The first turn of a thread.
generation_request opened(const std::string& id, conversation chat, int max_tokens = 40) {
    generation_request request = ask("t", std::move(chat), max_tokens);
    request.message_id = id;
    request.keeps_thread = true;
    return request;
}

/// A later one: `chat` is what is new.
generation_request continued(const std::string& id, const std::string& previous, conversation chat,
                             int max_tokens = 40) {
    generation_request request = opened(id, std::move(chat), max_tokens);
    request.agent.reset();
    request.continues = previous;
    return request;
}

const storage::tenant_id nobody;

TEST(engine_thread, says_what_the_whole_conversation_says_and_takes_up_every_token) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const std::string told = long_paste(20) + "My dog is called Biscuit.";
    auto whole = run(*engine, ask("w", chat_of({told})));
    auto first = run(*engine, opened("msg_1", chat_of({told})));
    ASSERT_TRUE(first->finished);
    EXPECT_EQ(first->text, whole->text);

    const char* question = "What is my dog called?";
    auto asked = run(*engine, ask("w", chat_of({told, whole->text, question})));
    generation_request next = continued("msg_2", "msg_1", chat_of({question}));
    EXPECT_EQ(engine->count_continued(next).value(), asked->usage.prompt_tokens);
    auto second = run(*engine, next);
    ASSERT_TRUE(second->finished) << (second->failed ? second->failed->what : "no end");
    EXPECT_EQ(second->text, asked->text);
    EXPECT_NE(second->text.find("Biscuit"), std::string::npos) << second->text;
    const prompt_usage& usage = second->usage;
    EXPECT_EQ(second->agent, "t");
    EXPECT_EQ(usage.prompt_tokens, asked->usage.prompt_tokens);
    EXPECT_EQ(usage.reused_tokens, asked->usage.reused_tokens);
    EXPECT_EQ(usage.why, miss_reason::none);
    // The answer before the last can be continued once more: the last may not have arrived.
    EXPECT_FALSE(engine->find_thread(nobody, "msg_1")->is_continued);
    EXPECT_FALSE(engine->find_thread(nobody, "msg_2")->is_continued);
    ASSERT_TRUE(run(*engine, continued("msg_3", "msg_2", chat_of({"Thanks."})))->finished);
    EXPECT_TRUE(engine->find_thread(nobody, "msg_1")->is_continued);
}

TEST(engine_thread, a_turn_whose_answer_was_saved_and_never_arrived_can_be_asked_again) {
    tests::temp_dir dir;
    const std::string told = "My dog is called Biscuit.", question = "What is my dog called?";
    std::string said;
    {
        auto engine = load(options_in(dir.path()));
        run(*engine, opened("msg_1", chat_of({told})));
        auto lost = run(*engine, continued("msg_2", "msg_1", chat_of({question})));
        ASSERT_TRUE(lost->finished);
        EXPECT_TRUE(lost->finished->saved);
        said = lost->text;
    }
    auto engine = load(options_in(dir.path()));
    ASSERT_TRUE(engine->find_thread(nobody, "msg_1"));
    EXPECT_FALSE(engine->find_thread(nobody, "msg_1")->is_continued);
    for (const char* name : {"msg_3", "msg_4", "msg_5"}) {
        auto again = run(*engine, continued(name, "msg_1", chat_of({question})));
        ASSERT_TRUE(again->finished) << name;
        EXPECT_EQ(again->text, said) << "as often as it is asked";
        EXPECT_EQ(again->agent, "t");
        EXPECT_FALSE(engine->find_thread(nobody, "msg_1")->is_continued) << name;
    }
    EXPECT_FALSE(engine->find_thread(nobody, "msg_2")) << "another stands in its place";
    EXPECT_TRUE(run(*engine, continued("msg_6", "msg_5", chat_of({"Thanks."})))->finished);
}

TEST(engine_thread, goes_on_after_a_restart_with_its_tools) {
    tests::temp_dir dir;
    conversation chat = chat_of({"What is the weather in Perth?"});
    chat.tools.push_back({"get_weather", "The weather of a city.",
                          R"({"type":"object","properties":{"city":{"type":"string"}}})", true});
    {
        auto engine = load(options_in(dir.path()));
        auto first = run(*engine, opened("msg_1", chat));
        EXPECT_NE(first->text.find("<tool_call>"), std::string::npos) << first->text;
        engine->drain(std::chrono::steady_clock::now() + std::chrono::seconds(10));
    }
    auto engine = load(options_in(dir.path()));
    auto turn = engine->find_thread(nobody, "msg_1");
    ASSERT_TRUE(turn);
    ASSERT_EQ(turn->tools.told.size(), 1u);
    EXPECT_EQ(turn->tools.told[0].name, "get_weather");
    EXPECT_TRUE(turn->tools.told[0].strict);
    EXPECT_EQ(turn->effort, "");  // this template has none
    conversation result;
    result.messages.push_back({role::tool, {tool_result_part{"any", "sunny, 21 degrees"}}});
    result.tools = turn->tools.told;
    auto second = run(*engine, continued("msg_2", "msg_1", result));
    ASSERT_TRUE(second->finished) << (second->failed ? second->failed->what : "no end");
    EXPECT_NE(second->text.find("Perth is sunny"), std::string::npos) << second->text;
    EXPECT_GT(second->usage.restored_tokens, 0);
    // Only the result and the frame of the next answer are new.
    const prompt_usage& usage = second->usage;
    EXPECT_LT(usage.prompt_tokens - usage.reused_tokens, 40);
}

TEST(engine_thread, a_turn_that_was_broken_off_can_be_asked_again) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    run(*engine, opened("msg_1", chat_of({"My dog is called Biscuit."})));
    auto sink = std::make_shared<tests::transcript>();
    generation_request story = continued("msg_2", "msg_1", chat_of({"Tell me a story."}), 100000);
    // One that cannot end by itself before it is cancelled.
    story.form.what = output_form::kind::json;
    story.form.schema_json =
        R"({"type":"array","items":{"type":"string","minLength":10000},"minItems":9})";
    request_id id = engine->submit(story, sink);
    ASSERT_TRUE(sink->wait_for_tokens(3));
    engine->cancel(id);
    ASSERT_TRUE(sink->wait());
    ASSERT_TRUE(sink->finished) << sink->failed->what;
    EXPECT_EQ(sink->finished->why, stop_reason::cancelled);
    EXPECT_FALSE(engine->find_thread(nobody, "msg_2"));
    ASSERT_TRUE(engine->find_thread(nobody, "msg_1"));
    EXPECT_FALSE(engine->find_thread(nobody, "msg_1")->is_continued);
    auto again = run(*engine, continued("msg_3", "msg_1", chat_of({"What is my dog called?"})));
    ASSERT_TRUE(again->finished);
    EXPECT_NE(again->text.find("Biscuit"), std::string::npos) << again->text;
    EXPECT_EQ(again->agent, "t");
}

// Goal: requests that reach an agent by its name and by its answer's name at once are answered one
// after the other.
TEST(engine_thread, a_turn_waits_for_what_its_agent_is_doing) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const std::string told = "My dog is called Biscuit.", question = "What is my dog called?";
    auto first = run(*engine, opened("msg_1", chat_of({told})));
    for (int round = 0; round < 3; ++round) {
        std::vector<std::shared_ptr<tests::transcript>> sinks;
        std::vector<std::size_t> spoke;  // who, each time that another one did
        const auto submit = [&](generation_request request) {
            const std::size_t sender = sinks.size();
            sinks.push_back(std::make_shared<tests::transcript>());
            sinks.back()->on_event_hook = [&spoke, sender](const generation_event& event) {
                const bool speaks = std::holds_alternative<token_text>(event);
                if (speaks && (spoke.empty() || spoke.back() != sender)) spoke.push_back(sender);
            };
            engine->submit(std::move(request), sinks.back());
        };
        const std::string name = "msg_1" + std::to_string(round);
        submit(opened(name + "a", chat_of({told, first->text, question})));
        submit(continued(name + "b", "msg_1", chat_of({question})));
        submit(continued(name + "c", "msg_1", chat_of({question})));
        submit(opened(name + "d", chat_of({told, first->text, question})));
        for (const auto& sink : sinks) {
            ASSERT_TRUE(sink->wait());
            ASSERT_TRUE(sink->finished) << (sink->failed ? sink->failed->what : "no end");
            EXPECT_EQ(sink->agent, "t");
            EXPECT_EQ(sink->text, sinks[0]->text);
        }
        EXPECT_EQ(spoke.size(), sinks.size());
    }
}

TEST(engine_thread, an_answer_that_its_limit_cut_is_closed_where_it_stands) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto first = run(*engine, opened("msg_1", chat_of({"My dog is called Biscuit."}), 3));
    EXPECT_EQ(first->finished->why, stop_reason::max_tokens);
    auto whole = run(
        *engine,
        ask("w", chat_of({"My dog is called Biscuit.", first->text, "What is my dog called?"})));
    auto second = run(*engine, continued("msg_2", "msg_1", chat_of({"What is my dog called?"})));
    EXPECT_EQ(second->text, whole->text);
    EXPECT_EQ(second->usage.prompt_tokens, whole->usage.prompt_tokens);
}

TEST(engine_thread, half_a_character_at_the_end_is_no_part_of_what_was_said) {
    tests::temp_dir dir;
    const engine_options options = options_in(dir.path());
    auto engine = load(options);
    const auto words = tokenizer::load(options.model_directory).value();
    storage::token_id half = 0;
    while (half < words.vocabulary() && words.bytes(half) != "\xC3") ++half;
    ASSERT_LT(half, words.vocabulary());
    const std::string told = "My dog is called Biscuit.", question = "What is my dog called?";
    generation_request first = opened("msg_1", chat_of({told}), 1);
    first.sampling.biases = {{half, 1000.0f}};
    auto said = run(*engine, first);
    ASSERT_EQ(said->tokens, std::vector<storage::token_id>{half});
    EXPECT_EQ(said->text, "");
    auto whole = run(*engine, ask("w", chat_of({told, said->text, question})));
    auto second = run(*engine, continued("msg_2", "msg_1", chat_of({question})));
    EXPECT_EQ(second->usage.prompt_tokens, whole->usage.prompt_tokens);
    EXPECT_EQ(second->text, whole->text);
}

TEST(engine_thread, what_is_lost_is_said_to_be_lost) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto unknown = run(*engine, continued("msg_2", "msg_1", chat_of({"Hi."})));
    ASSERT_TRUE(unknown->failed);
    EXPECT_EQ(unknown->failed->kind, failure_kind::thread_lost);
    EXPECT_NE(unknown->failed->what.find("msg_1"), std::string::npos);

    run(*engine, opened("msg_1", chat_of({"Hi."})));
    generation_request plain = ask("p", chat_of({"Hi."}));
    plain.message_id = "msg_plain";  // has a name, but no thread
    run(*engine, plain);
    EXPECT_TRUE(engine->find_thread(nobody, "msg_1"));
    EXPECT_FALSE(engine->find_thread(nobody, "msg_plain"));
    EXPECT_FALSE(engine->find_thread(engine->tenant("other"), "msg_1"));
    ASSERT_TRUE(engine->erase(*storage::agent_id::parse("t")));
    EXPECT_FALSE(engine->find_thread(nobody, "msg_1"));
    EXPECT_EQ(engine->count_continued(continued("msg_2", "msg_1", chat_of({"Hi."}))).error().code,
              storage::errc::not_found);
}

}  // namespace
}  // namespace semantic::engine
