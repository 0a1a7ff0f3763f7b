// SPDX-License-Identifier: Apache-2.0
// Attention by tiles: the layout of a tile of 64 tokens in the scratch, and the unpacking of keys
// and values into it. See attend_tiles.inl for the whole. Numbers in parentheses are formulas of
// ARITHMETIC.md.

// A phase keeps its sums in registers. Phases inlined into one function would spill each other's.
#define SIMD_PHASE SIMD __attribute__((noinline))

constexpr int tile_tokens = attention_tile_tokens;
constexpr int strip_rows_max = 24;                    // query rows that share a pass over a tile
constexpr int tile_lanes = tile_tokens / lane_count;  // registers of one row's scores
constexpr index tile_bytes = 4 * tile_tokens;         // a word for each token or element of a group
constexpr index tile_words = group_size / 4;          // of a token's group; quads of tokens

/// (13): |scale| and centre of a tile's values as integers, in the order of pack_shorts, and the
/// units that turn their sums back into floats.
struct fixed_point_scales {
    std::int16_t* sizes;    // [v groups][64]
    std::int16_t* centres;  // [v groups][64]
    float* size_units;      // [v groups], S * level_size of (16)
    float* centre_units;    // [v groups], Z * weighed_centre of (14)
};

/// The part of the next frame that a tile prefetches: as large a share as the tile is of this
/// frame.
struct frame_prefetch {
    index first, tokens;      // tokens [first, first + tokens) of the next frame
    const std::byte* keys;    // of token `first`
    const std::byte* values;  // of token `first`
    index key_step;           // bytes for each step of Q·K, prefetch_steps for each group
    index value_step;         // bytes for each step of P·V, as many
    int row;  // the first row that sees the tile, whose products prefetch; -1: not known yet
};

/// The parts of the scratch, as tiled_attention_scratch says, and the tile at work.
struct tile_parts {
    std::int8_t* q_room;       // [count][k.dim], for queries in the order of the keys
    const std::int8_t* q;      // the queries in this order, in place or in q_room
    float* q_scales;           // [count][k groups], for scores to base 2
    float* q_sums;             // the same
    float* maxima;             // [count], M of (6)
    float* sums;               // [count][16], l of (11)
    float* centres;            // [count][v groups][16], C of (14)
    float* out;                // [count][v.dim], O of (16) in the order that value_order undoes
    std::byte* keys;           // [k groups][16][64 tokens][4]
    float* key_scales;         // [k groups][64], then biases alike
    std::byte* values;         // [v groups][16 quads][64][4 tokens]
    float* value_sizes;        // [v groups][64]: |scale|, then centres alike
    std::uint8_t* sign_masks;  // [v groups][64], all ones where a scale is negative
    fixed_point_scales whole;  // of the whole tile
    fixed_point_scales part;   // of the tokens that the row at work sees
    seen_range seen;
    frame_prefetch next;  // the tile's part of the next frame
};

SIMD tile_parts divide_tiled_scratch(const attention_block& block) {
    const tiled_attention_scratch parts =
        lay_out_tiled_attention(block.count, block.k.dim, block.v.dim);
    float* const start = block.scratch;
    const auto bytes = [start](std::size_t offset) {
        return reinterpret_cast<std::byte*>(start + offset);
    };
    const auto shorts = [start](std::size_t offset) {
        return reinterpret_cast<std::int16_t*>(start + offset);
    };
    const auto fixed = [start, shorts](const tiled_attention_scratch::fixed& scales) {
        return fixed_point_scales{shorts(scales.sizes), shorts(scales.centres),
                                  start + scales.size_units, start + scales.centre_units};
    };
    tile_parts s{};
    s.q_room = reinterpret_cast<std::int8_t*>(start + parts.q);
    s.q_scales = start + parts.q_scales;
    s.q_sums = start + parts.q_sums;
    s.maxima = start + parts.maxima;
    s.sums = start + parts.sums;
    s.centres = start + parts.centres;
    s.out = start + parts.out;
    s.keys = bytes(parts.keys);
    s.key_scales = start + parts.key_scales;
    s.values = bytes(parts.values);
    s.value_sizes = start + parts.value_sizes;
    s.sign_masks = reinterpret_cast<std::uint8_t*>(start + parts.sign_masks);
    s.whole = fixed(parts.whole);
    s.part = fixed(parts.part);
    s.seen = seen_tokens(block);
    return s;
}

/// Whether some row sees each token of the tile at t0.
SIMD_INLINE bool sees_tile(const tile_parts& s, int t0) {
    return s.seen.begin <= t0 && s.seen.end >= t0 + tile_tokens;
}

/// Copies queries in the byte order of a tile of nibbles: each 8 elements as 0 2 4 6 1 3 5 7,
/// because the even elements of a packed word are its low nibbles.
SIMD void copy_evens_first(const std::int8_t* from, index bytes, std::int8_t* to) {
    const __m128i evens_first = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    for (index i = 0; i < bytes; i += 16) {
        const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm_shuffle_epi8(x, evens_first));
    }
}

