// SPDX-License-Identifier: Apache-2.0
// Memories that are kept, dropped, brought into RAM and forked at an answer, on the whole engine.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/fork_place.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::ask;
using semantic::tests::chat_of;
using semantic::tests::load;
using semantic::tests::long_paste;
using semantic::tests::options_in;
using semantic::tests::run;
using semantic::tests::temp_dir;
using std::chrono::seconds;

storage::agent_id id_of(const std::string& name) { return *storage::agent_id::parse(name); }

generation_request named(const std::string& agent, const std::vector<std::string>& turns,
                         const std::string& message_id) {
    generation_request request = ask(agent, chat_of(turns), 40);
    request.message_id = message_id;
    return request;
}

generation_request appended(const std::string& agent, const std::string& line) {
    generation_request request = ask(agent, chat_of({line}), 40);
    request.append = true;
    return request;
}

TEST(memory_policy, of_a_request_is_its_agents_until_another_one_says_otherwise) {
    temp_dir dir;
    {
        const auto engine = load(options_in(dir.path()));
        generation_request first = ask("a", chat_of({"My dog is called Biscuit."}), 8);
        first.memory.keep_seconds = seconds(3600);
        const auto said = run(*engine, first);
        EXPECT_EQ(engine->inspect(id_of("a"))->policy.keep_seconds, seconds(3600));
        EXPECT_EQ(engine->inspect(id_of("a"))->claim, storage::memory_claim::kept);
        run(*engine, ask("a", chat_of({"My dog is called Biscuit.", said->text, "And?"}), 8));
        EXPECT_EQ(engine->inspect(id_of("a"))->policy.keep_seconds, seconds(3600));
    }
    const auto engine = load(options_in(dir.path()));
    EXPECT_EQ(engine->inspect(id_of("a"))->policy.keep_seconds, seconds(3600)) << "restarted";
    ASSERT_TRUE(engine->set_policy(id_of("a"), {{}, true}));
    EXPECT_EQ(engine->inspect(id_of("a"))->claim, storage::memory_claim::pinned);
    EXPECT_FALSE(engine->inspect(id_of("a"))->dirty) << "it is saved";
    EXPECT_EQ(engine->set_policy(id_of("b"), {}).error().code, storage::errc::not_found);
}

TEST(memory_policy, what_is_kept_for_no_time_is_gone_with_its_answer_and_never_written) {
    temp_dir dir;
    const auto engine = load(options_in(dir.path()));
    generation_request once = ask("", chat_of({long_paste(40) + "Is it so?"}), 8);
    once.memory.keep_seconds = seconds(0);
    const auto said = run(*engine, once);
    ASSERT_TRUE(said->finished);
    EXPECT_FALSE(said->finished->saved);
    EXPECT_EQ(said->finished->unsaved, unsaved_reason::dropped);
    EXPECT_EQ(engine->store_probe().bytes_written.load(), 0u);
    EXPECT_EQ(engine->probe().saves_late.load(), 0u) << "nobody waited for it";
    EXPECT_TRUE(engine->agents({}).empty());
    // Of an agent that had a memory nothing is left either.
    run(*engine, ask("a", chat_of({"My dog is called Biscuit."}), 8));
    once = ask("a", chat_of({"My dog is called Biscuit."}), 8);
    once.memory.keep_seconds = seconds(0);
    run(*engine, once);
    EXPECT_FALSE(engine->inspect(id_of("a")));
}

TEST(memory_policy, prefetch_brings_a_memory_into_ram_before_its_next_turn) {
    temp_dir dir;
    {
        const auto engine = load(options_in(dir.path()));
        run(*engine, ask("a", chat_of({long_paste(20)}), 8));
    }
    const auto engine = load(options_in(dir.path()));
    const int tokens = engine->inspect(id_of("a"))->tokens;
    EXPECT_FALSE(engine->inspect(id_of("a"))->hot);
    const auto brought = engine->prefetch(id_of("a"));
    ASSERT_TRUE(brought);
    EXPECT_EQ(brought->tokens, tokens);
    EXPECT_EQ(brought->tokens_read, tokens);
    EXPECT_EQ(brought->why, "");
    EXPECT_TRUE(engine->inspect(id_of("a"))->hot);
    EXPECT_EQ(engine->prefetch(id_of("a"))->tokens_read, 0) << "once more";
    EXPECT_EQ(engine->prefetch(id_of("b")).error().code, storage::errc::not_found);
    const auto next = run(*engine, appended("a", "Which wall?"));
    EXPECT_EQ(next->usage.restored_tokens, 0);
    EXPECT_EQ(next->usage.reused_tokens, tokens);
}

