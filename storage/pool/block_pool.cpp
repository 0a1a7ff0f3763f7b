// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/block_pool.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

#include "storage/pool/block_frames.hpp"
#include "storage/types/as_size.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

std::size_t blocks_for(int tokens, int block_tokens) {
    return (as_size(tokens) + as_size(block_tokens) - 1) / as_size(block_tokens);
}

/// Copies the rows of the first `tokens` tokens of every head of one region, with their scales and
/// biases, from one frame to another.
void copy_region(const kv_region& region, int block_tokens, int tokens, const std::byte* from,
                 std::byte* to) {
    const std::size_t row_count = as_size(tokens);
    const std::size_t parameters = row_count * as_size(region.groups) * 2;
    for (int head = 0; head < region.heads; ++head) {
        const std::size_t row = region.row_at(block_tokens, head, 0);
        std::memcpy(to + row, from + row, row_count * region.row_bytes);
        // f16 rows have neither scales nor biases.
        if (parameters == 0) continue;
        const std::size_t scale = region.scale_at(block_tokens, head, 0);
        const std::size_t bias = scale + (region.biases - region.scales);
        std::memcpy(to + scale, from + scale, parameters);
        std::memcpy(to + bias, from + bias, parameters);
    }
}

}  // namespace

block_pool::block_pool(const kv_layout& layout, std::size_t budget_bytes)
    : block_pool(layout, std::make_shared<pool_budget>(budget_bytes)) {}

block_pool::block_pool(const kv_layout& layout, std::shared_ptr<pool_budget> budget)
    : layout_(layout),
      budget_(std::move(budget)),
      frame_count_(budget_->bytes() / layout.frame_bytes()) {
    // Recurrent states are not counted here: some callers keep theirs outside of the pool.
    const std::size_t least =
        layout_.frames_for(layout_.block_tokens(), 1) - 2 * layout_.state_frames();
    if (frame_count_ < least)
        throw std::invalid_argument("the cache budget is " + std::to_string(budget_->bytes()) +
                                    " bytes, one block of this model needs " +
                                    std::to_string(layout_.frame_bytes() * least));
    const std::size_t arena_bytes = frame_count_ * layout_.frame_bytes();
    void* mapped = mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        throw std::system_error(errno, std::generic_category(),
                                "mapping " + std::to_string(arena_bytes) + " bytes of KV cache");
    arena_ = static_cast<std::byte*>(mapped);
    madvise(mapped, arena_bytes, MADV_HUGEPAGE);  // a hint: kernels without huge pages refuse it
    free_.reserve(frame_count_);
    // The last of free_ is taken first, so frames are first used from the arena's beginning.
    for (std::size_t index = frame_count_; index-- > 0;)
        free_.push_back(arena_ + index * layout_.frame_bytes());
    held_.assign(frame_count_, false);
    untouched_ = frame_count_;
    budget_->join(*this);
}

block_pool::~block_pool() {
    ASSERT(held_total_ == 0 && states_ == 0);
    {
        std::lock_guard lock(budget_->mutex_);
        budget_->touched_ -= (frame_count_ - untouched_) * layout_.frame_bytes();
        untouched_ = frame_count_;  // another pool may ask for it back until this one has left
    }
    budget_->leave(*this);
    munmap(arena_, frame_count_ * layout_.frame_bytes());
}

/// Requires: the mutex is held.
void block_pool::check_invariant() const { ASSERT(free_.size() + held_total_ == frame_count_); }

result<std::vector<std::byte*>> block_pool::allocate(std::size_t count) {
    std::lock_guard lock(budget_->mutex_);
    check_invariant();
    if (count > free_now())
        return failure{errc::pool_exhausted, "the KV pool has " + std::to_string(free_now()) +
                                                 " of " + std::to_string(frame_count_) +
                                                 " frames free, " + std::to_string(count) +
                                                 " are needed"};
    std::vector<std::byte*> taken;
    taken.reserve(count);
    for (; taken.size() < count; free_.pop_back()) {
        taken.push_back(free_.back());
        held_[static_cast<std::size_t>(taken.back() - arena_) / layout_.frame_bytes()] = true;
    }
    held_total_ += count;
    budget_->held_ += count * layout_.frame_bytes();
    // Some of the frames taken were among the untouched ones at the front of free_. From now on
    // they take memory.
    if (untouched_ > free_.size()) {
        budget_->touched_ += (untouched_ - free_.size()) * layout_.frame_bytes();
        untouched_ = free_.size();
        budget_->reclaim(*this);
    }
    check_invariant();
    return taken;
}

