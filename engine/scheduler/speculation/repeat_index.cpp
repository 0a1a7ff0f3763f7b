// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/speculation/repeat_index.hpp"

#include <algorithm>
#include <bit>

namespace semantic::engine {

namespace {

// How many tokens before index `earlier` are the same as the last tokens of `tokens`, compared
// backwards, at most alike_most.
std::size_t count_alike(std::span<const storage::token_id> tokens, std::size_t earlier) {
    const std::size_t most = std::min(earlier, repeat_index::alike_most);
    std::size_t alike = 0;
    while (alike < most && tokens[earlier - 1 - alike] == tokens[tokens.size() - 1 - alike])
        ++alike;
    return alike;
}

}  // namespace

repeat_index::repeat_index(std::size_t tokens_expected) : latest_(count_slots(tokens_expected)) {
    earlier_.reserve(tokens_expected);
}

std::size_t repeat_index::slot_of(const storage::token_id* tokens) const noexcept {
    std::uint64_t mixed = 0;
    for (std::size_t i = 0; i < alike_least; ++i)
        mixed = (mixed ^ static_cast<std::uint32_t>(tokens[i])) * 0x9e3779b97f4a7c15U;
    return static_cast<std::size_t>(mixed >> 32U) & (latest_.size() - 1);
}

void repeat_index::add(std::span<const storage::token_id> tokens) {
    // The latest tokens themselves are not indexed yet: find() must not match them with themselves.
    const std::size_t stop = std::min(tokens.size(), earlier_.size() + added_most);
    for (std::size_t end = std::max(earlier_.size(), alike_least); end < stop; ++end) {
        earlier_.resize(end);
        std::uint32_t& latest = latest_[slot_of(tokens.data() + end - alike_least)];
        earlier_.push_back(latest);
        latest = static_cast<std::uint32_t>(end);
    }
}

repeat_index::match repeat_index::find(std::span<const storage::token_id> tokens) const {
    match best;
    if (tokens.size() <= alike_least) return best;
    std::size_t end = latest_[slot_of(tokens.data() + tokens.size() - alike_least)];
    for (int places = 0; end != 0 && places < places_most; ++places, end = earlier_[end]) {
        const std::size_t alike = count_alike(tokens, end);
        if (alike > best.alike) best = {alike, end};
        if (alike == alike_most) break;
    }
    return best.alike < alike_least ? match() : best;
}

std::size_t repeat_index::memory_bytes() const noexcept {
    return (latest_.capacity() + earlier_.capacity()) * sizeof(std::uint32_t);
}

std::vector<storage::token_id> continue_from(std::span<const storage::token_id> tokens,
                                             const repeat_index::match& found, std::size_t count) {
    std::vector<storage::token_id> next;
    next.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = found.end + i;
        next.push_back(at < tokens.size() ? tokens[at] : next[at - tokens.size()]);
    }
    return next;
}

}  // namespace semantic::engine
