// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many tokens of drafts an answer ran, and how many of these were right. Plain data.

#include <array>
#include <cstddef>

namespace semantic::engine {

/// Where a draft comes from.
enum class draft_origin {
    repeats,  // what followed in the conversation when the same tokens came before
    form,     // what the form of the answer leaves, or had there before
};
constexpr std::array<const char*, 2> draft_origin_names{"repeats", "form"};  // by draft_origin
constexpr std::size_t draft_origin_count = draft_origin_names.size();

struct draft_count {
    int drafted = 0;  // tokens that were run
    int taken = 0;    // of these, those that were drawn: each spared a pass
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
