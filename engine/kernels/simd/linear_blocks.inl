// Matrix products of GGUF's packed types (block_forms.hpp): how their codes and scales are read,
// and products of a few rows of activations, which read them as they lie. linear_unpacked.inl has
// products of more rows. See elements.inl for how this is used.

constexpr int direct_rows_max = quant_tiles > 1 ? 4 : 2;  // of a register tile
constexpr index corrected_groups = 8;  // of 64 inputs whose corrections are counted at once

/// Additions of pairs of quads after which a dot_sum has to carry; 0: codes are whole bytes.
constexpr int pairs_per_carry(const block_form& form) {
    if (byte_offset == 0) {
        return 4;  // sums of 32 bits: never, and all types share their loops
    }
    return form.largest > 63 ? 0 : form.largest > 31 ? 1 : form.largest > 15 ? 2 : 4;
}

/// Corrections of a row and a group of 64 inputs, see correct_stretch().
constexpr index corrections_of(const block_form& form) {
    return form.offset_parts > 0 ? form.offset_parts : form.scale_parts;
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

SIMD_INLINE void prefetch_share(const block_span& s, int t, index group) {
    if (s.prefetch_distance > 0) {
        prefetch_record(s.tile + static_cast<std::size_t>(t) * s.tile_bytes +
                            static_cast<std::size_t>(group) * s.group_bytes + s.prefetch_distance,
                        s.group_bytes);
    }
}

/// Corrections of one row and at most corrected_groups groups: of types with offsets the sums of
/// their parts' activations as floats; of the others what the integer sums start from, because
/// codes are multiplied as they are and not less their zero. See correction_at().
template <weight_kind kind>
SIMD_INLINE void correct_stretch(const std::int16_t* sums, index groups, std::int32_t* out) {
    constexpr block_form form = block_form_of(kind);
    constexpr bool pairs = corrections_of(form) == 2;  // of parts of 16 inputs make one of 32
    constexpr int zero = pairs_per_carry(form) == 0 ? form.zero + byte_offset : form.zero;
    constexpr int factor = form.offset_parts > 0 ? 1 : -zero;
    std::int16_t padded[4 * corrected_groups];
    if (groups < corrected_groups) {
        for (index i = 0; i < 4 * corrected_groups; ++i) {
            padded[i] = i < 4 * groups ? sums[i] : std::int16_t{0};
        }
        sums = padded;
    }
    constexpr int even = factor & 0xffff, odd = factor * 0x10000;
    const auto store_products = [&](int factors, std::int32_t* to) SIMD {
        const i16 products = add_pairs(zero_words(), load_words(sums), set1_word(&factors));
        if constexpr (form.offset_parts > 0) {
            store(reinterpret_cast<float*>(to), to_floats(products));
        } else {
            store_words(to, products);
        }
    };
    if constexpr (pairs) {
        store_products(odd | even, out);
    } else {
        store_products(even, out);
        store_products(odd, out + 16);
    }
}
/// Where the correction of the first part of group `group` of corrections is; that of part i is
/// part_step(i) further. Even and odd ones of four parts lie apart.
constexpr index correction_at(index parts, index group) {
    return group / corrected_groups * corrected_groups * parts + group % corrected_groups * 2;
}
constexpr int part_step(int parts, int i) { return parts == 4 ? i % 2 * 16 + i / 2 : i; }

template <weight_kind kind>
SIMD void correct(const std::int16_t* sums, index groups, std::int32_t* out) {
    for (index g = 0; g < groups; g += corrected_groups) {
        correct_stretch<kind>(sums + 4 * g,
                              groups - g < corrected_groups ? groups - g : corrected_groups,
                              out + g * corrections_of(block_form_of(kind)));
    }
}

/// A group of 64 inputs of one tile.
template <weight_kind kind>
struct block_group {
    static constexpr block_form form = block_form_of(kind);

    const std::byte* header;
    const std::byte* codes;
    index part;  // the group's first of the record

    SIMD_INLINE const std::byte* part_bytes(index array, index i) const {
        constexpr index halves = form.offset_parts > 0 ? 2 : 1;
        constexpr index parts = form.groups * group_size / form.part;
        return header + (2 * halves + array * parts + part + i) * lane_count;
    }
    SIMD_INLINE v16 header_half(index i) const { return load_half(header + i * 2 * lane_count); }

    SIMD_INLINE v16 scale(index i) const {
        if constexpr (form.groups == 1) {
            return header_half(i);
        } else if constexpr (form.scale_parts == 1) {
            return header_half(0);
        } else {
            return mul(header_half(0), to_floats(widen_signed_bytes(part_bytes(0, i))));
        }
    }
    SIMD_INLINE v16 offset(index i) const {
        if constexpr (form.groups == 1) {
            return header_half(2 + i);
        } else {
            const v16 negative = mul(header_half(1), set1(-1.0f));
            const i16 minimum = form.scale_parts == 1 ? high_nibbles(widen_bytes(part_bytes(0, i)))
                                                      : widen_bytes(part_bytes(1, i));
            return mul(negative, to_floats(minimum));
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

/// Where the two quads lie in the group that pair j (0 to 3) of a half (32 inputs) unpacks.
template <weight_kind kind, int j>
SIMD_INLINE constexpr index first_quad(index half_group) {
    return half_group * 8 + (block_form_of(kind).part == 32 ? j : j / 2 * 4 + j % 2);
}
template <weight_kind kind>
constexpr index quad_gap = block_form_of(kind).part == 32 ? 4 : 2;

/// The codes of two quads, as they are multiplied.
template <weight_kind kind, int j>
SIMD_INLINE void unpack_pair(const block_group<kind>& group, index half_group, i16& a, i16& b) {
    constexpr code_planes planes = block_form_of(kind).planes;
    const index part = half_group * 2 + j / 2;
    constexpr int quad = j % 2;  // within a part of 16 inputs; the other is quad + 2
    if constexpr (planes == code_planes::nibbles) {
        const i16 both = load_words(group.codes + (half_group * 4 + j) * 64);
        a = low_nibbles(both);
        b = high_nibbles(both);
        if constexpr (is_looked_up(kind)) {
            a = look_up(iq4_raised_levels, a);
            b = look_up(iq4_raised_levels, b);
        }
    } else if constexpr (planes == code_planes::nibbles_fifths) {
        const std::byte* at = group.codes + half_group * 320;
        const i16 both = load_words(at + j * 64), fifths = load_words(at + 256);
        a = or_masked<16>(low_nibbles(both), move_bits<j, 4>(fifths));
        b = or_masked<16>(high_nibbles(both), move_bits<j + 4, 4>(fifths));
    } else if constexpr (planes == code_planes::bytes) {
        a = load_words(group.codes + (half_group * 8 + j) * 64);
        b = load_words(group.codes + (half_group * 8 + j + 4) * 64);
    } else if constexpr (planes == code_planes::twos) {
        const i16 twos = load_words(group.codes + part * 64);
        const i16 scales = double_shorts(low_nibbles(widen_bytes(group.part_bytes(0, part))));
        a = multiply_shorts(mask_bytes<3>(move_bits<2 * quad, 0>(twos)), scales);
        b = multiply_shorts(mask_bytes<3>(move_bits<2 * quad + 4, 0>(twos)), scales);
    } else if constexpr (planes == code_planes::twos_thirds) {
        constexpr int bit = j / 2 * 4 + quad;
        const i16 twos = load_words(group.codes + part * 64);
        const i16 thirds = load_words(group.codes + (4 + half_group) * 64);
        a = or_masked<4>(mask_bytes<3>(move_bits<2 * quad, 0>(twos)), move_bits<bit, 2>(thirds));
        b = or_masked<4>(mask_bytes<3>(move_bits<2 * quad + 4, 0>(twos)),
                         move_bits<bit + 2, 2>(thirds));
    } else {
        const std::byte* at = group.codes + part * 192;
        const i16 both = load_words(at + quad * 64), twos = load_words(at + 128);
        a = or_masked<48>(low_nibbles(both), move_bits<2 * quad, 4>(twos));
        b = or_masked<48>(high_nibbles(both), move_bits<2 * quad + 4, 4>(twos));
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

/// Adds a pair of quads to the sums of their part.
template <int rows, int tiles, weight_kind kind, int j, class Sum>
SIMD_INLINE void add_pair(const block_group<kind> (&groups)[tiles], index half_group,
                          const std::int8_t* q, index cols, Sum (&dots)[rows][tiles]) {
    constexpr int per_carry = pairs_per_carry(block_form_of(kind));
    constexpr int pairs = block_form_of(kind).part == 32 ? 4 : 2;  // of a part
    const index quad = first_quad<kind, j>(half_group);
    i16 a[tiles], b[tiles];
#pragma GCC unroll 4
    for (int t = 0; t < tiles; ++t) {
        unpack_pair<kind, j>(groups[t], half_group, a[t], b[t]);
    }
#pragma GCC unroll 4
    for (int m = 0; m < rows; ++m) {
        const i16 x = set1_word(q + m * cols + 4 * quad);
        const i16 upper = set1_word(q + m * cols + 4 * (quad + quad_gap<kind>));
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            add_codes<per_carry>(dots[m][t], a[t], x);
            add_codes<per_carry>(dots[m][t], b[t], upper);
            if constexpr (per_carry > 0 && (j + 1) % (per_carry < pairs ? per_carry : pairs) == 0) {
                carry(dots[m][t]);
            }
        }
    }
}

/// Some rows of activations and a group of 64 inputs of some tiles.
template <int rows, int tiles, weight_kind kind>
struct direct_group {
    static constexpr block_form form = block_form_of(kind);
    static constexpr int per_carry = pairs_per_carry(form);

    block_group<kind> groups[tiles];
    const std::int8_t* q;
    index cols;
    const std::int32_t* corrections;
    index stride;                                // from one row of corrections to the next
    dot_sum<(per_carry > 0)> dots[rows][tiles];  // of the part at hand
    v16 scaled[rows][tiles];                     // t of kernel_table::linear_quant

    SIMD_INLINE void start_part(int part) {
#pragma GCC unroll 4
        for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                start_sum<per_carry, (form.offset_parts > 0)>(
                    dots[m][t], corrections + m * stride + part_step(form.scale_parts, part));
            }
        }
    }
    SIMD_INLINE void finish_part(int part) {
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            const v16 scale = groups[t].scale(part);
#pragma GCC unroll 4
            for (int m = 0; m < rows; ++m) {
                const v16 dot = to_floats(dots[m][t].words);
                scaled[m][t] = part == 0 ? mul(scale, dot) : fma(scale, dot, scaled[m][t]);
            }
        }
    }
    SIMD_INLINE void add_offset(int part) {
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            const v16 offset = groups[t].offset(part);
#pragma GCC unroll 4
            for (int m = 0; m < rows; ++m) {
                const std::int32_t* sum =
                    corrections + m * stride + part_step(form.offset_parts, part);
                scaled[m][t] = fma(offset, set1_float(sum), scaled[m][t]);
            }
        }
    }
    template <int j>
    SIMD_INLINE void add_quads(int half_group) {
        add_pair<rows, tiles, kind, j>(groups, half_group, q, cols, dots);
    }
    SIMD_INLINE void add_half(int half_group) {
        constexpr int parts = form.scale_parts;
        const int first = half_group * parts / 2;
        if (parts > 1 || half_group == 0) start_part(first);
        add_quads<0>(half_group);
        add_quads<1>(half_group);
        if constexpr (parts == 4) {
            finish_part(first);
            start_part(first + 1);
        }
        add_quads<2>(half_group);
        add_quads<3>(half_group);
        if (parts > 1 || half_group == 1) finish_part(parts == 4 ? first + 1 : first);
    }
};

/// `rows` activations against the codes as they lie.
template <int rows, int tiles, weight_kind kind>
SIMD void direct_block(const block_span& s) {
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
    for (index g = s.group_begin; g < s.group_end; ++g) {
        direct_group<rows, tiles, kind> at;
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            at.groups[t] = find_group<kind>(s.tile + static_cast<std::size_t>(t) * s.tile_bytes, g);
            prefetch_share(s, t, g);
        }
        at.q = s.q + g * group_size;
        at.cols = s.cols;
        at.corrections =
            s.corrections + correction_at(corrections_of(block_form_of(kind)), g - s.group_begin);
        at.stride = s.correction_stride;
        at.add_half(0);
        at.add_half(1);
        if constexpr (constexpr int offsets = block_form_of(kind).offset_parts; offsets > 0) {
#pragma GCC unroll 4
            for (int part = 0; part < offsets; ++part) {
                at.add_offset(part);
            }
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
