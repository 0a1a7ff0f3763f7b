// SPDX-License-Identifier: Apache-2.0
#pragma once
// The base class of the mixers of recurrent layers. Such a layer has one state of fixed size in
// place of K and V of all tokens (model_config::state_regions). A step reads it from
// sequence_step::state and writes it to sequence_step::next_state. Owner: transformer. Thread: one
// at a time, inside the arena.
//
// Exactness. The rows of a sequence are computed in order, each by the same operations whatever the
// other rows are; only f32 numbers that are part of the state go from one row to the next. So the
// bits do not depend on chunks, panels, other sequences and threads.
//
// Drafts. A state cannot be cut back to fewer tokens, as K and V can. So for sequences with drafts
// the inputs of each layer's recurrence and convolution are recorded. The state after fewer rows is
// computed again from these and from the state before the step, without reading any weights.

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
    const std::byte* from = nullptr;  // the state before them; null: there are no tokens before
    std::byte* to = nullptr;          // where the state after them is written; may be `from`
    int recorded = -1;  // index of its first row among recorded rows; -1: it has no drafts
};

class recurrent_mixer {
  public:
    /// The mixer for the model's kind of recurrent layers; null if it has none. `context` must
    /// outlive it.
    static std::unique_ptr<recurrent_mixer> make(const pass_context& context);
    virtual ~recurrent_mixer() = default;
    /// Bytes that `draft_rows` recorded rows take over all layers; 0 without recurrent layers.
    static std::uint64_t record_bytes(const model_config& config, int draft_rows);

    /// Runs the layer for all rows of the step: writes `mixed` [rows, width()], and the layer's
    /// part of each sequence's next_state.
    void run(int layer, float* mixed);
    /// As transformer::rewind(), for all layers of the step that run() ran last.
    void rewind(int index, int count);
    /// Numbers of a row in run()'s result.
    virtual int width() const = 0;

  protected:
    explicit recurrent_mixer(const pass_context& context);

    /// run() for one panel, the rows [begin, end).
    virtual void run_panel(int layer, int begin, int end, float* mixed) = 0;
    /// Writes the layer's part of the state after a piece, from its recorded rows.
    virtual void replay(int layer, const state_piece& piece) = 0;
    std::span<const state_piece> pieces() const noexcept { return pieces_; }
    const state_region& region(int layer) const {
        return regions_[static_cast<std::size_t>(layer)];
    }

    const pass_context& context_;

  private:
    /// Fills pieces_ for the panel [begin, end).
    void cut_into_pieces(int begin, int end);

    const std::vector<state_region> regions_;  // [layers]
    std::vector<state_piece> pieces_;          // of the panel
    int recorded_ = 0;                         // rows with drafts that were recorded in this step
};

}  // namespace semantic::engine