void block_pool::release(const std::vector<std::byte*>& frames) noexcept {
    std::lock_guard lock(budget_->mutex_);
    for (std::byte* frame : frames) {
        ASSERT(frame >= arena_ && frame < arena_ + frame_count_ * layout_.frame_bytes());
        const std::size_t offset = static_cast<std::size_t>(frame - arena_);
        ASSERT(offset % layout_.frame_bytes() == 0);
        ASSERT(held_[offset / layout_.frame_bytes()]);
        held_[offset / layout_.frame_bytes()] = false;
        free_.push_back(frame);  // never reallocates: capacity is frame_count_
        --held_total_;
    }
    budget_->held_ -= frames.size() * layout_.frame_bytes();
    check_invariant();
    if (!frames.empty()) budget_->tell_of_room(*this);
}

result<void> block_pool::count_state() {
    const std::size_t bytes = layout_.state_frames() * layout_.frame_bytes();
    ASSERT(bytes > 0);
    std::lock_guard lock(budget_->mutex_);
    if (budget_->bytes_ - budget_->held_ < bytes)
        return failure{errc::pool_exhausted,
                       "the KV pool has " + std::to_string(budget_->bytes_ - budget_->held_) +
                           " bytes free, a recurrent state takes " + std::to_string(bytes)};
    ++states_;
    budget_->held_ += bytes;
    budget_->touched_ += bytes;
    budget_->reclaim(*this);
    return {};
}

void block_pool::uncount_state() noexcept {
    const std::size_t bytes = layout_.state_frames() * layout_.frame_bytes();
    std::lock_guard lock(budget_->mutex_);
    ASSERT(states_ > 0);
    --states_;
    budget_->held_ -= bytes;
    budget_->touched_ -= bytes;
    budget_->tell_of_room(*this);
}

std::size_t block_pool::state_count() const {
    std::lock_guard lock(budget_->mutex_);
    return states_;
}

/// Returns: how many frames can be taken: free ones, as far as the budget allows. Requires: the
/// mutex is held.
std::size_t block_pool::free_now() const {
    return std::min(free_.size(), (budget_->bytes_ - budget_->held_) / layout_.frame_bytes());
}

/// Returns the memory of free frames to the system, those unused for longest first, until it is
/// `bytes` or no free frame takes memory any more. Returns: how many bytes. Requires: the mutex is
/// held.
std::size_t block_pool::give_back(std::size_t bytes) noexcept {
    static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::size_t frame_bytes = layout_.frame_bytes();
    std::size_t given = 0;
    for (; given < bytes && untouched_ < free_.size(); ++untouched_, given += frame_bytes) {
        // Only whole pages: those at the two ends may be shared with another frame.
        const auto begin = reinterpret_cast<std::uintptr_t>(free_[untouched_]);
        const std::uintptr_t first = (begin + page - 1) / page * page;
        const std::uintptr_t end = (begin + frame_bytes) / page * page;
        if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
    }
    return given;
}

std::size_t block_pool::free_count() const {
    std::lock_guard lock(budget_->mutex_);
    check_invariant();
    return free_now();
}

std::size_t block_pool::held_count() const {
    std::lock_guard lock(budget_->mutex_);
    check_invariant();
    return held_total_ + states_ * layout_.state_frames();
}

result<std::shared_ptr<kv_block>> kv_block::make(block_pool& pool, kv_part part) {
    auto frames = pool.allocate(frames_of_block(pool.layout(), part));
    if (!frames) return frames.error();
    return std::shared_ptr<kv_block>(new kv_block(pool, part, std::move(*frames)));
}

