// SPDX-License-Identifier: Apache-2.0
// Models that take turns on one cache directory: each goes on with its own memory of an agent, as
// if the other had never been there.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/engine.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

namespace fs = std::filesystem;
using tests::ask;
using tests::chat_of;
using tests::load;
using tests::options_in;
using tests::run;
using tests::temp_dir;

const char* const told = "My dog is called Biscuit.";
const char* const question = "What is my dog called?";

storage::agent_id id_of(const char* name) { return storage::agent_id::parse(name).value(); }

/// The embedded model, and the same with one weight changed, on one directory.
class two_models : public testing::Test {
  protected:
    two_models() {
        base = options_in(cache.path());
        base.model_id = "base";
        tuned = base;
        tuned.model_id = "tuned";
        tuned.model_directory = folder.path();
        fs::copy(base.model_directory, folder.path(),
                 fs::copy_options::recursive | fs::copy_options::overwrite_existing);
        std::fstream weights(folder / "model.safetensors",
                             std::ios::in | std::ios::out | std::ios::binary);
        weights.seekg(-100, std::ios::end);
        const char byte = static_cast<char>(weights.get() ^ 1);
        weights.seekp(-100, std::ios::end);
        weights.put(byte);
    }
    /// One turn of agent a, as a thread's first.
    static std::string tell(engine& engine, const char* message) {
        generation_request request = ask("a", chat_of({told}));
        request.message_id = message;
        request.keeps_thread = true;
        return run(engine, std::move(request))->text;
    }

    temp_dir cache, folder;
    engine_options base, tuned;
};

TEST_F(two_models, one_that_was_drained_takes_requests_again_where_the_other_does_not_come) {
    const auto engine = load(base);
    const std::string first = run(*engine, ask("a", chat_of({told})))->text;
    engine->drain(std::chrono::steady_clock::now());
    EXPECT_TRUE(run(*engine, ask("a", chat_of({told, first, question})))->failed);
    engine->resume();
    const auto said = run(*engine, ask("a", chat_of({told, first, question})));
    ASSERT_TRUE(said->finished);
    EXPECT_GT(said->usage.reused_tokens, 0);
}

TEST_F(two_models, each_has_the_context_that_it_is_given_at_most) {
    base.context_tokens = 100;
    const auto engine = load(base);
    EXPECT_EQ(engine->info().context_tokens_max, 100);
    const auto refused = run(*engine, ask("a", chat_of({tests::long_paste(20)})));
    ASSERT_TRUE(refused->failed);
    EXPECT_EQ(refused->failed->kind, failure_kind::too_large);
    EXPECT_TRUE(run(*engine, ask("a", chat_of({told}), 8))->finished);
}

TEST_F(two_models, each_goes_on_with_its_own_memory_when_it_returns) {
    std::string first, expected;
    {
        const temp_dir alone;
        engine_options options = base;
        options.cache_directory = alone.path();
        const auto engine = load(options);
        first = run(*engine, ask("a", chat_of({told})))->text;
        expected = run(*engine, ask("a", chat_of({told, first, question})))->text;
    }
    int tokens = 0;
    {
        const auto engine = load(base);
        EXPECT_EQ(run(*engine, ask("a", chat_of({told})))->text, first);
        tokens = engine->inspect(id_of("a"))->tokens;
    }
    {
        const auto engine = load(tuned);
        const auto said = run(*engine, ask("a", chat_of({told})));
        EXPECT_EQ(said->usage.reused_tokens, 0) << "one weight makes another model";
        EXPECT_EQ(said->usage.why, miss_reason::model_changed);
        EXPECT_TRUE(said->finished->saved);
    }
    {
        const auto engine = load(base);
        const auto said = run(*engine, ask("a", chat_of({told, first, question})));
        EXPECT_EQ(said->usage.restored_tokens, tokens);
        EXPECT_EQ(said->text, expected);
    }
    const auto engine = load(tuned);
    EXPECT_GT(run(*engine, ask("a", chat_of({told})))->usage.restored_tokens, 0);
}

