// SPDX-License-Identifier: Apache-2.0
// Matrix products of GGUF's packed types (block_forms.hpp): how their codes and scales are read,
// and products of a few rows of activations, which read them as they lie. linear_unpacked.inl has
// products of more rows. See elements.inl for how this is used.

constexpr int direct_rows_max = quant_tiles > 1 ? 4 : 2;  // of a register tile
constexpr index corrected_groups = 8;  // of 64 inputs whose corrections are counted at once

/// Whether codes of high bits are multiplied where they lie, as integers 2^n times too high: sums
/// of 32 bits have room for that, a table's sums of 16 bits have not.
constexpr bool has_raised_codes = byte_offset == 0;

/// Quads that are added before a dot_sum has to carry; 0: codes are whole bytes.
constexpr int quads_per_carry(int largest) {
    if (has_raised_codes) {
        return 8;  // sums of 32 bits: never, and all types share their loops
    }
    return largest > 63 ? 0 : largest > 31 ? 2 : largest > 15 ? 4 : 8;
}

/// Bits by which a part's raised codes are too high.
constexpr int raised_bits(weight_kind kind, int part) {
    switch (block_form_of(kind).planes) {
        case code_planes::nibbles:
            return part == 1 && !is_looked_up(kind) ? 4 : 0;
        case code_planes::nibbles_fifths:
            return part == 1 ? 3 : 0;
        case code_planes::twos:
            return 2 * part;
        case code_planes::threes:
            return part % 2 * 3;
        case code_planes::sixes:
            return part % 2 * 2;
        default:
            return 0;
    }
}

/// Words of corrections of a row and a group of 64 inputs, see correct_stretch().
constexpr index corrections_of(int parts, bool has_offsets) {
    return has_offsets || parts < 2 ? 2 : parts;
}
constexpr index corrections_of(const block_form& form) {
    return corrections_of(form.parts(), form.has_offsets);
}

/// What a product of one block of rows reads and writes; advanced by the callers.
struct block_span {
    const std::byte* tile;
    std::size_t tile_bytes, group_bytes;  // group_bytes: a group's share of a record
    index groups, cols;
    index group_begin, group_end;
    const std::int8_t* q;
    const float* x_scales;
    const std::int16_t* part_sums;
    float* y;
    std::size_t ldy;
    int lanes_last;
    std::size_t prefetch_distance;    // as in quant_span
    const std::int32_t* corrections;  // [rows][groups from group_begin], see correct_stretch()
    index correction_stride;          // from one row of corrections to the next
};

/// The part `share` of `shares` of the lines that group `group` of tile `t` has one pair of tiles
/// ahead. A core has few lines in flight, so that they are asked for one by one.
template <int share, int shares, weight_kind kind>
SIMD_INLINE void prefetch_share(const block_span& s, int t, index group) {
    constexpr block_form form = block_form_of(kind);
    constexpr int lines = (form.record_bytes() / form.groups + 63) / 64;
    const std::byte* ahead = s.tile + static_cast<std::size_t>(t) * s.tile_bytes +
                             static_cast<std::size_t>(group) * s.group_bytes + s.prefetch_distance;
#pragma GCC unroll 4
    for (int line = share * lines / shares; line < (share + 1) * lines / shares; ++line) {
        __builtin_prefetch(ahead + line * 64, 0, 2);
    }
}

SIMD_INLINE void prefetch_group(const block_span& s, int t, index group) {
    if (s.prefetch_distance > 0) {
        prefetch_record(s.tile + static_cast<std::size_t>(t) * s.tile_bytes +
                            static_cast<std::size_t>(group) * s.group_bytes + s.prefetch_distance,
                        s.group_bytes);
    }
}

/// Words of factors for pairs of sums of 16 inputs each: of the first sum, and of the second.
constexpr std::int32_t factor_pair(int first, int second) {
    return (first & 0xffff) | second * 0x10000;
}

/// What is multiplied: codes, raised or not, or codes times their integer scale.
enum class multiplied { raised_codes, codes, products };