/// Finds s.q. Scales and sums get the factor c of (2).
SIMD void prepare_queries(const attention_block& block, tile_parts& s) {
    const index bytes = static_cast<index>(block.count) * block.k.dim;
    s.q = block.q.q;
    if (block.k.bits != 8) {
        copy_evens_first(block.q.q, bytes, s.q_room);
        s.q = s.q_room;
    }
    const v16 scale = set1(block.scale * exp_log2e);
    const index groups = bytes / group_size;
    for (index i = 0; i < groups; i += lane_count) {
        const int lanes = lanes_left(groups, i);
        store(s.q_scales + i, mul(load_first(block.q.scales + i, lanes), scale));
        store(s.q_sums + i, mul(load_first(block.q.sums + i, lanes), scale));
    }
}

/// Scales, then biases, of the 64 tokens from t0 as [groups][64] each; tokens past the end repeat
/// the last.
SIMD_PHASE void widen_scales(const kv_rows& rows, int t0, int tokens, float* out) {
    tile_scales<tile_lanes>(rows, t0, tokens, out);
}

/// A group of the packed keys of 16 tokens with the token as lane: 32 bytes, then the others.
template <int bits>
struct key_words {
    static constexpr int upper = bits == 7 ? 2 : bits - 4;  // bits of the first plane
    i16 first[8];
    i16 rest[bits == 4 ? 1 : 2 * upper];
    i16 top[2];  // at 7 bits: the second plane
};
/// The plane of a group, from `offset` on, as transpose_keys.
template <int upper>
SIMD_INLINE void transpose_planes(const kv_rows& k, int t0, int tokens, index offset,
                                  i16 (&words)[2 * upper]) {
    const auto row_bytes = static_cast<index>(k.row_bytes);
    const std::byte* first = k.rows + t0 * row_bytes + offset;
    if (t0 + lane_count <= tokens) {
        transpose_words<upper>([=](int i) { return first + i * row_bytes; }, words);
    } else {
        const int last = tokens - 1 - t0;
        transpose_words<upper>([=](int i) { return first + (i < last ? i : last) * row_bytes; },
                               words);
    }
}
template <int bits>
SIMD_INLINE void load_key_words(const kv_rows& k, int t0, int tokens, index group,
                                key_words<bits>& words) {
    const index offset = group * (group_size * bits / 8);
    transpose_keys<false>(k, t0, tokens, offset, words.first);
    if constexpr (bits == 8) {
        transpose_keys<false>(k, t0, tokens, offset + 32, words.rest);
    } else if constexpr (bits > 4) {
        constexpr int upper = key_words<bits>::upper;
        transpose_planes<upper>(k, t0, tokens, offset + 32, words.rest);
        if constexpr (bits == 7) {
            transpose_planes<1>(k, t0, tokens, offset + 48, words.top);
        }
    }
}
/// Field number `field` of each byte of a plane, to bit `to`, 4 or 6; other bits are any.
template <int upper, int to>
SIMD_INLINE i16 plane_field(i16 plane, int field) {
    switch (to - field * upper) {
        case 6:
            return shift_left_shorts<6>(plane);
        case 5:
            return shift_left_shorts<5>(plane);
        case 4:
            return shift_left_shorts<4>(plane);
        case 3:
            return shift_left_shorts<3>(plane);
        case 2:
            return shift_left_shorts<2>(plane);
        case 1:
            return shift_left_shorts<1>(plane);
        case 0:
            return plane;
        case -1:
            return shift_right_shorts<1>(plane);
        case -2:
            return shift_right_shorts<2>(plane);
        default:
            return shift_right_shorts<3>(plane);
    }
}
/// Number `quad` of a group's 16 words of 4 elements, in the order of tile_parts::q.
template <int bits>
SIMD_INLINE i16 key_quad(const key_words<bits>& words, int quad) {
    if constexpr (bits == 8) {
        return quad < 8 ? words.first[quad] : words.rest[quad - 8];
    } else {
        const i16 both = words.first[quad / 2];
        const i16 nibbles = quad % 2 == 0 ? low_nibbles(both) : high_nibbles(both);
        if constexpr (bits == 4) {
            return nibbles;
        } else {
            constexpr int upper = key_words<bits>::upper, fields = 8 / upper;
            const i16 plane = words.rest[quad / fields];
            const i16 low = or_masked<((1 << upper) - 1) << 4>(
                nibbles, plane_field<upper, 4>(plane, quad % fields));
            if constexpr (bits == 7) {
                return or_masked<1 << 6>(low, plane_field<1, 6>(words.top[quad / 8], quad % 8));
            } else {
                return low;
            }
        }
    }
}

/// Keys of the 64 tokens from t0.
template <int bits>
SIMD_PHASE void unpack_keys(const attention_block& block, const tile_parts& s, int t0) {
    for (int i = 0; i < tile_lanes; ++i) {
        const int t = t0 + i * lane_count;
        std::byte* out = s.keys + i * 64;
        for (index g = 0; g < block.k.dim / group_size; ++g) {
            key_words<bits> words;
            load_key_words<bits>(block.k, t, block.tokens, g, words);
#pragma GCC unroll 16
            for (int quad = 0; quad < tile_words; ++quad, out += tile_bytes) {
                store_words(out, key_quad<bits>(words, quad));
            }
        }
    }
}

