// SPDX-License-Identifier: Apache-2.0
// Recurrent states are objects of the store as blocks are: a memory goes on from the last place
// whose state is there and right, and says so.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "storage/disk/manifest.hpp"
#include "storage/disk/record_files.hpp"
#include "storage/disk/state_file.hpp"
#include "tests/storage/agents/store_test.hpp"
#include "tests/support/bytes.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
namespace fs = std::filesystem;

class agent_cache_store_states_test : public store_test {
  protected:
    agent_cache_store_states_test() : store_test(recurrent_layout(), 400) {}

    std::string file_at(const std::vector<token_id>& text, int place) const {
        return directory / block_path(kept_name(text, place), kv_part::state);
    }
    std::set<std::string> state_files() const {
        std::set<std::string> found;
        for (const auto& each : fs::recursive_directory_iterator(directory / "blocks"))
            if (each.path().string().ends_with(".state.safetensors"))
                found.insert(each.path().string());
        return found;
    }
    std::set<std::string> expected_files(const std::vector<token_id>& text) const {
        std::set<std::string> files;
        for (const int place : kept_places(static_cast<int>(text.size())))
            files.insert(file_at(text, place));
        return files;
    }
    static int last_place(int count, int within) {
        int last = 0;
        for (const int place : kept_places(count))
            if (place <= within) last = place;
        return last;
    }
    static void flip(const std::string& path, std::uint64_t at) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(static_cast<std::streamoff>(at));
        const char was = static_cast<char>(file.get());
        file.seekp(static_cast<std::streamoff>(at));
        file.put(static_cast<char>(was ^ 0x10));
    }
    /// Restores; checks every byte. Returns: what came.
    restored_prefix restore(agent_cache_store& store, const std::string& id, int count) {
        const auto state = store.find(id_of(id));
        const auto restored = store.restore(*state, count);
        EXPECT_TRUE(restored);
        EXPECT_TRUE(holds(layout, restored->blocks, state->tokens, restored->tokens));
        EXPECT_TRUE(kept_holds(layout, restored->state, state->tokens, restored->tokens));
        EXPECT_EQ(restored->blocks.size(),
                  static_cast<std::size_t>((restored->tokens + block_tokens - 1) / block_tokens));
        return *restored;
    }

    const std::vector<token_id> tokens = some_tokens(21);
};

TEST_F(agent_cache_store_states_test, go_on_from_the_largest_place_before_a_parting) {
    const auto store = open();
    put_and_save(*store, "a", tokens);
    for (const bool is_hot : {true, false})
        for (int parting = 0; parting <= 21; ++parting) {
            if (!is_hot) {
                ASSERT_TRUE(store->evict(id_of("a")));
            }
            const auto state = store->find(id_of("a"));
            const auto hot = store->restore_hot(*state, parting);
            EXPECT_EQ(hot.has_value(), is_hot || last_place(21, parting) == 0) << parting;
            if (hot) {
                EXPECT_EQ(hot->tokens, last_place(21, parting));
            }
            const auto found = restore(*store, "a", parting);
            EXPECT_EQ(found.tokens, last_place(21, parting));
            EXPECT_EQ(found.why, shortfall::none);
        }
}

TEST_F(agent_cache_store_states_test, come_back_after_a_restart_and_an_eviction) {
    {
        const auto store = open();
        put_and_save(*store, "a", tokens);
        EXPECT_EQ(state_files(), expected_files(tokens));
        EXPECT_EQ(store->probe().states_written, kept_places(21).size());
    }
    EXPECT_EQ(pool.state_count(), 0u);
    const auto store = open();
    const auto places = kept_places(21);
    EXPECT_EQ(store->inspect(id_of("a"))->state_places, places);
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(store->inspect(id_of("a"))->states_held, 0u);
        expect_whole(*store, "a", tokens);
        EXPECT_EQ(store->inspect(id_of("a"))->states_held, 1u) << "the one that was needed";
        EXPECT_EQ(store->inspect(id_of("a"))->tier, memory_tier::hot);
        EXPECT_TRUE(store->evict(id_of("a")));
        EXPECT_EQ(pool.held_count(), 0u);
    }
    EXPECT_GE(store->inspect(id_of("a"))->state_disk_bytes, places.size() * layout.state_bytes());
}

