// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts of speculative decoding: how many draft tokens (guesses) an answer's steps ran, and how
// many of these were right. Plain data.

#include <array>
#include <cstddef>

namespace semantic::engine {

/// Where a draft comes from.
enum class draft_origin {
    repeats,  // the tokens that followed the same tokens earlier in the conversation
    form,     // the tokens that the answer's form (a grammar) allows or had there before
};
constexpr std::array<const char*, 2> draft_origin_names{"repeats", "form"};  // by draft_origin
constexpr std::size_t draft_origin_count = draft_origin_names.size();

struct draft_count {
    int drafted = 0;  // draft tokens that ran
    int taken = 0;    // those of them that were then drawn: each saved a pass
};

struct draft_usage {
    std::array<draft_count, draft_origin_count> by_origin{};

    void add(draft_origin origin, draft_count more) {
        draft_count& count = by_origin[static_cast<std::size_t>(origin)];
        count.drafted += more.drafted;
        count.taken += more.taken;
    }
    void add(const draft_usage& more) {
        for (std::size_t i = 0; i < draft_origin_count; ++i)
            add(static_cast<draft_origin>(i), more.by_origin[i]);
    }
    draft_count sum() const {
        draft_count all;
        for (const draft_count& count : by_origin) {
            all.drafted += count.drafted;
            all.taken += count.taken;
        }
        return all;
    }
};

}  // namespace semantic::engine
