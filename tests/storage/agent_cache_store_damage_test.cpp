// Files that were damaged, exchanged or lost while nobody looked: a shortfall with a reason and a
// counter, never wrong bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "storage/agent_cache_store.hpp"
#include "storage/manifest.hpp"
#include "tests/storage/store_fixture.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::temp_dir;
namespace fs = std::filesystem;

std::string contents(const std::string& path) {
    return read_whole(posix_file_system(), path, 1 << 24).value();
}

void write_contents(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary).write(text.data(), std::streamsize(text.size()));
}

class agent_cache_store_damage_test : public testing::Test {
  protected:
    agent_cache_store_damage_test() {
        const auto store = open();
        store->put(make_state(pool, "a", tokens));
        EXPECT_TRUE(store->save(id_of("a")));
        const auto names = block_names(fingerprint_of("model"), "salt", tokens, block_tokens);
        for (const block_hash& name : names) blocks.push_back(directory / block_path(name));
        manifest_file = fs::directory_iterator(directory / "agents")->path().string();
    }

    std::unique_ptr<agent_cache_store> open(file_system* files = nullptr) {
        auto store = agent_cache_store::open(options_for(directory.path(), files), pool);
        EXPECT_TRUE(store) << store.error().what;
        return std::move(*store);
    }

    /// Restores everything; checks that what came is right. Returns: what came.
    restored_prefix restore_all(agent_cache_store& store) {
        const auto restored = store.restore(*store.find(id_of("a")), count);
        EXPECT_TRUE(restored);
        EXPECT_TRUE(holds(layout, restored->blocks, tokens, restored->tokens));
        return *restored;
    }

    const temp_dir directory;
    const kv_layout layout = small_layout();
    block_pool pool{layout, layout.frame_bytes() * 100};
    const std::vector<token_id> tokens = some_tokens(21);
    const int count = 21;
    std::vector<std::string> blocks;
    std::string manifest_file;
};

TEST_F(agent_cache_store_damage_test, a_flip_anywhere_in_a_block_is_a_counted_shortfall) {
    for (std::size_t index = 0; index < blocks.size(); ++index) {
        const std::string whole = contents(blocks[index]);
        for (std::size_t at = 0; at < whole.size(); at += 23) {
            std::string damaged = whole;
            damaged[at] ^= 0x10;
            write_contents(blocks[index], damaged);
            const auto store = open();
            const auto restored = restore_all(*store);
            EXPECT_EQ(restored.tokens, static_cast<int>(index) * block_tokens) << at;
            EXPECT_TRUE(restored.why == shortfall::corrupt ||
                        restored.why == shortfall::incompatible);
            EXPECT_NE(restored.detail.find(blocks[index]), std::string::npos) << restored.detail;
            EXPECT_EQ(store->probe().blocks_corrupt, 1u);
        }
        write_contents(blocks[index], whole);
    }
    EXPECT_EQ(restore_all(*open()).why, shortfall::none);
}

TEST_F(agent_cache_store_damage_test, a_truncated_block_is_a_counted_shortfall) {
    const std::string whole = contents(blocks[1]);
    for (std::size_t kept = 0; kept < whole.size(); kept += 37) {
        write_contents(blocks[1], whole.substr(0, kept));
        const auto store = open();
        const auto restored = restore_all(*store);
        EXPECT_EQ(restored.tokens, block_tokens);
        EXPECT_EQ(restored.why, shortfall::corrupt);
        EXPECT_EQ(store->probe().blocks_corrupt, 1u);
    }
}

TEST_F(agent_cache_store_damage_test, a_missing_block_is_a_counted_shortfall) {
    fs::remove(blocks[2]);
    const auto store = open();
    const auto restored = restore_all(*store);
    EXPECT_EQ(restored.tokens, 2 * block_tokens);
    EXPECT_EQ(restored.why, shortfall::evicted);
    EXPECT_EQ(store->probe().blocks_missing, 1u);
}

TEST_F(agent_cache_store_damage_test, blocks_that_changed_places_are_refused) {
    const std::string first = contents(blocks[0]);
    write_contents(blocks[0], contents(blocks[1]));
    write_contents(blocks[1], first);
    const auto restored = restore_all(*open());
    EXPECT_EQ(restored.tokens, 0);
    EXPECT_EQ(restored.why, shortfall::corrupt);
}

