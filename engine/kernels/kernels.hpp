// SPDX-License-Identifier: Apache-2.0
#pragma once
// The table of numeric kernels: one entry per operation, one table per instruction set, chosen
// once.
//
// Exactness. Every kernel fixes the order of its floating-point operations by position and shape
// alone, and every table (scalar, avx2, avxvnni, avx512) performs the same operations in the same
// order with explicit fused multiply-adds, so all tables give the same bits and a row's result
// never depends on how many other rows or threads ran with it. scalar is the definition. `lane
// order` of a sum over n elements: 16 partial sums, lane i takes elements i, i+16, ... in order;
// then lanes fold 8+8, 4+4, 2+2, 1+1 (lane i += lane i+half). Missing elements count as absent, not
// as zero. Inputs are finite unless a comment says otherwise. Thread: pure functions; callers split
// the work (gemm.hpp). Nothing here allocates.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace semantic::engine {

using half = std::uint16_t;  // IEEE binary16 bits
using bfloat = std::uint16_t;

inline constexpr int lane_count = 16;  // output rows of a weight tile
inline constexpr int group_size = 64;  // inputs that share a scale and a bias

/// q8 and q4 are MLX's affine forms; the last twelve hold GGUF's types of the same names.
enum class weight_kind {
    f32,
    f16,
    bf16,
    q8,
    q4,
    mxfp4,
    q4_0,
    q4_1,
    q5_0,
    q5_1,
    q8_0,
    iq4_nl,
    iq4_xs,
    q2_k,
    q3_k,
    q4_k,
    q5_k,
    q6_k,
};

/// How the scales and biases of a q8 or q4 matrix are stored: as the model published them, so that
/// packing never rounds.
enum class scale_kind { f16, bf16, f32 };

/// A weight matrix W [rows, cols] packed for kernels: tiles of 16 rows, each tile one contiguous
/// run over cols, so that one row (decode) and many rows (prefill) of activations read the same
/// copy. rows are padded with zeros to a multiple of 16.
///  f32/f16/bf16: tile = [cols][16] elements.
///  q8: tile = [cols/64] records of { scale[16]; bias[16]; u8 q[16 quads][16 rows][4] }
///  q4: tile = [cols/64] records of { scale[16]; bias[16]; u8 q[8][16 rows][4] }
///      byte (j, r, i) keeps element 4*j+i of the group in its low nibble, 32+4*j+i in its high
///      one.
///  w = scale * q + bias. A record is 64 (f16, bf16) or 128 (f32) bytes longer than its q.
///  mxfp4: tile = [cols/64] records of { u8 exponent[2][16]; u8 q[2][4 quads][16 rows][4] }
///      in each half of 32 inputs, byte (j, r, i) keeps the code of element 4*j+i in its low
///      nibble, of 16+4*j+i in its high one. w = 2^(exponent - 127) * e2m1(code), where e2m1 of the
///      codes 0 to 7 is 0, 0.5, 1, 1.5, 2, 3, 4, 6, and of 8 to 15 the same negated. Exponent 255
///      (NaN in the format) gives products that are not finite.
///  GGUF's types: block_forms.hpp has their records.
struct packed_matrix {
    weight_kind kind = weight_kind::f32;
    scale_kind scales = scale_kind::f16;  // of q8 and q4
    int rows = 0;
    int cols = 0;                     // multiple of 64 if quantized(), of record_inputs()
    const std::byte* data = nullptr;  // 64-byte aligned; owned by the weights object
    /// Whether the kernels read quantised activations: all but f32, f16 and bf16.
    bool quantized() const noexcept {
        return kind != weight_kind::f32 && kind != weight_kind::f16 && kind != weight_kind::bf16;
    }
    /// Inputs of one record of a tile: 64, or 256 where the type's scales have a scale of their
    /// own. Requires: quantized().
    int record_inputs() const noexcept;
    /// Bytes of one record of a tile. Requires: quantized().
    std::size_t record_bytes() const noexcept;
    std::size_t tile_bytes() const noexcept;
    int tiles() const noexcept { return (rows + lane_count - 1) / lane_count; }
    std::size_t bytes() const noexcept { return tile_bytes() * static_cast<std::size_t>(tiles()); }
};

/// Activations as the integer kernels read them, quantised per row and group of 64:
/// scale = max|x| / 127 (1 when max|x| < 1e-30, where 1 / scale could overflow),
/// q = round-half-even(x * (1 / scale)), sum = scale * float(Σ q).
struct quantized_rows {
    const std::int8_t* q = nullptr;  // [count, cols]
    const float* scales = nullptr;   // [count, cols/64]
    const float* sums = nullptr;     // [count, cols/64]
    /// [count, cols/16]: Σ q of 16 inputs each. Used for GGUF's types alone.
    const std::int16_t* part_sums = nullptr;
};

