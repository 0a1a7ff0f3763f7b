// SPDX-License-Identifier: Apache-2.0
// Sliding layers in a running sequence: what the window reaches is there, what it has passed is let
// go once it is shared, and the layout's numbers say how much that is.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>

#include "tests/storage/agents/store_fixture.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;

constexpr std::size_t full_layers = 1, sliding_layers = 2;  // of sliding_layout()

/// How many blocks of `sequence` have frames in a layer.
std::size_t held_blocks(const kv_sequence& sequence, int layer) {
    const auto& frames = sequence.frames(layer);
    return static_cast<std::size_t>(std::count_if(
        frames.begin(), frames.end(), [](const std::byte* frame) { return frame != nullptr; }));
}

/// Whether every token that a query after the last one sees has its bytes, in every layer.
bool sees_its_window(const kv_layout& layout, const kv_sequence& sequence,
                     const std::vector<token_id>& tokens) {
    const auto history = histories(tokens);
    for (int layer = 0; layer < layout.layer_count(); ++layer) {
        const int reach = layout.layer(layer).window;
        const int count = sequence.token_count();
        for (int at = reach == 0 ? 0 : std::max(0, count - reach + 1); at < count; ++at) {
            const std::byte* frame =
                sequence.frames(layer)[static_cast<std::size_t>(at / block_tokens)];
            if (frame == nullptr || !frame_holds(layout, frame, layer, at % block_tokens,
                                                 history[static_cast<std::size_t>(at)]))
                return false;
        }
    }
    return true;
}

TEST(kv_layout_window, layers_are_told_apart_by_their_windows) {
    const kv_layout layout = sliding_layout();
    EXPECT_EQ(layout.layers(kv_part::full), std::vector<int>{1});
    EXPECT_EQ(layout.layers(kv_part::sliding), (std::vector<int>{0, 2}));
    EXPECT_EQ(layout.slot(0), 0);
    EXPECT_EQ(layout.slot(1), 0);
    EXPECT_EQ(layout.slot(2), 1);
    EXPECT_TRUE(layout.slides());
    EXPECT_FALSE(small_layout().slides());
    EXPECT_TRUE(small_layout().layers(kv_part::sliding).empty());
}

TEST(kv_layout_window, the_first_block_in_reach_is_that_of_the_oldest_token_seen) {
    for (int reach : {1, 2, 8, 9, 11, 16, 17, 1000}) {
        const kv_layout layout({{1, 16, 16, reach}, {1, 16, 16, 0}}, {4, 16}, block_tokens);
        for (int tokens = 0; tokens < 60; ++tokens)
            EXPECT_EQ(layout.first_sliding_block(tokens),
                      std::max(0, tokens - (reach - 1)) / block_tokens)
                << reach << " " << tokens;
    }
}

TEST(kv_layout_window, bytes_of_a_conversation_count_each_layers_window) {
    const kv_layout layout = sliding_layout();
    // 16 elements of 4 bit and one group: 8 + 4 bytes a row of K and as many of V. The full layer
    // has 2 heads and rows of V that are twice as long.
    constexpr std::uint64_t narrow = 24, wide = 2 * (12 + 24);
    EXPECT_EQ(layout.bytes_for(0), 0u);
    EXPECT_EQ(layout.bytes_for(5), 5 * (2 * narrow + wide));
    EXPECT_EQ(layout.bytes_for(6), 5 * narrow + 6 * (narrow + wide));
    EXPECT_EQ(layout.bytes_for(1000), (11 + 5) * narrow + 1000 * wide);
    EXPECT_EQ(small_layout().bytes_for(1000), 1000 * small_layout().bytes_per_token());
}

TEST(kv_layout_window, frames_stop_growing_with_the_window_in_sliding_layers) {
    const kv_layout layout = sliding_layout();
    EXPECT_EQ(layout.frames_for(0, 1), 0u);
    EXPECT_EQ(layout.frames_for(24, 1), 3u * 3);
    // 10 tokens before a block boundary reach into 2 blocks, and one is being filled.
    EXPECT_EQ(layout.frames_for(25, 1), 4u * full_layers + 3u * sliding_layers);
    EXPECT_EQ(layout.frames_for(800, 1), 100u * full_layers + 3u * sliding_layers);
    EXPECT_EQ(layout.frames_for(800, 16), 100u * full_layers + 5u * sliding_layers);
    EXPECT_EQ(layout.frames_for(800, 100000), 100u * 3);
    EXPECT_EQ(small_layout().frames_for(17, 1), 3u * 2);
}

