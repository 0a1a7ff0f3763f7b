// SPDX-License-Identifier: Apache-2.0
#pragma once
// The scalar table's operations on keys and values, and what its two files share. Only these files
// include this. kernels.hpp states what each does.

#include "engine/kernels/kernels.hpp"

namespace semantic::engine::scalar {

float exp_one(float x);
/// Folds 16 lanes 8+8, 4+4, 2+2, 1+1 in place. Returns: their sum.
float fold(float* lanes);

void rotate(float* x, int dim);
void rotate_back(float* x, int dim);
void quantize_kv(const float* x, int dim, int bits, kv_rounding rounding, std::byte* row,
                 half* scales, half* biases);
void quantize_kv_shaped(const shaped_key* keys, int count, int dim, int bits);
void attend(const attention_block& block);
void merge_softmax(softmax_state& total, float* total_out, const softmax_state& from,
                   const float* from_out, int dim);
void finish_softmax(const softmax_state& state, float* out, int dim);

}  // namespace semantic::engine::scalar
