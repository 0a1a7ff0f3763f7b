// SPDX-License-Identifier: Apache-2.0
// Agents that are asked with the new text alone: made before their first prompt, fed raw text,
// continued after their memory.

#include <gtest/gtest.h>

#include <cstring>

#include "tests/engine/tiny_engine.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::ask;
using semantic::tests::chat_of;
using semantic::tests::load;
using semantic::tests::options_in;
using semantic::tests::run;
using semantic::tests::temp_dir;

storage::agent_id id_of(const std::string& name) { return *storage::agent_id::parse(name); }

generation_request appended(const std::string& agent, const std::string& line, int max_tokens) {
    generation_request wanted = ask(agent, chat_of({line}), max_tokens);
    wanted.append = true;
    wanted.message_id = "m";
    return wanted;
}

generation_request raw(const std::string& agent, const std::string& text, bool append,
                       int max_tokens) {
    generation_request wanted = ask(agent, {}, max_tokens);
    wanted.text = text;
    wanted.append = append;
    wanted.message_id = "m";
    return wanted;
}

storage::result<int> import(engine& runner, const std::string& agent, const std::string& file) {
    const auto read = [&](std::uint64_t at, std::span<std::byte> bytes) {
        std::memcpy(bytes.data(), file.data() + at, bytes.size());
        return storage::result<void>();
    };
    return runner.import_agent(id_of(agent), {file.size(), read});
}

TEST(append, a_new_agent_is_there_and_empty_and_survives) {
    temp_dir dir;
    {
        auto engine = load(options_in(dir.path()));
        ASSERT_TRUE(engine->create(id_of("a")));
        EXPECT_EQ(engine->create(id_of("a")).error().code, storage::errc::bad_value);
        EXPECT_EQ(engine->inspect(id_of("a"))->tokens, 0);
    }
    auto engine = load(options_in(dir.path()));
    ASSERT_TRUE(engine->inspect(id_of("a")));
    EXPECT_FALSE(engine->inspect(id_of("a"))->dirty);
    auto first = run(*engine, ask("a", chat_of({"My name is Ada."}), 20));
    EXPECT_EQ(first->usage.why, miss_reason::none) << "nothing was lost";
    EXPECT_GT(engine->inspect(id_of("a"))->tokens, 0);
    ASSERT_TRUE(engine->create(id_of("b")));
    EXPECT_TRUE(engine->fork(id_of("b"), id_of("c")));
    EXPECT_TRUE(engine->evict(id_of("b")));
    EXPECT_TRUE(engine->erase(id_of("b")));
}

// However an answer ends, what is appended says the same as the whole conversation does.
TEST(append, a_turn_with_only_its_new_text_is_the_whole_conversations_turn) {
    for (int max_tokens : {3, 60}) {
        SCOPED_TRACE(max_tokens);
        temp_dir dir;
        auto engine = load(options_in(dir.path()));
        std::vector<std::string> turns;
        for (const char* line :
             {"My dog is called Biscuit.", "I was born in Perth.", "What is my dog called?"}) {
            turns.push_back(line);
            auto short_turn = run(*engine, appended("short", line, max_tokens));
            auto whole_turn = run(*engine, ask("whole", chat_of(turns), max_tokens));
            EXPECT_EQ(short_turn->text, whole_turn->text);
            EXPECT_EQ(short_turn->usage.prompt_tokens, whole_turn->usage.prompt_tokens);
            EXPECT_EQ(short_turn->usage.why, miss_reason::none);
            turns.push_back(short_turn->text);
        }
        if (max_tokens == 60) {
            EXPECT_NE(turns.back().find("Biscuit"), std::string::npos) << turns.back();
        }
    }
}

