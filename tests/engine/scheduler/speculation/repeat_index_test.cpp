// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/speculation/repeat_index.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace semantic::engine {
namespace {

using storage::token_id;
using tokens = std::vector<token_id>;

repeat_index::match find(repeat_index& index, const tokens& said) {
    index.add(said);
    return index.find(said);
}

TEST(repeat_index, finds_the_earlier_place_with_most_alike) {
    repeat_index index(64);
    //           0  1  2  3  4  5  6  7  8  9 10 11 12 13
    tokens said{9, 1, 2, 3, 7, 8, 1, 2, 3, 6, 9, 1, 2, 3};
    const auto found = find(index, said);
    EXPECT_EQ(found.alike, 4u);
    EXPECT_EQ(found.end, 4u);
    EXPECT_EQ(continue_from(said, found, 3), (tokens{7, 8, 1}));
}

TEST(repeat_index, takes_the_latest_of_several_that_are_alike) {
    repeat_index index(64);
    const tokens said{1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3};
    const auto found = find(index, said);
    EXPECT_EQ(found.alike, 3u);
    EXPECT_EQ(found.end, 7u);
}

TEST(repeat_index, finds_nothing_where_two_tokens_are_alike) {
    repeat_index index(64);
    EXPECT_EQ(find(index, {}).alike, 0u);
    const tokens said{1, 2, 7, 1, 2};
    EXPECT_EQ(find(index, said).alike, 0u);
}

TEST(repeat_index, a_repetition_at_the_end_goes_on_with_itself) {
    repeat_index index(64);
    const tokens said{5, 5, 5, 5};
    const auto found = find(index, said);
    EXPECT_EQ(found.alike, 3u);
    EXPECT_EQ(continue_from(said, found, 6), (tokens{5, 5, 5, 5, 5, 5}));
    repeat_index pair(64);
    const tokens two{1, 2, 1, 2, 1, 2};
    EXPECT_EQ(continue_from(two, find(pair, two), 5), (tokens{1, 2, 1, 2, 1}));
}

// Whatever the calls were cut into, it finds what a search of all places finds.
TEST(repeat_index, finds_what_a_search_of_all_places_finds) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        std::mt19937_64 random(seed);
        const int letters = 3 + static_cast<int>(random() % 20);
        repeat_index index(16);  // smaller than what comes
        tokens said;
        while (said.size() < 400) {
            for (std::size_t more = 1 + random() % 5; more > 0; --more)
                said.push_back(static_cast<token_id>(random() % static_cast<unsigned>(letters)));
            const auto found = find(index, said);
            std::size_t best = 0;
            int places = 0;
            for (std::size_t end = said.size() - 1; end >= 3 && said.size() > 3; --end) {
                std::size_t alike = 0;
                while (alike < end && alike < repeat_index::alike_most &&
                       said[end - 1 - alike] == said[said.size() - 1 - alike])
                    ++alike;
                if (alike < repeat_index::alike_least) continue;
                if (++places > repeat_index::places_most) break;
                best = std::max(best, alike);
            }
            // Other runs with the same hash take places of the search too.
            EXPECT_LE(found.alike, best);
            if (places <= repeat_index::places_most / 2) {
                EXPECT_EQ(found.alike, best) << "seed " << seed << " at " << said.size();
            }
        }
    }
}

TEST(repeat_index, a_search_of_one_token_again_and_again_looks_at_so_many_places) {
    repeat_index index(1);
    tokens said(3 * repeat_index::alike_most, 4);
    said.push_back(1);
    for (int i = 0; i < 3; ++i) said.push_back(4);
    const auto found = find(index, said);
    EXPECT_EQ(found.alike, 3u) << "what came before them is another token";
}

TEST(repeat_index, compares_so_many_tokens_and_not_one_more) {
    for (const std::size_t more : {std::size_t{0}, std::size_t{1}}) {
        repeat_index index(512);
        const std::size_t alike = repeat_index::alike_most - 1 + more;
        tokens said{1};
        for (std::size_t i = 0; i < alike; ++i) said.push_back(static_cast<token_id>(100 + i));
        said.push_back(2);
        for (std::size_t i = 0; i < alike; ++i) said.push_back(static_cast<token_id>(100 + i));
        EXPECT_EQ(find(index, said).alike, alike);
        said.insert(said.begin() + 1, 99);
        said.insert(said.end() - static_cast<std::ptrdiff_t>(alike), 99);
        repeat_index longer(512);
        EXPECT_EQ(find(longer, said).alike, repeat_index::alike_most);
    }
}

TEST(repeat_index, one_call_indexes_so_many_tokens_and_not_one_more) {
    for (const std::size_t more : {std::size_t{0}, std::size_t{1}}) {
        repeat_index index(2 * repeat_index::added_most);
        // All tokens differ, but for the last three, which end after so many others.
        const std::size_t end = repeat_index::added_most - 1 + more;
        tokens said;
        for (std::size_t i = 0; i < end + 10; ++i) said.push_back(static_cast<token_id>(i));
        for (std::size_t i = end - 3; i < end; ++i) said.push_back(said[i]);
        EXPECT_EQ(find(index, said).alike, more == 0 ? 3u : 0u);
        EXPECT_EQ(find(index, said).alike, 3u) << "the next call goes on";
    }
}

TEST(repeat_index, takes_some_bytes_a_token) {
    constexpr std::size_t count = 16'384;
    repeat_index index(count);
    tokens said;
    for (std::size_t i = 0; i < count; ++i) said.push_back(static_cast<token_id>(i * 7919 % 5000));
    for (std::size_t i = 0; i < count; i += repeat_index::added_most) index.add(said);
    EXPECT_GE(index.memory_bytes(), 4 * count);
    EXPECT_LE(index.memory_bytes(), repeat_index::bytes_max(count));
    EXPECT_LE(index.memory_bytes(), 16 * count);
}

}  // namespace
}  // namespace semantic::engine
