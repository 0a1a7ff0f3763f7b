// SPDX-License-Identifier: Apache-2.0
#include "engine/model/mixers/short_convolution_mixer.hpp"

#include "storage/types/as_size.hpp"

namespace semantic::engine {

using storage::as_size;

short_convolution_mixer::short_convolution_mixer(const pass_context& context)
    : recurrent_mixer(context),
      convolution_(context),
      projected_(as_size(context.panel_rows) * 3 * as_size(context.config.hidden)),
      convolved_(as_size(context.panel_rows) * as_size(context.config.hidden)) {}

/// [before, after, u] = inputs x; mixed = after * convolution(before * u).
void short_convolution_mixer::run_panel(int layer, int begin, int end, float* mixed) {
    const layer_weights& w = context_.layer(layer);
    const int count = end - begin;
    const auto hidden = as_size(context_.config.hidden), stride = 3 * hidden;
    float* projected = projected_.data();
    const linear_job job = {&w.recurrent.inputs.matrix, projected, stride};
    context_.products.multiply_layer({&job, 1}, {},
                                     context_.stream.read_normed(begin, end, w.mixer_norm), count);
    context_.products.add_bias(w.recurrent.inputs, projected, count);
    context_.tasks.for_rows(0, count, context_.config.hidden, [&](int row) {
        float* x = projected + as_size(row) * stride;
        for (std::size_t i = 0; i < hidden; ++i) x[i] *= x[2 * hidden + i];
    });
    convolution_.run(layer, region(layer), pieces(),
                     {.data = projected, .begin = begin, .stride = stride},
                     convolution::activation::none, convolved_.data());
    context_.tasks.for_rows(0, count, context_.config.hidden, [&](int row) {
        const float* after = projected + as_size(row) * stride + hidden;
        const float* x = convolved_.data() + as_size(row) * hidden;
        float* out = mixed + as_size(begin + row) * hidden;
        for (std::size_t i = 0; i < hidden; ++i) out[i] = after[i] * x[i];
    });
}

void short_convolution_mixer::replay(int layer, const state_piece& piece) {
    convolution_.replay(layer, region(layer), piece);
}

}  // namespace semantic::engine