/// How much higher the products of q3_k's codes and scales are multiplied than they are: from -124
/// (a code of -4) to 128 they then fit bytes without a sign.
constexpr int product_zero = 124;

/// Corrections of one row and at most corrected_groups groups. Of types without offsets: what the
/// integer sums of each part, or of products the only sum, start from, because what is multiplied
/// is not less its zero. Of types with offsets the sums of their parts' activations: as floats, or
/// as shorts, two to a word, where offsets are products; see correction_at().
template <weight_kind kind, multiplied what>
SIMD_INLINE void correct_stretch(const std::int16_t* sums, index groups, std::int32_t* out) {
    constexpr block_form form = block_form_of(kind);
    constexpr int zero = quads_per_carry(form.largest) == 0 ? form.zero + byte_offset : form.zero;
    std::int16_t padded[4 * corrected_groups];
    if (groups < corrected_groups) {
        for (index i = 0; i < 4 * corrected_groups; ++i) {
            padded[i] = i < 4 * groups ? sums[i] : std::int16_t{0};
        }
        sums = padded;
    }
    const auto products_by = [&](const std::int32_t(&factors)[2]) SIMD {
        return add_pairs(zero_words(), load_words(sums), set2_words(factors));
    };
    constexpr auto start_of = [](int part) {
        return -zero * (1 << (what == multiplied::raised_codes ? raised_bits(kind, part) : 0));
    };
    if constexpr (form.has_offsets && form.part == 16) {
        store_words(out, load_words(sums));
    } else if constexpr (form.has_offsets) {
        const i16 parts = products_by({factor_pair(1, 1), factor_pair(1, 1)});
        if constexpr (form.has_integer_scales()) {
            store_words(out, pair_shorts(parts));
        } else {
            store(reinterpret_cast<float*>(out), to_floats(parts));
        }
    } else if constexpr (what == multiplied::products) {
        const i16 halves = products_by({factor_pair(1, 1), factor_pair(1, 1)});
        const std::int32_t factors[2] = {factor_pair(-product_zero, -product_zero), 0};
        store_words(out, add_pairs(zero_words(), pair_shorts(halves), set2_words(factors)));
    } else if constexpr (form.parts() == 2) {
        constexpr int low = start_of(0), high = start_of(1);
        store_words(out, products_by({factor_pair(low, low), factor_pair(high, high)}));
    } else {
        store_words(out, products_by({factor_pair(start_of(0), 0), factor_pair(start_of(2), 0)}));
        store_words(out + 16,
                    products_by({factor_pair(0, start_of(1)), factor_pair(0, start_of(3))}));
    }
}
/// Where the correction of the first part of group `group` of corrections is; that of part i is
/// part_step(i) further. Even and odd ones of four parts lie apart.
constexpr index correction_at(index parts, index group) {
    return group / corrected_groups * corrected_groups * parts + group % corrected_groups * 2;
}
constexpr int part_step(int parts, int i) { return parts == 4 ? i % 2 * 16 + i / 2 : i; }

template <weight_kind kind, multiplied what>
SIMD void correct(const std::int16_t* sums, index groups, std::int32_t* out) {
    constexpr block_form form = block_form_of(kind);
    constexpr int parts = what == multiplied::products ? 1 : form.parts();
    for (index g = 0; g < groups; g += corrected_groups) {
        correct_stretch<kind, what>(sums + 4 * g,
                                    groups - g < corrected_groups ? groups - g : corrected_groups,
                                    out + g * corrections_of(parts, form.has_offsets));
    }
}

/// A group of 64 inputs of one tile.
template <weight_kind kind>
struct block_group {
    static constexpr block_form form = block_form_of(kind);

    const std::byte* header;
    const std::byte* codes;
    index part;  // the group's first of the record

    SIMD_INLINE v16 header_half(index i) const { return load_half(header + i * 2 * lane_count); }

