// SPDX-License-Identifier: Apache-2.0
#include "engine/model/mixers/recurrent_mixer.hpp"

#include <algorithm>

#include "engine/model/mixers/delta_rule_mixer.hpp"
#include "engine/model/mixers/short_convolution_mixer.hpp"
#include "engine/model/mixers/state_space_mixer.hpp"
#include "storage/types/as_size.hpp"
#include "storage/types/assert.hpp"

namespace semantic::engine {

std::unique_ptr<recurrent_mixer> recurrent_mixer::make(const pass_context& context) {
    // A model has one kind of recurrent layers: the first one decides.
    for (const layer_config& layer : context.config.layers) {
        switch (layer.mixer) {
            case mixer_kind::delta_rule:
                return std::make_unique<delta_rule_mixer>(context);
            case mixer_kind::state_space:
                return std::make_unique<state_space_mixer>(context);
            case mixer_kind::short_convolution:
                return std::make_unique<short_convolution_mixer>(context);
            case mixer_kind::attention:
            case mixer_kind::none:
                break;
        }
    }
    return nullptr;
}

std::uint64_t recurrent_mixer::record_bytes(const model_config& config, int draft_rows) {
    const recurrence_config& shape = config.recurrence;
    std::uint64_t floats = 0;
    for (const layer_config& layer : config.layers) {
        if (!is_recurrent(layer.mixer)) continue;
        floats += storage::as_size(config.convolution.channels);
        if (layer.mixer != mixer_kind::short_convolution)
            floats += storage::as_size(2 * shape.key_width() + shape.value_width() +
                                       2 * shape.value_heads);
    }
    if (floats > 0) floats += storage::as_size(shape.value_width());  // what replayed rows give
    return floats * sizeof(float) * storage::as_size(draft_rows);
}

recurrent_mixer::recurrent_mixer(const pass_context& context)
    : context_(context), regions_(context.config.state_regions()) {
    pieces_.reserve(storage::as_size(context.panel_rows));
}

void recurrent_mixer::run(int layer, float* mixed) {
    recorded_ = 0;  // each layer has a record of its own
    for (int begin = 0; begin < context_.rows.count(); begin += context_.panel_rows) {
        const int end = std::min(begin + context_.panel_rows, context_.rows.count());
        cut_into_pieces(begin, end);
        run_panel(layer, begin, end, mixed);
    }
}

void recurrent_mixer::cut_into_pieces(int begin, int end) {
    pieces_.clear();
    for (int first = begin, last = begin; first < end; first = last) {
        const step_part& part = context_.rows.part(first);
        while (last < end && &context_.rows.part(last) == &part) ++last;
        ASSERT(part.next_state != nullptr && part.next_state != part.state);
        ASSERT(part.state != nullptr || part.first == 0);
        // In a later panel the sequence continues from the state that the earlier one has written.
        const bool begins = first == part.first_row;
        pieces_.push_back(
            {first, last - first, begins ? part.state : part.next_state, part.next_state});
        if (part.drafts == 0) continue;
        pieces_.back().recorded = recorded_;
        recorded_ += last - first;
        ASSERT(recorded_ <= context_.draft_rows_max);
    }
}

void recurrent_mixer::rewind(int index, int count) {
    const auto sequences = context_.rows.sequences();
    int recorded = 0;
    for (const step_part& before : sequences.first(storage::as_size(index)))
        if (before.drafts > 0) recorded += before.end - before.first;
    const step_part& part = sequences[storage::as_size(index)];
    const int all = part.end - part.first;
    ASSERT(part.drafts > 0 && count >= all - part.drafts && count <= all);
    // 0: a replay finds the rows by `recorded`.
    const state_piece piece{0, count, part.state, part.next_state, recorded};
    for (int layer = 0; layer < static_cast<int>(context_.config.layers.size()); ++layer)
        if (is_recurrent(context_.kind(layer).mixer)) replay(layer, piece);
}

}  // namespace semantic::engine
