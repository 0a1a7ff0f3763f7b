// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/block_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <set>
#include <stdexcept>

namespace semantic::storage {
namespace {

constexpr int small_block = 4;

kv_layout two_layers() { return kv_layout({{1, 8, 8, 0}, {2, 8, 8, 0}}, {4, 8}, small_block); }
kv_layout two_latent_layers() {
    return kv_layout({{1, 24, 16, 0, true}, {1, 24, 16, 0, true}}, {8, 8}, small_block);
}

/// The last two share a frame.
kv_layout layers_that_share() {
    return kv_layout({{1, 8, 8, 0}, {16, 8, 8, 0}, {1, 8, 8, 0}, {1, 8, 8, 0}}, {4, 8},
                     small_block);
}

/// Writes one recognisable byte into every row, scale and bias of a token.
void write_token(const kv_layout& layout, std::byte* frame, int layer, int token, std::byte mark) {
    for (const kv_region& region : layout.stored(layer))
        for (int head = 0; head < region.heads; ++head) {
            const std::size_t scale = region.scale_at(small_block, head, token);
            const std::size_t parameter_bytes = static_cast<std::size_t>(region.groups) * 2;
            std::memset(frame + region.row_at(small_block, head, token), std::to_integer<int>(mark),
                        region.row_bytes);
            std::memset(frame + scale, std::to_integer<int>(mark), parameter_bytes);
            std::memset(frame + scale + region.biases - region.scales, std::to_integer<int>(mark),
                        parameter_bytes);
        }
}

/// Whether every byte of a token is `mark`.
bool token_is(const kv_layout& layout, const std::byte* frame, int layer, int token,
              std::byte mark) {
    bool same = true;
    const auto check = [&](std::size_t offset, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) same = same && frame[offset + i] == mark;
    };
    for (const kv_region& region : layout.stored(layer))
        for (int head = 0; head < region.heads; ++head) {
            const std::size_t scale = region.scale_at(small_block, head, token);
            const std::size_t parameter_bytes = static_cast<std::size_t>(region.groups) * 2;
            check(region.row_at(small_block, head, token), region.row_bytes);
            check(scale, parameter_bytes);
            check(scale + region.biases - region.scales, parameter_bytes);
        }
    return same;
}

/// Appends one token whose bytes are `mark` in every layer.
result<void> append(const kv_layout& layout, kv_sequence& sequence, std::byte mark) {
    const int at = sequence.token_count();
    if (auto reserved = sequence.reserve(at + 1); !reserved) return reserved;
    const auto block = static_cast<std::size_t>(at / small_block);
    for (int layer = 0; layer < layout.layer_count(); ++layer)
        write_token(layout, sequence.frames(layer)[block], layer, at % small_block, mark);
    sequence.advance(at + 1);
    return {};
}

bool sequence_is(const kv_layout& layout, const kv_sequence& sequence,
                 const std::vector<std::byte>& marks) {
    if (sequence.token_count() != static_cast<int>(marks.size())) return false;
    for (int at = 0; at < sequence.token_count(); ++at)
        for (int layer = 0; layer < layout.layer_count(); ++layer)
            if (!token_is(layout,
                          sequence.frames(layer)[static_cast<std::size_t>(at / small_block)], layer,
                          at % small_block, marks[static_cast<std::size_t>(at)]))
                return false;
    return true;
}

TEST(block_pool, holds_as_many_frames_as_the_budget_pays) {
    const kv_layout layout = two_layers();
    block_pool pool(layout, layout.frame_bytes() * 5 + layout.frame_bytes() - 1);
    EXPECT_EQ(pool.frame_count(), 5u);
    EXPECT_EQ(pool.free_count(), 5u);
    EXPECT_EQ(pool.held_count(), 0u);
}

TEST(block_pool, a_budget_below_one_block_is_refused_with_both_numbers) {
    const kv_layout layout = two_layers();
    const std::size_t budget = layout.frame_bytes() * 2 - 1;
    try {
        block_pool pool(layout, budget);
        FAIL() << "the budget is one byte short";
    } catch (const std::invalid_argument& refused) {
        const std::string message = refused.what();
        EXPECT_NE(message.find(std::to_string(budget)), std::string::npos) << message;
        EXPECT_NE(message.find(std::to_string(budget + 1)), std::string::npos) << message;
    }
}

TEST(block_pool, takes_all_frames_asked_for_or_none) {
    const kv_layout layout = two_layers();
    block_pool pool(layout, layout.frame_bytes() * 4);
    const auto most = pool.allocate(3);
    ASSERT_TRUE(most);
    const auto refused = pool.allocate(2);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, errc::pool_exhausted);
    EXPECT_NE(refused.error().what.find("1 of 4"), std::string::npos) << refused.error().what;
    EXPECT_EQ(pool.free_count(), 1u);
    pool.release(*most);
    EXPECT_EQ(pool.free_count(), 4u);
}

