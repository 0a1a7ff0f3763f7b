// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/agent_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "storage/files/checksum.hpp"
#include "storage/files/safetensors.hpp"
#include "tests/storage/agents/store_fixture.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::appending_to;
using semantic::tests::bytes_file;
using semantic::tests::temp_dir;

result<void> anything(const agent_state&) { return {}; }

class agent_file_test : public testing::Test {
  protected:
    std::unique_ptr<agent_cache_store> open(const temp_dir& directory,
                                            const std::string& model = "model") {
        store_options options = options_for(directory.path());
        options.fingerprint = fingerprint_of(model);
        return std::move(*agent_cache_store::open(options, pool));
    }
    std::string exported(agent_cache_store& store, const std::string& id) {
        std::string bytes;
        const auto written = store.export_agent(id_of(id), appending_to(bytes));
        EXPECT_TRUE(written) << written.error().what;
        EXPECT_EQ(*written, bytes.size());
        return bytes;
    }
    /// One agent of 21 tokens, in three blocks.
    std::string example() {
        const auto store = open(home);
        agent_state state = make_state(pool, "a", some_tokens(21));
        state.notes["raw"] = "\xff\xfe";
        store->put(state);
        return exported(*store, "a");
    }

    /// The example without the name of its recipe.
    std::string older_example() {
        const std::string whole = example();
        bytes_file file(whole);
        const auto size = file.size();
        auto index = std::move(*safetensors_index::read(file, *size));
        index.metadata.erase("kv_recipe");
        field_hasher hasher;
        for (const auto& [key, value] : index.metadata)
            if (key != "xxh3_128.metadata") hasher.add(key).add(value);
        index.metadata["xxh3_128.metadata"] = hasher.finish().hex();
        std::map<std::uint64_t, tensor_to_write> by_place;
        for (const auto& [name, tensor] : index.tensors)
            by_place[tensor.begin] = {name, tensor.type, tensor.shape, {}};
        std::vector<tensor_to_write> tensors;
        for (auto& [place, tensor] : by_place) tensors.push_back(tensor);
        return safetensors_header(tensors, index.metadata) + whole.substr(by_place.begin()->first);
    }

    const temp_dir home, away;
    const kv_layout layout = small_layout();
    block_pool pool{layout, layout.frame_bytes() * 100};
};

TEST_F(agent_file_test, an_exported_agent_is_imported_whole_under_another_name) {
    agent_state original = make_state(pool, "a", some_tokens(21));
    original.text += "\xc3";  // half a character
    original.notes["raw"] = std::string("\xff\0\xfe", 3);
    const auto store = open(home);
    store->put(original);
    bytes_file file(exported(*store, "a"));
    const auto other = open(away);
    ASSERT_EQ(other->import_agent(id_of("b"), file, anything).value(), 21);
    const auto found = other->find(id_of("b"));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->tokens, original.tokens);
    EXPECT_EQ(found->text, original.text);
    EXPECT_EQ(found->token_ends, original.token_ends);
    EXPECT_EQ(found->notes, original.notes);
    EXPECT_TRUE(holds(layout, found->blocks, found->tokens, 21));
    EXPECT_EQ(other->dirty_agents(), std::vector<agent_id>{id_of("b")});
    ASSERT_TRUE(other->save(id_of("b")));
}

class agent_file_layout_test : public agent_file_test,
                               public testing::WithParamInterface<kv_layout> {};

INSTANTIATE_TEST_SUITE_P(layouts, agent_file_layout_test,
                         testing::Values(sliding_layout(), frame_sharing_layout()),
                         [](const auto& each) {
                             return each.param == sliding_layout() ? "sliding" : "frame_sharing";
                         });

TEST_P(agent_file_layout_test, sliding_layers_travel_whole_though_the_pool_holds_a_window_of_them) {
    const kv_layout sliding = GetParam();
    block_pool frames(sliding, sliding.frame_bytes() * 100);
    const auto store = std::move(*agent_cache_store::open(options_for(home.path()), frames));
    store->put(make_state(frames, "a", some_tokens(45)));
    const std::string whole = exported(*store, "a");
    ASSERT_TRUE(store->save(id_of("a")));
    EXPECT_EQ(store->find(id_of("a"))->blocks.front().sliding, nullptr);
    EXPECT_EQ(exported(*store, "a"), whole);
    bytes_file file(whole);
    const auto other = std::move(*agent_cache_store::open(options_for(away.path()), frames));
    ASSERT_EQ(other->import_agent(id_of("b"), file, anything).value(), 45);
    const auto found = other->find(id_of("b"));
    for (const kv_block_parts& block : found->blocks) EXPECT_NE(block.sliding, nullptr);
    EXPECT_TRUE(holds(sliding, found->blocks, found->tokens, 45));
    ASSERT_TRUE(other->save(id_of("b")));
    EXPECT_EQ(exported(*other, "b").size(), whole.size());
    EXPECT_EQ(store->probe().blocks_missing.load() + other->probe().blocks_missing.load(), 0u);
}

