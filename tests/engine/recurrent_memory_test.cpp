// SPDX-License-Identifier: Apache-2.0
// Memories of a model with recurrent layers: the same answers word for word, whether its states are
// computed again, in the pool, read from disk, shared or continued. Method: trained models of
// Qwen3.5's architecture; one has all of its memory in the recurrent states, the other recalls by
// attention, and a third says nothing of use and depends on both.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/tiny_engine.hpp"
#include "tests/support/attending_model.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::ask;
using semantic::tests::chat_of;
using semantic::tests::load;
using semantic::tests::long_paste;
using semantic::tests::run;
using semantic::tests::temp_dir;
using semantic::tests::transcript;

/// The model's folder: in the tree, or next to it; empty: there is none.
std::string folder_of(const std::string& name) {
    const std::string source = SEMANTIC_SOURCE_DIR;
    for (const std::string& path :
         {source + "/etc/models/" + name, source + "/../shared/models/" + name + "-4bit"})
        if (std::filesystem::exists(path + "/config.json")) return path;
    return "";
}

storage::agent_id id_of(const std::string& name) { return *storage::agent_id::parse(name); }

struct tried_model {
    const char* name;
    const char* recipe = "4";
};
constexpr const char* attending = "attending";  // attending_model's
constexpr const char* wide_tail = "k5s-v4r-w16";

class recurrent_memory : public testing::TestWithParam<tried_model> {
  protected:
    void SetUp() override {
        const std::string name = GetParam().name;
        if (name == attending) made_ = std::make_unique<semantic::tests::attending_model>();
        folder_ = made_ ? made_->path() : folder_of(name);
        if (folder_.empty()) GTEST_SKIP() << "skipped: no model " << name;
    }
    engine_options options_at(const std::string& directory) const {
        engine_options options = semantic::tests::options_in(directory);
        options.model_directory = folder_;
        options.kv_recipe = GetParam().recipe;
        options.block_tokens = 64;
        return options;
    }
    /// What the model says to all of it, read from the first token on.
    std::vector<storage::token_id> anew(const conversation& chat) const {
        temp_dir alone;
        return run(*load(options_at(alone.path())), ask("x", chat))->tokens;
    }
    static std::shared_ptr<transcript> said(engine& host, const std::string& agent,
                                            const std::vector<std::string>& turns) {
        return run(host, ask(agent, chat_of(turns, system_text())));
    }
    static std::string system_text() { return "You are a helpful gardener. " + long_paste(6); }
    static conversation chat(const std::vector<std::string>& turns) {
        return chat_of(turns, system_text());
    }
    static std::vector<int> places_of(engine& host, const std::string& agent) {
        return host.inspect(id_of(agent))->state_places;
    }
    /// A conversation of three turns.
    std::vector<std::string> talk(engine& host, const std::string& agent) const {
        std::vector<std::string> turns{"My dog is called Biscuit. " + long_paste(4)};
        for (const char* next : {"What is my dog called?", "And what is 2 plus 3?"}) {
            turns.push_back(said(host, agent, turns)->text);
            turns.push_back(next);
        }
        return turns;
    }
    const temp_dir dir_;

  private:
    std::unique_ptr<semantic::tests::attending_model> made_;
    std::string folder_;
};

TEST_P(recurrent_memory, answers_the_same_hot_read_back_and_after_a_restart) {
    const engine_options options = options_at(dir_.path());
    auto host = load(options);
    std::vector<std::string> turns = talk(*host, "a");
    const auto expected = anew(chat(turns));
    const auto hot = said(*host, "a", turns);
    EXPECT_EQ(hot->tokens, expected);
    EXPECT_GT(hot->usage.reused_tokens, hot->usage.prompt_tokens * 3 / 4);
    EXPECT_EQ(hot->usage.restored_tokens, 0);
    turns.push_back(hot->text);
    turns.push_back("Thank you.");
    const auto next = anew(chat(turns));
    ASSERT_TRUE(host->evict(id_of("a")));
    ASSERT_TRUE(host->fork(id_of("a"), id_of("b")));
    const auto read_back = said(*host, "a", turns);
    EXPECT_EQ(read_back->tokens, next);
    EXPECT_GT(read_back->usage.restored_tokens, 0);
    host.reset();
    host = load(options);
    const auto restarted = said(*host, "b", turns);
    EXPECT_EQ(restarted->tokens, next) << "a fork, after a restart";
    EXPECT_GT(restarted->usage.restored_tokens, 0);
    EXPECT_GT(host->store_probe().states_read.load(), 0u);
}

