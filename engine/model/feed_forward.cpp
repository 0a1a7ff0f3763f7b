// SPDX-License-Identifier: Apache-2.0
#include "engine/model/feed_forward.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>

#include "engine/kernels/gemm.hpp"
#include "engine/model/mixers/gates.hpp"
#include "engine/types/area.hpp"

namespace semantic::engine {

namespace {

/// Whether the matrices that read the layer's input are quantised, so that the input is rounded to
/// 8 bits. Matrices whose rows are no multiple of a block stay unquantised.
bool has_quantized_inputs(const gated_weights& w) {
    return (w.gate.matrix.rows == 0 || w.gate.matrix.quantized()) && w.up.matrix.quantized();
}

}  // namespace

feed_forward::feed_forward(const model_config& config, const kernel_table& kernels,
                           const task_runner& tasks, int rows_max, bool compensated)
    : config_(config), kernels_(kernels), tasks_(tasks), compensated_(compensated) {
    const mixture_config& mixture = config.mixture;
    const int inner =
        std::max({config.intermediate, mixture.intermediate, mixture.shared_intermediate});
    const int rows = compensated ? 2 * rows_max : rows_max;  // and their errors
    gate_up_ = aligned_buffer<float>(2 * area(rows, inner));
    linear_scratch_ =
        aligned_buffer<float>(linear_scratch_floats(rows, std::max(config.hidden, inner)));
    if (compensated) {
        gathered_ = aligned_buffer<float>(area(rows, config.hidden));
        outputs_ = aligned_buffer<float>(area(rows, config.hidden));
    }
    if (mixture.experts == 0) return;
    const auto experts = static_cast<std::size_t>(mixture.experts);
    scores_ = aligned_buffer<float>(area(rows_max, mixture.experts));
    shared_shares_.resize(static_cast<std::size_t>(rows_max));
    choices_.resize(experts);
    assigned_.resize(experts);
    for (auto& list : assigned_) list.reserve(static_cast<std::size_t>(rows_max));
    order_.resize(experts);
    groups_.resize(static_cast<std::size_t>(mixture.groups));
    weights_.resize(experts);
}

void feed_forward::run(const layer_weights& w, float* x, int count, float* y, product_tape* tape) {
    if (w.experts.empty()) {
        run_dense(w.mlp, x, count, y, tape);
    } else {
        run_mixture(w, x, count, y);
    }
}

/// Runs the MLP of a layer without experts, or that of the shared experts, which every row takes.
void feed_forward::run_dense(const gated_weights& w, float* x, int count, float* y,
                             product_tape* tape) {
    if (!compensated_) return gated_mlp(w, x, count, false, y, tape);
    const int hidden = config_.hidden;
    std::memcpy(gathered_.data(), x, area(count, hidden) * sizeof(float));
    // outputs_ is free until the product: it serves as scratch for the errors.
    if (has_quantized_inputs(w))
        tasks_.for_rows(0, count, 2 * hidden, [&](int i) {
            quantization_error(x + area(i, hidden), hidden,
                               gathered_.data() + area(count + i, hidden),
                               outputs_.data() + area(i, hidden));
        });
    gated_mlp(w, gathered_.data(), count, true, outputs_.data(), nullptr);
    std::memcpy(y, outputs_.data(), area(count, hidden) * sizeof(float));
}

/// y = down(act(gate(x)) * up(x)). `compensated`: x has 2 * count rows, the second half being the
/// quantisation errors of the first; their products are added where a matrix is quantised, and y
/// has 2 * count rows to work in. Requires: no tape if compensated.
void feed_forward::gated_mlp(const gated_weights& w, float* x, int count, bool compensated,
                             float* y, product_tape* tape) {
    const int inner = w.up.matrix.rows, hidden = config_.hidden;
    const bool corrects_inputs = compensated && has_quantized_inputs(w);
    const bool corrects_inner = compensated && w.down.matrix.quantized();
    const std::size_t width = area(1, inner);
    float* gate = gate_up_.data();
    float* up = gate + gate_up_.count() / 2;
    // Without a gate matrix the activation reads the product with `up`.
    const bool gated = w.gate.matrix.rows > 0;
    const linear_job both[] = {{&w.gate.matrix, gate, width}, {&w.up.matrix, up, width}};
    const linear_job alone = {&w.up.matrix, gate, width};
    const std::span<const linear_job> jobs = gated ? std::span(both) : std::span(&alone, 1);
    const linear_job down = {&w.down.matrix, y, area(1, hidden)};
    int first = tape != nullptr ? tape->take_input(tasks_, x, count, hidden) : 0;
    linear_from(kernels_, tasks_, jobs, x, first, corrects_inputs ? 2 * count : count, hidden,
                linear_scratch_.data());
    if (tape != nullptr) tape->take_outputs(tasks_, jobs, first, count);
    tasks_.for_rows(0, count, 8 * inner, [&](int row) {
        float* g = gate + area(row, inner);
        float* u = up + area(row, inner);
        if (corrects_inputs) {
            kernels_.add(g, g + area(count, inner), width);
            if (gated) kernels_.add(u, u + area(count, inner), width);
        }
        w.gate.add_bias(kernels_, g);
        w.up.add_bias(kernels_, gated ? u : g);
        activate(g, u, width);
        if (corrects_inner) quantization_error(g, inner, g + area(count, inner), u);
    });
    if (tape != nullptr) first = tape->take_input(tasks_, gate, count, inner);
    linear_from(kernels_, tasks_, {&down, 1}, gate, first, corrects_inner ? 2 * count : count,
                inner, linear_scratch_.data());
    if (tape != nullptr) tape->take_outputs(tasks_, {&down, 1}, first, count);
    tasks_.for_rows(0, count, 2 * hidden, [&](int row) {
        float* to = y + area(row, hidden);
        if (corrects_inner) kernels_.add(to, to + area(count, hidden), area(1, hidden));
        w.down.add_bias(kernels_, to);
    });
}

/// error = x - dequantise(quantise(x)), the error of rounding x to 8 bits. Shape: x, error and
/// scratch [n]. The scratch has the levels, of a byte each, then scales, then sums, which are not
/// used.
void feed_forward::quantization_error(const float* x, int n, float* error, float* scratch) const {
    auto* levels = reinterpret_cast<std::int8_t*>(scratch);
    float* scales = scratch + n / 4;
    kernels_.quantize_rows(x, 1, n, levels, scales, scales + n / group_size);
    for (int i = 0; i < n; ++i) {
        error[i] = x[i] - scales[i / group_size] * static_cast<float>(levels[i]);
    }
}

/// gate = act(gate) * up
void feed_forward::activate(float* gate, const float* up, std::size_t n) const {
    switch (config_.activation) {
        case activation_kind::silu:
            return kernels_.silu_mul(gate, up, n);
        case activation_kind::gelu_tanh:
            return kernels_.gelu_mul(gate, up, n);
        case activation_kind::swiglu_clamped:
            return kernels_.swiglu_clamped(gate, up, n, config_.activation_alpha,
                                           config_.activation_limit);
        case activation_kind::relu_squared:
            for (std::size_t i = 0; i < n; ++i) {
                const float positive = std::max(gate[i], 0.0f);
                gate[i] = positive * positive;
            }
            return;
    }
}

void feed_forward::choose_experts(const layer_weights& w, float* x, int count) {
    const int experts = config_.mixture.experts;
    linear(kernels_, tasks_, w.router.matrix, x, count, scores_.data(),
           static_cast<std::size_t>(experts), linear_scratch_.data());
    for (auto& rows : assigned_) rows.clear();
    // Row by row, see Exactness.
    for (int row = 0; row < count; ++row) {
        float* scores = scores_.data() + area(row, experts);
        w.router.add_bias(kernels_, scores);
        if (config_.mixture.sigmoid) {
            route_by_sigmoid(scores, w.choice_bias, row);
        } else {
            route(scores, w.norms.expert_scales, row);
        }
    }
}

void feed_forward::run_chosen(const layer_weights& w, const float* x, int count, float* y) {
    std::fill_n(y, area(count, config_.hidden), 0.0f);
    add_chosen(w, x, y);
}

/// y = Σ weight_e * expert_e(x) over the chosen experts, plus the shared experts where there are.
void feed_forward::run_mixture(const layer_weights& w, float* x, int count, float* y) {
    choose_experts(w, x, count);
    if (w.mlp.up.matrix.rows > 0) {
        run_shared(w, x, count, y);
    } else {
        std::fill_n(y, area(count, config_.hidden), 0.0f);
    }
    add_chosen(w, x, y);
}

/// Adds the chosen experts' outputs to y, in ascending order of experts (see Exactness).
void feed_forward::add_chosen(const layer_weights& w, const float* x, float* y) {
    for (int expert = 0; expert < config_.mixture.experts; ++expert) {
        const auto& rows = assigned_[static_cast<std::size_t>(expert)];
        if (!rows.empty()) run_expert(w.experts[static_cast<std::size_t>(expert)], rows, x, y);
    }
}

/// y = the shared experts' output, which every row gets, multiplied by its gate if there is one.
void feed_forward::run_shared(const layer_weights& w, float* x, int count, float* y) {
    const int hidden = config_.hidden;
    const bool gated = w.shared_gate.matrix.rows > 0;
    if (gated) {
        linear(kernels_, tasks_, w.shared_gate.matrix, x, count, shared_shares_.data(), 1,
               linear_scratch_.data());
        sigmoid(kernels_, shared_shares_.data(), static_cast<std::size_t>(count));
    }
    run_dense(w.mlp, x, count, y, nullptr);
    if (!gated) return;
    tasks_.for_rows(0, count, hidden, [&](int row) {
        float* to = y + area(row, hidden);
        for (int i = 0; i < hidden; ++i) to[i] *= shared_shares_[static_cast<std::size_t>(row)];
    });
}

/// Fills order_ with the experts of the best groups: those with the highest best score, or, for
/// sigmoid scores, with the highest sum of the two best; ties go to the lower number. Returns: how
/// many experts these are.
int feed_forward::keep_best_groups(const float* scores) {
    const mixture_config& mixture = config_.mixture;
    const int each = mixture.experts / mixture.groups;
    const auto best = [&](int group) {
        const float* first = scores + group * each;
        const float* highest = std::max_element(first, first + each);
        if (!mixture.sigmoid || each == 1) return *highest;
        float second = -std::numeric_limits<float>::infinity();
        for (const float* at = first; at < first + each; ++at)
            if (at != highest) second = std::max(second, *at);
        return *highest + second;
    };
    std::iota(groups_.begin(), groups_.end(), 0);
    std::partial_sort(groups_.begin(), groups_.begin() + mixture.groups_per_token, groups_.end(),
                      [&](int a, int b) { return best(a) != best(b) ? best(a) > best(b) : a < b; });
    for (int i = 0; i < mixture.groups_per_token; ++i) {
        const auto first = order_.begin() + i * each;
        std::iota(first, first + each, groups_[static_cast<std::size_t>(i)] * each);
    }
    return mixture.groups_per_token * each;
}

/// Returns: the experts with the highest scores, ties to the lower number; valid until the next
/// call.
std::span<const int> feed_forward::choose(const float* scores) {
    const mixture_config& mixture = config_.mixture;
    int eligible = mixture.experts;
    if (mixture.groups > 1) {
        eligible = keep_best_groups(scores);
    } else {
        std::iota(order_.begin(), order_.end(), 0);
    }
    std::partial_sort(
        order_.begin(), order_.begin() + mixture.per_token, order_.begin() + eligible,
        [&](int a, int b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
    return {order_.data(), static_cast<std::size_t>(mixture.per_token)};
}

/// Assigns `row` to the experts with the highest sigmoid(score) + bias. An expert's weight is its
/// sigmoid, divided by the sum over the chosen ones if the model normalises.
void feed_forward::route_by_sigmoid(float* scores, std::span<const float> bias, int row) {
    const mixture_config& mixture = config_.mixture;
    const auto experts = static_cast<std::size_t>(mixture.experts);
    sigmoid(kernels_, scores, experts);
    for (std::size_t i = 0; i < experts; ++i)
        choices_[i] = scores[i] + (bias.empty() ? 0.0f : bias[i]);
    const std::span<const int> chosen = choose(choices_.data());
    float sum = mixture.norm_epsilon;
    for (const int expert : chosen) sum += scores[expert];
    for (const int expert : chosen) {
        const float weight = mixture.normalised ? scores[expert] / sum : scores[expert];
        assigned_[static_cast<std::size_t>(expert)].push_back({row, weight * mixture.scale});
    }
}

/// Assigns `row` to the experts with the highest scores. An expert's weight is its softmax over the
/// chosen experts or, for models trained so, over all. `shares`: a factor for each expert's weight;
/// may be empty.
void feed_forward::route(const float* scores, std::span<const float> shares, int row) {
    const mixture_config& mixture = config_.mixture;
    const std::span<const int> chosen = choose(scores);
    const float highest = scores[chosen[0]];
    // Without softmax_over_all the experts that are not chosen get exp(-infinity), which is 0.
    for (int expert = 0; expert < mixture.experts; ++expert) {
        weights_[static_cast<std::size_t>(expert)] = mixture.softmax_over_all
                                                         ? scores[expert] - highest
                                                         : -std::numeric_limits<float>::infinity();
    }
    for (const int expert : chosen)
        weights_[static_cast<std::size_t>(expert)] = scores[expert] - highest;
    kernels_.exp(weights_.data(), weights_.data(), weights_.size());
    const float sum = std::accumulate(weights_.begin(), weights_.end(), 0.0f);
    for (const int expert : chosen) {
        const auto at = static_cast<std::size_t>(expert);
        const float share = shares.empty() ? mixture.scale : shares[at];
        assigned_[at].push_back({row, weights_[at] / sum * share});
    }
}

/// Adds to y the weighted output of one expert for the rows that chose it. The rounding of its
/// inputs is compensated: a small error of the residual stream could make a later router choose
/// other experts.
void feed_forward::run_expert(const gated_weights& w, const std::vector<assignment>& rows,
                              const float* x, float* y) {
    const int count = static_cast<int>(rows.size()), hidden = config_.hidden;
    const std::size_t width = area(1, hidden);
    const bool corrects_inputs = has_quantized_inputs(w);
    tasks_.for_rows(0, count, 2 * hidden, [&](int i) {
        float* to = gathered_.data() + area(i, hidden);
        std::memcpy(to, x + area(rows[static_cast<std::size_t>(i)].row, hidden),
                    width * sizeof(float));
        if (corrects_inputs) {
            quantization_error(to, hidden, to + area(count, hidden),
                               outputs_.data() + area(i, hidden));
        }
    });
    gated_mlp(w, gathered_.data(), count, true, outputs_.data(), nullptr);
    tasks_.for_rows(0, count, hidden, [&](int i) {
        const assignment& to = rows[static_cast<std::size_t>(i)];
        const float* output = outputs_.data() + area(i, hidden);
        float* sum = y + area(to.row, hidden);
        for (std::size_t j = 0; j < width; ++j) sum[j] += to.weight * output[j];
    });
}

}  // namespace semantic::engine
