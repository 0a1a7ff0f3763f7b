// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/pool_budget.hpp"

#include <algorithm>
#include <utility>

#include "storage/pool/block_pool.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

void pool_budget::join(block_pool& pool) {
    std::lock_guard lock(mutex_);
    members_.push_back({&pool});
}

void pool_budget::leave(block_pool& pool) {
    std::lock_guard lock(mutex_);
    std::erase_if(members_, [&](const member& each) { return each.pool == &pool; });
    std::erase_if(line_, [&](const place& each) { return each.pool == &pool; });
    if (turn_ == &pool) turn_ = nullptr;
    tell_of_room(pool);
}

pool_budget::member& pool_budget::member_of(const block_pool& pool) {
    const auto found =
        std::ranges::find_if(members_, [&](const member& each) { return each.pool == &pool; });
    ASSERT(found != members_.end());
    return *found;
}

std::size_t pool_budget::held_bytes() const {
    std::lock_guard lock(mutex_);
    return held_;
}

std::size_t pool_budget::touched_bytes() const {
    std::lock_guard lock(mutex_);
    return touched_;
}

void pool_budget::set_busy(const block_pool& pool, bool is_busy) {
    std::lock_guard lock(mutex_);
    const bool was_busy = std::exchange(member_of(pool).is_busy, is_busy);
    if (is_busy) return;
    const bool had_turn = turn_ == &pool;
    if (had_turn) turn_ = nullptr;
    // Notifies only of a change: otherwise two waiting pools would wake each other for ever.
    if (was_busy || had_turn) tell_of_room(pool);
}

bool pool_budget::others_are_busy(const block_pool& pool) const {
    std::lock_guard lock(mutex_);
    return std::ranges::any_of(
        members_, [&](const member& each) { return each.pool != &pool && each.is_busy; });
}

void pool_budget::set_listener(const block_pool& pool, room_listener* listener) {
    std::lock_guard lock(mutex_);
    member_of(pool).listener = listener;
}

void pool_budget::wait(const block_pool& pool, std::size_t frames) {
    std::lock_guard lock(mutex_);
    const auto found =
        std::ranges::find_if(line_, [&](const place& each) { return each.pool == &pool; });
    if (frames > 0) member_of(pool).wants_word = true;
    // More than the whole budget can never become free.
    const std::size_t bytes = std::min(frames * pool.layout_.frame_bytes(), bytes_);
    const bool shrinks = found != line_.end() && bytes < found->bytes;
    if (found != line_.end())
        found->bytes = bytes;
    else if (frames > 0)
        line_.push_back({&pool, bytes});
    if (frames == 0) std::erase_if(line_, [&](const place& each) { return each.pool == &pool; });
    // A smaller demand leaves more for the pools after it in the queue.
    if (shrinks) tell_of_room(pool);
}

std::size_t pool_budget::frames_before(const block_pool& pool) const {
    std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const place& each : line_) {
        if (each.pool == &pool) break;
        bytes += each.bytes;
    }
    const std::size_t per_frame = pool.layout_.frame_bytes();
    return (bytes + per_frame - 1) / per_frame;
}

bool pool_budget::take_turn(const block_pool& pool) {
    std::lock_guard lock(mutex_);
    if (turn_ == nullptr) turn_ = &pool;
    return turn_ == &pool;
}

bool pool_budget::is_turn_taken() const {
    std::lock_guard lock(mutex_);
    return turn_ != nullptr;
}

bool pool_budget::has_turn(const block_pool& pool) const {
    std::lock_guard lock(mutex_);
    return turn_ == &pool;
}

void pool_budget::end_turn(const block_pool& pool) {
    std::lock_guard lock(mutex_);
    if (turn_ != &pool) return;
    turn_ = nullptr;
    tell_of_room(pool);
}

bool pool_budget::want_word(const block_pool& pool) {
    std::lock_guard lock(mutex_);
    return !std::exchange(member_of(pool).wants_word, true);
}

void pool_budget::tell_of_evictable(const block_pool& pool) {
    std::lock_guard lock(mutex_);
    tell_of_room(pool);
}

void pool_budget::reclaim(block_pool& keeper) {
    for (const member& each : members_) {
        if (touched_ <= bytes_) return;
        if (each.pool != &keeper) touched_ -= each.pool->give_back(touched_ - bytes_);
    }
    // Recurrent states take memory outside of the frames, so free frames of the same pool may have
    // to be returned as well.
    if (touched_ > bytes_) touched_ -= keeper.give_back(touched_ - bytes_);
}

void pool_budget::tell_of_room(const block_pool& from) {
    for (member& each : members_)
        if (each.pool != &from && each.wants_word && each.listener != nullptr) {
            each.wants_word = false;
            each.listener->notice_room();
        }
}

}  // namespace semantic::storage