/// One KV head's K or V rows inside a frame (storage::kv_layout gives the offsets): the first `dim`
/// elements of rows that may be longer, so that the values of latent attention can be the first
/// elements of its keys. A row at 16 bit is f16; below, each group of 64 elements has 8 * bits
/// bytes:
///  8: byte i is element i.
///  4: byte i keeps element 2 * i in its low nibble, 2 * i + 1 in its high one.
///  5, 6: 32 bytes with the low nibbles as at 4 bit, then a plane of the upper u = 1 or 2 bits,
///  with
///      8 / u elements to a byte, the first in the lowest bits: element 8 * j + 2 * b + h (b < 4,
///      h < 2) is number n % (8 / u) of byte n / (8 / u) * 4 + b, n = 2 * j + h. So the word at 4 *
///      i has the upper bits of 4 elements that lie in one word of nibbles, and so on.
///  7: as at 6, then a plane of the uppermost bit, laid out as that of 5.
struct kv_rows {
    const std::byte* rows = nullptr;  // [tokens, row_bytes]
    const half* scales = nullptr;     // [tokens, row_scales]; null at 16 bit
    const half* biases = nullptr;
    int dim = 0;                // multiple of 16 at 16 bit, else of 64
    int bits = 4;               // 4, 5, 6, 7, 8 or 16
    std::size_t row_bytes = 0;  // from one token to the next, at least dim * bits / 8
    int row_scales = 0;         // from one token to the next, at least dim / 64; unused at 16 bit
};

/// Longest row of kernel_table::quantize_kv_shaped, and how many it takes at once.
inline constexpr int shaped_dim_max = 1024;
inline constexpr int shaped_keys_max = 4;

/// A row x [dim] of kernel_table::quantize_kv_shaped and where it goes. `feedback` [dim, dim]:
/// [i][j] is what element j takes over of the error of i, 0 for j <= i.
struct shaped_key {
    const float* x;
    const float* feedback;
    std::byte* row;
    half* scales;
    half* biases;
};

/// How quantize_kv finds the scale and the bias of a group. mlx is for rows as they are; fitted
/// errs less where a rotation has made the elements of a row alike.
enum class kv_rounding { mlx, fitted };

/// Running softmax of one query row over the blocks seen so far: Σ exp(s - max) and the
/// unnormalised output. An empty state is max = -inf, sum = 0, out = 0; an attention sink starts as
/// max = sink, sum = 1.
struct softmax_state {
    float max;
    float sum;
};

/// Attention of `count` query rows against the tokens [0, tokens) of one KV head in one frame.
/// Row r sees the tokens [begin[r], end[r]) of this frame; an empty range leaves the row's state
/// untouched.
struct attention_block {
    int count = 0;                   // query rows
    const float* queries = nullptr;  // [count, k.dim] f32, used at 16 bit
    quantized_rows q;                // [count, k.dim], used below 16 bit
    kv_rows k, v;                    // bits as attends() says
    const int* begin = nullptr;      // [count]
    const int* end = nullptr;        // [count], <= tokens
    int tokens = 0;                  // <= block_tokens
    float scale = 1.0f;              // on the score: score = scale * (q·k)
    softmax_state* state = nullptr;  // [count], merged into
    float* out = nullptr;            // [count, v.dim], merged into
    /// attention_scratch_floats(count, tokens, k.dim, v.dim) floats (attention_scratch.hpp),
    /// 64-byte aligned.
    float* scratch = nullptr;
    /// The frame of the next call, as far as the caller knows it: a kernel may prefetch it. Null
    /// rows: none. Shaped like k and v, whole.
    kv_rows next_k, next_v;
    int next_tokens = 0;  // how many of its tokens will be read, from the first
};

/// Whether kernel_table::attend knows this pair of bits.
constexpr bool attends(int key_bits, int value_bits) noexcept {
    const bool by_tiles = value_bits >= 4 && value_bits <= 6;
    return by_tiles ? key_bits >= 4 && key_bits <= 8
                    : key_bits == value_bits && (key_bits == 8 || key_bits == 16);
}

