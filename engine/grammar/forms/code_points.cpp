// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/forms/code_points.hpp"

#include <algorithm>
#include <array>

namespace semantic::engine {

namespace {

using symbol = grammar_builder::symbol;
using sequence = grammar_builder::sequence;

constexpr code_range halves{0xD800, 0xDFFF};  // surrogates

// The code points with 1, 2, 3 and 4 bytes in UTF-8.
constexpr std::array<code_range, 4> lengths{
    code_range{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, code_point_max}};

std::uint32_t lead_of(int length) {
    constexpr std::array<std::uint32_t, 4> marks{0, 0xC0, 0xE0, 0xF0};
    return marks[static_cast<std::size_t>(length - 1)];
}

byte_set bytes_between(std::uint32_t first, std::uint32_t last) {
    byte_set set;
    for (std::uint32_t byte = first; byte <= last; ++byte) set.set(byte);
    return set;
}

// Writes a range of characters as sequences of ranges of bytes. In UTF-8 the order of characters is
// that of their bytes; a range is cut so that in each piece all bytes after the first one that
// varies take all of their values.
class range_writer {
  public:
    range_writer(grammar_builder& out, std::vector<sequence>& ways) : out_(out), ways_(ways) {}

    void write(code_range range) {
        for (std::size_t i = 0; i < lengths.size(); ++i) {
            const std::uint32_t first = std::max(range.first, lengths[i].first);
            const std::uint32_t last = std::min(range.last, lengths[i].last);
            const int length = static_cast<int>(i) + 1;
            if (first <= last) split({}, first, last, length, lead_of(length));
        }
    }

  private:
    /// Writes the last `left` bytes of a range; `mark`: the fixed bits of the first of them.
    void split(sequence before, std::uint32_t first, std::uint32_t last, int left,
               std::uint32_t mark) {
        const int shift = 6 * (left - 1);
        std::uint32_t head = first >> shift;
        const std::uint32_t end = last >> shift;
        if (left == 1) {
            before.push_back(out_.bytes(bytes_between(mark | head, mark | end)));
            ways_.push_back(std::move(before));
            return;
        }
        const std::uint32_t rest = (std::uint32_t{1} << shift) - 1;
        if (head == end) {
            before.push_back(out_.bytes(bytes_between(mark | head, mark | head)));
            return split(std::move(before), first & rest, last & rest, left - 1, 0x80);
        }
        if ((first & rest) != 0) {
            split(before, first, (head << shift) | rest, left, mark);
            ++head;
        }
        const bool cut = (last & rest) != rest;
        const std::uint32_t whole_end = cut ? end - 1 : end;
        // -1: `end` is 0 and is cut, so no whole head is left.
        if (head <= whole_end && whole_end != static_cast<std::uint32_t>(-1)) {
            sequence whole = before + out_.bytes(bytes_between(mark | head, mark | whole_end));
            for (int i = 1; i < left; ++i) whole = whole + out_.bytes(bytes_between(0x80, 0xBF));
            ways_.push_back(std::move(whole));
        }
        if (cut) split(std::move(before), end << shift, last, left, mark);
    }

    grammar_builder& out_;
    std::vector<sequence>& ways_;
};

}  // namespace

std::vector<code_range> sorted(std::vector<code_range> ranges) {
    // Cuts out surrogates, sorts, and joins ranges that touch.
    std::vector<code_range> parts;
    for (code_range range : ranges) {
        range.last = std::min(range.last, code_point_max);
        if (range.first < halves.first && range.first <= range.last)
            parts.push_back({range.first, std::min(range.last, halves.first - 1)});
        if (range.last > halves.last)
            parts.push_back({std::max(range.first, halves.last + 1), range.last});
    }
    std::ranges::sort(parts, {}, &code_range::first);
    std::vector<code_range> out;
    for (const code_range& range : parts) {
        if (!out.empty() && range.first <= out.back().last + 1)
            out.back().last = std::max(out.back().last, range.last);
        else
            out.push_back(range);
    }
    return out;
}

std::vector<code_range> all_but(const std::vector<code_range>& ranges) {
    std::vector<code_range> out;
    std::uint32_t next = 0;
    for (const code_range& range : ranges) {
        if (range.first > next) out.push_back({next, range.first - 1});
        next = range.last + 1;
    }
    if (next <= code_point_max) out.push_back({next, code_point_max});
    return sorted(std::move(out));
}

symbol one_character_of(grammar_builder& out, std::vector<code_range> ranges) {
    std::vector<sequence> ways;
    range_writer writer(out, ways);
    // All characters of one byte become one set.
    byte_set plain;
    for (const code_range& range : sorted(std::move(ranges))) {
        for (std::uint32_t c = range.first; c <= std::min<std::uint32_t>(range.last, 0x7F); ++c)
            plain.set(c);
        if (range.last > 0x7F)
            writer.write({std::max<std::uint32_t>(range.first, 0x80), range.last});
    }
    if (plain.any()) ways.push_back({out.bytes(plain)});
    if (ways.size() == 1 && ways[0].size() == 1) return ways[0][0];
    return out.any_of(std::move(ways));
}

}  // namespace semantic::engine