TEST(memory_policy, bytes_written_are_counted_by_agent_and_bounded) {
    temp_dir dir;
    engine_options options = options_in(dir.path());
    options.disk_writes_per_turn_bytes = 1;
    const auto engine = load(options);
    const auto said = run(*engine, ask("a", chat_of({"My dog is called Biscuit."}), 8));
    ASSERT_TRUE(said->finished);
    EXPECT_FALSE(said->finished->saved);
    EXPECT_EQ(said->finished->unsaved, unsaved_reason::over_bound);
    ASSERT_TRUE(said->finished->written);
    EXPECT_EQ(said->finished->written->total, 0u);
    EXPECT_TRUE(engine->inspect(id_of("a"))->is_over_bound);
    EXPECT_EQ(engine->inspect(id_of("a"))->bytes_written, 0u);
    const auto next = run(*engine, appended("a", "What is my dog called?"));
    EXPECT_NE(next->text.find("Biscuit"), std::string::npos) << "it is in RAM: " << next->text;
    EXPECT_GT(next->usage.reused_tokens, 0);
    EXPECT_EQ(engine->pool().bytes_written_today, 0u);
}

TEST(memory_policy, bytes_of_a_turn_are_those_that_its_saves_wrote) {
    temp_dir dir;
    const auto engine = load(options_in(dir.path()));
    const auto told = run(*engine, ask("a", chat_of({long_paste(30)}), 8));
    const auto first = *engine->inspect(id_of("a"));
    ASSERT_TRUE(told->finished && told->finished->written);
    EXPECT_EQ(told->finished->unsaved, unsaved_reason::none);
    EXPECT_EQ(told->finished->written->turn, first.bytes_of_turn);
    EXPECT_EQ(told->finished->written->total, first.bytes_written);
    EXPECT_GT(first.bytes_of_turn, 0u);
    EXPECT_EQ(first.bytes_written, first.bytes_of_turn);
    EXPECT_EQ(engine->store_probe().bytes_written.load(), first.bytes_written);
    const auto next = run(*engine, appended("a", "Which wall?"));
    const auto second = *engine->inspect(id_of("a"));
    ASSERT_TRUE(next->finished && next->finished->written);
    EXPECT_EQ(next->finished->written->turn, second.bytes_of_turn);
    EXPECT_EQ(next->finished->written->total, second.bytes_written);
    EXPECT_EQ(second.bytes_written, first.bytes_written + second.bytes_of_turn);
    EXPECT_EQ(engine->pool().bytes_written_today, second.bytes_written);
    EXPECT_EQ(engine->probe().turns_saved.load(), 2u);
    EXPECT_EQ(engine->probe().turn_bytes_written.load(), second.bytes_written);
}

TEST(memory_policy, a_disk_that_takes_nothing_is_named_in_the_answer_which_stays_in_ram) {
    temp_dir dir;
    const auto engine = load(options_in(dir.path()));
    const std::filesystem::path blocks = std::filesystem::path(dir.path()) / "blocks";
    std::filesystem::remove_all(blocks);
    std::ofstream(blocks) << "a file where the folder was";
    const auto said = run(*engine, ask("a", chat_of({"My dog is called Biscuit."}), 8));
    ASSERT_TRUE(said->finished);
    EXPECT_FALSE(said->finished->saved);
    EXPECT_EQ(said->finished->unsaved, unsaved_reason::failed);
    EXPECT_TRUE(engine->inspect(id_of("a"))->hot);
    EXPECT_TRUE(engine->inspect(id_of("a"))->dirty);
}