TEST(block_pool, frames_are_aligned_and_apart) {
    const kv_layout layout = two_layers();
    block_pool pool(layout, layout.frame_bytes() * 4);
    auto frames = *pool.allocate(4);
    pool.release(frames);
    std::sort(frames.begin(), frames.end());
    for (std::size_t i = 0; i < frames.size(); ++i) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(frames[i]) % 64, 0u);
        if (i > 0) {
            EXPECT_EQ(frames[i] - frames[i - 1], std::ptrdiff_t(layout.frame_bytes()));
        }
    }
}

TEST(block_pool, the_frame_released_last_is_taken_first) {
    const kv_layout layout = two_layers();
    block_pool pool(layout, layout.frame_bytes() * 4);
    const auto first = *pool.allocate(2);
    pool.release({first[1]});
    EXPECT_EQ((*pool.allocate(1))[0], first[1]);
    pool.release(first);
}

TEST(block_pool_death, a_double_release_ends_the_program) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const kv_layout layout = two_layers();
    block_pool pool(layout, layout.frame_bytes() * 4);
    const auto frames = *pool.allocate(1);
    pool.release(frames);
    EXPECT_DEATH(pool.release(frames), "assertion failed");
}

TEST(kv_block, returns_its_frames_when_the_last_owner_lets_go) {
    const kv_layout layout = two_layers();
    block_pool pool(layout, layout.frame_bytes() * 2);
    std::shared_ptr<const kv_block> first = *kv_block::make(pool, kv_part::full);
    auto second = first;
    EXPECT_FALSE(kv_block::make(pool, kv_part::full));
    first.reset();
    EXPECT_EQ(pool.free_count(), 0u);
    second.reset();
    EXPECT_EQ(pool.free_count(), 2u);
}

TEST(kv_block, holds_one_frame_for_layers_that_share_it) {
    const kv_layout layout = layers_that_share();
    block_pool pool(layout, layout.frame_bytes() * 3);
    const std::shared_ptr<kv_block> block = *kv_block::make(pool, kv_part::full);
    EXPECT_EQ(pool.free_count(), 0u);
    EXPECT_EQ(block->frame_count(), 3u);
    EXPECT_EQ(block->frame(2), block->frame(3));
    EXPECT_NE(block->frame(0), block->frame(1));
    EXPECT_NE(block->frame(1), block->frame(2));
}

TEST(kv_sequence, reserve_makes_whole_blocks_and_advance_fills_them) {
    const kv_layout layout = two_layers();
    block_pool pool(layout, layout.frame_bytes() * 8);
    kv_sequence sequence(pool, {}, 0);
    EXPECT_EQ(sequence.reserved_tokens(), 0);
    ASSERT_TRUE(sequence.reserve(5));
    EXPECT_EQ(sequence.reserved_tokens(), 8);
    EXPECT_EQ(sequence.frames(1).size(), 2u);
    sequence.advance(5);
    EXPECT_EQ(sequence.token_count(), 5);
    EXPECT_EQ(pool.held_count(), 4u);
}

