// SPDX-License-Identifier: Apache-2.0
// Imported memory: a client chooses its bytes, so nobody but the agent itself may run on it.

#include <gtest/gtest.h>

#include <cstring>

#include "engine/engine.hpp"
#include "engine/model/config/model_config.hpp"
#include "storage/disk/agent_file.hpp"
#include "storage/files/safetensors.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::run;
using tests::temp_dir;

storage::agent_id id_of(const std::string& name) { return *storage::agent_id::parse(name); }

std::string exported(engine& from, const std::string& agent) {
    std::string file;
    EXPECT_TRUE(from.export_agent(id_of(agent), tests::appending_to(file)));
    return file;
}

storage::result<int> import(engine& runner, const std::string& agent, const std::string& file) {
    return runner.import_agent(
        id_of(agent),
        {file.size(),
         [&file](std::uint64_t offset, std::span<std::byte> bytes) -> storage::result<void> {
             if (offset > file.size() || bytes.size() > file.size() - offset)
                 return storage::failure{storage::errc::corrupt, "the file ends"};
             std::memcpy(bytes.data(), file.data() + offset, bytes.size());
             return {};
         }});
}

TEST(engine_import_limits, a_header_beyond_what_a_conversation_needs_is_not_read) {
    temp_dir dir;
    auto engine = tests::load(tests::options_in(dir.path()));
    const std::uint64_t header_bytes = 90'000'000;
    std::uint64_t most_asked = 0;
    const auto read = [&](std::uint64_t, std::span<std::byte> target) -> storage::result<void> {
        most_asked = std::max<std::uint64_t>(most_asked, target.size());
        std::memset(target.data(), ' ', target.size());
        std::memcpy(target.data(), &header_bytes, std::min(target.size(), sizeof header_bytes));
        return {};
    };
    const auto refused = engine->import_agent(id_of("a"), {header_bytes + 100, read});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, storage::errc::corrupt);
    EXPECT_NE(refused.error().what.find("needs at most"), std::string::npos)
        << refused.error().what;
    EXPECT_EQ(most_asked, sizeof header_bytes);
}

/// Returns: the file, changed by `change`, with every checksum right.
std::string rewritten(
    const std::string& file, const std::string& directory,
    const std::function<void(storage::agent_state&, storage::block_pool&)>& change) {
    const engine_options options = tests::options_in(directory);
    const auto config = model_config::load(options.model_directory).value();
    storage::block_pool pool(
        make_kv_layout(config, storage::find_kv_recipe(options.kv_recipe).value(),
                       options.block_tokens),
        std::size_t{16} << 20);
    const auto view = storage::safetensors_view::parse(std::as_bytes(std::span(file))).value();
    const auto fingerprint = storage::block_hash::from_hex(view.metadata.at("fingerprint")).value();
    tests::bytes_file source(file);
    auto state = storage::read_agent_file(source, id_of("x"), fingerprint, pool).value();
    change(state, pool);
    std::string out;
    EXPECT_TRUE(
        storage::write_agent_file(state, fingerprint, pool.layout(), tests::appending_to(out)));
    return out;
}

/// The values of every token become the same noise.
void damage(storage::agent_state& state, storage::block_pool& pool) {
    const storage::kv_layout& layout = pool.layout();
    for (const storage::kv_block_parts& block : state.blocks)
        for (int layer = 0; layer < layout.layer_count(); ++layer) {
            const storage::kv_region& v = layout.v(layer);
            // The test's own pool: nobody else has the block.
            auto* frame = const_cast<std::byte*>(block.full->frame(layer));
            std::memset(frame + v.row_at(layout.block_tokens(), 0, 0), 0x1d,
                        v.row_bytes * static_cast<std::size_t>(v.heads * layout.block_tokens()));
        }
}

