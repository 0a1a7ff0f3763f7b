#pragma once
// The heads of a recurrence over the pieces of a panel: which matrices are read and written, and
// how the work is split. Owner: a recurrent mixer. Thread: as there.

#include <cstddef>
#include <span>

#include "engine/model/mixers/recurrent_mixer.hpp"
#include "engine/model/pass/pass_context.hpp"

namespace semantic::engine {

/// A panel's vectors, row after row. Numbers are [rows, value_heads].
struct recurrence_rows {
    int begin = 0;                // the first one, of the step
    const float* keys = nullptr;  // of all key heads
    const float* queries = nullptr;
    const float* values = nullptr;  // of all value heads
    std::size_t key_stride = 0, value_stride = 0;
    const float* decays = nullptr;
    const float* rates = nullptr;  // of the delta rule
    float* out = nullptr;          // [rows, value_width], of the panel
};

class recurrence {
  public:
    using kernel = void (*)(const recurrent_head& head);
    /// `context` outlives it.
    recurrence(const pass_context& context, kernel head_kernel)
        : context_(context), shape_(context.config.recurrence), run_(head_kernel) {}

    void run(const state_region& region, std::span<const state_piece> pieces,
             const recurrence_rows& rows) const;

  private:
    void run_head(const state_region& region, const state_piece& piece, const recurrence_rows& rows,
                  int head) const;

    const pass_context& context_;
    const recurrence_config& shape_;
    const kernel run_;
};

}  // namespace semantic::engine