/// Consecutive tokens of one sequence through one head of a recurrence, whose whole memory is a
/// matrix S [rows, cols]: a row for each element of a key, a column for each of a value. Token t's
/// vectors and numbers are t strides after the first one's. Nothing but S goes from one token to
/// the next, so however a text is cut, the bits are the same.
struct recurrent_head {
    const float* from = nullptr;     // S before the first token
    float* to = nullptr;             // S after the last token; may be `from`
    const float* keys = nullptr;     // [rows]
    const float* queries = nullptr;  // [rows]
    const float* values = nullptr;   // [cols]
    const float* decays = nullptr;   // one number: what S is multiplied by before the token
    const float* rates = nullptr;    // one number, of the delta rule: how much of a change is made
    float* out = nullptr;            // [cols], written; apart from all others
    int rows = 0, cols = 0;
    int tokens = 0;
    std::size_t key_stride = 0;     // of keys and queries
    std::size_t value_stride = 0;   // of values
    std::size_t number_stride = 0;  // of decays and rates
    std::size_t out_stride = 0;
};

struct kernel_table {
    const char* name;
    /// gemm.cpp computes float matrices with OpenBLAS instead of linear_float.
    bool float_by_blas;

    /// y[m, n] = Σ_k x[m, k] * W[n, k] for the rows n of tiles [tile_begin, tile_end); y has `ldy`
    /// floats a row. Writes only real rows (n < W.rows). Order: k ascending, acc = fma(w, x, acc)
    /// from 0. Requires: W.kind is f32, f16 or bf16 (widened exactly to f32).
    void (*linear_float)(const packed_matrix& w, int tile_begin, int tile_end, const float* x,
                         int count, float* y, std::size_t ldy);
    /// As linear_float, for q8, q4, mxfp4 and GGUF's types, from quantised activations. q8 and q4:
    /// per group g ascending, with
    /// idot = Σ q_w * q_x exact in int32:
    /// acc = fma(scale_w, float(idot) * scale_x, acc); acc = fma(bias_w, sum_x, acc).
    /// mxfp4: per half of a group ascending, with idot = Σ (2 * e2m1(code)) * q_x exact:
    /// acc = fma(2^(exponent - 128), float(idot) * scale_x, acc).
    /// GGUF's types: per group of 64, over its parts ascending, t = scale * float(idot) for the
    /// first and fma(scale, float(idot), t) for the others, with idot = Σ integer * q_x exact;
    /// q2_k and q3_k: t = d * float(Σ scale * idot). Then t = fma(offset, float(Σ q_x), t) for each
    /// part where the type has offsets or, where these are products, once
    /// t = fma(-dmin, float(Σ minimum * Σ q_x), t); then acc = fma(t, scale_x, acc).
    /// block_forms.hpp says what a part is.
    void (*linear_quant)(const packed_matrix& w, int tile_begin, int tile_end,
                         const quantized_rows& x, int count, float* y, std::size_t ldy);

    /// x [count, cols] -> q, scales, sums as in quantized_rows. Requires: cols a multiple of 64.
    void (*quantize_rows)(const float* x, int count, int cols, std::int8_t* q, float* scales,
                          float* sums);
    /// sums[i] = Σ q[16 * i + k], k = 0 to 15, for `count` sums. Requires: count a multiple of 4.
    void (*sum_parts)(const std::int8_t* q, std::size_t count, std::int16_t* sums);

    /// out = x * (1 / sqrt(Σ x² / n + eps)) * weight (or * (1 + weight)), one row of n; Σ by fma in
    /// lane order, products from the left. out may be x.
    void (*rms_norm)(const float* x, const float* weight, float* out, int n, float eps,
                     bool one_plus);
    /// x[i] += y[i]
    void (*add)(float* x, const float* y, std::size_t n);
    /// gate[i] = silu(gate[i]) * up[i], silu(x) = x / (1 + exp(-x)) with this table's exp.
    void (*silu_mul)(float* gate, const float* up, std::size_t n);
    /// gate[i] = gelu(gate[i]) * up[i] with the tanh form of GELU, x / 2 * (1 + tanh(u)) for
    /// u = sqrt(2 / pi) * (x + 0.044715 x^3), computed as x / (1 + exp(-2u)),
    /// -2u = x * fma(gelu_cubic, x * x, gelu_linear).
    void (*gelu_mul)(float* gate, const float* up, std::size_t n);
    /// g = min(gate[i], limit), u = clamp(up[i], -limit, limit);
    /// gate[i] = (u + 1) * (g / (1 + exp(-alpha * g))). Requires: limit > 0.
    void (*swiglu_clamped)(float* gate, const float* up, std::size_t n, float alpha, float limit);
    /// Half-split rotation in place of one head x [dim]: (x[i], x[i+dim/2]) by angle i. cosines,
    /// sines: [dim/2]. a' = fma(a, cos, -(b * sin)); b' = fma(b, cos, a * sin)
    void (*rope)(float* x, const float* cosines, const float* sines, int dim);