TEST_F(agent_cache_store_states_test, a_damaged_one_is_a_miss_down_to_the_next_lower_and_says_so) {
    const auto store = open();
    put_and_save(*store, "a", tokens);
    const auto places = kept_places(21);
    for (std::size_t i = places.size(); i-- > 0;) {
        ASSERT_TRUE(store->evict(id_of("a")));
        const std::string path = file_at(tokens, places[i]);
        flip(path, fs::file_size(path) - 1 - static_cast<std::uint64_t>(i));
        const auto corrupt = store->probe().states_corrupt.load();
        const auto found = restore(*store, "a", 21);
        EXPECT_EQ(found.tokens, i == 0 ? 0 : places[i - 1]);
        EXPECT_EQ(found.why, shortfall::corrupt);
        EXPECT_NE(found.detail.find(".state.safetensors"), std::string::npos) << found.detail;
        EXPECT_GT(store->probe().states_corrupt.load(), corrupt);
    }
    EXPECT_EQ(store->probe().blocks_corrupt, 0u);
}

TEST_F(agent_cache_store_states_test, one_that_is_gone_is_a_miss_down_to_the_next_lower) {
    const auto store = open();
    put_and_save(*store, "a", tokens);
    ASSERT_TRUE(store->evict(id_of("a")));
    fs::remove(file_at(tokens, 21));
    const auto found = restore(*store, "a", 21);
    EXPECT_EQ(found.tokens, 16);
    EXPECT_EQ(found.why, shortfall::evicted);
    EXPECT_EQ(store->probe().states_missing, 1u);
}

TEST_F(agent_cache_store_states_test, every_byte_of_a_file_is_checked) {
    const auto store = open();
    put_and_save(*store, "a", tokens);
    const std::string path = file_at(tokens, 21);
    const auto bytes = fs::file_size(path);
    for (std::uint64_t at = 0; at < bytes; ++at) {
        ASSERT_TRUE(store->evict(id_of("a")));
        flip(path, at);
        const auto found = restore(*store, "a", 21);
        EXPECT_EQ(found.tokens, 16) << at;
        EXPECT_NE(found.why, shortfall::none) << at;
        flip(path, at);
    }
    ASSERT_TRUE(store->evict(id_of("a")));
    EXPECT_EQ(restore(*store, "a", 21).tokens, 21);
}

TEST_F(agent_cache_store_states_test, a_damaged_file_is_written_again_by_who_has_the_state) {
    const auto store = open();
    put_and_save(*store, "a", tokens);
    ASSERT_TRUE(store->fork(id_of("a"), id_of("b")));
    const auto hot = store->restore(*store->find(id_of("b")), 21);
    flip(file_at(tokens, 21), fs::file_size(file_at(tokens, 21)) - 1);
    store->find(id_of("a"));
    // Somebody else reads it: another store of the same directory would; here the file is read.
    EXPECT_EQ(read_state_file(posix_file_system(), file_at(tokens, 21),
                              {fingerprint_of("model"), "salt",
                               block_names(fingerprint_of("model"), "salt",
                                           std::span(tokens).first(16), block_tokens)[1],
                               std::span(tokens).subspan(16)},
                              pool)
                  .error()
                  .code,
              errc::corrupt);
    EXPECT_EQ(restore(*store, "b", 21).tokens, 21) << "what is in the pool is right";
}

// Goal: agents that begin alike have one state of it, in RAM and on disk.
TEST_F(agent_cache_store_states_test, agents_that_begin_alike_share_the_root) {
    const auto store = open();
    const auto system = some_tokens(10);
    for (int i = 0; i < 10; ++i) {
        auto own = system;
        own.push_back(5000 + i);
        own.push_back(1);
        agent_state state = make_state(pool, "agent" + std::to_string(i), own);
        state.states = {{10, true, false, make_kept(pool, own, 10)},
                        {12, false, false, make_kept(pool, own, 12)}};
        store->put(std::move(state));
        ASSERT_TRUE(store->save(id_of("agent" + std::to_string(i))));
    }
    EXPECT_EQ(pool.state_count(), 11u);
    EXPECT_EQ(state_files().size(), 11u);
    EXPECT_TRUE(state_files().contains(file_at(system, 10)));
    // It stays as long as one agent has a memory that continues it.
    for (int i = 0; i < 9; ++i) ASSERT_TRUE(store->erase(id_of("agent" + std::to_string(i))));
    EXPECT_TRUE(state_files().contains(file_at(system, 10)));
    EXPECT_EQ(restore(*store, "agent9", 11).tokens, 10);
    ASSERT_TRUE(store->erase(id_of("agent9")));
    EXPECT_TRUE(state_files().empty());
    EXPECT_EQ(pool.state_count(), 0u);
}