/// (12): |scale|, centre and sign of the values of the 64 tokens from t0; 0 for tokens that no row
/// sees. all: each token is seen by some row.
template <bool all>
SIMD_PHASE void split_value_scales(const attention_block& block, const tile_parts& s, int t0) {
    const kv_rows& v = block.v;
    const index scales = v.dim / group_size * tile_tokens;
    const v16 zero = set1(0.0f);
    const int half_range = 1 << (v.bits - 1);
    const v16 middle = set1(static_cast<float>(half_range));
    const v16 middle_of_negative = set1(static_cast<float>(half_range - 1));
    float* centres = s.value_sizes + scales;
    widen_scales(v, t0, block.tokens, s.value_sizes);
    for (index i = 0; i < scales; i += lane_count) {
        v16 scale = load(s.value_sizes + i), bias = load(centres + i);
        if constexpr (!all) {
            const int t = t0 + static_cast<int>(i % tile_tokens);
            scale = keep(scale, s.seen.begin - t, s.seen.end - t, zero);
            bias = keep(bias, s.seen.begin - t, s.seen.end - t, zero);
        }
        store(s.value_sizes + i, abs(scale));
        store(centres + i, fma(scale, where_less(scale, zero, middle_of_negative, middle), bias));
        store_low_bytes(s.sign_masks + i, less_words(scale, zero));
    }
}

/// Values of `group` of the 4 tokens from t, which are quad `quad` of a tile, as quad_values. all:
/// each token of the tile is seen by some row.
template <int bits>
SIMD_INLINE void load_quad(const kv_rows& v, const tile_parts& s, int t, int quad, index group,
                           bool all, i16 (&words)[tile_lanes]) {
    const std::byte* rows = v.rows + group * (group_size * bits / 8);
    const auto row_bytes = static_cast<index>(v.row_bytes);
    const std::byte* at[4];
    if (all) {
        at[0] = rows + t * row_bytes;
#pragma GCC unroll 3
        for (int i = 1; i < 4; ++i) {
            at[i] = at[i - 1] + row_bytes;
        }
    } else {  // unseen tokens have weight 0, so any row that can be read will do
        const int begin = s.seen.begin, end = s.seen.end;
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            const int token = t + i < begin ? begin : t + i < end ? t + i : end - 1;
            at[i] = rows + token * row_bytes;
        }
    }
    quad_values<bits>(at[0], at[1], at[2], at[3], s.sign_masks + group * tile_tokens + 4 * quad,
                      words);
}

/// Values of the 64 tokens from t0, 4 tokens to a word. all: each is seen by some row.
template <int bits, bool all>
SIMD_PHASE void unpack_values(const attention_block& block, const tile_parts& s, int t0) {
    for (index g = 0; g < block.v.dim / group_size; ++g) {
        std::byte* out = s.values + g * tile_words * tile_bytes;
        for (int quad = 0; quad < tile_words; ++quad, out += tile_bytes) {
            i16 words[tile_lanes];
            load_quad<bits>(block.v, s, t0 + 4 * quad, quad, g, all, words);
#pragma GCC unroll 4
            for (int i = 0; i < tile_lanes; ++i) {
                store_words(out + i * 64, words[i]);
            }
        }
    }
}

/// (13): `fixed` of the tokens [from, to) of the tile at t0. Requires: these are seen; if all, they
/// are the whole tile.
template <bool all>
SIMD_PHASE void to_fixed_point(const attention_block& block, const tile_parts& s, int t0, int from,
                               int to, const fixed_point_scales& fixed) {
    const index groups = block.v.dim / group_size;
    // Scales x so that the largest |x| becomes `one`, and rounds. Returns: that |x|.
    const auto round_to = [&](const float* x, float one, std::int16_t* out) SIMD {
        v16 kept[tile_lanes];
        v16 most = set1(0.0f);
#pragma GCC unroll 4
        for (int i = 0; i < tile_lanes; ++i) {
            const int first = t0 + i * lane_count;
            kept[i] = load(x + i * lane_count);
            if constexpr (!all) {
                kept[i] = keep(kept[i], from - first, to - first, set1(0.0f));
            }
            most = max(most, abs(kept[i]));
        }
        const float largest_of_all = largest(most);
        const v16 factor = set1(largest_of_all > 0.0f ? one / largest_of_all : 0.0f);
#pragma GCC unroll 2
        for (int i = 0; i < tile_lanes; i += 2) {
            store_words(out + i * lane_count,
                        pack_shorts(round_to_words(mul(kept[i], factor)),
                                    round_to_words(mul(kept[i + 1], factor))));
        }
        return largest_of_all;
    };
    for (index g = 0; g < groups; ++g) {
        const float* sizes = s.value_sizes + g * tile_tokens;
        const float* centres = sizes + groups * tile_tokens;
        const index at = g * tile_tokens;
        fixed.size_units[g] = round_to(sizes, weight_one, fixed.sizes + at) * level_size;
        fixed.centre_units[g] = round_to(centres, centre_one, fixed.centres + at) * weighed_centre;
    }
}
