#include "tests/cost/hostile_text.hpp"

#include <algorithm>
#include <array>

namespace semantic::cost {

namespace {

constexpr int depth_max = 90;

}  // namespace

std::string hostile_text::make(std::size_t bytes_max) {
    counted_ = 0;
    constexpr std::array<std::size_t, 5> counts{1, 2, 10, 300, 20'000};
    names_ = counts[below(counts.size())];
    const std::size_t bytes = bytes_max > words_.frame.size() ? bytes_max - words_.frame.size() : 1;
    return written(words_.frame, bytes, 0);
}

// How what is left is divided: one piece repeated, several in turn, or one within the other.
std::string hostile_text::filled(std::size_t bytes, int depth) {
    std::string out;
    const std::size_t way = below(4);
    if (way == 0 || bytes < 4 || depth >= depth_max) {
        const std::string_view piece = any_piece();
        while (out.size() < bytes) {
            if (!out.empty()) out += words_.separator;
            out += written(piece, depth >= depth_max ? 0 : below(3) * 8, depth_max);
        }
    } else if (way == 1) {
        out = written(any_piece(), bytes, depth + 1);
    } else {
        const std::size_t parts = way == 2 ? 2 + below(4) : 2 + below(100);
        std::vector<std::string_view> chosen;
        for (std::size_t i = 0; i < 1 + below(3); ++i) chosen.push_back(any_piece());
        for (std::size_t i = 0; i < parts && out.size() < bytes; ++i) {
            if (i > 0) out += words_.separator;
            out += written(chosen[i % chosen.size()], bytes / parts, depth + 1);
        }
    }
    return out;
}

std::string hostile_text::written(std::string_view piece, std::size_t bytes, int depth) {
    std::string out;
    const auto holes = static_cast<std::size_t>(std::count(piece.begin(), piece.end(), '~') +
                                                std::count(piece.begin(), piece.end(), '^') +
                                                std::count(piece.begin(), piece.end(), '$'));
    const std::size_t share = holes == 0 ? 0 : bytes / holes;
    for (const char c : piece) {
        if (c == '#') {
            out += std::to_string(counted_++);
        } else if (c == '%') {
            constexpr std::array<std::string_view, 8> numbers{"0",  "1",    "2",    "9",
                                                              "99", "1000", "9999", "16777216"};
            out += numbers[below(numbers.size())];
        } else if (c == '@') {
            out += "n" + std::to_string(below(names_));
        } else if (c == '$') {
            constexpr std::array<std::string_view, 6> texts{"a", "ab", "1", " ", "é", "<|im_end|>"};
            const std::string_view text = texts[below(texts.size())];
            const std::size_t size = 1 + below(share + 4);
            for (std::string_view rest = text; out.size() < size; out += rest) continue;
            if (out.empty()) out += text;
        } else if (c == '~') {
            out += filled(share, depth + 1);
        } else if (c == '^') {
            out += depth >= depth_max || share < 4 ? written(words_.pieces[0], 0, depth_max)
                                                   : written(any_piece(), share, depth + 1);
        } else {
            out += c;
        }
        if (out.size() > 2 * input_bytes_max) break;
    }
    return out;
}

std::string hostile_text::mutated(std::string text, std::size_t bytes_max) {
    const std::size_t changes = 1 + below(3);
    for (std::size_t i = 0; i < changes && !text.empty(); ++i) {
        const std::size_t at = below(text.size());
        const std::size_t size = 1 + below(std::min<std::size_t>(text.size() - at, 200));
        const std::string slice = text.substr(at, size);
        switch (below(6)) {
            case 0: {  // again and again
                std::string more;
                const std::size_t times = 1 + below(400);
                for (std::size_t k = 0; k < times && text.size() + more.size() < bytes_max; ++k)
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
            case 3:
                text.insert(at, written(any_piece(), below(200), depth_max - 4));
                break;
            case 4: {  // a number becomes another one
                const std::size_t digit = text.find_first_of("0123456789", at);
                if (digit != std::string::npos) text[digit] = static_cast<char>('0' + below(10));
                break;
            }
            default:  // all of it twice
                if (text.size() * 2 < bytes_max)
                    text.insert(text.size() / 2, text.substr(text.size() / 4, text.size() / 2));
                break;
        }
    }
    if (text.size() > bytes_max) text.resize(bytes_max);
    return text;
}

}  // namespace semantic::cost