result<std::vector<std::shared_ptr<kv_block>>> kv_block::make_many(block_pool& pool, kv_part part,
                                                                   std::size_t count) {
    const std::size_t each = frames_of_block(pool.layout(), part);
    auto frames = pool.allocate(count * each);
    if (!frames) return frames.error();
    std::vector<std::shared_ptr<kv_block>> blocks;
    blocks.reserve(count);
    for (std::size_t index = 0; index < count; ++index) {
        const auto first = frames->begin() + static_cast<std::ptrdiff_t>(index * each);
        std::vector<std::byte*> own(first, first + static_cast<std::ptrdiff_t>(each));
        blocks.push_back(std::shared_ptr<kv_block>(new kv_block(pool, part, std::move(own))));
    }
    return blocks;
}

kv_block::~kv_block() { pool_.release(frames_); }

void kv_block::copy_from(const kv_block& from, int tokens) {
    const kv_layout& layout = pool_.layout();
    ASSERT(from.part_ == part_ && from.frames_.size() == frames_.size());
    ASSERT(tokens >= 0 && tokens <= layout.block_tokens());
    for (const int layer : layout.layers(part_))
        for (const kv_region& region : layout.stored(layer))
            copy_region(region, layout.block_tokens(), tokens, from.frame(layer), frame(layer));
}

void kv_block::keep_wide(std::shared_ptr<const wide_tail> rows, int end) {
    ASSERT(pool_.layout().group_start(end) < end);
    wide_ = std::move(rows);
    wide_end_ = end;
}

std::size_t kv_block::frame_count() const noexcept {
    return frames_.size() + (wide_ == nullptr ? 0 : pool_.layout().wide_frames(part_));
}

kv_sequence::kv_sequence(block_pool& pool, std::vector<kv_block_parts> prefix, int tokens)
    : pool_(&pool),
      blocks_(std::move(prefix)),
      frames_(as_size(pool.layout().layer_count())),
      tokens_(tokens) {
    ASSERT(tokens >= 0);
    ASSERT(blocks_.size() == blocks_for(tokens, pool.layout().block_tokens()));
    for (const kv_block_parts& block : blocks_) ASSERT(block.full != nullptr);
    if (!take_wide_tail(tokens)) {
        tokens_ = pool.layout().group_start(tokens);
        blocks_.resize(blocks_for(tokens_, pool.layout().block_tokens()));
    }
    owned_from_ = blocks_.size();
    rebuild_frames(0);
    if (!pool.layout().slides()) return;
    kept_from_ = as_size(pool.layout().first_sliding_block(tokens));
    kept_from_when_shared_ = kept_from_;
    for (std::size_t i = kept_from_; i < blocks_.size(); ++i) ASSERT(blocks_[i].sliding != nullptr);
    release_behind_window();
}

/// Takes over the f16 rows of the group that `tokens` falls into from the last block of the prefix.
/// Returns: whether the sequence can continue there: the rows are there, or a group begins at
/// `tokens` and none are needed.
bool kv_sequence::take_wide_tail(int tokens) {
    const kv_layout& layout = pool_->layout();
    if (layout.group_start(tokens) == tokens) return true;
    const int in_block = tokens % layout.block_tokens();
    for (const kv_part part : kv_parts) {
        if (layout.layers(part).empty()) continue;
        const auto& block = blocks_.back().at(part);
        if (block == nullptr || block->wide() == nullptr || block->wide_end() < in_block ||
            layout.group_start(block->wide_end()) != layout.group_start(in_block)) {
            tail_ = {};
            return false;
        }
        // wide_is_shared_ keeps the sequence from writing these rows.
        tail_[static_cast<std::size_t>(part)] = std::const_pointer_cast<wide_tail>(block->wide());
    }
    wide_is_shared_ = true;
    return true;
}

wide_rows kv_sequence::rows_of(const wide_parts& parts, int layer) const {
    const bool slides = pool_->layout().layer(layer).window > 0;
    return parts[static_cast<std::size_t>(slides ? kv_part::sliding : kv_part::full)]->rows(layer);
}

