// SPDX-License-Identifier: Apache-2.0
#pragma once
// The common part of the mixers of recurrent layers. Such a layer reads one state in place of the
// tokens before a row (model_config::state_regions), which a step takes from sequence_step::state
// and leaves in sequence_step::next_state. Owner: transformer. Thread: one at a time, which is in
// the arena.
//
// Exactness. Rows of a sequence are worked on in order, and each by the same operations whatever
// the other rows are: nothing goes from one row to a later one but f32 numbers that are in the
// state when a step ends there. So the bits do not depend on chunks, panels, batch mates and
// threads.
//
// Drafts. A state cannot be given up by length. So of sequences with drafts what a layer's
// recurrence and convolution read is recorded, and the state after fewer rows is made from that
// and the state before the step: the same operations on the same numbers, and no matrix of weights.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/model/pass/pass_context.hpp"

namespace semantic::engine {

/// Consecutive rows of one sequence inside a panel.
struct state_piece {
    int first = 0, count = 0;         // rows of the step
    const std::byte* from = nullptr;  // the state before them; null: of no tokens
    std::byte* to = nullptr;          // where the state after them goes; may be `from`
    int recorded = -1;  // of the rows of sequences with drafts the first of these; -1: it has none
};

class recurrent_mixer {
  public:
    /// Null where the model has no recurrent layer. `context` outlives it.
    static std::unique_ptr<recurrent_mixer> make(const pass_context& context);
    virtual ~recurrent_mixer() = default;
    /// What `draft_rows` recorded rows take in all layers; 0 where none is recurrent.
    static std::uint64_t record_bytes(const model_config& config, int draft_rows);

    /// `mixed` [rows, width()]: written, for all rows of the step. The layer's part of every
    /// sequence's next state is written too.
    void run(int layer, float* mixed);
    /// As transformer::rewind(), of the step that run() ran last, for all layers.
    void rewind(int index, int count);
    /// A row's width in the result.
    virtual int width() const = 0;

  protected:
    explicit recurrent_mixer(const pass_context& context);

    /// run() for the rows [begin, end), a panel of them.
    virtual void run_panel(int layer, int begin, int end, float* mixed) = 0;
    /// Writes the layer's part of the state after a piece whose rows are recorded.
    virtual void replay(int layer, const state_piece& piece) = 0;
    std::span<const state_piece> pieces() const noexcept { return pieces_; }
    const state_region& region(int layer) const {
        return regions_[static_cast<std::size_t>(layer)];
    }

    const pass_context& context_;

  private:
    void cut_into_pieces(int begin, int end);

    const std::vector<state_region> regions_;  // [layers]
    std::vector<state_piece> pieces_;          // of the panel
    int recorded_ = 0;                         // rows of the step so far
};

}  // namespace semantic::engine