TEST_F(two_models, an_agent_is_listed_once_with_what_each_remembers) {
    {
        const auto engine = load(base);
        tell(*engine, "msg_1");
        ASSERT_TRUE(engine->create(id_of("b")));
    }
    const auto engine = load(tuned);
    const auto before = engine->inspect(id_of("a"));
    ASSERT_TRUE(before);
    EXPECT_FALSE(before->is_remembered);
    EXPECT_EQ(before->tokens, 0);
    ASSERT_EQ(before->memories.size(), 1u);
    EXPECT_EQ(before->memories[0].model_id, "base");
    EXPECT_FALSE(before->memories[0].is_loaded);
    tell(*engine, "msg_2");
    const auto agents = engine->agents({});
    ASSERT_EQ(agents.size(), 2u);
    ASSERT_EQ(agents[0].memories.size(), 2u);
    EXPECT_EQ(agents[0].id, id_of("a"));
    EXPECT_TRUE(agents[0].is_remembered);
    EXPECT_EQ(agents[0].memories[0].model_id, "tuned");
    EXPECT_EQ(agents[0].memories[0].fingerprint, engine->info().fingerprint);
    EXPECT_TRUE(agents[0].memories[0].is_loaded);
    EXPECT_GT(agents[0].memories[1].tokens, 0);
    EXPECT_GT(agents[0].memories[1].disk_bytes, 0u);
    EXPECT_FALSE(agents[1].is_remembered);
    const memory_usage usage = engine->memory_of({});
    ASSERT_EQ(usage.models.size(), 2u);
    std::uint64_t sum = 0, memories = 0;
    for (const model_memories& each : usage.models) {
        sum += each.disk_bytes;
        memories += each.agents;
        EXPECT_EQ(each.is_loaded, each.model_id == "tuned");
    }
    EXPECT_EQ(sum, usage.disk_bytes);
    EXPECT_EQ(memories, 3u);
}

TEST_F(two_models, what_acts_on_a_memory_acts_on_the_loaded_models) {
    {
        const auto engine = load(base);
        tell(*engine, "msg_1");
    }
    const auto engine = load(tuned);
    EXPECT_FALSE(engine->find_message({}, "msg_1"));
    EXPECT_FALSE(engine->find_thread({}, "msg_1"));
    generation_request next = ask("", chat_of({question}));
    next.continues = "msg_1";
    EXPECT_TRUE(run(*engine, std::move(next))->failed) << "clients send everything again";
    const auto forked = engine->fork(id_of("a"), id_of("c"));
    ASSERT_FALSE(forked);
    EXPECT_EQ(forked.error().code, storage::errc::not_found);
    EXPECT_NE(forked.error().what.find("another model remembers agent a"), std::string::npos);
    const auto exported = engine->export_agent(
        id_of("a"), [](std::span<const std::byte>) { return storage::result<void>(); });
    EXPECT_EQ(exported.error().code, storage::errc::not_found);
    EXPECT_TRUE(engine->evict(id_of("a"))) << "it is on disk as it is";
    EXPECT_EQ(engine->evict(id_of("nobody")).error().code, storage::errc::not_found);
    EXPECT_EQ(engine->create(id_of("a")).error().code, storage::errc::bad_value);
    EXPECT_EQ(engine->inspect(id_of("a"))->memories.size(), 1u);
}

TEST_F(two_models, an_agent_is_forgotten_under_all_or_under_one) {
    storage::block_hash of_base;
    {
        const auto engine = load(base);
        of_base = engine->info().fingerprint;
        tell(*engine, "msg_1");
        run(*engine, ask("b", chat_of({told})));
    }
    {
        const auto engine = load(tuned);
        tell(*engine, "msg_2");
        run(*engine, ask("b", chat_of({told})));
        ASSERT_TRUE(engine->erase_memory(id_of("a"), of_base));
        EXPECT_TRUE(engine->inspect(id_of("a"))->is_remembered);
        EXPECT_EQ(engine->inspect(id_of("a"))->memories.size(), 1u);
        ASSERT_TRUE(engine->erase(id_of("b")));
        EXPECT_FALSE(engine->inspect(id_of("b")));
    }
    const auto engine = load(base);
    EXPECT_FALSE(engine->inspect(id_of("a"))->is_remembered);
    EXPECT_FALSE(engine->inspect(id_of("b")));
    EXPECT_FALSE(engine->find_message({}, "msg_1"));
}

}  // namespace
}  // namespace semantic::engine