    /// Where a part's bytes are, in the first or the second array of bytes.
    SIMD_INLINE const std::byte* part_bytes(index array, index i) const {
        constexpr index halves = form.has_offsets ? 2 : 1;
        constexpr index parts = form.groups * group_size / form.part;
        return header + (2 * halves + array * parts + part + i) * lane_count;
    }
    /// Of types whose scales are products: d and -dmin.
    SIMD_INLINE v16 unit() const { return header_half(0); }
    SIMD_INLINE v16 negative_unit() const { return mul(header_half(1), set1(-1.0f)); }
    /// s[i] of (20); `unit` is unit() where scales are products.
    SIMD_INLINE v16 scale(index i, [[maybe_unused]] v16 unit) const {
        if constexpr (form.has_integer_scales()) {
            return mul(unit, to_floats(widen_signed_bytes(part_bytes(0, i))));
        } else {
            return header_half(i);
        }
    }
    /// Of types whose offsets are halves.
    SIMD_INLINE v16 offset(index i) const { return header_half(2 + i); }
    /// The integer scales of parts 2i and 2i + 1 as shorts, of types with totals.
    SIMD_INLINE i16 scale_pairs(index i) const {
        if constexpr (form.has_offsets) {  // four bits each
            return mask_shorts<15>(widen_to_shorts(part_bytes(0, 2 * i)));
        } else {
            return widen_signed_to_shorts(part_bytes(0, 2 * i));
        }
    }
    /// The minimums of parts 2i and 2i + 1 as shorts.
    SIMD_INLINE i16 minimum_pairs(index i) const {
        if constexpr (form.part == 16) {
            return shift_right_shorts<4>(widen_to_shorts(part_bytes(0, 2 * i)));
        } else {
            return widen_to_shorts(part_bytes(1, 2 * i));
        }
    }
};

template <weight_kind kind>
SIMD_INLINE block_group<kind> find_group(const std::byte* tile, index group) {
    constexpr block_form form = block_form_of(kind);
    const std::byte* header = tile + group / form.groups * form.record_bytes();
    const index within = group % form.groups;
    return {header, header + form.header_bytes + within * form.code_bytes,
            within * (group_size / form.part)};
}

/// Each byte's bit `from` moved to bit `to`, its neighbours with it; what comes from other bytes
/// has to be masked out.
template <int from, int to>
SIMD_INLINE i16 move_bits(i16 x) {
    if constexpr (from > to) {
        x = shift_right_shorts<from - to>(x);
    } else if constexpr (from < to) {
        x = shift_left_shorts<to - from>(x);
    }
    return x;
}

// A group is read in steps of two sides, low and high: a part each, whose quads share lines.
constexpr int steps_of(const block_form& form) { return form.parts() / 2; }
constexpr int step_quads(const block_form& form) { return 16 / form.parts(); }  // of a side

constexpr int part_of(int step, bool high) { return 2 * step + high; }
constexpr index first_quad(const block_form& form, int step, bool high) {
    return part_of(step, high) * step_quads(form);
}

