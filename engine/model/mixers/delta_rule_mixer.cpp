// SPDX-License-Identifier: Apache-2.0
#include "engine/model/mixers/delta_rule_mixer.hpp"

#include <algorithm>
#include <cmath>

#include "engine/model/mixers/gates.hpp"
#include "engine/types/area.hpp"
#include "storage/types/as_size.hpp"

namespace semantic::engine {

using storage::as_size;

namespace {

/// Added under the root when keys and queries are normalised, as in the reference; the model's
/// other norms have another epsilon.
constexpr float length_eps = 1e-6f;

}  // namespace

delta_rule_mixer::delta_rule_mixer(const pass_context& context)
    : recurrent_mixer(context),
      shape_(context.config.recurrence),
      convolution_(context),
      recurrence_(context, context.kernels.delta_rule),
      key_scale_(as_size(shape_.key_dim), 1.0f / std::sqrt(static_cast<float>(shape_.key_dim))),
      query_scale_(as_size(shape_.key_dim), 1.0f / static_cast<float>(shape_.key_dim)),
      fused_(area(context.panel_rows, context.config.convolution.channels + shape_.value_width() +
                                          2 * shape_.value_heads)),
      columns_(area(context.panel_rows, context.config.convolution.channels)),
      convolved_(columns_.count()),
      gates_(area(context.panel_rows, shape_.value_width())),
      rates_(area(context.panel_rows, shape_.value_heads)),
      decays_(rates_.count()) {}

void delta_rule_mixer::run_panel(int layer, int begin, int end, float* mixed) {
    const layer_weights& w = context_.layer(layer);
    const int count = end - begin, channels = context_.config.convolution.channels;
    project(w, begin, end);
    convolution_.run(layer, region(layer), pieces(),
                     {.data = columns_.data(), .begin = begin, .stride = as_size(channels)},
                     convolution::activation::silu, convolved_.data());
    context_.tasks.for_rows(0, count, 4 * channels,
                            [&](int row) { prepare_row(w.recurrent, row); });
    // A row of convolved_ has queries, keys and values, in this order.
    const float* queries = convolved_.data();
    const float* keys = queries + shape_.key_width();
    float* out = mixed + area(begin, width());
    recurrence_.run(layer, region(layer), pieces(),
                    {.begin = begin,
                     .keys = keys,
                     .queries = queries,
                     .values = keys + shape_.key_width(),
                     .key_stride = as_size(channels),
                     .value_stride = as_size(channels),
                     .decays = decays_.data(),
                     .rates = rates_.data(),
                     .out = out});
    context_.tasks.for_rows(0, count, 4 * width(), [&](int row) {
        finish_row(w.recurrent, row, out + area(row, width()));
    });
}

void delta_rule_mixer::replay(int layer, const state_piece& piece) {
    convolution_.replay(layer, region(layer), piece);
    recurrence_.replay(layer, region(layer), piece);
}

void delta_rule_mixer::project(const layer_weights& w, int begin, int end) {
    const recurrent_weights& r = w.recurrent;
    const int count = end - begin;
    const auto channels = as_size(context_.config.convolution.channels),
               inner = as_size(shape_.value_width()), heads = as_size(shape_.value_heads);
    const bool inputs_fused = r.gate.matrix.rows == 0, numbers_fused = r.rates.matrix.rows == 0;
    float* fused_numbers = fused_.data() + as_size(context_.panel_rows) * (channels + inner);
    linear_job jobs[4];
    std::size_t job_count = 0;
    const auto add = [&](const linear_weights& weights, float* y, std::size_t width) {
        jobs[job_count++] = {.weights = &weights.matrix, .y = y, .ldy = width};
    };
    if (inputs_fused) {
        add(r.inputs, fused_.data(), channels + inner);
    } else {
        add(r.inputs, columns_.data(), channels);
        add(r.gate, gates_.data(), inner);
    }
    const std::size_t input_jobs = job_count;
    if (numbers_fused) {
        add(r.rates_and_steps, fused_numbers, 2 * heads);
    } else {
        add(r.rates, rates_.data(), heads);
        add(r.steps, decays_.data(), heads);
    }
    // Rounding of activations is compensated for rates and steps: a decay is an exponent and acts
    // on all later tokens, and these matrices are the smallest.
    context_.products.multiply_layer(std::span(jobs, job_count),
                                     std::span(jobs, job_count).subspan(input_jobs),
                                     context_.stream.read_normed(begin, end, w.mixer_norm), count);
    context_.tasks.for_rows(0, count, static_cast<int>(channels), [&](int row) {
        if (inputs_fused) split_inputs(fused_.data() + as_size(row) * (channels + inner), row);
        if (numbers_fused) split_numbers(fused_numbers + as_size(row) * 2 * heads, row);
    });
}

/// Reorders a row of the fused product: from query, key, values and gates of one key head after the
/// other, to all queries, then all keys, then all values in columns_, and the gates in gates_.
void delta_rule_mixer::split_inputs(const float* fused, int row) {
    const int key = shape_.key_dim, values = shape_.value_width() / shape_.key_heads;
    float* queries = columns_.data() + area(row, context_.config.convolution.channels);
    for (int head = 0; head < shape_.key_heads; ++head) {
        const auto take = [&](int elements, float* to) {
            std::copy_n(fused, elements, to + area(head, elements));
            fused += elements;
        };
        take(key, queries);
        take(key, queries + shape_.key_width());
        take(values, queries + 2 * shape_.key_width());
        take(values, gates_.data() + area(row, shape_.value_width()));
    }
}

/// Separates the fused projection of one row's numbers, in which the rates and steps of each key
/// head follow those of the one before, into rates_ and decays_.
void delta_rule_mixer::split_numbers(const float* fused, int row) {
    const int each = shape_.value_heads / shape_.key_heads;
    for (int head = 0; head < shape_.key_heads; ++head, fused += 2 * each) {
        const std::size_t at = area(row, shape_.value_heads) + area(head, each);
        std::copy_n(fused, each, rates_.data() + at);
        std::copy_n(fused + each, each, decays_.data() + at);
    }
}

/// Prepares a row for the kernel: normalises queries and keys, rates become sigmoids, steps become
/// decays.
void delta_rule_mixer::prepare_row(const recurrent_weights& w, int row) {
    const int dim = shape_.key_dim;
    const float eps = length_eps / static_cast<float>(dim);
    float* query = convolved_.data() + area(row, context_.config.convolution.channels);
    for (int head = 0; head < shape_.key_heads; ++head, query += dim) {
        float* key = query + shape_.key_width();
        context_.kernels.rms_norm(query, query_scale_.data(), query, dim, eps, false);
        context_.kernels.rms_norm(key, key_scale_.data(), key, dim, eps, false);
    }
    float* rates = rates_.data() + area(row, shape_.value_heads);
    float* decays = decays_.data() + area(row, shape_.value_heads);
    sigmoid(context_.kernels, rates, as_size(shape_.value_heads));
    for (std::size_t i = 0; i < as_size(shape_.value_heads); ++i)
        decays[i] = w.decay[i] * softplus(decays[i] + w.step_bias[i]);
    context_.kernels.exp(decays, decays, as_size(shape_.value_heads));
}

/// out = norm(out) * silu(gate), for each head of a row.
void delta_rule_mixer::finish_row(const recurrent_weights& w, int row, float* out) {
    for (int i = 0; i < width(); i += shape_.value_dim)
        context_.kernels.rms_norm(out + i, w.norm.data(), out + i, shape_.value_dim,
                                  context_.config.norm_eps, false);
    float* gate = gates_.data() + area(row, width());
    context_.kernels.silu_mul(gate, out, as_size(width()));
    std::copy_n(gate, width(), out);
}

}  // namespace semantic::engine