class engine_import : public testing::Test {
  protected:
    engine_import() {
        const auto honest = tests::load(tests::options_in(away.path()));
        const auto first = run(*honest, ask("a", chat_of(told)));
        asked = {told[0], first->text, "What is my dog called?"};
        file = exported(*honest, "a");
        fresh = run(*honest, ask("a", chat_of(asked)))->text;
        bad = rewritten(file, away.path(), damage);
        start();
    }
    void start() {
        served.reset();
        served = tests::load(tests::options_in(home.path()));
    }
    /// Whether agents, named and not, that say the same are answered as if nobody else were there.
    void expect_right_answers(int reused_at_most) {
        const auto named = run(*served, ask("good", chat_of(asked)));
        EXPECT_EQ(named->text, fresh);
        EXPECT_LE(named->usage.reused_tokens, reused_at_most);
        EXPECT_EQ(run(*served, ask("", chat_of(asked)))->text, fresh);
        ASSERT_TRUE(served->erase(id_of("good")));
    }

    const std::vector<std::string> told = {tests::long_paste(25) + "My dog is called Biscuit."};
    std::vector<std::string> asked;
    std::string file, bad, fresh;
    const temp_dir home, away;
    std::unique_ptr<engine> served;
};

TEST_F(engine_import, nobody_else_answers_from_a_memory_that_was_imported) {
    ASSERT_TRUE(import(*served, "evil", bad));
    expect_right_answers(0);
    const auto evil = run(*served, ask("evil", chat_of(asked)));
    EXPECT_NE(evil->text, fresh);
    EXPECT_GT(evil->usage.reused_tokens, 500);
    const int known = served->inspect(id_of("evil"))->tokens;
    expect_right_answers(known);
    start();
    expect_right_answers(known);
    EXPECT_GT(run(*served, ask("evil", chat_of(asked)))->usage.reused_tokens, 500);
}

TEST_F(engine_import, nothing_of_it_is_left_once_its_agent_is_deleted) {
    ASSERT_TRUE(import(*served, "evil", bad));
    (void)run(*served, ask("evil", chat_of(asked)));
    ASSERT_TRUE(served->erase(id_of("evil")));
    expect_right_answers(0);
    start();
    expect_right_answers(1 << 20);
}

TEST_F(engine_import, right_blocks_on_disk_stay_right) {
    (void)run(*served, ask("good", chat_of(told)));
    ASSERT_TRUE(served->evict(id_of("good")));
    ASSERT_TRUE(import(*served, "evil", bad));
    const auto again = run(*served, ask("good", chat_of(asked)));
    EXPECT_EQ(again->text, fresh);
    EXPECT_GT(again->usage.restored_tokens, 500);
    start();
    expect_right_answers(1 << 20);
}

TEST_F(engine_import, a_fork_of_it_and_a_sub_agent_run_on_it_and_are_as_private) {
    ASSERT_TRUE(import(*served, "evil", bad));
    ASSERT_TRUE(served->fork(id_of("evil"), id_of("fork")));
    EXPECT_GT(run(*served, ask("fork", chat_of(asked)))->usage.reused_tokens, 500);
    generation_request below = ask("below", chat_of(asked));
    below.parent = id_of("evil");
    EXPECT_GT(run(*served, below)->usage.reused_tokens, 500);
    expect_right_answers(0);
    start();
    expect_right_answers(1 << 20);
}

TEST_F(engine_import, what_its_tokens_do_not_stand_for_is_refused_by_place) {
    const auto other_text = [](storage::agent_state& state, storage::block_pool&) {
        const std::size_t at = state.text.find("Biscuit");
        state.text.replace(at, 7, "Crumble");
    };
    const auto refused = import(*served, "evil", rewritten(file, away.path(), other_text));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, storage::errc::corrupt);
    EXPECT_NE(refused.error().what.find("is not what the text has from byte"), std::string::npos)
        << refused.error().what;
    EXPECT_FALSE(served->inspect(id_of("evil")));
}

}  // namespace
}  // namespace semantic::engine
