// SPDX-License-Identifier: Apache-2.0
#pragma once
// The recurrent states of one running sequence: the two that a step reads and writes, and the kept
// ones, from which later prompts can continue. Empty, and without cost, if the model has no
// recurrent layers. Owner: sequence. Thread: confined to the step node.

#include <cstddef>
#include <vector>

#include "engine/scheduler/policy/kept_places.hpp"
#include "storage/pool/recurrent_state.hpp"

namespace semantic::engine {

class sequence_states {
  public:
    /// Begins after `known` tokens with `start`, the state there. `kept`: states of the memory that
    /// the sequence continues, ascending; those after `known` are left out. `planned`: positions at
    /// which the sequence keeps states of its own.
    sequence_states(storage::block_pool& pool, storage::recurrent_ptr start, int known,
                    const std::vector<storage::kept_state>& kept,
                    std::vector<planned_place> planned, const place_rules& rules);

    /// Takes memory for what the next step writes. Errors: pool_exhausted.
    storage::result<void> reserve() { return live_.reserve(); }
    /// The state that the next step reads; null at position 0.
    const std::byte* current() const noexcept { return live_.current(); }
    /// The memory that the next step writes its state to. Requires: reserve().
    std::byte* next() const noexcept { return live_.next(); }
    /// Makes the written state the current one, because a step has run the tokens up to `position`;
    /// keeps it if `position` is planned.
    void advance(int position);

    /// Returns: the place after `position` where a chunk has to end; 0: there is none.
    int next_place(int position) const { return place_behind(planned_, position); }

    /// Releases the states that this sequence has kept for later prompts, to free memory. Returns:
    /// whether there were any.
    bool drop_kept();
    /// Starts again at position 0.
    void reset();
    /// Continues after `known` tokens with `start`, the state there, which comes from a memory.
    /// `kept`: the states of that memory, which replace those of the sequence.
    void go_on_from(storage::recurrent_ptr start, int known,
                    const std::vector<storage::kept_state>& kept);

    /// Has the new state at `position` written to disk before the turn's end.
    void write_early(int position) { early_ = position; }
    /// Returns: the states that a memory of the first `tokens` tokens keeps. `at_end`: the sequence
    /// has just as many tokens, so its current state is included; it is not written to any more.
    /// `goes_on`: a longer version of the memory follows in this turn. Then the new states are
    /// marked to wait for that version before they go to disk, except for one a turn, once
    /// place_rules::ladder tokens were read: fewer are quickly computed again after a crash.
    std::vector<storage::kept_state> publish(int tokens, bool at_end, bool goes_on);

  private:
    bool is_new(const storage::kept_state& each) const {
        return static_cast<int>(each.tokens) > began_at_;
    }
    /// Removes the states that choose_places() does not keep.
    void thin(std::vector<storage::kept_state>& states) const;

    storage::block_pool* pool_;
    storage::live_state live_;
    int began_at_;       // position from which the sequence computes: states after it are its own
    int turn_began_at_;  // position at which the turn began
    int early_ = 0;      // place of the new state that is written before the turn's end; 0: none
    std::vector<storage::kept_state> kept_;  // ascending
    std::vector<planned_place> planned_;
    place_rules rules_;
};

}  // namespace semantic::engine
