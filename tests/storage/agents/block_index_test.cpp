// SPDX-License-Identifier: Apache-2.0
// Which blocks are taken for one another, also where their names are the same.

#include "storage/agents/block_index.hpp"

#include <gtest/gtest.h>

#include "tests/storage/agents/store_fixture.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;

class block_index_test : public testing::Test {
  protected:
    block_ptr block_of(const std::vector<token_id>& its) {
        return make_state(pool, "a", its).blocks.front().full;
    }
    static block_identity identity(const std::vector<token_id>& its,
                                   const block_hash& parent = {}) {
        return {{}, "salt", parent, its};
    }

    const kv_layout layout = small_layout();
    block_pool pool{layout, layout.frame_bytes() * 100};
    const block_hash name = checksum128("name");
    const std::vector<token_id> tokens = some_tokens(block_tokens);
    block_index index;
};

TEST_F(block_index_test, the_same_block_is_there_once_while_anybody_has_it) {
    block_ptr first = block_of(tokens);
    EXPECT_EQ(index.adopt(name, identity(tokens), first), first);
    EXPECT_EQ(index.adopt(name, identity(tokens), block_of(tokens)), first);
    EXPECT_EQ(index.find(name, identity(tokens), kv_part::full), first);
    EXPECT_EQ(index.find(name, identity(tokens), kv_part::sliding), nullptr);
    EXPECT_EQ(index.find(checksum128("other"), identity(tokens), kv_part::full), nullptr);
    first.reset();
    EXPECT_EQ(index.find(name, identity(tokens), kv_part::full), nullptr);
    EXPECT_EQ(pool.held_count(), 0u);
}

TEST_F(block_index_test, blocks_of_one_name_with_other_tokens_or_another_parent_are_not_shared) {
    const auto others = some_tokens(block_tokens, 1);
    const auto shorter = some_tokens(block_tokens - 1);
    const std::pair<block_identity, block_ptr> twins[] = {
        {identity(others), block_of(others)},
        {identity(shorter), block_of(shorter)},
        {identity(tokens, checksum128("parent")), block_of(tokens)}};
    for (const auto& [twin, block] : twins) {
        const block_ptr first = block_of(tokens);
        EXPECT_EQ(index.adopt(name, identity(tokens), first), first);
        EXPECT_EQ(index.find(name, twin, kv_part::full), nullptr);
        EXPECT_EQ(index.adopt(name, twin, block), block);
        EXPECT_EQ(index.find(name, twin, kv_part::full), block);
        EXPECT_EQ(index.find(name, identity(tokens), kv_part::full), nullptr);
    }
}

}  // namespace
}  // namespace semantic::storage
