// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes that the frames of one or several pools may take together: a pool gets frames as long
// as all pools together keep the budget, so that memory follows use. A free frame still takes
// memory, which goes back to the system when another pool needs it.
//
// Pools whose demand does not fit wait in a queue, so that a busy model cannot starve another one:
// bytes are kept free for the first pool of the queue. Where answers of two models have all of the
// budget and both need more, one of them has the turn to go on.
//
// Owner: its pools together. Thread: every method from any; nothing waits but for a short mutex.

#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

namespace semantic::storage {

class block_pool;

/// Is notified of room in a budget.
class room_listener {
  public:
    /// Called from any thread, under the budget's mutex: must not call a pool.
    virtual void notice_room() = 0;

  protected:
    ~room_listener() = default;
};

class pool_budget {
  public:
    explicit pool_budget(std::size_t bytes) : bytes_(bytes) {}
    pool_budget(const pool_budget&) = delete;
    pool_budget& operator=(const pool_budget&) = delete;

    std::size_t bytes() const noexcept { return bytes_; }
    /// Of the frames that are held.
    std::size_t held_bytes() const;
    /// Of the frames that take memory, held or not.
    std::size_t touched_bytes() const;

    /// Says whether what this pool's engine has under way will leave frames free in the end.
    void set_busy(const block_pool& pool, bool is_busy);
    /// Whether another pool's engine has.
    bool others_are_busy(const block_pool& pool) const;
    /// The listener is notified once when after wait() or want_word() another pool has left
    /// something free, has something to evict, or is no longer at work. Null: nobody listens.
    void set_listener(const block_pool& pool, room_listener* listener);
    /// Puts the pool in the line for so many frames, or changes how many; 0: takes it out.
    void wait(const block_pool& pool, std::size_t frames);
    /// Returns: frames of this pool that pools in front of it in the line, or any when it is not
    /// there, wait for.
    std::size_t frames_before(const block_pool& pool) const;
    /// Registers for one notification of the listener when other pools free bytes. Returns: true
    /// where the pool was not registered before, so that bytes may have become free since the
    /// caller last looked.
    bool want_word(const block_pool& pool);
    /// Says that memory which the pool holds may be evicted now.
    void tell_of_evictable(const block_pool& pool);
    /// Returns: whether the pool may go on where all pools are short of frames: until it is no
    /// longer busy or ends its turn nobody else may.
    bool take_turn(const block_pool& pool);
    bool has_turn(const block_pool& pool) const;
    /// Nothing where the pool has no turn.
    void end_turn(const block_pool& pool);
    bool is_turn_taken() const;

  private:
    friend class block_pool;
    struct member {
        block_pool* pool;
        bool is_busy = false;
        bool wants_word = false;
        room_listener* listener = nullptr;
    };
    struct place {
        const block_pool* pool;
        std::size_t bytes;
    };
    void join(block_pool& pool);
    void leave(block_pool& pool);
    member& member_of(const block_pool& pool);
    /// Requires: the mutex is held.
    void reclaim(block_pool& for_whom);
    void tell_of_room(const block_pool& from);

    const std::size_t bytes_;
    mutable std::mutex mutex_;  // guards everything below, and the pools
    std::vector<member> members_;
    std::vector<place> line_;
    const block_pool* turn_ = nullptr;
    std::size_t held_ = 0;
    std::size_t touched_ = 0;
};

}  // namespace semantic::storage
