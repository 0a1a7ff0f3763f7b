// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/recurrent_state.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

constexpr std::size_t alignment = 64;  // a cache line, and the widest vector register

}  // namespace

void recurrent_state::free_aligned::operator()(std::byte* memory) const noexcept {
    std::free(memory);
}

recurrent_state::recurrent_state(block_pool& pool) : pool_(pool) {
    const std::size_t bytes = (pool.layout().state_bytes() + alignment - 1) / alignment * alignment;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, bytes)));
    if (memory_ == nullptr) throw std::bad_alloc();
}

recurrent_state::~recurrent_state() { pool_.uncount_state(); }

result<std::shared_ptr<recurrent_state>> recurrent_state::make(block_pool& pool) {
    ASSERT(pool.layout().has_states());
    if (auto ok = pool.count_state(); !ok) return ok.error();
    std::unique_ptr<recurrent_state> made;
    try {
        made.reset(new recurrent_state(pool));
    } catch (...) {
        pool.uncount_state();
        throw;
    }
    return std::shared_ptr<recurrent_state>(std::move(made));
}

std::span<std::byte> recurrent_state::bytes() noexcept {
    return {memory_.get(), pool_.layout().state_bytes()};
}

std::span<const std::byte> recurrent_state::bytes() const noexcept {
    return {memory_.get(), pool_.layout().state_bytes()};
}

std::size_t count_kept_within(std::span<const kept_state> kept, std::size_t tokens) noexcept {
    const auto next = std::ranges::upper_bound(kept, tokens, {}, &kept_state::tokens);
    return static_cast<std::size_t>(next - kept.begin());
}

result<void> live_state::reserve() {
    if (!pool_->layout().has_states() || next_ != nullptr) return {};
    auto made = recurrent_state::make(*pool_);
    if (!made) return made.error();
    next_ = std::move(*made);
    return {};
}

void live_state::advance() {
    if (!pool_->layout().has_states()) return;
    ASSERT(next_ != nullptr);
    current_ = next_;
    std::swap(own_, next_);
    // Two buffers are used in turn. If the former state was shared, own_ was empty: next_ is empty
    // now, and the next reserve() takes new memory.
}

recurrent_ptr live_state::share() {
    // Others read this state from now on, so advance() must not use its memory again.
    own_.reset();
    return current_;
}

}  // namespace semantic::storage
