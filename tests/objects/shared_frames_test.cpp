// SPDX-License-Identifier: Apache-2.0
// Blocks whose layers differ in width, several of them in one frame, on their way through an object
// store, as those of Gemma 4.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "storage/pool/block_frames.hpp"
#include "tests/objects/machine.hpp"

namespace semantic::storage {
namespace {

using namespace tests;

/// Gemma 4's kinds of layers in small: five of six slide, with eight heads; a full one has one that
/// is wider and takes less than half as much of a token, so that several share a frame.
kv_layout gemma_layout() {
    std::vector<kv_layer> layers;
    for (int i = 0; i < 4; ++i) {
        layers.insert(layers.end(), 5, kv_layer{8, 16, 16, 11});
        layers.push_back({1, 32, 32, 0});
    }
    return kv_layout(layers, {8, 16}, block_tokens);
}

std::vector<token_id> longer(std::vector<token_id> tokens, int count) {
    for (const token_id each : some_tokens(count, 7)) tokens.push_back(each);
    return tokens;
}

std::size_t count_blocks(object_store& objects) {
    return objects.list("blocks/", "", object_page_max)->objects.size();
}

class shared_frames : public testing::TestWithParam<bool> {
  protected:
    static kv_layout layout() { return GetParam() ? gemma_layout() : frame_sharing_layout(); }
    temp_dir objects_, first_, second_, third_;
};

TEST_P(shared_frames, are_fewer_than_the_layers) {
    const kv_layout rows = layout();
    EXPECT_LT(frames_of_block(rows, kv_part::full), rows.layers(kv_part::full).size());
}

TEST_P(shared_frames, another_machine_goes_on_with_every_byte_of_every_layer) {
    const auto tokens = some_tokens(30), more = longer(tokens, 21);
    machine a(objects_.path(), first_.path(), layout());
    machine b(objects_.path(), second_.path(), layout());
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(b.fetch("ada"));
    EXPECT_TRUE(b.has("ada", tokens));
    b.put("ada", more);
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    machine c(objects_.path(), third_.path(), layout());
    ASSERT_TRUE(c.fetch("ada"));
    EXPECT_TRUE(c.has("ada", more));
    // At any length, in the middle of a block too; of a window that has gone no frame is there.
    for (int count = static_cast<int>(more.size()); count > 0; count -= 7) {
        const auto restored = c.store->restore(*c.store->find(id_of("ada")), count);
        ASSERT_TRUE(restored) << count;
        EXPECT_TRUE(holds(c.layout, restored->blocks, more, restored->tokens)) << count;
    }
}

TEST_P(shared_frames, of_agents_of_two_machines_go_up_once) {
    const auto tokens = some_tokens(4 * block_tokens);
    machine a(objects_.path(), first_.path(), layout());
    machine b(objects_.path(), second_.path(), layout());
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    const std::size_t blocks = count_blocks(*a.objects);
    // The same text under another name, on the other machine, and a fork that went on.
    ASSERT_TRUE(b.fetch("ada"));
    b.put("eve", tokens);
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    EXPECT_EQ(count_blocks(*a.objects), blocks);
    const auto more = longer(tokens, block_tokens);
    b.put("eve", more);
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    EXPECT_EQ(count_blocks(*a.objects), blocks + 2) << "one full and one sliding part";
    ASSERT_TRUE(a.fetch("eve"));
    EXPECT_TRUE(a.has("eve", more));
    EXPECT_TRUE(a.has("ada", tokens));
}

INSTANTIATE_TEST_SUITE_P(layouts, shared_frames, testing::Bool(), [](const auto& each) {
    return std::string(each.param ? "gemma" : "small");
});

}  // namespace
}  // namespace semantic::storage
