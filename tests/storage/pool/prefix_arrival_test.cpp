// SPDX-License-Identifier: Apache-2.0
// A prefix that is handed out while it is still being read, and how far it has come.

#include "storage/pool/prefix_arrival.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <thread>

#include "storage/agents/agent_cache_store.hpp"
#include "tests/storage/agents/store_fixture.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::fault_file_system;
using semantic::tests::temp_dir;
using outcome = prefix_arrival::outcome;
using namespace std::chrono_literals;

/// Gives up at its so-manyth question.
class patience final : public prefix_arrival::guard {
  public:
    explicit patience(int questions_max) : left_(questions_max) {}
    bool should_give_up() const override { return --left_ <= 0; }

  private:
    mutable std::atomic<int> left_;
};
const patience endless{std::numeric_limits<int>::max()};
const patience impatient{1};

/// Keeps what arrives early.
class early_keeper final : public prefix_receiver {
  public:
    void receive_arriving(restored_prefix prefix) override { begun.set_value(std::move(prefix)); }
    bool has_one() { return future.valid() && future.wait_for(0s) == std::future_status::ready; }

    std::promise<restored_prefix> begun;
    std::future<restored_prefix> future = begun.get_future();
};

TEST(prefix_arrival, a_layer_is_there_when_its_last_piece_has_come) {
    prefix_arrival arrival({2, 1, 0});
    arrival.came(std::vector{0, 1});
    EXPECT_EQ(arrival.wait(1, endless), outcome::there);
    EXPECT_EQ(arrival.wait(2, endless), outcome::there);
    EXPECT_EQ(arrival.wait(0, impatient), outcome::given_up);
    EXPECT_FALSE(arrival.complete());
    arrival.came(std::vector{0});
    EXPECT_EQ(arrival.wait(0, impatient), outcome::there);
    EXPECT_TRUE(arrival.complete());
    arrival.failed();
    EXPECT_FALSE(arrival.complete());
}

TEST(prefix_arrival, who_waits_is_woken_by_what_comes_and_by_what_never_will) {
    prefix_arrival arrival({1, 1});
    auto first = std::async(std::launch::async, [&] { return arrival.wait(0, endless); });
    auto second = std::async(std::launch::async, [&] { return arrival.wait(1, endless); });
    arrival.came(std::vector{0});
    EXPECT_EQ(first.get(), outcome::there);
    arrival.failed();
    EXPECT_EQ(second.get(), outcome::failed);
    EXPECT_EQ(arrival.wait(0, endless), outcome::failed);
}

TEST(prefix_arrival, who_waits_is_asked_again_and_again_whether_to_go_on) {
    prefix_arrival arrival({1});
    EXPECT_EQ(arrival.wait(0, patience(5)), outcome::given_up);
}

/// Four layers, each of which is a piece of its own in a file: 256 tokens take 147,456 bytes.
kv_layout layered() { return kv_layout(std::vector<kv_layer>(4, {8, 64, 64, 0}), {4, 64}, 256); }
constexpr int layer_file_bytes = 8 * 256 * 2 * 36;

class early_restore_test : public testing::Test {
  protected:
    /// Two blocks and 88 tokens of a third.
    static constexpr int count = 600;

    early_restore_test() {
        auto saver = open();
        saver->put(make_state(pool, "a", tokens));
        EXPECT_TRUE(saver->save(id_of("a")));
        const auto names = block_names(fingerprint_of("model"), "salt", tokens, 256);
        for (const block_hash& name : names)
            files_of_blocks.push_back(directory / block_path(name, kv_part::full));
    }
    std::unique_ptr<agent_cache_store> open() {
        auto store = agent_cache_store::open(options_for(directory.path(), &files), pool);
        EXPECT_TRUE(store) << store.error().what;
        return std::move(*store);
    }
    /// Holds up reads of the first two blocks' layers from `layer` on until let_go().
    void hold_from(int layer) {
        const std::uint64_t header = std::filesystem::file_size(files_of_blocks[0]) -
                                     4 * static_cast<std::uint64_t>(layer_file_bytes);
        files.before_read([this, from = header + static_cast<std::uint64_t>(layer) *
                                                     layer_file_bytes](const auto& path, auto at) {
            if (path == files_of_blocks[0] || path == files_of_blocks[1])
                while (at >= from && !free_to_read) std::this_thread::sleep_for(1ms);
        });
    }
    void let_go() { free_to_read = true; }
    bool layer_holds(const restored_prefix& prefix, int block, int layer, int token) const {
        const auto at = static_cast<std::size_t>(block);
        return frame_holds(layout, prefix.blocks[at].full->frame(layer), layer, token,
                           history[at * 256 + static_cast<std::size_t>(token)]);
    }
    /// Flips a bit. Twice is as before.
    static void damage(const std::string& path, int bytes_before_end) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(-bytes_before_end, std::ios::end);
        const char byte = static_cast<char>(file.get() ^ 1);
        file.seekp(-bytes_before_end, std::ios::end);
        file.put(byte);
    }

    const temp_dir directory;
    const kv_layout layout = layered();
    block_pool pool{layout, layout.frame_bytes() * 40};
    const std::vector<token_id> tokens = some_tokens(count);
    const std::vector<std::uint64_t> history = histories(tokens);
    fault_file_system files{directory.path()};
    std::vector<std::string> files_of_blocks;
    std::atomic<bool> free_to_read{false};
};