    /// Rotates one head x [dim] in place, (22) of ARITHMETIC.md: signs by channel, then a
    /// normalised Hadamard transform, which spreads a large channel over all, so that rounding errs
    /// less. Dot products of rotated heads are those of the heads. Requires: dim a multiple of 16.
    void (*rotate)(float* x, int dim);
    /// The inverse of rotate, (23) of ARITHMETIC.md.
    void (*rotate_back)(float* x, int dim);
    /// One key or value row x [dim] -> packed row, scales and biases by `rounding`, (24) or (25)
    /// (bits 4 to 8, groups of 64), or f16 (bits 16, whatever the rounding). What f16 cannot
    /// hold becomes +-65504, never infinity: a hidden token is multiplied by 0 and must add
    /// nothing.
    void (*quantize_kv)(const float* x, int dim, int bits, kv_rounding rounding, std::byte* row,
                        half* scales, half* biases);
    /// Quantises some key rows by (26) of ARITHMETIC.md: later elements compensate each element's
    /// error. An element
    /// waits for the one before, so rows are rounded side by side. Requires: bits 4 to 8, dim at
    /// most shaped_dim_max, count at most shaped_keys_max.
    void (*quantize_kv_shaped)(const shaped_key* keys, int count, int dim, int bits);

    /// Scores, softmax and weighted sum of one frame, merged into the running state. Requires:
    /// attends(k.bits, v.bits), and k.bits == v.bits where the values lie in the key rows.
    /// ARITHMETIC.md has the formulas: (2), (4) and (5) where both have 8 bits, (3), (4) and (5)
    /// at 16. Where values have less than 8 bits integers do the work, and a row goes through the
    /// frame by tiles of 64 tokens, which is a part of the definition: (2), then (6) to (17).
    /// Merged by (18). From the least begin to the greatest end of the rows that see anything,
    /// every token must hold finite values: a row multiplies those hidden from it by 0. All other
    /// bytes are never used, so they may be anything.
    void (*attend)(const attention_block& block);
    /// Merges the attention over two sets of tokens, (18) of ARITHMETIC.md. exp(-inf) is 0, so a
    /// state with max -inf contributes nothing.
    /// Requires: not both empty.
    void (*merge_softmax)(softmax_state& total, float* total_out, const softmax_state& from,
                          const float* from_out, int dim);
    /// out[i] *= 1 / sum, (19) of ARITHMETIC.md: ends a row's attention.
    void (*finish_softmax)(const softmax_state& state, float* out, int dim);

    /// out[i] = exp(x[i]); relative error below 2 ulp over the float range, exp(-inf) = 0. Results
    /// below the smallest normal number are 0. n and r from round-half-even(x * log2 e), degree 6.
    void (*exp)(const float* x, float* out, std::size_t n);
    /// Runs tokens through a head by the gated delta rule, (27) of ARITHMETIC.md. Source:
    /// arXiv:2412.06464.
    void (*delta_rule)(const recurrent_head& head);
    /// Runs tokens through a head of a state space model, (28) of ARITHMETIC.md: the head's memory
    /// S gets the product of key and value. Source: Mamba-2, arXiv:2405.21060.
    void (*state_space)(const recurrent_head& head);
    /// Convolves one token, (29) of ARITHMETIC.md: each channel's last `taps` numbers by weights of
    /// its own. columns [taps], the oldest
    /// first, each [channels]; weights [taps, channels]; bias [channels] or null; out [channels],
    /// apart from all columns. `activated`: and then silu.
    void (*convolve)(const float* const* columns, int taps, const float* weights, const float* bias,
                     std::size_t channels, bool activated, float* out);
    /// Row `index` of an embedding matrix packed as W, widened to f32: out [cols]. q8 and q4 give
    /// fma(scale, q, bias), mxfp4 is exact, GGUF's types give fma(scale, integer, offset).
    void (*embed_row)(const packed_matrix& w, int index, float* out);
};

/// Returns: the table named (avx512, avxvnni, avx2, scalar, portable), or for "auto" the fastest
/// that this CPU runs; null when the name is unknown or the CPU lacks it. portable is scalar with
/// OpenBLAS for float matrices.
const kernel_table* find_kernels(std::string_view name) noexcept;
/// Names that this CPU can run, best first.
std::span<const std::string_view> available_kernels() noexcept;

/// Exact conversions, and rounding to nearest even.
float to_float(half value) noexcept;
half to_half(float value) noexcept;
inline float bfloat_to_float(bfloat value) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

}  // namespace semantic::engine