/// The codes of quad j of one side of a step, raised or not.
template <weight_kind kind, int step, bool high, int j, bool raised>
SIMD_INLINE i16 unpack_quad(const std::byte* codes) {
    constexpr block_form form = block_form_of(kind);
    constexpr code_planes planes = form.planes;
    constexpr int line = step * step_quads(form) + j;
    if constexpr (planes == code_planes::bytes) {
        return load_words(codes + (first_quad(form, step, high) + j) * 64);
    } else if constexpr (planes == code_planes::nibbles) {
        const i16 both = load_words(codes + line * 64);
        if constexpr (is_looked_up(kind)) {
            return look_up(iq4_raised_levels, high ? high_nibbles(both) : low_nibbles(both));
        } else if constexpr (high && raised) {
            return mask_bytes<0xf0>(both);
        } else {
            return high ? high_nibbles(both) : low_nibbles(both);
        }
    } else if constexpr (planes == code_planes::nibbles_fifths) {
        const i16 both = load_words(codes + line * 64);
        const i16 fifths = load_words(codes + 512 + j / 4 * 64);
        if constexpr (!high) {
            return or_masked<0x10>(low_nibbles(both), move_bits<fifth_bit(0, j), 4>(fifths));
        } else {
            const i16 codes_by_8 =
                or_masked<0x08>(mask_bytes<0xf0>(both), move_bits<fifth_bit(1, j), 3>(fifths));
            return raised ? codes_by_8 : mask_bytes<31>(shift_right_shorts<3>(codes_by_8));
        }
    } else if constexpr (planes == code_planes::twos) {
        constexpr int bit = 2 * part_of(step, high);
        const i16 twos = load_words(codes + j * 64);
        return raised ? mask_bytes<(3 << bit)>(twos) : mask_bytes<3>(move_bits<bit, 0>(twos));
    } else if constexpr (planes == code_planes::threes) {
        const std::byte* at = codes + step * 192;
        constexpr int bit = high ? 3 : 0, to = raised ? bit : 0;
        if constexpr (j < 3) {
            return mask_bytes<(7 << to)>(move_bits<bit, to>(load_words(at + j * 64)));
        } else {
            const i16 twos = load_words(at + high * 64), thirds = load_words(at + 128);
            return or_masked<(4 << to)>(mask_bytes<(3 << to)>(move_bits<6, to>(twos)),
                                        move_bits<6 + high, to + 2>(thirds));
        }
    } else {
        const i16 both = load_words(codes + line * 64);
        const i16 twos = load_words(codes + 512 + line / 2 * 64);
        if constexpr (!high) {
            return or_masked<0x30>(low_nibbles(both), move_bits<line % 2 * 2, 0>(twos));
        } else {
            const i16 codes_by_4 =
                or_masked<0x0c>(mask_bytes<0xf0>(both), move_bits<0, line % 2 * 2>(twos));
            return raised ? codes_by_4 : mask_bytes<63>(shift_right_shorts<2>(codes_by_4));
        }
    }
}

template <int per_carry>
SIMD_INLINE void add_codes(dot_sum<(per_carry > 0)>& sum, i16 codes, i16 x) {
    if constexpr (per_carry > 0) {
        add_products(sum, codes, x);
    } else {
        add_weights(sum, codes, x);
    }
}
/// Starts the sum of a part from its correction or, of types with offsets and where bytes are
/// multiplied with their signs, from 0.
template <int per_carry, bool has_offsets>
SIMD_INLINE void start_sum(dot_sum<(per_carry > 0)>& sum, const std::int32_t* correction) {
    if constexpr (has_offsets || per_carry == 0) {
        clear(sum);
    } else {
        start(sum, correction);
    }
}
SIMD_INLINE v16 set1_float(const std::int32_t* bits) { return set1(std::bit_cast<float>(*bits)); }

/// Some rows of activations and a group of 64 inputs of some tiles.
template <int rows, int tiles, weight_kind kind>
struct direct_group {
    static constexpr block_form form = block_form_of(kind);
    static constexpr int per_carry = quads_per_carry(form.largest);
    static constexpr int quads = step_quads(form), steps = steps_of(form);
    /// Whether both sides of a step are added up at once, as far as registers go.
    static constexpr bool both = quant_tiles > 1 ? rows <= (steps == 1 ? 4 : 2) : rows == 1;
    using dots = dot_sum<(per_carry > 0)>[rows][tiles];

    const block_span& span;
    const index group;
    const std::int8_t* const q = span.q + group * group_size;
    const std::int32_t* const corrections =
        span.corrections + correction_at(corrections_of(form), group - span.group_begin);
    block_group<kind> groups[tiles];
    const v16 (&units)[tiles];           // d
    const v16 (&negative_units)[tiles];  // -dmin
    v16 scaled[rows][tiles];             // t of (20)
    i16 totals[rows][tiles];             // I of (21)

    SIMD_INLINE direct_group(const block_span& s, index g, const v16 (&d)[tiles],
                             const v16 (&negative_dmin)[tiles])
        : span(s), group(g), units(d), negative_units(negative_dmin) {
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            groups[t] = find_group<kind>(s.tile + static_cast<std::size_t>(t) * s.tile_bytes, g);
        }
    }

    template <int step, bool high>
    SIMD_INLINE void start_part(dots& sums) {
        constexpr int at = part_step(form.parts(), part_of(step, high));
#pragma GCC unroll 4
        for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                start_sum<per_carry, form.has_offsets>(
                    sums[m][t], corrections + m * span.correction_stride + at);
            }
        }
    }
    template <int step, bool high, int j>
    SIMD_INLINE void add_quad(dots& sums) {
        const std::int8_t* at = q + 4 * (first_quad(form, step, high) + j);
        i16 codes[tiles];
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            codes[t] = unpack_quad<kind, step, high, j, has_raised_codes>(groups[t].codes);
        }