TEST(kv_sequence, a_failed_reserve_changes_nothing) {
    const kv_layout layout = two_layers();
    block_pool pool(layout, layout.frame_bytes() * 4);
    kv_sequence sequence(pool, {}, 0);
    std::vector<std::byte> marks;
    for (int i = 0; i < 6; ++i) {
        marks.push_back(std::byte(i + 1));
        ASSERT_TRUE(append(layout, sequence, marks.back()));
    }
    const auto refused = sequence.reserve(9);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, errc::pool_exhausted);
    EXPECT_EQ(sequence.reserved_tokens(), 8);
    EXPECT_TRUE(sequence_is(layout, sequence, marks));
    ASSERT_TRUE(append(layout, sequence, std::byte{9}));
}

TEST(kv_sequence, the_append_after_share_copies_the_partly_filled_tail) {
    const kv_layout layout = two_layers();
    block_pool pool(layout, layout.frame_bytes() * 8);
    kv_sequence sequence(pool, {}, 0);
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(append(layout, sequence, std::byte(i + 1)));
    const auto shared = sequence.share();
    ASSERT_EQ(shared.size(), 2u);
    EXPECT_EQ(sequence.reserved_tokens(), 6);
    ASSERT_TRUE(append(layout, sequence, std::byte{77}));
    EXPECT_EQ(sequence.frames(0)[0], shared[0].full->frame(0));
    EXPECT_NE(sequence.frames(0)[1], shared[1].full->frame(0));
    EXPECT_TRUE(sequence_is(layout, sequence,
                            {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5},
                             std::byte{6}, std::byte{77}}));
    EXPECT_FALSE(token_is(layout, shared[1].full->frame(0), 0, 2, std::byte{77}));
    // The copy is ours: the next append stays in it.
    const std::byte* tail = sequence.frames(0)[1];
    ASSERT_TRUE(append(layout, sequence, std::byte{78}));
    EXPECT_EQ(sequence.frames(0)[1], tail);
}

TEST(kv_sequence, without_a_shared_tail_it_goes_on_at_the_last_block_boundary_and_copies_nothing) {
    const kv_layout layout = two_layers();
    block_pool pool(layout, layout.frame_bytes() * 4);
    kv_sequence sequence(pool, {}, 0);
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(append(layout, sequence, std::byte(i + 1)));
    EXPECT_FALSE(sequence.drop_shared_tail()) << "the tail is its own";
    (void)sequence.share();
    EXPECT_FALSE(sequence.reserve(7)) << "no room for a copy";
    EXPECT_TRUE(sequence.drop_shared_tail());
    EXPECT_EQ(sequence.token_count(), small_block);
    EXPECT_EQ(pool.held_count(), 2u);
    EXPECT_FALSE(sequence.drop_shared_tail()) << "no tail is left";
    EXPECT_TRUE(sequence.reserve(8));
    ASSERT_TRUE(append(layout, sequence, std::byte{5}));
    EXPECT_TRUE(sequence_is(
        layout, sequence, {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}}));
}

TEST(kv_sequence, a_full_shared_tail_is_not_copied) {
    const kv_layout layout = two_layers();
    block_pool pool(layout, layout.frame_bytes() * 8);
    kv_sequence sequence(pool, {}, 0);
    for (int i = 0; i < small_block; ++i) ASSERT_TRUE(append(layout, sequence, std::byte{1}));
    const auto shared = sequence.share();
    ASSERT_TRUE(append(layout, sequence, std::byte{2}));
    EXPECT_EQ(sequence.frames(0)[0], shared[0].full->frame(0));
    EXPECT_EQ(pool.held_count(), 4u);
}

