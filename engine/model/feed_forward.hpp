// SPDX-License-Identifier: Apache-2.0
#pragma once
// The feed-forward part of a layer: one MLP, or a mixture of experts, of which a router chooses a
// few for each row.
// Owner: transformer. Thread: run() is called by one thread at a time and uses the arena's threads.
//
// Exactness. Router, choice and weights are computed row by row. An expert gets the rows that chose
// it gathered into one matrix, whose products do not depend on each other; a row adds up its
// experts in ascending order of their numbers. So a row's bits depend neither on the other rows nor
// on the threads. Source: mixture of experts as in Switch, arXiv:2101.03961.

#include <span>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "engine/kernels/task_runner.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/weights/aligned_buffer.hpp"
#include "engine/model/weights/product_tape.hpp"
#include "engine/model/weights/weights.hpp"

namespace semantic::engine {

class feed_forward {
  public:
    /// `compensated`: the rounding of activations to 8 bits is compensated in every product, by
    /// multiplying the rounding error, too.
    feed_forward(const model_config& config, const kernel_table& kernels, const task_runner& tasks,
                 int rows_max, bool compensated);

    /// y = feed_forward(x); x is overwritten. Shape: x and y [count, hidden]. `tape`: records or
    /// replays the products of a layer without experts; may be null. Requires: count <= rows_max; x
    /// and y do not overlap.
    void run(const layer_weights& w, float* x, int count, float* y, product_tape* tape);

    // For models whose layers have an MLP and experts side by side, each of which reads another
    // norm of the same rows. Shapes and Requires as run().
    /// y = mlp(x); x is overwritten.
    void run_mlp(const layer_weights& w, float* x, int count, float* y) {
        run_dense(w.mlp, x, count, y, nullptr);
    }
    /// Lets the router choose each row's experts, for run_chosen().
    void choose_experts(const layer_weights& w, float* x, int count);
    /// y = the weighted sum of the chosen experts' outputs for x, which has as many rows.
    void run_chosen(const layer_weights& w, const float* x, int count, float* y);

  private:
    /// One row of a mixture that is routed to an expert.
    struct assignment {
        int row;
        float weight;
    };

    void run_dense(const gated_weights& w, float* x, int count, float* y, product_tape* tape);
    /// y = down(act(gate(x)) * up(x)). See the definition for `compensated`.
    void gated_mlp(const gated_weights& w, float* x, int count, bool compensated, float* y,
                   product_tape* tape);
    void quantization_error(const float* x, int n, float* error, float* scratch) const;
    void activate(float* gate, const float* up, std::size_t n) const;
    void run_mixture(const layer_weights& w, float* x, int count, float* y);
    int keep_best_groups(const float* scores);
    std::span<const int> choose(const float* scores);
    void add_chosen(const layer_weights& w, const float* x, float* y);
    void route(const float* scores, std::span<const float> shares, int row);
    void route_by_sigmoid(float* scores, std::span<const float> bias, int row);
    void run_shared(const layer_weights& w, float* x, int count, float* y);
    void run_expert(const gated_weights& w, const std::vector<assignment>& rows, const float* x,
                    float* y);

    const model_config& config_;
    const kernel_table& kernels_;
    const task_runner& tasks_;
    const bool compensated_;
    aligned_buffer<float> gate_up_;  // gate and up, [rows, intermediate] each
    aligned_buffer<float> linear_scratch_;
    // [2 * rows_max, hidden] if compensated: rows of x and of their errors, and the products.
    aligned_buffer<float> gathered_, outputs_;
    // For mixtures only.
    aligned_buffer<float> scores_;                   // [rows_max, experts], of the router
    std::vector<std::vector<assignment>> assigned_;  // by expert: the rows that chose it
    std::vector<int> order_;                         // [experts], best first; scratch of choose()
    std::vector<int> groups_;                        // [groups], likewise
    std::vector<float> weights_, choices_;           // [experts], scratch for one row's choice
    std::vector<float> shared_shares_;               // [rows_max], gates of the shared experts
};

}  // namespace semantic::engine