TEST_F(agent_file_test, the_f16_rows_of_the_last_group_travel_along) {
    const kv_layout wide = wide_layout();
    block_pool frames(wide, wide.frame_bytes() * 200);
    const auto tokens = some_tokens(45);
    const auto store = std::move(*agent_cache_store::open(options_for(home.path()), frames));
    store->put(make_state(frames, "a", tokens));
    const std::string whole = exported(*store, "a");
    ASSERT_TRUE(store->save(id_of("a")));
    ASSERT_TRUE(store->evict(id_of("a")));
    EXPECT_EQ(exported(*store, "a"), whole);
    bytes_file file(whole);
    const auto other = std::move(*agent_cache_store::open(options_for(away.path()), frames));
    ASSERT_EQ(other->import_agent(id_of("b"), file, anything).value(), 45);
    const auto found = other->find(id_of("b"));
    EXPECT_TRUE(holds(wide, found->blocks, found->tokens, 45));
    const kv_sequence sequence(frames, found->blocks, 45);
    ASSERT_EQ(sequence.token_count(), 45);
    for (int layer = 0; layer < wide.layer_count(); ++layer)
        EXPECT_TRUE(wide_holds(wide, layer, sequence.group_rows(layer), tokens, 45));
}

TEST_F(agent_file_test, a_file_may_lack_the_f16_rows_of_the_last_group) {
    const kv_layout wide = wide_layout();
    block_pool frames(wide, wide.frame_bytes() * 200);
    const auto store = std::move(*agent_cache_store::open(options_for(home.path()), frames));
    agent_state state = make_state(frames, "a", some_tokens(45));
    // As of an agent that was forked from a longer one, inside a group of that.
    const auto longer = make_state(frames, "b", some_tokens(46));
    state.blocks.back() = longer.blocks.back();
    store->put(state);
    const std::string whole = exported(*store, "a");
    EXPECT_EQ(whole.find("_wide"), std::string::npos);
    bytes_file file(whole);
    const auto other = std::move(*agent_cache_store::open(options_for(away.path()), frames));
    ASSERT_EQ(other->import_agent(id_of("b"), file, anything).value(), 45);
    const kv_sequence sequence(frames, other->find(id_of("b"))->blocks, 45);
    EXPECT_EQ(sequence.token_count(), 44);
}

TEST_F(agent_file_test, an_agent_on_disk_is_exported_as_one_in_the_pool) {
    std::string hot;
    {
        const auto store = open(home);
        store->put(make_state(pool, "a", some_tokens(21)));
        hot = exported(*store, "a");
        ASSERT_TRUE(store->save(id_of("a")));
    }
    EXPECT_EQ(exported(*open(home), "a"), hot);
}

TEST_F(agent_file_test, tensors_have_the_published_names_shapes_and_order_of_rows) {
    const std::string bytes = example();
    // tests/conformance/exported_agent.py opens this one.
    if (const char* path = std::getenv("AGENT_FILE"))
        std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
    const auto view = safetensors_view::parse(std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(view) << view.error().what;
    const auto& weights = view->tensors.at("layer_1_v_weights");
    EXPECT_EQ(weights.type, dtype::u32);
    EXPECT_EQ(weights.shape, (std::vector<std::int64_t>{1, 2, 21, 4}));
    EXPECT_EQ(view->tensors.at("layer_1_k_scales").shape, (std::vector<std::int64_t>{1, 2, 21, 1}));
    // Token 18 of head 1 of the whole is token 2 of head 1 of the third block.
    const auto state = make_state(pool, "a", some_tokens(21));
    const kv_region& v = layout.v(1);
    EXPECT_EQ(
        std::memcmp(weights.bytes.data() + (21 + 18) * v.row_bytes,
                    state.blocks[2].full->frame(1) + v.row_at(block_tokens, 1, 2), v.row_bytes),
        0);
    EXPECT_EQ(view->metadata.at("token_count"), "21");
    EXPECT_EQ(view->metadata.at("text"), state.text);
}

// Goal: a file that is wrong anywhere changes nothing. Method: a flip at every 11th byte, cuts.
TEST_F(agent_file_test, a_damaged_file_is_refused_and_what_was_there_stays) {
    const std::string whole = example();
    const auto store = open(away);
    store->put(make_state(pool, "b", some_tokens(9, 3)));
    const std::size_t free_before = pool.free_count();
    for (std::size_t at = 0; at < whole.size(); at += 11) {
        std::string damaged = whole;
        damaged[at] ^= 0x10;
        bytes_file file(damaged);
        const auto imported = store->import_agent(id_of("b"), file, anything);
        ASSERT_FALSE(imported) << at;
        EXPECT_TRUE(imported.error().code == errc::corrupt ||
                    imported.error().code == errc::incompatible ||
                    imported.error().code == errc::bad_value);
        EXPECT_EQ(store->find(id_of("b"))->tokens, some_tokens(9, 3));
    }
    for (std::size_t kept = 0; kept < whole.size(); kept += 101) {
        bytes_file file(whole.substr(0, kept));
        EXPECT_EQ(store->import_agent(id_of("b"), file, anything).error().code, errc::corrupt);
    }
    EXPECT_EQ(pool.free_count(), free_before);
}

TEST_F(agent_file_test, a_file_of_another_model_is_incompatible) {
    bytes_file file(example());
    const auto imported = open(away, "another")->import_agent(id_of("b"), file, anything);
    ASSERT_FALSE(imported);
    EXPECT_EQ(imported.error().code, errc::incompatible);
    EXPECT_NE(imported.error().what.find("fingerprint"), std::string::npos);
}

TEST_F(agent_file_test, a_file_names_its_recipe_and_another_recipe_is_told_by_name) {
    bytes_file file(example());
    const auto size = file.size();
    EXPECT_EQ(safetensors_index::read(file, *size)->metadata.at("kv_recipe"), "k4v4");
    const kv_layout wide = small_layout(8);
    block_pool frames(wide, wide.frame_bytes() * 100);
    const auto other = std::move(*agent_cache_store::open(options_for(away.path()), frames));
    const auto imported = other->import_agent(id_of("b"), file, anything);
    ASSERT_FALSE(imported);
    EXPECT_EQ(imported.error().code, errc::incompatible);
    EXPECT_EQ(imported.error().what, "its kv_recipe is k4v4, this server's is k8v8");
}

TEST_F(agent_file_test, a_file_from_before_recipes_were_named_is_taken) {
    bytes_file file(older_example());
    const auto other = open(away);
    ASSERT_EQ(other->import_agent(id_of("b"), file, anything).value(), 21);
    const auto found = other->find(id_of("b"));
    EXPECT_TRUE(holds(layout, found->blocks, found->tokens, 21));
}

TEST_F(agent_file_test, what_the_engine_refuses_changes_nothing) {
    const auto store = open(away);
    store->put(make_state(pool, "b", some_tokens(9, 3)));
    bytes_file file(example());
    const auto refused = store->import_agent(id_of("b"), file, [](const agent_state& state) {
        EXPECT_EQ(state.tokens, some_tokens(21));
        return result<void>(failure{errc::bad_value, "not a token of this model"});
    });
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().what, "not a token of this model");
    EXPECT_EQ(store->find(id_of("b"))->tokens, some_tokens(9, 3));
}

