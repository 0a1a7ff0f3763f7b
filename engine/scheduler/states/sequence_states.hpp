// SPDX-License-Identifier: Apache-2.0
#pragma once
// The recurrent states of one running sequence: the two that its steps read and write, and those
// that its memory keeps. Empty, and without cost, where the model has none. Owner: sequence.
// Thread: confined to the step node.

#include <cstddef>
#include <vector>

#include "engine/scheduler/policy/kept_places.hpp"
#include "storage/pool/recurrent_state.hpp"

namespace semantic::engine {

class sequence_states {
  public:
    /// Begins after `known` tokens with `start`, the state there. `kept`: places of the memory that
    /// it continues, ascending; those after `known` are left out. `planned`: places where it keeps
    /// more.
    sequence_states(storage::block_pool& pool, storage::recurrent_ptr start, int known,
                    const std::vector<storage::kept_state>& kept,
                    std::vector<planned_place> planned, const place_rules& rules);

    /// Takes memory for what the next step writes. Errors: pool_exhausted.
    storage::result<void> reserve() { return live_.reserve(); }
    const std::byte* current() const noexcept { return live_.current(); }
    std::byte* next() const noexcept { return live_.next(); }
    /// Says that a step has run the tokens up to `position`, and keeps the state where that is
    /// planned.
    void advance(int position);

    /// Returns: the place after `position` where a chunk has to end; 0: there is none.
    int next_place(int position) const { return place_behind(planned_, position); }

    /// Lets go of states that were kept on the way, of which the sequence itself needs none.
    /// Returns: whether there were any.
    bool drop_kept();
    /// Starts again at position 0.
    void reset();
    /// Goes on after `known` tokens with `start`, the state there, and with what the memory keeps
    /// that it is of, in place of its own.
    void go_on_from(storage::recurrent_ptr start, int known,
                    const std::vector<storage::kept_state>& kept);

    /// Says that of the new states the one at `position` is written before the turn's end.
    void write_early(int position) { early_ = position; }
    /// The states that a memory of the first `tokens` tokens keeps. `at_end`: the sequence ends
    /// there, and its current state is one of them; it is not written any more then. `goes_on`: a
    /// longer version of the memory follows. The new states wait for that version then, but one of
    /// a turn, and that one only where a step of the ladder was read: fewer tokens are soon read
    /// again after a crash.
    std::vector<storage::kept_state> publish(int tokens, bool at_end, bool goes_on);

  private:
    bool is_new(const storage::kept_state& each) const {
        return static_cast<int>(each.tokens) > began_at_;
    }
    void thin(std::vector<storage::kept_state>& states) const;

    storage::block_pool* pool_;
    storage::live_state live_;
    int began_at_;
    int turn_began_at_;  // tokens that were there when the turn began
    int early_ = 0;      // place of the new state that may be written before the turn's end
    std::vector<storage::kept_state> kept_;  // ascending
    std::vector<planned_place> planned_;
    place_rules rules_;
};

}  // namespace semantic::engine