#pragma GCC unroll 4
        for (int m = 0; m < rows; ++m) {
            const i16 x = set1_word(at + m * span.cols);
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                add_codes<per_carry>(sums[m][t], codes[t], x);
                if constexpr (per_carry > 0 && ((j + 1) % per_carry == 0 || j == quads - 1)) {
                    carry(sums[m][t]);
                }
            }
        }
    }
    template <int share, int shares>
    SIMD_INLINE void prefetch() {
        if (span.prefetch_distance > 0) {
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                prefetch_share<share, shares, kind>(span, t, group);
            }
        }
    }
    template <int step, int j = 0>
    SIMD_INLINE void add_both(dots& low, dots& high) {
        prefetch<step * quads + j, 8>();
        add_quad<step, false, j>(low);
        add_quad<step, true, j>(high);
        if constexpr (j + 1 < quads) add_both<step, j + 1>(low, high);
    }
    template <int step, bool high, int j = 0>
    SIMD_INLINE void add_side(dots& sums) {
        prefetch<(step * 2 + high) * quads + j, 16>();
        add_quad<step, high, j>(sums);
        if constexpr (j + 1 < quads) add_side<step, high, j + 1>(sums);
    }

    /// The sums of a part, multiplied with its scale and added to those before.
    template <int step, bool high>
    SIMD_INLINE void finish_part(const dots& sums) {
        constexpr int part = part_of(step, high);
        constexpr int raised = has_raised_codes ? raised_bits(kind, part) : 0;
        constexpr bool is_first = step == 0 && !high;
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            if constexpr (form.has_integer_totals()) {
                const i16 scales = groups[t].scale_pairs(step);
#pragma GCC unroll 4
                for (int m = 0; m < rows; ++m) {
                    const i16 dot = sums[m][t].words;
                    const i16 shorts = high ? shift_left_words<16 - raised>(dot)
                                            : low_shorts(shift_right_words<raised>(dot));
                    totals[m][t] =
                        add_pairs(is_first ? zero_words() : totals[m][t], shorts, scales);
                }
            } else {
                const v16 scale = groups[t].scale(part, units[t]);
#pragma GCC unroll 4
                for (int m = 0; m < rows; ++m) {
                    const v16 dot = to_floats(shift_right_words<raised>(sums[m][t].words));
                    scaled[m][t] = is_first ? mul(scale, dot) : fma(scale, dot, scaled[m][t]);
                }
            }
        }
    }
    template <int step>
    SIMD_INLINE void add_step() {
        dots low, high;
        start_part<step, false>(low);
        if constexpr (both) {
            start_part<step, true>(high);
            add_both<step>(low, high);
            finish_part<step, false>(low);
            finish_part<step, true>(high);
        } else {
            add_side<step, false>(low);
            finish_part<step, false>(low);
            start_part<step, true>(high);
            add_side<step, true>(high);
            finish_part<step, true>(high);
        }
        if constexpr (step + 1 < steps) add_step<step + 1>();
    }
    SIMD_INLINE void scale_totals() {
#pragma GCC unroll 4
        for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                scaled[m][t] = mul(units[t], to_floats(totals[m][t]));
            }
        }
    }
    SIMD_INLINE void add_offsets() {
#pragma GCC unroll 2
        for (int part = 0; part < 2; ++part) {
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                const v16 offset = groups[t].offset(part);
#pragma GCC unroll 4
                for (int m = 0; m < rows; ++m) {
                    const std::int32_t* sum = corrections + m * span.correction_stride + part;
                    scaled[m][t] = fma(offset, set1_float(sum), scaled[m][t]);
                }
            }
        }
    }
    /// The same where offsets are products, (22).
    SIMD_INLINE void add_minimums() {
        constexpr int pairs = form.parts() / 2;
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            i16 minimums[pairs];
#pragma GCC unroll 2
            for (int i = 0; i < pairs; ++i) {
                minimums[i] = groups[t].minimum_pairs(i);
            }
#pragma GCC unroll 4
            for (int m = 0; m < rows; ++m) {
                const std::int32_t* sums = corrections + m * span.correction_stride;
                i16 total = add_pairs(zero_words(), minimums[0], set1_word(sums));
                if constexpr (pairs == 2) {
                    total = add_pairs(total, minimums[1], set1_word(sums + 1));
                }
                scaled[m][t] = fma(negative_units[t], to_floats(total), scaled[m][t]);
            }
        }
    }
};

