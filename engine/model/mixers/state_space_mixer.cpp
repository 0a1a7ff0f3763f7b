// SPDX-License-Identifier: Apache-2.0
#include "engine/model/mixers/state_space_mixer.hpp"

#include <algorithm>

#include "engine/model/mixers/gates.hpp"
#include "engine/types/area.hpp"
#include "storage/types/as_size.hpp"

namespace semantic::engine {

using storage::as_size;

state_space_mixer::state_space_mixer(const pass_context& context)
    : recurrent_mixer(context),
      shape_(context.config.recurrence),
      channels_(context.config.convolution.channels),
      inputs_(shape_.value_width() + channels_ + shape_.value_heads),
      convolution_(context),
      recurrence_(context, context.kernels.state_space),
      projected_(area(context.panel_rows, inputs_)),
      convolved_(area(context.panel_rows, channels_)),
      values_(area(context.panel_rows, shape_.value_width())),
      decays_(area(context.panel_rows, shape_.value_heads)) {}

// A row of projected_ is, in the file's order, a gate for each value [width], the columns of the
// convolution [channels] and a step for each head [value_heads]. The columns are values [width],
// keys and queries [key_width] each; the state-space model's papers call these x, B and C.
void state_space_mixer::run_panel(int layer, int begin, int end, float* mixed) {
    const layer_weights& w = context_.layer(layer);
    const int count = end - begin;
    const linear_job inputs = {
        .weights = &w.recurrent.inputs.matrix, .y = projected_.data(), .ldy = as_size(inputs_)};
    context_.products.multiply_layer({&inputs, 1}, {},
                                     context_.stream.read_normed(begin, end, w.mixer_norm), count);
    context_.products.add_bias(w.recurrent.inputs, projected_.data(), count);
    convolution_.run(
        layer, region(layer), pieces(),
        {.data = projected_.data() + width(), .begin = begin, .stride = as_size(inputs_)},
        convolution::activation::silu, convolved_.data());
    context_.tasks.for_rows(0, count, 2 * width(), [&](int row) { prepare_row(w.recurrent, row); });
    const float* keys = convolved_.data() + width();
    float* out = mixed + area(begin, width());
    recurrence_.run(layer, region(layer), pieces(),
                    {.begin = begin,
                     .keys = keys,
                     .queries = keys + shape_.key_width(),
                     .values = values_.data(),
                     .key_stride = as_size(channels_),
                     .value_stride = as_size(width()),
                     .decays = decays_.data(),
                     .rates = nullptr,
                     .out = out});
    context_.tasks.for_rows(0, count, 4 * width(), [&](int row) {
        finish_row(w.recurrent, row, out + area(row, width()));
    });
}

void state_space_mixer::replay(int layer, const state_piece& piece) {
    convolution_.replay(layer, region(layer), piece);
    recurrence_.replay(layer, region(layer), piece);
}

/// Fills values_ and decays_ of a row: each head's values multiplied by its step, and exp(decay *
/// step). The step is softplus(input + bias), within the model's bounds.
void state_space_mixer::prepare_row(const recurrent_weights& w, int row) {
    const float* steps = projected_.data() + area(row, inputs_) + width() + channels_;
    const float* x = convolved_.data() + area(row, channels_);
    float* decays = decays_.data() + area(row, shape_.value_heads);
    float* values = values_.data() + area(row, width());
    for (int head = 0; head < shape_.value_heads; ++head) {
        const auto i = as_size(head);
        float step = softplus(steps[i] + w.step_bias[i]);
        // Without an upper bound (0) only the lower one counts.
        if (shape_.step_max > 0.0f) step = std::clamp(step, shape_.step_min, shape_.step_max);
        step = std::max(step, shape_.step_min);
        decays[i] = w.decay[i] * step;
        for (int k = 0; k < shape_.value_dim; ++k) *values++ = step * *x++;
    }
    context_.kernels.exp(decays, decays, as_size(shape_.value_heads));
}

/// out = norm((out + skip * x) * silu(gate)) for a row; the norm is over the heads that share a key
/// head.
void state_space_mixer::finish_row(const recurrent_weights& w, int row, float* out) {
    float* gate = projected_.data() + area(row, inputs_);
    const float* x = convolved_.data() + area(row, channels_);
    for (int i = 0; i < width(); ++i) out[i] += w.skip[as_size(i / shape_.value_dim)] * x[i];
    context_.kernels.silu_mul(gate, out, as_size(width()));
    const int group = width() / shape_.key_heads;
    for (int i = 0; i < width(); i += group)
        context_.kernels.rms_norm(gate + i, w.norm.data() + i, out + i, group,
                                  context_.config.norm_eps, false);
}

}  // namespace semantic::engine
