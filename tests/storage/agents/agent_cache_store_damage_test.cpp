// SPDX-License-Identifier: Apache-2.0
// Files that were damaged, exchanged or lost while nobody looked: a shortfall with a reason and a
// counter, never wrong bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/disk/manifest.hpp"
#include "tests/storage/agents/store_test.hpp"

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

class agent_cache_store_damage_test : public store_test {
  protected:
    agent_cache_store_damage_test() : store_test(small_layout(), 100) {
        const auto store = open();
        store->put(make_state(pool, "a", tokens));
        EXPECT_TRUE(store->save(id_of("a")));
        const auto names = block_names(fingerprint_of("model"), "salt", tokens, block_tokens);
        for (const block_hash& name : names)
            blocks.push_back(directory / block_path(name, kv_part::full));
        manifest_file = fs::directory_iterator(directory / "agents")->path().string();
    }

    /// Restores everything; checks that what came is right. Returns: what came.
    restored_prefix restore_all(agent_cache_store& store) {
        const auto restored = store.restore(*store.find(id_of("a")), count);
        EXPECT_TRUE(restored);
        EXPECT_TRUE(holds(layout, restored->blocks, tokens, restored->tokens));
        return *restored;
    }

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
    // Three files, of each the header and two layers.
    for (int read = 1; read <= 9; ++read) {
        const auto store = open(&files);
        files.fail_read_at(read);
        const auto restored = restore_all(*store);
        EXPECT_EQ(restored.why, shortfall::corrupt) << read;
        EXPECT_LT(restored.tokens, count) << read;
        EXPECT_EQ(restore_all(*store).tokens, count) << read;
    }
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
    std::fill(cold.blocks.begin(), cold.blocks.end(), kv_block_parts{});
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
    const std::string other = directory / manifest_path("salt", "b", fingerprint_of("model"));
    fs::copy_file(manifest_file, other);
    const auto store = open();
    EXPECT_EQ(store->find(id_of("b")), nullptr);
    EXPECT_EQ(store->probe().manifests_incompatible, 1u);
    EXPECT_EQ(restore_all(*store).tokens, count);
}

// Goal: a bad sector in one agent's manifest takes nobody else down, and nothing is deleted on a
// guess. Method: each read of an opening fails; the manifests are among them, and what all need.
TEST_F(agent_cache_store_damage_test, a_manifest_that_cannot_be_read_is_a_miss_and_stays) {
    {
        const auto store = open();
        put_and_save(*store, "b", some_tokens(21, 5));
    }
    int unreadable = 0;
    for (int read = 1; read <= 8; ++read) {
        SCOPED_TRACE(read);
        semantic::tests::fault_file_system files(directory.path());
        files.fail_read_at(read);
        const auto store = agent_cache_store::open(options_for(directory.path(), &files), pool);
        if (!store) {
            EXPECT_EQ(store.error().code, errc::io);
            continue;
        }
        for (const char* each : {"a", "b"}) {
            if ((*store)->find(id_of(each)) != nullptr) continue;
            ++unreadable;
            EXPECT_EQ((*store)->why_absent(id_of(each)), shortfall::corrupt);
            EXPECT_NE((*store)->find(id_of(*each == 'a' ? "b" : "a")), nullptr);
        }
    }
    EXPECT_EQ(unreadable, 2) << "each of the two manifests";
    const auto store = open();
    EXPECT_EQ(restore_all(*store).tokens, count);
    expect_whole(*store, "b", some_tokens(21, 5));
}

TEST_F(agent_cache_store_damage_test, what_cannot_be_read_gives_way_to_nothing) {
    bool was_unreadable = false;
    for (int read = 1; read <= 8 && !was_unreadable; ++read) {
        semantic::tests::fault_file_system files(directory.path());
        files.fail_read_at(read);
        store_options options = options_for(directory.path(), &files);
        options.disk_budget_bytes = 1 << 20;
        const auto store = agent_cache_store::open(options, pool);
        if (!store || (*store)->find(id_of("a")) != nullptr) continue;
        was_unreadable = true;
        auto room = (*store)->reserve_disk(tenant_id{});
        while (room.grow(4096)) {
        }
    }
    ASSERT_TRUE(was_unreadable);
    EXPECT_EQ(restore_all(*open()).tokens, count);
}