TEST_F(early_restore_test, first_layers_can_be_used_while_the_last_are_still_on_the_disk) {
    const auto store = open();
    hold_from(2);
    early_keeper keeper;
    auto whole = std::async(std::launch::async, [&] {
        return store->restore(*store->find(id_of("a")), count, &keeper);
    });
    const restored_prefix early = keeper.future.get();
    EXPECT_EQ(early.tokens, count);
    EXPECT_EQ(early.tokens_read, count);
    ASSERT_EQ(early.blocks.size(), 3u);
    for (int layer = 0; layer < 2; ++layer) {
        ASSERT_EQ(early.arrival->wait(layer, endless), outcome::there);
        for (int block = 0; block < 2; ++block) EXPECT_TRUE(layer_holds(early, block, layer, 255));
    }
    EXPECT_EQ(early.arrival->wait(2, impatient), outcome::given_up);
    // A sequence copies the block that it goes on in: all of that one is there already.
    for (int layer = 0; layer < 4; ++layer) EXPECT_TRUE(layer_holds(early, 2, layer, 87));
    EXPECT_EQ(store->inspect(id_of("a"))->tier, memory_tier::warm);
    let_go();
    EXPECT_EQ(early.arrival->wait(3, endless), outcome::there);
    const auto restored = whole.get();
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->arrival, nullptr);
    EXPECT_TRUE(holds(layout, early.blocks, tokens, count));
    EXPECT_EQ(restored->blocks, early.blocks);
    EXPECT_EQ(store->inspect(id_of("a"))->tier, memory_tier::hot);
}

TEST_F(early_restore_test, a_last_layer_that_is_damaged_fails_the_arrival_and_shortens_the_prefix) {
    for (const int block : {0, 1}) {
        const auto store = open();
        damage(files_of_blocks[static_cast<std::size_t>(block)], 1000);
        early_keeper keeper;
        const auto restored = store->restore(*store->find(id_of("a")), count, &keeper);
        ASSERT_TRUE(restored);
        ASSERT_TRUE(keeper.has_one());
        const auto arrival = keeper.future.get().arrival;
        ASSERT_NE(arrival, nullptr);
        EXPECT_EQ(arrival->wait(0, endless), outcome::failed);
        EXPECT_EQ(restored->tokens, block * 256);
        EXPECT_EQ(restored->why, shortfall::corrupt);
        EXPECT_TRUE(holds(layout, restored->blocks, tokens, restored->tokens));
        damage(files_of_blocks[static_cast<std::size_t>(block)], 1000);
    }
}

TEST_F(early_restore_test,
       nothing_is_handed_out_early_when_a_file_or_the_block_to_be_copied_is_bad) {
    const auto expect_late = [&](int there) {
        const auto store = open();
        early_keeper keeper;
        const auto restored = store->restore(*store->find(id_of("a")), count, &keeper);
        ASSERT_TRUE(restored);
        EXPECT_FALSE(keeper.has_one());
        EXPECT_EQ(restored->tokens, there);
    };
    constexpr int in_the_header = 4 * layer_file_bytes + 100;
    damage(files_of_blocks[0], in_the_header);
    expect_late(0);
    damage(files_of_blocks[0], in_the_header);
    std::filesystem::remove(files_of_blocks[2]);
    expect_late(512);
    std::filesystem::remove(files_of_blocks[1]);
    expect_late(256);
}

TEST_F(early_restore_test, what_is_in_the_pool_is_no_arrival) {
    const auto store = open();
    ASSERT_TRUE(store->restore(*store->find(id_of("a")), count));
    early_keeper keeper;
    const auto restored = store->restore(*store->find(id_of("a")), count, &keeper);
    EXPECT_EQ(restored->tokens, count);
    EXPECT_FALSE(keeper.has_one());
}

// 64 files stay open while a prefix is read; of a longer one the others are opened twice.
TEST(long_prefix, takes_no_more_descriptors_than_a_short_one) {
    const temp_dir directory;
    const kv_layout layout = small_layout();
    block_pool pool(layout, layout.frame_bytes() * 2 * 80);
    const auto tokens = some_tokens(70 * block_tokens);
    {
        auto saver = agent_cache_store::open(options_for(directory.path()), pool);
        (*saver)->put(make_state(pool, "a", tokens));
        EXPECT_TRUE((*saver)->save(id_of("a")));
    }
    fault_file_system files(directory.path());
    auto store = agent_cache_store::open(options_for(directory.path(), &files), pool);
    ASSERT_TRUE(store);
    for (const int blocks : {64, 65, 70}) {
        (*store)->evict(id_of("a"));
        files.reset();
        const int count = blocks * block_tokens;
        const auto restored = (*store)->restore(*(*store)->find(id_of("a")), count);
        ASSERT_TRUE(restored);
        EXPECT_TRUE(holds(layout, restored->blocks, tokens, count));
        EXPECT_EQ(files.opened().size(),
                  static_cast<std::size_t>(blocks + std::max(0, blocks - 64)));
    }
}

}  // namespace
}  // namespace semantic::storage
