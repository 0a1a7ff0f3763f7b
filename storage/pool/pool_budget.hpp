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

/// Is notified when bytes of a budget become free.
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
    /// Bytes of the frames that pools hold.
    std::size_t held_bytes() const;
    /// Bytes of the frames that take memory of the machine, held or free.
    std::size_t touched_bytes() const;

    /// Notes whether the pool's engine has requests under way, which will free frames when they
    /// end.
    void set_busy(const block_pool& pool, bool is_busy);
    /// Whether the engine of another pool has requests under way.
    bool others_are_busy(const block_pool& pool) const;
    /// Sets who is notified, once after each wait() or want_word(), when another pool has freed
    /// bytes, has memory to evict, or has no request under way any more. Null: nobody.
    void set_listener(const block_pool& pool, room_listener* listener);
    /// Puts the pool into the queue for `frames` frames, or changes their number; 0 takes it out of
    /// the queue.
    void wait(const block_pool& pool, std::size_t frames);
    /// Returns: the frames, in units of this pool, that the pools before it in the queue wait for;
    /// all that wait, where this pool is not in the queue.
    std::size_t frames_before(const block_pool& pool) const;
    /// Registers for one notification of the listener when other pools free bytes. Returns: true
    /// where the pool was not registered before, so that bytes may have become free since the
    /// caller last looked.
    bool want_word(const block_pool& pool);
    /// Notifies other pools that this pool holds memory which may be evicted now.
    void tell_of_evictable(const block_pool& pool);
    /// Where all pools are short of frames, one of them gets the turn and may continue alone, until
    /// it is not busy any more or ends its turn. Returns: whether this pool has the turn now.
    bool take_turn(const block_pool& pool);
    bool has_turn(const block_pool& pool) const;
    /// Ends the pool's turn; does nothing where it has none.
    void end_turn(const block_pool& pool);
    bool is_turn_taken() const;

  private:
    friend class block_pool;
    struct member {
        block_pool* pool;
        // As set_busy() has it; `wants_word`: registered for one notification of `listener`.
        bool is_busy = false;
        bool wants_word = false;
        room_listener* listener = nullptr;
    };
    /// A pool in the queue and the bytes that it waits for.
    struct place {
        const block_pool* pool;
        std::size_t bytes;
    };
    /// A pool joins in its constructor and leaves in its destructor. leave() requires: the pool
    /// holds no frames and has given back the memory of all that it touched.
    void join(block_pool& pool);
    void leave(block_pool& pool);
    member& member_of(const block_pool& pool);
    /// Returns memory of free frames to the system until the budget is kept, first those of pools
    /// other than `keeper`. Requires: the mutex is held.
    void reclaim(block_pool& keeper);
    /// Notifies the listeners of all pools but `from` that are registered. Requires: likewise.
    void tell_of_room(const block_pool& from);

    const std::size_t bytes_;
    mutable std::mutex mutex_;  // guards everything below, and the pools
    std::vector<member> members_;
    // The queue, in the order of arrival, each pool at most once.
    std::vector<place> line_;
    // The pool that may continue alone (take_turn()); null: none.
    const block_pool* turn_ = nullptr;
    // Bytes of held frames and recurrent states; `touched_`: bytes that take memory of the machine.
    std::size_t held_ = 0;
    std::size_t touched_ = 0;
};

}  // namespace semantic::storage
