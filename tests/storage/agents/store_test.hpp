// SPDX-License-Identifier: Apache-2.0
#pragma once
// The fixture of the store's tests: a directory, a pool, and agents whose every byte is checked.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/storage/agents/store_fixture.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage::tests {

class store_test : public testing::Test {
  protected:
    explicit store_test(kv_layout rows = small_layout(), std::size_t frames = 1000)
        : layout(std::move(rows)), pool(layout, layout.frame_bytes() * frames) {}

    std::unique_ptr<agent_cache_store> open(file_system* files = nullptr) {
        return open(options_for(directory.path(), files));
    }
    std::unique_ptr<agent_cache_store> open(const store_options& options) {
        auto store = agent_cache_store::open(options, pool);
        EXPECT_TRUE(store) << store.error().what;
        return store ? std::move(*store) : nullptr;
    }
    void put_and_save(agent_cache_store& store, const std::string& id,
                      const std::vector<token_id>& tokens, int last_used_seconds = 1000) {
        store.put(make_state(pool, id, tokens, last_used_seconds));
        const auto saved = store.save(id_of(id));
        ASSERT_TRUE(saved) << saved.error().what;
    }
    /// Restores the whole agent and compares every byte.
    void expect_whole(agent_cache_store& store, const std::string& id,
                      const std::vector<token_id>& tokens) {
        const auto state = store.find(id_of(id));
        ASSERT_NE(state, nullptr);
        EXPECT_EQ(state->tokens, tokens);
        const int count = static_cast<int>(tokens.size());
        const auto restored = store.restore(*state, count);
        ASSERT_TRUE(restored) << restored.error().what;
        EXPECT_EQ(restored->tokens, count) << restored->detail;
        EXPECT_EQ(restored->why, shortfall::none);
        EXPECT_TRUE(holds(layout, restored->blocks, tokens, count));
        EXPECT_TRUE(kept_holds(layout, restored->state, tokens, count));
    }

    const semantic::tests::temp_dir directory;
    const kv_layout layout;
    block_pool pool;
};

}  // namespace semantic::storage::tests