TEST_P(recurrent_memory, a_prompt_that_parts_anywhere_goes_on_from_the_place_before) {
    auto host = load(options_at(dir_.path()));
    const std::vector<std::string> turns = talk(*host, "a");
    const auto places = places_of(*host, "a");
    ASSERT_GE(places.size(), 3u);
    // The last question in other words, an earlier one, the first message, and the system text.
    for (const std::size_t changed : {4u, 2u, 0u}) {
        std::vector<std::string> other(turns.begin(),
                                       turns.begin() + static_cast<std::ptrdiff_t>(changed) + 1);
        other.back() = "No wait: " + other.back();
        const auto answer = said(*host, "b" + std::to_string(changed), other);
        EXPECT_EQ(answer->tokens, anew(chat(other))) << changed;
        EXPECT_GT(answer->usage.reused_tokens, 0) << changed;
        EXPECT_EQ(std::ranges::count(places, answer->usage.reused_tokens), 1)
            << "reused " << answer->usage.reused_tokens;
        const prompt_usage& usage = answer->usage;
        EXPECT_EQ(usage.reused_tokens + usage.created_tokens + usage.recomputed_tokens,
                  usage.prompt_tokens);
    }
    const auto elsewhere = run(*host, ask("c", chat_of(turns, "Be brief.")));
    EXPECT_EQ(elsewhere->tokens, anew(chat_of(turns, "Be brief.")));
}

TEST_P(recurrent_memory, says_at_which_place_it_went_on) {
    auto host = load(options_at(dir_.path()));
    std::vector<std::string> turns{"My dog is called Biscuit."};
    const auto first = said(*host, "a", turns);
    const auto again = said(*host, "a", turns);
    EXPECT_EQ(again->tokens, first->tokens);
    EXPECT_EQ(again->usage.why, miss_reason::too_short);
    const int reused = again->usage.reused_tokens;
    EXPECT_NE(again->usage.detail.find("state at " + std::to_string(reused) + " of "),
              std::string::npos)
        << again->usage.detail;
    EXPECT_GT(again->usage.recomputed_tokens, 1);
    EXPECT_GT(reused, again->usage.prompt_tokens * 3 / 4);
}

TEST_P(recurrent_memory, ten_agents_on_one_system_text_read_it_once_and_have_one_state_of_it) {
    auto host = load(options_at(dir_.path()));
    int root = 0;
    for (int i = 0; i < 10; ++i) {
        const std::vector<std::string> turns{"I am number " + std::to_string(i) + "."};
        const auto answer = said(*host, "agent" + std::to_string(i), turns);
        if (i == 0) root = places_of(*host, "agent0").front();
        if (i > 0) {
            EXPECT_EQ(answer->usage.reused_tokens, root);
        }
        EXPECT_EQ(places_of(*host, "agent" + std::to_string(i)).front(), root);
        if (i == 9) {
            EXPECT_EQ(answer->tokens, anew(chat(turns)));
        }
    }
    EXPECT_GT(root, 100);
    std::size_t places = 0;
    for (int i = 0; i < 10; ++i) places += places_of(*host, "agent" + std::to_string(i)).size();
    EXPECT_EQ(host->pool().states_held, places - 9) << "the root is there once";
    EXPECT_EQ(host->store_probe().states_written.load(), places - 9);
}

TEST_P(recurrent_memory, a_batch_and_several_choices_answer_as_one_alone) {
    auto host = load(options_at(dir_.path()));
    std::vector<std::shared_ptr<transcript>> sinks;
    std::vector<conversation> chats;
    for (int i = 0; i < 5; ++i) {
        chats.push_back(chat({"Tell me of pot " + std::to_string(i) + ". " + long_paste(i * 3)}));
        auto request = ask("agent" + std::to_string(i), chats.back());
        if (i == 2) request.choices = 3;
        sinks.push_back(std::make_shared<transcript>());
        host->submit(std::move(request), sinks.back());
    }
    for (std::size_t i = 0; i < sinks.size(); ++i) {
        ASSERT_TRUE(sinks[i]->wait());
        EXPECT_EQ(sinks[i]->tokens, anew(chats[i])) << i;
    }
    ASSERT_EQ(sinks[2]->choices.size(), 3u);
    for (const auto& [choice, text] : sinks[2]->choices) EXPECT_EQ(text, sinks[2]->text) << choice;
}

