#pragma once
// What the mixers of recurrent layers have in common. Such a layer reads of the tokens before a row
// one state alone (model_config::state_regions), which a step takes from sequence_step::state and
// leaves in sequence_step::next_state.
// Owner: transformer. Thread: one at a time, which is in the arena.
//
// Exactness. Rows of a sequence are worked on in order, and each by the same operations whatever
// stands beside it: nothing goes from one row to a later one but f32 numbers that are in the state
// when a step ends there. So chunks, panels, batch mates and threads cannot be told from the bits.

#include <cstddef>
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
};

class recurrent_mixer {
  public:
    /// Null where the model has no recurrent layer. `context` outlives it.
    static std::unique_ptr<recurrent_mixer> make(const pass_context& context);
    virtual ~recurrent_mixer() = default;

    /// `mixed` [rows, width()]: written, for all rows of the step. The layer's part of every
    /// sequence's next state is written too.
    void run(int layer, float* mixed);
    /// A row's width in the result.
    virtual int width() const = 0;

  protected:
    explicit recurrent_mixer(const pass_context& context);

    /// run() for the rows [begin, end), a panel of them.
    virtual void run_panel(int layer, int begin, int end, float* mixed) = 0;
    std::span<const state_piece> pieces() const noexcept { return pieces_; }
    const state_region& region(int layer) const {
        return regions_[static_cast<std::size_t>(layer)];
    }

    const pass_context& context_;

  private:
    void cut_into_pieces(int begin, int end);

    const std::vector<state_region> regions_;  // [layers]
    std::vector<state_piece> pieces_;          // of the panel
};

}  // namespace semantic::engine