// An answer that was cut has a last token without KV; a copy has it, too.
TEST(append, a_fork_and_an_imported_copy_go_on_as_the_agent_does_however_its_answer_ended) {
    for (const int max_tokens : {1, 3, 60}) {
        SCOPED_TRACE(max_tokens);
        temp_dir dir;
        {
            auto engine = load(options_in(dir.path()));
            run(*engine, appended("a", "My dog is called Biscuit.", 60));
            run(*engine, appended("a", "What is my dog called?", max_tokens));
            ASSERT_TRUE(engine->fork(id_of("a"), id_of("fork")));
            std::string file;
            ASSERT_TRUE(engine->export_agent(id_of("a"), tests::appending_to(file)));
            ASSERT_TRUE(import(*engine, "copy", file));
        }
        auto engine = load(options_in(dir.path()));
        ASSERT_TRUE(engine->fork(id_of("fork"), id_of("forks_fork")));
        auto own = run(*engine, appended("a", "And what is its name?", 20));
        for (const char* name : {"fork", "forks_fork", "copy"}) {
            auto said = run(*engine, appended(name, "And what is its name?", 20));
            EXPECT_EQ(said->usage.prompt_tokens, own->usage.prompt_tokens) << name;
            EXPECT_EQ(said->text, own->text) << name;
        }
    }
}

TEST(append, an_appended_turn_computes_its_new_text_alone_also_after_a_restart) {
    temp_dir dir;
    int stored = 0;
    {
        auto engine = load(options_in(dir.path()));
        auto first = run(*engine, appended("a", semantic::tests::long_paste(20), 20));
        stored = engine->inspect(id_of("a"))->tokens;
        EXPECT_EQ(stored, first->usage.prompt_tokens + first->finished->output_tokens - 1);
    }
    auto engine = load(options_in(dir.path()));
    auto second = run(*engine, appended("a", "And then?", 20));
    EXPECT_GE(second->usage.reused_tokens, stored - 1);
    EXPECT_EQ(second->usage.why, miss_reason::none);
}

TEST(append, what_a_stop_string_or_a_client_cut_off_is_no_part_of_the_conversation) {
    temp_dir dir;
    auto engine = load(options_in(dir.path()));
    generation_request cut = appended("a", "My dog is called Biscuit.", 60);
    cut.stop_sequences = {"called"};
    auto first = run(*engine, cut);
    ASSERT_EQ(first->finished->why, stop_reason::stop_sequence);
    std::vector<std::string> turns{"My dog is called Biscuit.", first->text,
                                   "What is my dog called?"};
    auto second = run(*engine, appended("a", turns[2], 60));
    auto whole = run(*engine, ask("whole", chat_of(turns), 60));
    EXPECT_EQ(second->text, whole->text);
    EXPECT_EQ(second->usage.prompt_tokens, whole->usage.prompt_tokens);
}

TEST(append, raw_text_goes_in_as_it_stands_and_goes_on_where_it_ended) {
    temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const std::string start =
        "<|im_start|>user\nMy name is Ada.<|im_end|>\n<|im_start|>assistant\n";
    auto first = run(*engine, raw("a", start, false, 4));
    ASSERT_EQ(first->finished->why, stop_reason::max_tokens);
    auto second = run(*engine, raw("a", " Well,", true, 4));
    auto at_once = run(*engine, raw("b", start + first->text + " Well,", false, 4));
    EXPECT_EQ(second->text, at_once->text);
    EXPECT_EQ(second->usage.prompt_tokens, at_once->usage.prompt_tokens);
    EXPECT_EQ(second->usage.reused_tokens, first->usage.prompt_tokens + 3)
        << "all that has been run";
}

TEST(append, appending_to_nothing_begins) {
    temp_dir dir;
    auto engine = load(options_in(dir.path()));
    ASSERT_TRUE(engine->create(id_of("a")));
    auto first = run(*engine, appended("a", "My name is Ada.", 20));
    auto whole = run(*engine, ask("b", chat_of({"My name is Ada."}), 20));
    EXPECT_EQ(first->text, whole->text);
}

generation_request reading(generation_request wanted) {
    wanted.only_reads = true;
    wanted.message_id = "read";
    return wanted;
}

