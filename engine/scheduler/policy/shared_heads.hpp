// SPDX-License-Identifier: Apache-2.0
#pragma once
// A "head" is the beginning that several prompts share, such as system text and tools. It is
// prefilled once: prompts that share a head with a prompt that is being read wait for that one, and
// continue from its KV. Decides which prompt waits for which. Pure: tested as tables and by random
// prompts, without model, pool or clock. Carried out by batch/head_sharing.
//
// Prompts that are read ("readers") are ordered: the one that has read most first, of equals the
// one that came first. A reader waits only for an earlier one that has a batch slot. So the first
// reader with a slot waits for nobody: no two wait for each other, and something is always read.

#include <compare>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>

#include "engine/types/generation.hpp"

namespace semantic::engine {

/// A prompt that is being read, or waits to be read.
struct head_reader {
    request_id id = 0;
    int choice = 0;
    int position = 0;  // tokens that have KV, or will have when it begins
};

/// A head of fewer tokens is not waited for: computing it again takes less time.
constexpr int head_tokens_min = 64;

/// A reader's wait for another one.
struct head_wait {
    std::size_t reader = 0;  // index of the reader that is waited for
    int end = 0;             // tokens that the two prompts have in common from the start
    bool operator==(const head_wait&) const = default;
};

/// Finds the reader for which `one` should wait. `holders`: the readers with a batch slot; may
/// contain `one`. `count_common(i)`: tokens from the start that `one` could take from the i-th
/// holder once that has read them; 0 if the two may not share. Returns: the wait that saves `one`
/// the most tokens; nothing if none saves head_tokens_min.
std::optional<head_wait> find_head_wait(const head_reader& one,
                                        std::span<const head_reader> holders,
                                        const std::function<int(std::size_t)>& count_common);

/// Shortens a chunk so that it ends where the first waiting reader can continue. The chunk has
/// `tokens` tokens from `position` on; `ends`: head_wait::end of the waits for this reader, in any
/// order. `is_exact`: the chunk must end exactly there; otherwise it is not cut shorter than
/// head_chunk_min. Returns: the chunk's tokens.
int cut_chunk(int position, int tokens, std::span<const int> ends, bool is_exact);
constexpr int head_chunk_min = 128;

}  // namespace semantic::engine