/// Whether the sequence has f16 rows of its own for this group and the next one; true where the
/// recipe has none.
bool kv_sequence::may_write_wide() const noexcept {
    if (!pool_->layout().has_wide_tail()) return true;
    const auto all = [this](const wide_parts& parts) {
        return std::ranges::all_of(kv_parts, [&](kv_part part) {
            return pool_->layout().layers(part).empty() ||
                   parts[static_cast<std::size_t>(part)] != nullptr;
        });
    };
    return !wide_is_shared_ && all(tail_) && all(next_);
}

/// Takes memory for the f16 rows of one group, in every part that has layers.
result<kv_sequence::wide_parts> kv_sequence::make_wide() const {
    wide_parts made;
    for (const kv_part part : kv_parts) {
        if (pool_->layout().layers(part).empty()) continue;
        auto rows = wide_tail::make(*pool_, part);
        if (!rows) return rows.error();
        made[static_cast<std::size_t>(part)] = std::move(*rows);
    }
    return made;
}

/// Makes the f16 rows of the current group the sequence's own, by a copy where a block shares them,
/// and takes memory for those of the next group. Errors: pool_exhausted (nothing has changed).
result<void> kv_sequence::reserve_wide() {
    if (may_write_wide()) return {};
    auto own = make_wide();
    if (!own) return own.error();
    if (next_ == wide_parts()) {
        auto next = make_wide();
        if (!next) return next.error();
        next_ = std::move(*next);
    }
    for (const kv_part part : kv_parts) {
        const auto i = static_cast<std::size_t>(part);
        if (tail_[i] != nullptr) (*own)[i]->copy_from(*tail_[i]);
    }
    tail_ = std::move(*own);
    wide_is_shared_ = false;
    return {};
}

/// Attaches the f16 rows of the current group to the last block, if it ends inside a group, so that
/// another sequence can continue there. They are then shared and not written any more.
void kv_sequence::keep_wide_tail() {
    const kv_layout& layout = pool_->layout();
    if (layout.group_start(tokens_) == tokens_) return;
    const int in_block = tokens_ % layout.block_tokens();
    for (const kv_part part : kv_parts) {
        const auto& block = blocks_[as_size(tokens_ / layout.block_tokens())].at(part);
        // A part without layers has no rows to keep, and others may be reading its block.
        if (block == nullptr || block->wide() != nullptr || layout.layers(part).empty()) continue;
        const_cast<kv_block&>(*block).keep_wide(tail_[static_cast<std::size_t>(part)], in_block);
    }
    wide_is_shared_ = true;
}

bool kv_sequence::tail_is_shared() const noexcept {
    const int block_tokens = pool_->layout().block_tokens();
    return tokens_ % block_tokens != 0 && as_size(tokens_ / block_tokens) < owned_from_;
}

std::size_t kv_sequence::frame_count() const noexcept {
    std::size_t count = 0;
    for (const kv_part part : kv_parts) {
        for (const kv_block_parts& each : blocks_)
            if (const auto& block = each.at(part)) count += block->frame_count();
        const auto i = static_cast<std::size_t>(part);
        // Shared rows are counted with their block.
        if (tail_[i] != nullptr && !wide_is_shared_) count += pool_->layout().wide_frames(part);
        if (next_[i] != nullptr) count += pool_->layout().wide_frames(part);
    }
    return count;
}

int kv_sequence::reserved_tokens() const noexcept {
    if (tail_is_shared() || !may_write_wide()) return tokens_;
    return static_cast<int>(blocks_.size()) * pool_->layout().block_tokens();
}