TEST(fork_at, an_answer_goes_on_from_there_as_if_the_rest_had_never_been) {
    temp_dir dir;
    engine_options options = options_in(dir.path());
    options.block_tokens = 16;
    const std::vector<std::string> lines{long_paste(3) + "My dog is called Biscuit.",
                                         "No, my dog is called Rex.", "What is my dog called?"};
    std::string alone;
    {
        temp_dir other;
        engine_options apart = options;
        apart.cache_directory = other.path();
        const auto engine = load(apart);
        run(*engine, named("a", {lines[0]}, "msg_1"));
        alone = run(*engine, appended("a", lines[2]))->text;
    }
    {
        const auto engine = load(options);
        const auto first = run(*engine, named("a", {lines[0]}, "msg_1"));
        run(*engine, named("a", {lines[0], first->text, lines[1]}, "msg_2"));
        const auto blocks = engine->store_probe().blocks_written.load();
        ASSERT_TRUE(engine->fork(id_of("a"), id_of("b"), {"msg_1", {}}));
        EXPECT_EQ(engine->store_probe().blocks_written.load(), blocks) << "nothing is copied";
        EXPECT_LT(engine->inspect(id_of("b"))->tokens, engine->inspect(id_of("a"))->tokens);
        EXPECT_EQ(engine->fork(id_of("a"), id_of("c"), {"msg_3", {}}).error().code,
                  storage::errc::not_found);
        EXPECT_EQ(engine->fork(id_of("x"), id_of("c"), {"msg_1", {}}).error().code,
                  storage::errc::not_found);
        const int all = engine->inspect(id_of("a"))->tokens;
        EXPECT_EQ(engine->fork(id_of("a"), id_of("c"), {{}, all + 1}).error().code,
                  storage::errc::bad_value);
        ASSERT_TRUE(engine->fork(id_of("a"), id_of("c"), {{}, 20}));
        EXPECT_EQ(engine->inspect(id_of("c"))->tokens, 32) << "two blocks of 16";
    }
    const auto engine = load(options);
    const auto forked = run(*engine, appended("b", lines[2]));
    ASSERT_TRUE(forked->finished);
    EXPECT_EQ(forked->text, alone);
    EXPECT_GT(forked->usage.reused_tokens, 16) << "the blocks up to there";
    const auto source = run(*engine, appended("a", lines[2]));
    EXPECT_NE(source->text, "") << "the source goes on, too";
}

TEST(fork_at, a_chat_that_is_sent_whole_reuses_all_up_to_the_place) {
    temp_dir dir;
    const auto engine = load(options_in(dir.path()));
    const std::string told = long_paste(12);
    const auto first = run(*engine, named("a", {told}, "msg_1"));
    const auto second = run(*engine, named("a", {told, first->text, "And?"}, "msg_2"));
    ASSERT_TRUE(engine->fork(id_of("a"), id_of("b"), {"msg_1", {}}));
    const auto other = run(*engine, named("b", {told, first->text, "Which wall was it?"}, "msg_3"));
    EXPECT_EQ(other->usage.why, miss_reason::none) << other->usage.detail;
    EXPECT_GT(other->usage.reused_tokens, first->usage.prompt_tokens - 2);
}

TEST(fork_place, has_the_notes_of_its_place_and_no_later_ones) {
    storage::agent_state memory{id_of("a")};
    memory.text = "abcdefgh";
    for (std::uint32_t i = 1; i <= 8; ++i) {
        memory.tokens.push_back(static_cast<storage::token_id>(i));
        memory.token_ends.push_back(i);
    }
    memory.notes = {{"day", "Friday"},
                    {"last_answer", "x"},
                    {"open_message", "8"},
                    {"partly_read", "8"},
                    {"turns", "1-3 5-8"}};
    memory.messages = {{"msg_1", 3, ""}, {"msg_2", 7, "h"}};
    const auto place = fork_place_in(memory, {"msg_1", {}});
    ASSERT_TRUE(place);
    EXPECT_EQ(place->tokens, 3u);
    EXPECT_EQ(place->notes.at("turns"), "1-3");
    EXPECT_EQ(place->notes.at("day"), "Friday");
    EXPECT_FALSE(place->notes.contains("open_message") || place->notes.contains("partly_read"));
    EXPECT_NE(place->notes.at("last_answer"), "x");
    EXPECT_EQ(fork_place_in(memory, {"msg_2", {}})->notes.at("turns"), "1-3 5-8");
    EXPECT_FALSE(fork_place_in(memory, {{}, 8})->notes.contains("last_answer"));
    EXPECT_EQ(fork_place_in(memory, {{}, 0})->tokens, 0u);
    EXPECT_EQ(fork_place_in(memory, {{}, 9}).error().code, storage::errc::bad_value);
    EXPECT_EQ(fork_place_in(memory, {{}, -1}).error().code, storage::errc::bad_value);
    EXPECT_EQ(fork_place_in(memory, {"msg_3", {}}).error().code, storage::errc::not_found);
}

}  // namespace
}  // namespace semantic::engine