TEST(kv_layout_window, the_longest_conversation_is_the_last_that_fits) {
    for (const kv_layout& layout : {sliding_layout(), small_layout()})
        for (int chunk : {1, 5, 30})
            for (std::size_t frames = 0; frames < 40; ++frames) {
                const int tokens = layout.tokens_in(frames, chunk, 1 << 20);
                EXPECT_EQ(tokens % block_tokens, 0);
                EXPECT_LE(layout.frames_for(tokens, chunk), frames);
                EXPECT_GT(layout.frames_for(tokens + 1, chunk), frames);
            }
    // Without full layers nothing but the model's context ends a conversation.
    const kv_layout endless({{1, 16, 16, 11}}, {4, 16}, block_tokens);
    EXPECT_EQ(endless.tokens_in(4, 1, 1001), 1008);
    EXPECT_EQ(endless.tokens_in(2, 1, 1001), 16);
}

TEST(kv_sequence_window, what_the_window_has_passed_is_let_go_once_it_is_shared) {
    const kv_layout layout = sliding_layout();
    block_pool pool(layout, layout.frame_bytes() * 300);
    kv_sequence sequence(pool, {}, 0);
    const auto tokens = some_tokens(70);
    append_tokens(sequence, layout, tokens);
    EXPECT_TRUE(sequence.window_has_moved());
    EXPECT_EQ(held_blocks(sequence, 0), 9u);  // nobody else has them yet
    auto shared = sequence.share();
    EXPECT_FALSE(sequence.window_has_moved());
    ASSERT_EQ(shared.size(), 9u);
    for (const kv_block_parts& block : shared) EXPECT_NE(block.sliding, nullptr);
    EXPECT_TRUE(holds(layout, shared, tokens, 70));
    EXPECT_EQ(held_blocks(sequence, 0), 3u);
    EXPECT_EQ(held_blocks(sequence, 1), 9u);
    EXPECT_EQ(held_blocks(sequence, 2), 3u);
    shared.clear();
    EXPECT_EQ(pool.held_count(), 9u * full_layers + 3u * sliding_layers);
    EXPECT_TRUE(sees_its_window(layout, sequence, tokens));
}

TEST(kv_sequence_window, sharing_whole_blocks_leaves_the_tail_to_the_sequence) {
    const kv_layout layout = sliding_layout();
    block_pool pool(layout, layout.frame_bytes() * 300);
    kv_sequence sequence(pool, {}, 0);
    auto tokens = some_tokens(29);
    append_tokens(sequence, layout, tokens);
    const std::byte* tail = sequence.frames(1)[3];
    const auto shared = sequence.share_whole_blocks();
    ASSERT_EQ(shared.size(), 3u);
    EXPECT_TRUE(holds(layout, shared, tokens, 24));
    EXPECT_EQ(sequence.reserved_tokens(), 32);
    tokens.push_back(7);
    append_tokens(sequence, layout, tokens);
    EXPECT_EQ(sequence.frames(1)[3], tail);
}

// Goal: the numbers that admission counts with are enough, for every window, chunk and place.
TEST(kv_sequence_window, never_holds_more_frames_than_the_layout_says) {
    for (int reach : {1, 5, 8, 9, 24, 30})
        for (int chunk : {1, 3, 8, 13, 40}) {
            const kv_layout layout({{1, 16, 16, reach}, {1, 16, 16, 0}}, {4, 16}, block_tokens);
            block_pool pool(layout, layout.frame_bytes() * 300);
            for (int start : {0, 6, 8, 33}) {
                kv_sequence sequence(pool, {}, 0);
                append_tokens(sequence, layout, some_tokens(start));
                (void)sequence.share();
                while (sequence.token_count() < 150) {
                    const int total = sequence.token_count() + chunk;
                    ASSERT_TRUE(sequence.reserve(total));
                    EXPECT_LE(pool.held_count(), layout.frames_for(total, chunk))
                        << reach << " " << chunk << " " << total;
                    sequence.advance(total);
                    if (sequence.window_has_moved()) (void)sequence.share_whole_blocks();
                    EXPECT_LE(pool.held_count(), layout.frames_for(total, 0));
                }
            }
        }
}