TEST_F(agent_cache_store_states_test, a_fork_has_them_by_reference_whatever_becomes_of_its_origin) {
    const auto store = open();
    put_and_save(*store, "a", tokens);
    const auto in_pool = pool.state_count();
    ASSERT_TRUE(store->fork(id_of("a"), id_of("b")));
    EXPECT_EQ(pool.state_count(), in_pool);
    EXPECT_EQ(state_files(), expected_files(tokens));
    ASSERT_TRUE(store->erase(id_of("a")));
    EXPECT_EQ(state_files(), expected_files(tokens));
    ASSERT_TRUE(store->evict(id_of("b")));
    expect_whole(*store, "b", tokens);
}

TEST_F(agent_cache_store_states_test, what_no_memory_keeps_any_more_leaves_the_disk) {
    const auto store = open();
    put_and_save(*store, "a", tokens);
    auto longer = tokens;
    longer.resize(30, 3);
    agent_state state = make_state(pool, "a", longer);
    std::erase_if(state.states, [](const kept_state& each) { return each.tokens != 30; });
    store->put(std::move(state));
    ASSERT_TRUE(store->save(id_of("a")));
    EXPECT_EQ(state_files(), std::set<std::string>{file_at(longer, 30)});
    EXPECT_EQ(restore(*store, "a", 29).tokens, 0) << "KV that no state reaches";
}

TEST_F(agent_cache_store_states_test, one_that_waits_is_in_ram_only) {
    const auto store = open();
    agent_state state = make_state(pool, "a", tokens);
    for (kept_state& each : state.states) each.waits = each.tokens != 16;
    store->put_unfinished(std::move(state));
    const auto saved = store->save(id_of("a"));
    ASSERT_TRUE(saved);
    EXPECT_EQ(saved->states_written, 1);
    EXPECT_GE(saved->state_bytes, layout.state_bytes());
    EXPECT_LE(saved->state_bytes, saved->bytes_written);
    EXPECT_EQ(state_files(), std::set<std::string>{file_at(tokens, 16)});
    EXPECT_EQ(restore(*store, "a", 21).tokens, 21);
    store->put(make_state(pool, "a", tokens));
    ASSERT_TRUE(store->save(id_of("a")));
    EXPECT_EQ(state_files(), expected_files(tokens));
}

TEST_F(agent_cache_store_states_test, a_waiting_prompt_keeps_the_files_and_lets_go_of_the_rest) {
    const auto store = open();
    put_and_save(*store, "a", tokens);
    const auto state = store->find(id_of("a"));
    const auto bare = store->without_saved(*state);
    ASSERT_NE(bare, nullptr);
    EXPECT_TRUE(std::ranges::all_of(bare->states,
                                    [](const kept_state& each) { return each.state == nullptr; }));
    const auto kept = store->keep_files(*bare, 21);
    ASSERT_TRUE(kept);
    ASSERT_TRUE(store->erase(id_of("a")));
    EXPECT_EQ(state_files(), expected_files(tokens));
    const auto restored = store->restore(*bare, 21);
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->tokens, 21);
    EXPECT_TRUE(kept_holds(layout, restored->state, tokens, 21));
}

TEST_F(agent_cache_store_states_test, an_early_reader_gets_the_state_before_the_first_layer) {
    const auto store = open();
    put_and_save(*store, "a", tokens);
    ASSERT_TRUE(store->evict(id_of("a")));
    struct early_reader final : prefix_receiver {
        void receive_arriving(restored_prefix begun) override { early = std::move(begun); }
        restored_prefix early;
    } reader;
    ASSERT_TRUE(store->restore(*store->find(id_of("a")), 20, &reader));
    EXPECT_EQ(reader.early.tokens, 16);
    EXPECT_TRUE(kept_holds(layout, reader.early.state, tokens, 16));
}

