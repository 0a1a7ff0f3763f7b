// SPDX-License-Identifier: Apache-2.0
#include "tests/cost/hostile_text.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace semantic::cost {

namespace {

constexpr int depth_max = 120;
// Below so many bytes a place gets the first piece of its kind.
constexpr std::size_t bytes_least = 8;

/// Holes that divide what there is room for.
std::size_t holes_of(std::string_view piece) {
    std::size_t holes = 0;
    for (std::size_t i = 0; i + 1 < piece.size(); ++i) {
        if (piece[i] != '`') continue;
        const char mark = piece[++i];
        holes += mark == '*' || mark == '1' || mark == '$' ? 1 : 0;
    }
    return holes;
}

}  // namespace

std::string hostile_text::make(std::uint64_t seed, std::size_t bytes) {
    for (;; bytes /= 2) {
        random_.seed(seed);
        counted_ = 0;
        constexpr std::array<std::size_t, 5> counts{1, 2, 10, 300, 20'000};
        names_ = counts[below(counts.size())];
        std::string text = written(words_.frame, bytes, 0);
        if (text.size() <= input_bytes_max) return text;
    }
}

const piece_kind& hostile_text::kind_of(char letter) const {
    const auto found = std::ranges::find(words_.kinds, letter, &piece_kind::letter);
    if (found == words_.kinds.end())
        throw std::logic_error(std::string("no kind of pieces is called ") + letter);
    return *found;
}

std::string hostile_text::one(const piece_kind& kind, std::size_t bytes, int depth) {
    if (depth >= depth_max || bytes < bytes_least) return written(kind.pieces[0], 0, depth_max);
    return written(kind.pieces[below(kind.pieces.size())], bytes, depth + 1);
}

// How what is left is divided: one piece repeated, one, or several in turn.
std::string hostile_text::listed(const piece_kind& kind, std::size_t bytes, int depth) {
    if (depth >= depth_max || bytes < bytes_least) return one(kind, 0, depth);
    const std::size_t way = below(4);
    if (way == 0) return one(kind, bytes, depth);
    std::vector<std::string_view> chosen;
    for (std::size_t i = 0; i < 1 + below(3); ++i)
        chosen.push_back(kind.pieces[below(kind.pieces.size())]);
    // Very many small ones, or some that are large.
    const std::size_t parts = way == 1 ? bytes : way == 2 ? 2 + below(4) : 2 + below(100);
    const std::size_t share = bytes / parts;
    std::string out;
    for (std::size_t i = 0; i < parts && (i == 0 || out.size() < bytes); ++i) {
        if (i > 0) out += kind.separator;
        out +=
            written(chosen[i % chosen.size()], std::max<std::size_t>(share, below(24)), depth + 1);
    }
    return out;
}

std::string hostile_text::long_text(std::size_t bytes) {
    constexpr std::array<std::string_view, 6> texts{"a", "ab", "1", " ", "é", "<|im_end|>"};
    const std::string_view text = texts[below(texts.size())];
    const std::size_t size = 1 + below(bytes + 4);
    std::string out;
    while (out.size() < size) out += text;
    return out;
}

std::string hostile_text::written(std::string_view piece, std::size_t bytes, int depth) {
    constexpr std::array<std::string_view, 8> numbers{"0",  "1",    "2",    "9",
                                                      "99", "1000", "9999", "16777216"};
    const std::size_t holes = holes_of(piece);
    const std::size_t share = holes == 0 ? 0 : bytes / holes;
    std::string out;
    for (std::size_t i = 0; i < piece.size(); ++i) {
        if (piece[i] != '`' || i + 1 == piece.size()) {
            out += piece[i];
            continue;
        }
        switch (piece[++i]) {
            case '#':
                out += std::to_string(counted_++);
                break;
            case '=':
                out += std::to_string(counted_ == 0 ? 0 : counted_ - 1);
                break;
            case '%':
                out += numbers[below(numbers.size())];
                break;
            case '@':
                out += 'n' + std::to_string(below(names_));
                break;
            case '$':
                out += long_text(share);
                break;
            case '*':
                out += listed(kind_of(piece[++i]), share, depth);
                break;
            case '1':
                out += one(kind_of(piece[++i]), share, depth);
                break;
            default:
                out += piece[i];
                break;
        }
    }
    return out;
}

std::string hostile_text::mutated(std::string text, std::uint64_t seed) {
    random_.seed(seed);
    const std::size_t changes = 1 + below(3);
    for (std::size_t i = 0; i < changes && !text.empty(); ++i) {
        const std::size_t at = below(text.size());
        const std::size_t size = 1 + below(std::min<std::size_t>(text.size() - at, 200));
        const std::string slice = text.substr(at, size);
        switch (below(6)) {
            case 0: {  // again and again
                std::string more;
                const std::size_t times = 1 + below(400);
                for (std::size_t k = 0; k < times && text.size() + more.size() < input_bytes_max;
                     ++k)
                    more += slice;
                text.insert(at, more);
                break;
            }
            case 1:
                text.erase(at, size);
                break;
            case 2:
                text.insert(below(text.size()), slice);
                break;
            case 3: {
                const piece_kind& kind = words_.kinds[below(words_.kinds.size())];
                text.insert(at, one(kind, below(200), depth_max - 4));
                break;
            }
            case 4: {  // a number becomes another one
                const std::size_t digit = text.find_first_of("0123456789", at);
                if (digit != std::string::npos) text[digit] = static_cast<char>('0' + below(10));
                break;
            }
            default:  // all of it twice
                if (text.size() * 2 < input_bytes_max)
                    text.insert(text.size() / 2, text.substr(text.size() / 4, text.size() / 2));
                break;
        }
    }
    if (text.size() > input_bytes_max) text.resize(input_bytes_max);
    return text;
}

}  // namespace semantic::cost