result<void> kv_sequence::reserve(int tokens) {
    if (tokens <= reserved_tokens()) return {};
    const int block_tokens = pool_->layout().block_tokens();
    const bool copy_tail = tail_is_shared();
    const std::size_t needed = blocks_for(tokens, block_tokens);
    const std::size_t added = needed > blocks_.size() ? needed - blocks_.size() : 0;
    const std::size_t tail_block = as_size(tokens_ / block_tokens);
    std::vector<kv_block_parts> fresh(added + (copy_tail ? 1 : 0));
    for (const kv_part part : kv_parts) {
        if (part == kv_part::sliding && !pool_->layout().slides()) continue;
        auto made = kv_block::make_many(*pool_, part, fresh.size());
        if (!made) return made.error();
        if (copy_tail)
            made->back()->copy_from(*blocks_[tail_block].at(part), tokens_ % block_tokens);
        for (std::size_t i = 0; i < fresh.size(); ++i) fresh[i].at(part) = std::move((*made)[i]);
    }
    if (auto ok = reserve_wide(); !ok) return ok;

    std::size_t changed_from = blocks_.size();
    if (copy_tail) {
        // The last block of `fresh` was filled with the tail's rows.
        blocks_[tail_block] = std::move(fresh.back());
        fresh.pop_back();
        owned_from_ = tail_block;
        changed_from = tail_block;
    }
    for (auto& block : fresh) blocks_.push_back(std::move(block));
    rebuild_frames(changed_from);
    return {};
}

void kv_sequence::advance(int tokens) {
    ASSERT(tokens >= tokens_ && tokens <= reserved_tokens());
    const kv_layout& layout = pool_->layout();
    // The memory of the complete group is used again for the group after the current one.
    if (layout.group_start(tokens) != layout.group_start(tokens_)) std::swap(tail_, next_);
    tokens_ = tokens;
    if (!layout.slides()) return;
    // The window is counted from the last block boundary, not from `tokens`: share_whole_blocks()
    // shares up to that boundary and needs the window there.
    const int whole = tokens / layout.block_tokens() * layout.block_tokens();
    kept_from_ = std::max(kept_from_, as_size(layout.first_sliding_block(whole)));
    release_behind_window();
}

bool kv_sequence::drop_shared_tail() {
    if (!tail_is_shared()) return false;
    const kv_layout& layout = pool_->layout();
    std::size_t whole = as_size(tokens_ / layout.block_tokens());
    const int boundary = static_cast<int>(whole) * layout.block_tokens();
    if (layout.slides() && as_size(layout.first_sliding_block(boundary)) < released_to_) whole = 0;
    blocks_.resize(whole);
    *this = kv_sequence(*pool_, std::move(blocks_), whole == 0 ? 0 : boundary);
    return true;
}

std::vector<kv_block_parts> kv_sequence::share() {
    if (pool_->layout().has_wide_tail()) keep_wide_tail();
    return share_blocks(blocks_for(tokens_, pool_->layout().block_tokens()));
}

std::vector<kv_block_parts> kv_sequence::share_whole_blocks() {
    ASSERT(window_has_moved() || !pool_->layout().slides());
    return share_blocks(as_size(tokens_ / pool_->layout().block_tokens()));
}

/// Returns: the first `count` blocks, which the sequence does not write any more.
std::vector<kv_block_parts> kv_sequence::share_blocks(std::size_t count) {
    std::vector<kv_block_parts> shared(blocks_.begin(),
                                       blocks_.begin() + static_cast<std::ptrdiff_t>(count));
    owned_from_ = std::max(owned_from_, count);
    kept_from_when_shared_ = kept_from_;
    release_behind_window();
    return shared;
}

/// Drops the shared sliding blocks that lie before the window.
void kv_sequence::release_behind_window() {
    for (; released_to_ < std::min(kept_from_, owned_from_); ++released_to_) {
        blocks_[released_to_].sliding.reset();
        for (const int layer : pool_->layout().layers(kv_part::sliding))
            frames_[as_size(layer)][released_to_] = nullptr;
    }
}

/// Fills frames_ again from the block number `from_block` on.
void kv_sequence::rebuild_frames(std::size_t from_block) {
    for (const kv_part part : kv_parts)
        for (const int layer : pool_->layout().layers(part)) {
            auto& frames = frames_[as_size(layer)];
            frames.resize(from_block);
            // Shared frames are handed out too, for reading; only those from owned_from_ on are
            // written.
            for (std::size_t index = from_block; index < blocks_.size(); ++index) {
                const auto& block = blocks_[index].at(part);
                frames.push_back(block == nullptr ? nullptr
                                                  : const_cast<kv_block&>(*block).frame(layer));
            }
        }
}

}  // namespace semantic::storage