TEST_F(agent_cache_store_damage_test, a_read_error_is_a_shortfall_and_not_the_end_of_the_block) {
    semantic::tests::fault_file_system files(directory.path());
    const auto store = open(&files);
    files.fail_read_at(20);
    const auto restored = restore_all(*store);
    EXPECT_EQ(restored.why, shortfall::corrupt);
    EXPECT_LT(restored.tokens, count);
    EXPECT_EQ(restore_all(*store).tokens, count);
}

TEST_F(agent_cache_store_damage_test, the_next_save_mends_a_damaged_block) {
    std::string damaged = contents(blocks[1]);
    damaged.back() ^= 1;
    write_contents(blocks[1], damaged);
    {
        const auto store = open();
        EXPECT_EQ(restore_all(*store).why, shortfall::corrupt);
        store->put(make_state(pool, "a", tokens));
        const auto mended = store->save(id_of("a"));
        ASSERT_TRUE(mended);
        EXPECT_EQ(mended->blocks_written, 1);
    }
    EXPECT_EQ(restore_all(*open()).tokens, count);
}

TEST_F(agent_cache_store_damage_test, whoever_holds_a_damaged_block_in_the_pool_saves_it_again) {
    const auto store = open();
    EXPECT_EQ(restore_all(*store).tokens, count);
    auto longer = tokens;
    longer.resize(16);
    longer.push_back(99);
    store->put(make_state(pool, "b", longer));
    ASSERT_TRUE(store->save(id_of("b")));
    EXPECT_TRUE(store->dirty_agents().empty());
    // The holder's block is not known by name any more once nobody else has it; restoring from a
    // copy of the state that has no blocks and whose tail differs reads the file.
    std::string damaged = contents(blocks[2]);
    damaged.back() ^= 1;
    write_contents(blocks[2], damaged);
    auto cold = *store->find(id_of("a"));
    cold.id = id_of("guest");
    std::fill(cold.blocks.begin(), cold.blocks.end(), nullptr);
    const auto restored = store->restore(cold, count);
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->tokens, 16);
    EXPECT_EQ(restored->why, shortfall::corrupt);
    EXPECT_EQ(store->dirty_agents(), std::vector<agent_id>{id_of("a")});
    EXPECT_EQ(store->save(id_of("a"))->blocks_written, 1);
    EXPECT_EQ(store->restore(cold, count)->tokens, count);
}

TEST_F(agent_cache_store_damage_test, a_flip_or_cut_anywhere_in_a_manifest_makes_the_agent_absent) {
    const std::string whole = contents(manifest_file);
    std::vector<std::string> block_bytes;
    for (const std::string& block : blocks) block_bytes.push_back(contents(block));
    for (std::size_t at = 0; at < whole.size(); at += 7) {
        std::string damaged = whole;
        if (at % 2 == 0)
            damaged[at] ^= 0x01;
        else
            damaged.resize(at);
        write_contents(manifest_file, damaged);
        for (std::size_t i = 0; i < blocks.size(); ++i) write_contents(blocks[i], block_bytes[i]);
        {
            const auto store = open();
            EXPECT_EQ(store->find(id_of("a")), nullptr) << at;
            EXPECT_EQ(store->why_absent(id_of("a")), shortfall::corrupt);
            EXPECT_EQ(store->probe().manifests_corrupt, 1u);
        }
        EXPECT_FALSE(fs::exists(blocks[0]));
        EXPECT_EQ(open()->probe().manifests_corrupt, 0u);  // counted once, then gone
    }
}

TEST_F(agent_cache_store_damage_test, a_manifest_under_another_agents_name_is_not_taken_for_it) {
    const std::string other = directory / manifest_path("salt", "b");
    fs::copy_file(manifest_file, other);
    const auto store = open();
    EXPECT_EQ(store->find(id_of("b")), nullptr);
    EXPECT_EQ(store->probe().manifests_incompatible, 1u);
    EXPECT_EQ(restore_all(*store).tokens, count);
}

TEST_F(agent_cache_store_damage_test, a_manifest_that_cannot_be_read_stops_the_opening) {
    semantic::tests::fault_file_system files(directory.path());
    files.fail_read_at(1);
    const auto store = agent_cache_store::open(options_for(directory.path(), &files), pool);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code, errc::io);
    EXPECT_TRUE(fs::exists(blocks[0]));  // nothing was deleted on a guess
}

}  // namespace
}  // namespace semantic::storage
