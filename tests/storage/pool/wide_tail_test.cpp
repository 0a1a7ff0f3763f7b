// SPDX-License-Identifier: Apache-2.0
// The f16 rows of the group at a sequence's position: where they lie, who has them, and how a
// sequence goes on where they are lost.

#include "storage/pool/wide_tail.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <stdexcept>

#include "tests/storage/agents/store_fixture.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;

std::string refusal(std::vector<kv_layer> layers, kv_recipe recipe, int tokens_of_block = 256) {
    try {
        kv_layout(std::move(layers), recipe, tokens_of_block);
        return "";
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
}

TEST(kv_layout_wide, groups_start_at_multiples_of_their_tokens) {
    const kv_layout layout = wide_layout();
    EXPECT_TRUE(layout.has_wide_tail());
    EXPECT_EQ(layout.group_start(0), 0);
    EXPECT_EQ(layout.group_start(1), 0);
    EXPECT_EQ(layout.group_start(2), 2);
    EXPECT_EQ(layout.group_start(7), 6);
    EXPECT_FALSE(small_layout().has_wide_tail());
    EXPECT_EQ(small_layout().group_start(7), 7);
    EXPECT_EQ(small_layout().wide_frames(), 0u);
}

TEST(kv_layout_wide, rows_of_layers_share_frames_and_do_not_overlap) {
    const kv_recipe recipe = kv_recipe(kv_form{4, true}, kv_form{4, true}).with_wide_tail(16);
    const kv_layer layer{2, 64, 64, 0};
    const kv_layout layout(std::vector<kv_layer>(10, layer), recipe);
    const std::size_t bytes = 16u * 2 * (64 + 64) * 2;  // tokens, heads, K and V, f16
    const std::size_t together = layout.frame_bytes() / bytes;
    ASSERT_GT(together, 1u);
    EXPECT_EQ(layout.wide_frames(kv_part::full), (10 + together - 1) / together);
    EXPECT_EQ(layout.wide_frames(kv_part::sliding), 0u);
    for (int i = 0; i < 10; ++i) {
        const wide_place& at = layout.wide(i);
        EXPECT_EQ(at.frame, static_cast<std::size_t>(i) / together);
        EXPECT_EQ(at.at, static_cast<std::size_t>(i) % together * bytes);
        EXPECT_EQ(at.values, at.at + bytes / 2);
        EXPECT_EQ(at.end, at.at + bytes);
        EXPECT_LE(at.end, layout.frame_bytes());
    }
}

TEST(kv_layout_wide, a_conversation_counts_its_own_rows_and_while_it_grows_the_next_ones) {
    const kv_layout layout = wide_layout();
    kv_recipe none = layout.recipe();
    none.wide_tail = 0;
    const kv_layout packed({layout.layer(0), layout.layer(1), layout.layer(2)}, none, block_tokens);
    EXPECT_EQ(layout.wide_frames(),
              layout.wide_frames(kv_part::full) + layout.wide_frames(kv_part::sliding));
    EXPECT_EQ(layout.frames_for(0, 1), 0u);
    EXPECT_EQ(layout.frames_for(20, 0), packed.frames_for(20, 0) + layout.wide_frames());
    EXPECT_EQ(layout.frames_for(20, 1), packed.frames_for(20, 1) + 2 * layout.wide_frames());
    EXPECT_EQ(layout.bytes_for(20), packed.bytes_for(20));
    EXPECT_EQ(layout.bytes_for(21), packed.bytes_for(21) + 2u * (32 + 2 * 48 + 32));
    EXPECT_EQ(layout.bytes_per_token(), packed.bytes_per_token());
}

// A query reads back to the beginning of its group, so one that starts again there must find its
// window too.
TEST(kv_layout_wide, the_window_reaches_back_from_the_beginning_of_the_group) {
    const kv_form form{4, true};
    const kv_layout layout({{1, 16, 16, 9}}, kv_recipe(form, form, 16).with_wide_tail(2), 8);
    EXPECT_EQ(layout.first_sliding_block(16), 1);
    EXPECT_EQ(layout.first_sliding_block(17), 1);
    EXPECT_EQ(layout.first_sliding_block(15), 0);  // as 14 is
    EXPECT_EQ(layout.first_sliding_block(14), 0);
}

TEST(kv_layout_wide, tails_that_make_no_sense_are_refused) {
    const kv_form form{4, true};
    const kv_recipe rotated(form, form);
    const std::vector<kv_layer> layers{{1, 64, 64, 0}};
    EXPECT_EQ(refusal(layers, rotated.with_wide_tail(0)), "");
    EXPECT_EQ(refusal(layers, rotated.with_wide_tail(16)), "");
    EXPECT_NE(refusal(layers, rotated.with_wide_tail(-1)).find("wide tail"), std::string::npos);
    EXPECT_NE(refusal(layers, kv_recipe(4).with_wide_tail(16)).find("only rotated"),
              std::string::npos);
    EXPECT_NE(refusal(layers, rotated.with_wide_tail(24)).find("does not divide blocks of 256"),
              std::string::npos);
    // 4 bits and a scale and a bias for 64 elements: 36 bytes a row packed, 128 in f16.
    EXPECT_EQ(refusal(layers, rotated.with_wide_tail(64)), "");
    EXPECT_NE(refusal(layers, rotated.with_wide_tail(128)).find("does not fit into a frame"),
              std::string::npos);
    EXPECT_NE(refusal({{1, 128, 64, 0, true}}, rotated.with_wide_tail(16)).find("values lie in"),
              std::string::npos);
}

/// Whether the sequence has the f16 rows that a query after its last token reads.
bool has_its_group(const kv_layout& layout, const kv_sequence& sequence,
                   const std::vector<token_id>& tokens) {
    const int count = sequence.token_count();
    if (layout.group_start(count) == count) return true;
    for (int layer = 0; layer < layout.layer_count(); ++layer)
        if (!wide_holds(layout, layer, sequence.group_rows(layer), tokens, count)) return false;
    return true;
}

class wide_sequence : public testing::Test {
  protected:
    kv_sequence prefix_of(std::vector<kv_block_parts> blocks, int tokens) {
        blocks.resize(static_cast<std::size_t>((tokens + block_tokens - 1) / block_tokens));
        return kv_sequence(pool, std::move(blocks), tokens);
    }
    const kv_layout layout = wide_layout();
    block_pool pool{layout, layout.frame_bytes() * 60};
};

TEST_F(wide_sequence, a_block_that_ends_inside_a_group_keeps_the_rows_of_that_group) {
    kv_sequence sequence(pool, {}, 0);
    const auto tokens = some_tokens(5);
    append_tokens(sequence, layout, tokens);
    const auto blocks = sequence.share();
    for (const kv_part part : kv_parts) {
        const auto& block = blocks[0].at(part);
        ASSERT_NE(block->wide(), nullptr);
        EXPECT_EQ(block->wide_end(), 5);
        EXPECT_EQ(block->frame_count(), layout.layers(part).size() + layout.wide_frames(part));
        for (const int layer : layout.layers(part))
            EXPECT_TRUE(wide_holds(layout, layer, block->wide()->rows(layer), tokens, 5));
    }
    append_tokens(sequence, layout, some_tokens(6));
    const auto even = sequence.share();
    EXPECT_EQ(even[0].full->wide(), nullptr);
    EXPECT_EQ(even[0].full->frame_count(), layout.layers(kv_part::full).size());
    EXPECT_EQ(blocks[0].full->wide_end(), 5) << "what was shared stays as it was";
}

TEST_F(wide_sequence, goes_on_where_a_block_has_its_rows_and_else_where_the_group_begins) {
    kv_sequence sequence(pool, {}, 0);
    append_tokens(sequence, layout, some_tokens(13));
    const auto blocks = sequence.share();
    EXPECT_EQ(prefix_of(blocks, 13).token_count(), 13);
    EXPECT_EQ(prefix_of(blocks, 12).token_count(), 12);  // where a group begins
    EXPECT_EQ(prefix_of(blocks, 11).token_count(), 10);
    EXPECT_EQ(prefix_of(blocks, 9).token_count(), 8);  // where its block begins too
    EXPECT_EQ(prefix_of(blocks, 1).token_count(), 0);
    EXPECT_TRUE(has_its_group(layout, prefix_of(blocks, 13), some_tokens(13)));
}

TEST_F(wide_sequence, a_pool_has_room_for_one_block_and_its_wide_tails_or_is_refused) {
    const std::size_t least = layout.frames_for(layout.block_tokens(), 1);
    const block_pool enough(layout, least * layout.frame_bytes());
    EXPECT_EQ(layout.tokens_in(enough.frame_count(), 1, 1 << 20), layout.block_tokens());
    EXPECT_THROW(block_pool(layout, (least - 1) * layout.frame_bytes()), std::invalid_argument);
}

// A group of 4 tokens has three ends inside it.
TEST(wide_sequence_of_four, goes_on_inside_the_group_whose_rows_a_block_has) {
    const kv_form form{4, true};
    const kv_layout layout({{1, 64, 64, 0}}, kv_recipe(form, form).with_wide_tail(4), 16);
    block_pool pool(layout, layout.frame_bytes() * 20);
    kv_sequence sequence(pool, {}, 0);
    const auto tokens = some_tokens(11);
    append_tokens(sequence, layout, tokens);
    for (const int kept : {11, 10, 9}) {
        const kv_sequence fork(pool, sequence.share(), kept);
        EXPECT_EQ(fork.token_count(), kept);
        EXPECT_TRUE(has_its_group(layout, fork, tokens));
    }
    EXPECT_EQ(kv_sequence(pool, sequence.share(), 7).token_count(), 4);
    kv_sequence shorter(pool, sequence.share(), 9);
    auto longer = some_tokens(9);
    longer.push_back(5);
    append_tokens(shorter, layout, longer);
    EXPECT_TRUE(has_its_group(layout, shorter, longer));
    EXPECT_TRUE(has_its_group(layout, sequence, tokens)) << "nobody wrote into its rows";
}

TEST_F(wide_sequence, a_reserve_that_fails_for_its_rows_changes_nothing) {
    kv_sequence sequence(pool, {}, 0);
    const auto tokens = some_tokens(5);
    append_tokens(sequence, layout, tokens);
    const auto blocks = sequence.share();
    // The copy of the tail fits, its rows do not.
    const auto room = static_cast<std::size_t>(layout.layer_count());
    const auto taken = pool.allocate(pool.free_count() - room).value();
    const auto refused = sequence.reserve(6);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, errc::pool_exhausted);
    EXPECT_EQ(pool.free_count(), room);
    EXPECT_EQ(sequence.token_count(), 5);
    EXPECT_TRUE(has_its_group(layout, sequence, tokens));
    pool.release(taken);
    append_tokens(sequence, layout, some_tokens(6));
    EXPECT_EQ(sequence.token_count(), 6);
}