// Goal: exchanged files are detected. Method: each block of a is replaced by a good file of another
// agent, of another model, of another tenant, of another length.
TEST_F(agent_cache_store_damage_test, a_good_file_of_somebody_else_is_refused) {
    const auto file_of = [&](const std::string& model, const std::string& salt,
                             const std::vector<token_id>& words, std::size_t index) {
        const temp_dir elsewhere;
        store_options options = options_for(elsewhere.path());
        options.fingerprint = fingerprint_of(model);
        options.tenant_salt = salt;
        const auto store = std::move(*agent_cache_store::open(options, pool));
        store->put(make_state(pool, "a", words));
        EXPECT_TRUE(store->save(id_of("a")));
        const auto names = block_names(options.fingerprint, salt, words, block_tokens);
        return contents(elsewhere / block_path(names[index], kv_part::full));
    };
    for (std::size_t index = 0; index < blocks.size(); ++index) {
        const std::string whole = contents(blocks[index]);
        const std::vector<std::string> others = {
            file_of("model", "salt", some_tokens(21, 5), index),
            file_of("another model", "salt", tokens, index),
            file_of("model", "another tenant", tokens, index),
            file_of("model", "salt", some_tokens(static_cast<int>(index) * block_tokens + 3),
                    index)};
        for (const std::string& other : others) {
            write_contents(blocks[index], other);
            const auto store = open();
            const auto restored = restore_all(*store);
            EXPECT_EQ(restored.tokens, static_cast<int>(index) * block_tokens);
            EXPECT_NE(restored.why, shortfall::none);
            EXPECT_EQ(store->probe().blocks_corrupt, 1u);
        }
        write_contents(blocks[index], whole);
    }
    EXPECT_EQ(restore_all(*open()).tokens, count);
}

TEST_F(agent_cache_store_damage_test, a_block_file_of_another_format_version_is_incompatible) {
    std::string later = contents(blocks[1]);
    const std::string field = "\"format_version\":\"";
    const std::size_t at = later.find(field);
    ASSERT_NE(at, std::string::npos);
    later[at + field.size()] = '9';
    write_contents(blocks[1], later);
    const auto store = open();
    const auto restored = restore_all(*store);
    EXPECT_EQ(restored.tokens, block_tokens);
    EXPECT_EQ(restored.why, shortfall::incompatible);
    EXPECT_EQ(store->probe().blocks_corrupt, 1u);
}

// Goal: a record that is lost takes its turn with it, not the agent. Method: two turns; damage at
// every place after the first.
TEST_F(agent_cache_store_damage_test, damage_behind_the_first_version_brings_that_version_back) {
    const std::size_t first_bytes = fs::file_size(manifest_file);
    auto longer = tokens;
    longer.resize(16);
    for (int i = 0; i < 9; ++i) longer.push_back(70 + i);
    {
        const auto store = open();
        // The first save after an opening writes the whole file, the next one appends to it.
        store->put(make_state(pool, "a", tokens));
        ASSERT_TRUE(store->save(id_of("a")));
        store->put(make_state(pool, "a", longer));
        ASSERT_TRUE(store->save(id_of("a")));
    }
    const std::string whole = contents(manifest_file);
    ASSERT_GT(whole.size(), first_bytes);
    for (std::size_t at = first_bytes; at < whole.size(); at += 5) {
        std::string damaged = whole;
        if (at % 2 == 0)
            damaged[at] ^= 0x04;
        else
            damaged.resize(at + 1);
        write_contents(manifest_file, damaged);
        const auto store = open();
        const auto found = store->find(id_of("a"));
        ASSERT_NE(found, nullptr) << at;
        if (at + 1 == whole.size()) continue;  // cut after its last byte
        EXPECT_EQ(found->tokens, tokens) << at;
        EXPECT_EQ(store->probe().manifests_torn, 1u);
        EXPECT_EQ(store->probe().manifests_corrupt, 1u);
        EXPECT_GE(restore_all(*store).tokens, 16);
    }
}