TEST_F(agent_cache_store_states_test, an_export_has_them_all_and_an_import_goes_on_from_each) {
    const auto store = open();
    put_and_save(*store, "a", tokens);
    ASSERT_TRUE(store->evict(id_of("a")));
    std::string bytes;
    ASSERT_TRUE(store->export_agent(id_of("a"), semantic::tests::appending_to(bytes)));
    const auto check = [](const agent_state&) { return result<void>(); };
    semantic::tests::bytes_file file(bytes);
    ASSERT_TRUE(store->import_agent(id_of("b"), file, check));
    ASSERT_TRUE(store->save(id_of("b")));
    EXPECT_EQ(state_files().size(), 2 * kept_places(21).size()) << "imported memory is private";
    ASSERT_TRUE(store->evict(id_of("b")));
    for (int parting = 0; parting <= 21; ++parting)
        EXPECT_EQ(restore(*store, "b", parting).tokens, last_place(21, parting));
    // Any byte of a state is compared.
    const std::size_t at = bytes.size() - 5;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    semantic::tests::bytes_file damaged(bytes);
    EXPECT_EQ(store->import_agent(id_of("c"), damaged, check).error().code, errc::corrupt);
    EXPECT_EQ(store->find(id_of("c")), nullptr);
}

TEST_F(agent_cache_store_states_test, an_export_leaves_out_what_is_damaged_but_for_the_last) {
    const auto store = open();
    put_and_save(*store, "a", tokens);
    ASSERT_TRUE(store->evict(id_of("a")));
    flip(file_at(tokens, 11), fs::file_size(file_at(tokens, 11)) - 1);
    std::string bytes;
    ASSERT_TRUE(store->export_agent(id_of("a"), semantic::tests::appending_to(bytes)));
    semantic::tests::bytes_file file(bytes);
    const auto check = [](const agent_state&) { return result<void>(); };
    ASSERT_TRUE(store->import_agent(id_of("b"), file, check));
    EXPECT_EQ(restore(*store, "b", 12).tokens, 10);
    ASSERT_TRUE(store->evict(id_of("a")));
    flip(file_at(tokens, 21), fs::file_size(file_at(tokens, 21)) - 1);
    EXPECT_EQ(store->export_agent(id_of("a"), semantic::tests::appending_to(bytes)).error().code,
              errc::corrupt);
}

TEST_F(agent_cache_store_states_test, another_directory_takes_them_up) {
    const semantic::tests::temp_dir elsewhere;
    {
        const auto store = open(options_for(elsewhere.path()));
        put_and_save(*store, "a", tokens);
    }
    const auto store = open();
    const auto read = [&](const std::string& path) {
        return read_whole(posix_file_system(), elsewhere / path, 1 << 20);
    };
    const auto manifest = read(store->manifest_of(id_of("a")));
    ASSERT_TRUE(manifest);
    ASSERT_TRUE(store->adopt(id_of("a"), *manifest, read));
    EXPECT_EQ(state_files(), expected_files(tokens));
    expect_whole(*store, "a", tokens);
    // One that is missing there costs its place only.
    ASSERT_TRUE(store->erase(id_of("a")));
    fs::remove(elsewhere / block_path(kept_name(tokens, 21), kv_part::state));
    ASSERT_TRUE(store->adopt(id_of("a"), *manifest, read));
    EXPECT_EQ(restore(*store, "a", 21).tokens, 16);
}

TEST_F(agent_cache_store_states_test, stay_with_a_model_that_is_not_loaded) {
    {
        const auto store = open();
        put_and_save(*store, "a", tokens);
    }
    store_options other = options_for(directory.path());
    other.fingerprint = fingerprint_of("another model");
    {
        const auto store = open(other);
        EXPECT_EQ(state_files(), expected_files(tokens));
        put_and_save(*store, "b", some_tokens(9, 3));
    }
    const auto store = open();
    expect_whole(*store, "a", tokens);
    ASSERT_TRUE(store->erase(id_of("a")));
    for (const std::string& each : expected_files(tokens)) EXPECT_FALSE(fs::exists(each));
}