TEST_P(recurrent_memory, chunks_of_any_length_answer_the_same) {
    const conversation one = chat({"What is my dog called? " + long_paste(9)});
    const auto expected = anew(one);
    for (const int chunk : {16, 48, 512}) {
        temp_dir alone;
        engine_options options = options_at(alone.path());
        options.prefill_min_chunk_tokens = options.prefill_max_chunk_tokens = chunk;
        options.chunked_prefill_threshold_tokens = 0;
        EXPECT_EQ(run(*load(options), ask("x", one))->tokens, expected) << chunk;
    }
}

// Goal: f16 rows at the end of a memory, where places inside a group of 16 are no places but the
// end. Method: memories that end at several tokens of a group are extended and parted from, in the
// pool and on disk, by others too.
TEST_P(recurrent_memory, a_memory_that_ends_at_any_token_of_a_group_goes_on_right) {
    auto host = load(options_at(dir_.path()));
    for (const int shift : {0, 1, 6, 15}) {
        std::string start = "My dog is called Biscuit.";
        for (int i = 0; i < shift; ++i) start += " a";
        const std::string agent = "a" + std::to_string(shift);
        std::vector<std::string> turns{start + long_paste(3)};
        const auto first = said(*host, agent, turns);
        const std::vector<std::string> parted{turns[0] + " Is it?"};
        EXPECT_EQ(said(*host, "b" + agent, parted)->tokens, anew(chat(parted))) << shift;
        turns.push_back(first->text);
        turns.push_back("What is my dog called?");
        const auto expected = anew(chat(turns));
        if (shift % 2 == 1) {
            ASSERT_TRUE(host->evict(id_of(agent)));
        }
        for (const std::string& asked : {"c" + agent, agent}) {
            const auto answer = said(*host, asked, turns);
            EXPECT_EQ(answer->tokens, expected) << asked;
            EXPECT_GE(answer->usage.reused_tokens, first->usage.prompt_tokens) << asked;
        }
    }
}

TEST_P(recurrent_memory, an_export_goes_on_elsewhere) {
    auto host = load(options_at(dir_.path()));
    const std::vector<std::string> turns = talk(*host, "a");
    std::string bytes;
    const auto written = host->export_agent(id_of("a"), [&](std::span<const std::byte> piece) {
        bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
        return storage::result<void>();
    });
    ASSERT_TRUE(written) << written.error().what;
    temp_dir other;
    auto elsewhere = load(options_at(other.path()));
    const auto read = [&](std::uint64_t at, std::span<std::byte> target) {
        bytes.copy(reinterpret_cast<char*>(target.data()), target.size(), at);
        return storage::result<void>();
    };
    const auto imported = elsewhere->import_agent(id_of("b"), {bytes.size(), read});
    ASSERT_TRUE(imported) << imported.error().what;
    EXPECT_EQ(places_of(*elsewhere, "b"), places_of(*host, "a"));
    const auto answer = said(*elsewhere, "b", turns);
    EXPECT_EQ(answer->tokens, anew(chat(turns)));
    EXPECT_GT(answer->usage.reused_tokens, answer->usage.prompt_tokens * 3 / 4);
}

TEST_P(recurrent_memory, what_is_appended_and_only_read_is_remembered) {
    auto host = load(options_at(dir_.path()));
    generation_request request = ask("a", chat({"My dog is called Biscuit."}));
    request.only_reads = true;
    run(*host, std::move(request));
    request = ask("a", chat_of({"What is my dog called?"}));
    request.append = true;
    const auto answer = run(*host, std::move(request));
    ASSERT_TRUE(answer->finished);
    EXPECT_GT(answer->usage.reused_tokens, 0);
    EXPECT_FALSE(answer->text.empty());
}

// Goal: a pool that many share. Method: one for a little more than one of the conversations.
TEST_P(recurrent_memory, sequences_that_wait_for_room_answer_the_same) {
    engine_options options = options_at(dir_.path());
    options.cache_budget_bytes = std::size_t{10} << 20;
    auto host = load(options);
    std::vector<std::shared_ptr<transcript>> sinks;
    std::vector<conversation> chats;
    for (int i = 0; i < 4; ++i) {
        chats.push_back(chat({"Pot " + std::to_string(i) + "? " + long_paste(20)}));
        sinks.push_back(std::make_shared<transcript>());
        host->submit(ask("agent" + std::to_string(i), chats.back()), sinks.back());
    }
    for (std::size_t i = 0; i < sinks.size(); ++i) {
        ASSERT_TRUE(sinks[i]->wait());
        ASSERT_TRUE(sinks[i]->finished) << i;
        EXPECT_EQ(sinks[i]->tokens, anew(chats[i])) << i;
    }
}