TEST(only_reads, what_was_read_grows_and_is_answered_without_being_read_again) {
    temp_dir dir;
    auto engine = load(options_in(dir.path()));
    // Where a line ends a tokenizer begins a new token, so a text that is read in parts has the
    // tokens of the whole.
    const std::string name = "My dog is called Biscuit.\n";
    auto read = run(*engine, reading(ask("a", chat_of({name}))));
    ASSERT_TRUE(read->finished);
    EXPECT_EQ(read->finished->output_tokens, 0);
    EXPECT_EQ(engine->inspect(id_of("a"))->tokens, read->usage.prompt_tokens);
    auto grown = run(*engine, reading(ask("a", chat_of({name + "I was born in Perth.\n"}))));
    EXPECT_EQ(grown->usage.reused_tokens, read->usage.prompt_tokens) << "all of it";
    const std::string whole = name + "I was born in Perth.\nWhat is my dog called?";
    auto said = run(*engine, ask("a", chat_of({whole}), 60));
    EXPECT_EQ(said->usage.reused_tokens, grown->usage.prompt_tokens) << "all of it";
    EXPECT_EQ(said->usage.why, miss_reason::none);
    EXPECT_FALSE(said->text.empty());
    // The conversation goes on after the answer as if nothing had been read before it.
    auto next = run(*engine, appended("a", "And then?", 20));
    auto plain = run(*engine, ask("b", chat_of({whole, said->text, "And then?"}), 20));
    EXPECT_EQ(next->usage.prompt_tokens, plain->usage.prompt_tokens);
    EXPECT_EQ(next->text, plain->text);
}

TEST(only_reads, what_comes_behind_has_the_tokens_that_it_has_when_nothing_was_read_ahead) {
    temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const std::string line = "My dog is called Bis";
    for (const char* more : {"\nI was born in Perth.", "cuit.", "...", " ", "\n\n  x"}) {
        auto fresh = run(*engine, ask("fresh", chat_of({line + more}), 1));
        ASSERT_TRUE(engine->erase(id_of("fresh")));
        run(*engine, reading(ask("ahead", chat_of({line}))));
        auto ahead = run(*engine, ask("ahead", chat_of({line + more}), 1));
        EXPECT_EQ(ahead->usage.prompt_tokens, fresh->usage.prompt_tokens) << more;
        EXPECT_EQ(ahead->text, fresh->text);
        EXPECT_GT(ahead->usage.reused_tokens, 0);
        ASSERT_TRUE(engine->erase(id_of("ahead")));
    }
}

TEST(only_reads, what_is_appended_stands_behind_it_and_no_empty_answer_between) {
    temp_dir dir;
    const std::vector<std::string> first{"My dog is called Biscuit."};
    int read_tokens = 0;
    {
        auto engine = load(options_in(dir.path()));
        run(*engine, appended("a", first[0], 60));
        auto read = run(*engine, reading(appended("a", "I was born in Perth.", 0)));
        read_tokens = read->usage.prompt_tokens;
        EXPECT_FALSE(engine->find_message({}, "read")) << "no answer ends there";
        ASSERT_TRUE(engine->fork(id_of("a"), id_of("fork")));
    }
    auto engine = load(options_in(dir.path()));
    conversation whole = chat_of({first[0], run(*engine, ask("c", chat_of(first), 60))->text});
    for (const char* line : {"I was born in Perth.", "What is my dog called?"})
        whole.messages.push_back({role::user, {text_part{line}}});
    auto at_once = run(*engine, ask("b", whole, 60));
    for (const char* name : {"a", "fork"}) {
        auto said = run(*engine, appended(name, "What is my dog called?", 60));
        EXPECT_EQ(said->usage.reused_tokens, read_tokens) << name;
        EXPECT_EQ(said->usage.prompt_tokens, at_once->usage.prompt_tokens) << name;
        EXPECT_EQ(said->text, at_once->text) << name;
        // Once it is answered the next turn comes after the answer.
        auto again = run(*engine, appended(name, "And then?", 5));
        EXPECT_EQ(again->usage.why, miss_reason::none) << name;
        EXPECT_GT(again->usage.reused_tokens, said->usage.prompt_tokens - 1) << name;
    }
}

TEST(only_reads, a_prompt_that_cannot_end_in_a_message_is_read_as_it_is) {
    temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto text = run(*engine, reading(raw("a", "Once", false, 7)));
    EXPECT_EQ(text->finished->output_tokens, 0);
    conversation answered = chat_of({"Hi.", "Hello."});
    auto history = run(*engine, reading(ask("b", answered)));
    EXPECT_EQ(history->finished->output_tokens, 0);
    auto next = run(*engine, ask("b", answered, 5));
    EXPECT_EQ(next->usage.prompt_tokens, history->usage.prompt_tokens);
    EXPECT_EQ(next->usage.recomputed_tokens, 1) << "known but for the logits";
}

}  // namespace
}  // namespace semantic::engine