TEST_F(wide_sequence, without_a_shared_tail_it_lets_go_of_the_rows_of_its_group_too) {
    kv_sequence sequence(pool, {}, 0);
    append_tokens(sequence, layout, some_tokens(block_tokens + 3));
    auto shared = sequence.share();
    sequence = kv_sequence(pool, std::move(shared), block_tokens + 3);
    EXPECT_EQ(sequence.frame_count(), pool.held_count());
    EXPECT_TRUE(sequence.drop_shared_tail());
    EXPECT_EQ(sequence.token_count(), block_tokens);
    EXPECT_EQ(pool.held_count(), static_cast<std::size_t>(layout.layer_count()));
    EXPECT_EQ(sequence.frame_count(), pool.held_count());
    const auto again = some_tokens(block_tokens + 5);
    append_tokens(sequence, layout, again);
    EXPECT_EQ(sequence.frame_count(), pool.held_count()) << "its own rows and the next ones";
    EXPECT_TRUE(has_its_group(layout, sequence, again));
}

// Goal: nothing leaks, and no row that somebody reads ever changes. Method: sequences fork, extend,
// publish and vanish at random over a pool that is often full.
TEST(wide_sequence_random, forks_extensions_and_releases_keep_every_row) {
    const kv_layout layout = wide_layout();
    for (unsigned seed = 1; seed <= 10; ++seed) {
        block_pool pool(layout, layout.frame_bytes() * 80);
        struct run {
            kv_sequence sequence;
            std::vector<token_id> tokens;
        };
        std::deque<run> runs;
        std::mt19937 random(seed);
        const auto below = [&](std::size_t count) { return random() % count; };
        const auto extend = [&](run& one) {
            std::vector<token_id> more = one.tokens;
            more.resize(static_cast<std::size_t>(one.sequence.token_count()));
            for (std::size_t i = below(6) + 1; i-- > 0;)
                more.push_back(static_cast<token_id>(random() % 1000));
            if (!one.sequence.reserve(static_cast<int>(more.size()))) return;
            append_tokens(one.sequence, layout, more);
            one.tokens = std::move(more);
        };
        for (int step = 0; step < 400; ++step) {
            const std::size_t action = below(11);
            if (runs.empty() || action == 0) {
                runs.push_back({kv_sequence(pool, {}, 0), {}});
            } else if (action <= 6) {
                extend(runs[below(runs.size())]);
            } else if (action <= 8) {
                run& parent = runs[below(runs.size())];
                // As far back as every window is whole.
                const auto size = static_cast<std::size_t>(parent.sequence.token_count());
                const std::size_t kept = size - std::min(size, below(3));
                auto prefix = parent.sequence.share();
                if (kept < size && size > 8) continue;
                prefix.resize((kept + block_tokens - 1) / block_tokens);
                runs.push_back({kv_sequence(pool, std::move(prefix), static_cast<int>(kept)),
                                {parent.tokens.begin(),
                                 parent.tokens.begin() + static_cast<std::ptrdiff_t>(kept)}});
            } else if (action == 9) {
                run& one = runs[below(runs.size())];
                one.sequence.drop_shared_tail();
                one.tokens.resize(static_cast<std::size_t>(one.sequence.token_count()));
            } else {
                runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(below(runs.size())));
            }
            for (const run& one : runs)
                ASSERT_TRUE(has_its_group(layout, one.sequence, one.tokens))
                    << "seed " << seed << " step " << step;
        }
        runs.clear();
        EXPECT_EQ(pool.free_count(), pool.frame_count());
    }
}

}  // namespace
}  // namespace semantic::storage