// A prefix has frames from what its last token's window reaches on, which may be less than the
// window before its last whole block.
TEST(kv_sequence_window, without_a_shared_tail_it_starts_anew_where_the_window_before_it_is_gone) {
    const kv_layout layout = sliding_layout();
    const auto tokens = some_tokens(4 * block_tokens);
    std::set<int> begins;
    for (int kept = 3 * block_tokens + 1; kept < 4 * block_tokens; ++kept) {
        block_pool pool(layout, layout.frame_bytes() * 100);
        std::vector<kv_block_parts> blocks;
        {
            kv_sequence writer(pool, {}, 0);
            append_tokens(writer, layout, {tokens.begin(), tokens.begin() + kept});
            blocks = writer.share();
        }
        kv_sequence sequence(pool, std::move(blocks), kept);
        ASSERT_TRUE(sequence.drop_shared_tail());
        const int begin = sequence.token_count();
        begins.insert(begin);
        EXPECT_TRUE(sees_its_window(layout, sequence, {tokens.begin(), tokens.begin() + begin}));
    }
    EXPECT_EQ(begins, (std::set<int>{0, 3 * block_tokens}));
}

// Goal: no shared byte changes, nothing leaks, and every window is whole. Method: sequences fork at
// any place whose window somebody still has, extend, share and vanish at random.
TEST(kv_sequence_window, random_forks_extensions_and_shares_keep_every_window) {
    const kv_layout layout = sliding_layout();
    for (unsigned seed = 1; seed <= 20; ++seed) {
        block_pool pool(layout, layout.frame_bytes() * 2000);
        struct run {
            kv_sequence sequence;
            std::vector<token_id> tokens;
        };
        struct published {
            std::vector<kv_block_parts> blocks;
            std::vector<token_id> tokens;
        };
        std::deque<run> runs;
        std::deque<published> states;
        std::mt19937 random(seed);
        const auto below = [&](std::size_t count) { return random() % count; };
        for (int step = 0; step < 300; ++step) {
            const std::size_t action = below(11);
            if (runs.empty() || action == 0) {
                runs.push_back({kv_sequence(pool, {}, 0), {}});
            } else if (action <= 5) {
                run& one = runs[below(runs.size())];
                for (std::size_t i = below(20); i-- > 0;)
                    one.tokens.push_back(static_cast<token_id>(random() % 50));
                append_tokens(one.sequence, layout, one.tokens);
            } else if (action <= 7) {
                run& one = runs[below(runs.size())];
                const bool whole = one.sequence.window_has_moved() && below(2) == 0;
                auto blocks = whole ? one.sequence.share_whole_blocks() : one.sequence.share();
                auto tokens = one.tokens;
                if (whole) tokens.resize(blocks.size() * block_tokens);
                ASSERT_TRUE(holds(layout, blocks, tokens, static_cast<int>(tokens.size())));
                states.push_back({std::move(blocks), std::move(tokens)});
                if (states.size() > 5) states.pop_front();
            } else if (action == 8 && !states.empty()) {
                const published& from = states[below(states.size())];
                const int kept = static_cast<int>(below(from.tokens.size() + 1));
                if (!holds(layout, from.blocks, from.tokens, kept)) continue;
                auto blocks = from.blocks;
                blocks.resize(static_cast<std::size_t>((kept + block_tokens - 1) / block_tokens));
                runs.push_back({kv_sequence(pool, std::move(blocks), kept),
                                {from.tokens.begin(), from.tokens.begin() + kept}});
            } else if (action == 9) {
                run& one = runs[below(runs.size())];
                one.sequence.drop_shared_tail();
                one.tokens.resize(static_cast<std::size_t>(one.sequence.token_count()));
            } else {
                runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(below(runs.size())));
            }
            for (const run& one : runs)
                ASSERT_TRUE(sees_its_window(layout, one.sequence, one.tokens))
                    << "seed " << seed << " step " << step;
        }
        runs.clear();
        states.clear();
        EXPECT_EQ(pool.free_count(), pool.frame_count());
    }
}

}  // namespace
}  // namespace semantic::storage