/// `rows` activations against the codes as they lie.
template <int rows, int tiles, weight_kind kind>
SIMD void direct_block(const block_span& s) {
    constexpr block_form form = block_form_of(kind);
    v16 sums[rows][tiles];
#pragma GCC unroll 4
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            sums[m][t] = start_or_resume(s.group_begin > 0,
                                         s.y + static_cast<std::size_t>(m) * s.ldy + t * lane_count,
                                         t == tiles - 1 ? s.lanes_last : lane_count);
        }
    }
    for (index record = s.group_begin; record < s.group_end; record += form.groups) {
        v16 units[tiles], negative_units[tiles];
        if constexpr (form.has_integer_scales()) {
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                const auto first =
                    find_group<kind>(s.tile + static_cast<std::size_t>(t) * s.tile_bytes, record);
                units[t] = first.unit();
                if constexpr (form.has_offsets) negative_units[t] = first.negative_unit();
            }
        }
        for (index g = record; g < record + form.groups; ++g) {
            direct_group<rows, tiles, kind> at(s, g, units, negative_units);
            at.template add_step<0>();
            if constexpr (form.has_integer_totals()) at.scale_totals();
            if constexpr (form.has_offsets && form.has_integer_scales()) {
                at.add_minimums();
            } else if constexpr (form.has_offsets) {
                at.add_offsets();
            }
#pragma GCC unroll 4
            for (int m = 0; m < rows; ++m) {
                const v16 x_scale = set1(s.x_scales[m * s.groups + g]);
#pragma GCC unroll 4
                for (int t = 0; t < tiles; ++t) {
                    sums[m][t] = fma(at.scaled[m][t], x_scale, sums[m][t]);
                }
            }
        }
    }
#pragma GCC unroll 4
    for (int m = 0; m < rows; ++m) {
        float* y = s.y + static_cast<std::size_t>(m) * s.ldy;
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            store_first(y + t * lane_count, t == tiles - 1 ? s.lanes_last : lane_count, sums[m][t]);
        }
    }
}

/// Calls direct_block for `count` activations, 1 to `rows`.
template <int rows, int tiles, weight_kind kind>
SIMD_INLINE void direct_rows_of(const block_span& s, int count) {
    if constexpr (rows > 0) {
        if (count == rows) {
            direct_block<rows, tiles, kind>(s);
        } else {
            direct_rows_of<rows - 1, tiles, kind>(s, count);
        }
    }
}

/// Rows of activations against codes as they lie. The last tile of an odd number takes them one by
/// one: that is rare, and a set of loops less.
template <int tiles, weight_kind kind>
SIMD void direct_rows(block_span s, int count) {
    constexpr int rows_max = tiles == quant_tiles ? direct_rows_max : 1;
    // As even as they can be: 5 rows are 3 and 2, not 4 and 1.
    const int passes = (count + rows_max - 1) / rows_max;
    for (int pass = 0; pass < passes; ++pass) {
        const int rows = count / passes + (pass < count % passes ? 1 : 0);
        direct_rows_of<rows_max, tiles, kind>(s, rows);
        s.prefetch_distance = 0;  // the first pass over the rows has prefetched all
        s.corrections += rows * s.correction_stride;
        s.q += rows * s.cols;
        s.x_scales += rows * s.groups;
        s.y += static_cast<std::size_t>(rows) * s.ldy;
    }
}