TEST_F(agent_cache_store_damage_test, a_directory_that_became_read_only_fails_saves_only) {
    semantic::tests::fault_file_system files(directory.path());
    const auto store = open(&files);
    files.set_read_only(true);
    EXPECT_EQ(restore_all(*store).tokens, count);
    store->put(make_state(pool, "b", some_tokens(21, 3)));
    const auto saved = store->save(id_of("b"));
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().code, errc::io);
    EXPECT_EQ(store->probe().save_failures, 1u);
    EXPECT_FALSE(store->erase(id_of("a")));
    EXPECT_TRUE(holds(layout, store->find(id_of("b"))->blocks, some_tokens(21, 3), 21));
    EXPECT_FALSE(agent_cache_store::open(options_for(directory / "below", &files), pool));
    files.set_read_only(false);
    EXPECT_TRUE(store->save(id_of("b")));
}

TEST_F(agent_cache_store_damage_test, a_directory_that_is_deleted_while_running_loses_no_answer) {
    const auto store = open();
    store->put(make_state(pool, "b", some_tokens(21, 3)));
    fs::remove_all(directory.path());
    const auto restored = restore_all(*store);
    EXPECT_EQ(restored.tokens, 0);
    EXPECT_EQ(restored.why, shortfall::evicted);
    EXPECT_EQ(store->probe().blocks_missing, 1u);
    EXPECT_TRUE(store->save(id_of("b")));
    EXPECT_EQ(store->probe().save_failures, 0u);
    EXPECT_TRUE(holds(layout, store->find(id_of("b"))->blocks, some_tokens(21, 3), 21));
    EXPECT_TRUE(store->erase(id_of("a")));
}

// Method: a real file system of 1 MiB, where one may be mounted.
TEST_F(agent_cache_store_damage_test, a_full_file_system_fails_the_save_and_nothing_else) {
    const temp_dir mounted;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        constexpr int not_here = 77;
        if (::unshare(CLONE_NEWNS) != 0) ::_exit(not_here);
        (void)::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
        if (::mount("none", mounted.path().c_str(), "tmpfs", 0, "size=1m") != 0) ::_exit(not_here);
        store_options options = options_for(mounted.path());
        options.disk_budget_bytes = 1 << 30;
        const auto store = std::move(*agent_cache_store::open(options, pool));
        // Small agents give way to each other for ever.
        for (int i = 0; i < 120; ++i) {
            const std::string id = "small" + std::to_string(i);
            store->put(make_state(pool, id, some_tokens(21, i)));
            if (!store->save(id_of(id))) ::_exit(1);
            if (!store->evict(id_of(id))) ::_exit(2);
        }
        if (store->probe().disk_removals == 0) ::_exit(3);
        // Somebody else fills what is left, and nothing of ours may go.
        std::vector<agent_cache_store::pin> pins;
        for (const agent_summary& agent : store->list()) pins.push_back(store->hold(agent.id));
        std::ofstream(mounted / "filler", std::ios::binary) << std::string(2 << 20, 'x');
        store->put(make_state(pool, "last", some_tokens(21, 500)));
        const auto refused = store->save(id_of("last"));
        if (refused || refused.error().code != errc::out_of_space) ::_exit(4);
        const auto last = store->find(id_of("last"));
        if (!holds(layout, last->blocks, some_tokens(21, 500), 21)) ::_exit(5);
        fs::remove(mounted / "filler");
        pins.clear();
        ::_exit(store->save(id_of("last")) ? 0 : 6);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        GTEST_SKIP() << "no file system may be mounted here";
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace semantic::storage