// Goal: preemption. Method: a pool with room for the states and prompts of three conversations, and
// not for their long answers.
TEST_P(recurrent_memory, sequences_that_give_way_return_to_where_they_were) {
    if (GetParam().recipe == std::string(wide_tail)) GTEST_SKIP() << "in one form of K and V";
    constexpr int agents = 3, answer = 700;
    const auto options_with = [&](const std::string& directory, std::size_t budget) {
        engine_options options = options_at(directory);
        options.kv_recipe = "16";
        options.cache_budget_bytes = budget;
        return options;
    };
    const auto request_of = [&](int i) {
        generation_request request =
            ask("agent" + std::to_string(i),
                chat_of({"Pot " + std::to_string(i) + "? " + long_paste(12)}), answer);
        request.ending.ignores_end = true;
        return request;
    };
    std::vector<std::vector<storage::token_id>> expected;
    for (int i = 0; i < agents; ++i) {
        temp_dir alone;
        expected.push_back(
            run(*load(options_with(alone.path(), std::size_t{64} << 20)), request_of(i))->tokens);
        ASSERT_EQ(expected.back().size(), std::size_t{answer});
    }
    temp_dir probed;
    const auto pool = load(options_with(probed.path(), std::size_t{64} << 20))->pool();
    const std::size_t states = agents * 2 * pool.state_bytes;
    auto host = load(options_with(dir_.path(), states + (std::size_t{5} << 18)));
    std::vector<std::shared_ptr<transcript>> sinks;
    for (int i = 0; i < agents; ++i) {
        sinks.push_back(std::make_shared<transcript>());
        host->submit(request_of(i), sinks.back());
    }
    std::uint64_t prompts = 0;
    for (int i = 0; i < agents; ++i) {
        const auto& sink = sinks[static_cast<std::size_t>(i)];
        ASSERT_TRUE(sink->wait());
        ASSERT_TRUE(sink->finished) << (sink->failed ? sink->failed->what : "");
        EXPECT_EQ(sink->tokens, expected[static_cast<std::size_t>(i)]) << i;
        prompts += static_cast<std::uint64_t>(sink->usage.prompt_tokens);
    }
    std::cout << "    prefilled " << host->probe().tokens_prefilled << " of " << prompts
              << ", states read " << host->store_probe().states_read << "\n";
    EXPECT_LE(host->probe().tokens_prefilled.load(), prompts + 64 * agents);
}

// Goal: what a turn writes. Method: conversations whose prompts are read in one piece and in many,
// so that a memory is saved once and often in a turn.
TEST_P(recurrent_memory, a_turn_writes_one_state_before_its_answer_ends_and_leaves_two) {
    engine_options options = options_at(dir_.path());
    options.states_per_agent = 16;
    auto host = load(options);
    std::vector<std::string> turns;
    std::uint64_t before = 0;
    for (const int sentences : {3, 0, 120, 2}) {
        turns.push_back("My dog is called Biscuit. " + long_paste(sentences));
        const auto sink = said(*host, "a", turns);
        turns.push_back(sink->text);
        const std::uint64_t written = host->store_probe().states_written.load() - before;
        const std::uint64_t root = before == 0 ? 1 : 0;
        const bool is_long = sink->usage.prompt_tokens - sink->usage.reused_tokens >= 2048;
        EXPECT_LE(written, 2 + root + (is_long ? 1 : 0)) << sentences;
        EXPECT_GE(written, 1u) << sentences;
        before += written;
    }
}

INSTANTIATE_TEST_SUITE_P(trained, recurrent_memory,
                         testing::Values(tried_model{"semantic-tiny-recurrent"},
                                         tried_model{"semantic-tiny-hybrid"},
                                         tried_model{attending}, tried_model{attending, wide_tail},
                                         tried_model{"semantic-tiny-hybrid", wide_tail}),
                         [](const auto& each) {
                             std::string name = each.param.name;
                             if (each.param.recipe == std::string(wide_tail)) name += "_wide_tail";
                             for (char& c : name) c = c == '-' ? '_' : c;
                             return name;
                         });

}  // namespace
}  // namespace semantic::engine