// Goal: an imported agent can be saved; the store adds notes of its own to a file's.
TEST_F(agent_file_test, as_many_notes_are_taken_as_a_manifest_has_room_for) {
    const auto with_notes = [&](std::size_t count) {
        agent_state state = make_state(pool, "a", some_tokens(21));
        state.notes.clear();
        while (state.notes.size() < count) state.notes[std::to_string(state.notes.size())] = "x";
        std::string bytes;
        EXPECT_TRUE(write_agent_file(state, fingerprint_of("model"), layout, appending_to(bytes)));
        return bytes_file(bytes);
    };
    store_options options = options_for(away.path());
    options.model = "weights";
    options.model_name = "name";
    const auto store = std::move(*agent_cache_store::open(options, pool));
    bytes_file most = with_notes(251), more = with_notes(252);
    ASSERT_TRUE(store->import_agent(id_of("b"), most, anything));
    ASSERT_TRUE(store->save(id_of("b")));
    EXPECT_EQ(store->import_agent(id_of("b"), more, anything).error().code, errc::corrupt);
}

TEST_F(agent_file_test, what_it_replaces_gives_way_to_it_in_a_pool_that_does_not_hold_both) {
    bytes_file file(example());
    block_pool frames(layout, layout.frame_bytes() * layout.frames_for(25, 0));
    const auto store = std::move(*agent_cache_store::open(options_for(away.path()), frames));
    store->put(make_state(frames, "b", some_tokens(20, 3)));
    EXPECT_EQ(store->import_agent(id_of("b"), file, anything).error().code, errc::pool_exhausted);
    ASSERT_TRUE(store->save(id_of("b")));
    ASSERT_EQ(store->import_agent(id_of("b"), file, anything).value(), 21);
    EXPECT_EQ(store->find(id_of("b"))->tokens, some_tokens(21));
}

TEST_F(agent_file_test, what_does_not_fit_the_pool_is_refused_with_both_numbers) {
    bytes_file file(example());
    block_pool tiny(layout, layout.frame_bytes() * 4);
    const auto store = std::move(*agent_cache_store::open(options_for(away.path()), tiny));
    const auto imported = store->import_agent(id_of("b"), file, anything);
    ASSERT_FALSE(imported);
    EXPECT_EQ(imported.error().code, errc::pool_exhausted);
}

TEST_F(agent_file_test, an_export_ends_when_its_reader_is_gone) {
    const auto store = open(home);
    store->put(make_state(pool, "a", some_tokens(21)));
    int pieces = 0;
    const auto written = store->export_agent(id_of("a"), [&](std::span<const std::byte>) {
        return ++pieces < 5 ? result<void>() : failure{errc::io, "gone"};
    });
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().what, "gone");
    EXPECT_EQ(pieces, 5);
    const auto nobody = store->export_agent(id_of("nobody"), [](auto) { return result<void>(); });
    EXPECT_EQ(nobody.error().code, errc::not_found);
}

}  // namespace
}  // namespace semantic::storage
