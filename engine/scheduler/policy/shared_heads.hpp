// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which prompts wait for another one that reads the same beginning, so that a head that many share
// is read once. Pure: a function of what is given, tested as tables and by random prompts, without
// model, pool or clock. Carried out by batch/head_sharing.
//
// Readers are ordered: the one that is furthest first, of equals the one that came first. A reader
// waits only for one before it that has a slot, so the first of those with a slot waits for nobody:
// there is no circle, and something is always read.

#include <compare>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>

#include "engine/types/generation.hpp"

namespace semantic::engine {

/// A prompt that is being read, or waits to be.
struct head_reader {
    request_id id = 0;
    int choice = 0;
    int position = 0;  // tokens that are there, or will be when it begins
};

/// Fewer tokens than this are read again sooner than waited for.
constexpr int head_tokens_min = 64;

/// What a reader waits for.
struct head_wait {
    std::size_t reader = 0;  // index of the one that reads
    int end = 0;             // tokens, from the start, after which the two prompts part
    bool operator==(const head_wait&) const = default;
};

/// `holders`: those with a slot whose prompt is not done; may contain `one`. `count_common(i)`: the
/// tokens that `one` could take from the i-th of them, when that has read them; 0 where they may
/// share nothing. Returns: the wait that spares `one` most, if any.
std::optional<head_wait> find_head_wait(const head_reader& one,
                                        std::span<const head_reader> holders,
                                        const std::function<int(std::size_t)>& count_common);

/// A chunk of `tokens` from `position` on, cut where those that wait can go on. `ends`: of the
/// waits for this reader, in any order. `is_exact`: a chunk must end exactly there; else one is
/// not cut shorter than head_chunk_min.
int cut_chunk(int position, int tokens, std::span<const int> ends, bool is_exact);
constexpr int head_chunk_min = 128;

}  // namespace semantic::engine
