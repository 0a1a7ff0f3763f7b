#include "engine/model/mixers/recurrent_mixer.hpp"

#include <algorithm>

#include "engine/model/mixers/delta_rule_mixer.hpp"
#include "engine/model/mixers/short_convolution_mixer.hpp"
#include "engine/model/mixers/state_space_mixer.hpp"
#include "storage/types/as_size.hpp"
#include "storage/types/assert.hpp"

namespace semantic::engine {

std::unique_ptr<recurrent_mixer> recurrent_mixer::make(const pass_context& context) {
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

recurrent_mixer::recurrent_mixer(const pass_context& context)
    : context_(context), regions_(context.config.state_regions()) {
    pieces_.reserve(storage::as_size(context.panel_rows));
}

void recurrent_mixer::run(int layer, float* mixed) {
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
        const bool begins = first == part.first_row;
        pieces_.push_back(
            {first, last - first, begins ? part.state : part.next_state, part.next_state});
    }
}

}  // namespace semantic::engine