TEST(kv_sequence, a_block_reserved_ahead_stays_writable_after_share) {
    const kv_layout layout = two_layers();
    block_pool pool(layout, layout.frame_bytes() * 8);
    kv_sequence sequence(pool, {}, 0);
    ASSERT_TRUE(sequence.reserve(8));
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(append(layout, sequence, std::byte{1}));
    EXPECT_EQ(sequence.share().size(), 1u);
    EXPECT_EQ(sequence.reserved_tokens(), 8);
    ASSERT_TRUE(append(layout, sequence, std::byte{2}));
    EXPECT_EQ(pool.held_count(), 4u);
}

TEST(kv_sequence, starts_inside_a_longer_prefix_without_harm_to_it) {
    const kv_layout layout = two_layers();
    block_pool pool(layout, layout.frame_bytes() * 8);
    kv_sequence parent(pool, {}, 0);
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(append(layout, parent, std::byte(i + 1)));
    kv_sequence child(pool, parent.share(), 8);
    auto prefix = parent.share();
    kv_sequence fork(pool, prefix, 6);
    ASSERT_TRUE(append(layout, fork, std::byte{99}));
    EXPECT_TRUE(token_is(layout, prefix[1].full->frame(1), 1, 2, std::byte{7}));
    EXPECT_TRUE(token_is(layout, fork.frames(1)[1], 1, 1, std::byte{6}));
    EXPECT_TRUE(token_is(layout, fork.frames(1)[1], 1, 2, std::byte{99}));
}

// Goal: nothing leaks and no shared byte ever changes. Method: sequences fork, extend, publish and
// vanish at random over a pool that is often full; a plain list of marks for each one says what it
// must hold.
TEST(kv_sequence, random_forks_extensions_and_releases_keep_every_promise) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
        const kv_layout layout = seed % 3 == 0   ? layers_that_share()
                                 : seed % 3 == 1 ? two_latent_layers()
                                                 : two_layers();
        block_pool pool(layout, layout.frame_bytes() * 60);
        struct run {
            kv_sequence sequence;
            std::vector<std::byte> marks;
        };
        std::deque<run> runs;
        std::mt19937 random(seed);
        const auto below = [&](std::size_t count) { return random() % count; };
        for (int step = 0; step < 600; ++step) {
            const std::size_t action = below(11);
            if (runs.empty() || action == 0) {
                runs.push_back({kv_sequence(pool, {}, 0), {}});
            } else if (action <= 6) {
                run& one = runs[below(runs.size())];
                const auto mark = std::byte(random() % 255 + 1);
                if (append(layout, one.sequence, mark)) one.marks.push_back(mark);
            } else if (action <= 8) {
                run& parent = runs[below(runs.size())];
                const std::size_t kept = below(parent.marks.size() + 1);
                auto prefix = parent.sequence.share();
                prefix.resize((kept + small_block - 1) / small_block);
                std::vector<std::byte> marks = parent.marks;
                marks.resize(kept);
                runs.push_back(
                    {kv_sequence(pool, std::move(prefix), static_cast<int>(kept)), marks});
            } else if (action == 9) {
                run& one = runs[below(runs.size())];
                one.sequence.drop_shared_tail();
                one.marks.resize(static_cast<std::size_t>(one.sequence.token_count()));
            } else {
                runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(below(runs.size())));
            }
            std::set<const std::byte*> reachable;
            for (const run& one : runs)
                for (int layer = 0; layer < layout.layer_count(); ++layer)
                    reachable.insert(one.sequence.frames(layer).begin(),
                                     one.sequence.frames(layer).end());
            ASSERT_EQ(reachable.size(), pool.held_count());
            ASSERT_EQ(pool.free_count() + pool.held_count(), pool.frame_count());
            if (step % 10 != 0) continue;
            for (const run& one : runs)
                ASSERT_TRUE(sequence_is(layout, one.sequence, one.marks))
                    << "seed " << seed << " step " << step;
        }
        runs.clear();
        EXPECT_EQ(pool.free_count(), pool.frame_count());
    }
}

}  // namespace
}  // namespace semantic::storage