TEST_F(agent_cache_store_states_test, are_counted_in_the_disk_budget) {
    const auto store = open();
    const auto before = store->probe().disk_bytes.load();
    const auto saved = [&] {
        store->put(make_state(pool, "a", tokens));
        return store->save(id_of("a"));
    }();
    ASSERT_TRUE(saved);
    EXPECT_EQ(store->probe().disk_bytes.load(), before + saved->bytes_written);
    EXPECT_EQ(store->inspect(id_of("a"))->disk_bytes, saved->bytes_written);
    ASSERT_TRUE(store->erase(id_of("a")));
    EXPECT_EQ(store->probe().disk_bytes.load(), before);
}

TEST_F(agent_cache_store_states_test, room_is_made_for_one_that_is_read) {
    block_pool narrow(layout, layout.frame_bytes() * 100);
    auto opened = agent_cache_store::open(options_for(directory.path()), narrow);
    ASSERT_TRUE(opened);
    const auto& store = *opened;
    for (const char* id : {"a", "b"}) {
        agent_state state = make_state(narrow, id, some_tokens(16, id[0]));
        state.states.erase(state.states.begin(), state.states.end() - 1);
        store->put(std::move(state));
        ASSERT_TRUE(store->save(id_of(id)));
        if (id[0] == 'a') {
            ASSERT_TRUE(store->evict(id_of(id)));
        }
    }
    // Only what b has comes free.
    const auto taken = narrow.allocate(narrow.free_count());
    const auto restored = store->restore(*store->find(id_of("a")), 16);
    ASSERT_TRUE(restored) << restored.error().what;
    EXPECT_EQ(restored->tokens, 16);
    EXPECT_EQ(store->inspect(id_of("b"))->tier, memory_tier::warm);
    narrow.release(*taken);
}

// Goal: the f16 rows of a group are kept at a memory's end only.
TEST(agent_cache_store_states, a_place_inside_a_group_counts_at_the_end_of_its_memory_only) {
    const kv_form rotated{4, true, false};
    const kv_layout layout({{1, 16, 16, 0}, {2, 16, 32, 0}},
                           kv_recipe(rotated, rotated, 16).with_wide_tail(2), block_tokens, 1000);
    const semantic::tests::temp_dir directory;
    block_pool pool(layout, layout.frame_bytes() * 400);
    const auto store = std::move(*agent_cache_store::open(options_for(directory.path()), pool));
    const auto tokens = some_tokens(21);
    agent_state state = make_state(pool, "a", tokens);
    state.states.clear();
    for (const int place : {8, 11, 12, 15, 21})
        state.states.push_back(
            {static_cast<std::uint32_t>(place), false, false, make_kept(pool, tokens, place)});
    store->put(std::move(state));
    ASSERT_TRUE(store->save(id_of("a")));
    for (int i = 0; i < 2; ++i) {
        const auto now = store->find(id_of("a"));
        EXPECT_EQ(store->restore(*now, 21)->tokens, 21);
        EXPECT_EQ(store->restore(*now, 20)->tokens, 12);
        EXPECT_EQ(store->restore(*now, 11)->tokens, 8);
        EXPECT_EQ(store->restore(*now, 7)->tokens, 0);
        ASSERT_TRUE(store->evict(id_of("a")));
    }
}

TEST(agent_cache_store_states, are_nowhere_where_the_layout_has_none) {
    const kv_layout layout = small_layout();
    const semantic::tests::temp_dir directory;
    block_pool pool(layout, layout.frame_bytes() * 100);
    const auto store = std::move(*agent_cache_store::open(options_for(directory.path()), pool));
    store->put(make_state(pool, "a", some_tokens(21)));
    ASSERT_TRUE(store->save(id_of("a")));
    EXPECT_EQ(store->probe().states_written, 0u);
    EXPECT_TRUE(store->inspect(id_of("a"))->state_places.empty());
    for (const auto& each : fs::recursive_directory_iterator(directory.path()))
        EXPECT_FALSE(each.path().string().ends_with(".state.safetensors"));
    EXPECT_EQ(store->restore(*store->find(id_of("a")), 17)->tokens, 17);
}

}  // namespace
}  // namespace semantic::storage
