// SPDX-License-Identifier: Apache-2.0
#include "engine/text/jinja/values/marked_text.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine::jinja {

marked_text::marked_text(std::string bytes, bool is_content) : bytes_(std::move(bytes)) {
    if (is_content) mark(0, bytes_.size());
}

void marked_text::mark(std::size_t begin, std::size_t end) {
    if (begin == end) return;
    if (!content_.empty() && content_.back().end == begin) {
        content_.back().end = end;
    } else {
        content_.push_back({begin, end});
    }
}

bool marked_text::is_content(std::size_t at) const noexcept {
    const auto next = std::upper_bound(
        content_.begin(), content_.end(), at,
        [](std::size_t place, const byte_range& range) { return place < range.end; });
    return next != content_.end() && next->begin <= at;
}

void marked_text::append(std::string_view text, bool is_content) {
    const std::size_t begin = bytes_.size();
    bytes_.append(text);
    if (is_content) mark(begin, bytes_.size());
}

void marked_text::append(const marked_text& text, std::size_t begin, std::size_t end) {
    const std::size_t here = bytes_.size();
    bytes_.append(text.bytes_, begin, end - begin);
    auto range =
        std::upper_bound(text.content_.begin(), text.content_.end(), begin,
                         [](std::size_t place, const byte_range& one) { return place < one.end; });
    for (; range != text.content_.end() && range->begin < end; ++range) {
        mark(here + std::max(range->begin, begin) - begin,
             here + std::min(range->end, end) - begin);
    }
}

marked_text marked_text::part(std::size_t begin, std::size_t end) const {
    marked_text out;
    out.append(*this, begin, end);
    return out;
}

/// Characters are counted by so many bytes at a time: the count then fits a byte, and the compiler
/// makes a loop of it that handles many bytes at once.
constexpr std::size_t stretch = 255;

std::size_t count_characters(std::string_view text) noexcept {
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size(); at += stretch) {
        std::uint8_t begun = 0;
        for (const char byte : text.substr(at, stretch)) begun += !utf8::is_continuation(byte);
        count += begun;
    }
    return count;
}

std::size_t byte_of_character(std::string_view text, std::size_t index) noexcept {
    if (index == 0 || text.empty()) return 0;
    // Skips whole stretches as long as the character does not begin inside of one.
    std::size_t at = 1;
    for (; at + stretch <= text.size(); at += stretch) {
        const std::size_t begun = count_characters(text.substr(at, stretch));
        if (begun >= index) break;
        index -= begun;
    }
    for (; at < text.size(); ++at)
        if (!utf8::is_continuation(text[at]) && --index == 0) return at;
    return text.size();
}

std::size_t next_character(std::string_view text, std::size_t at) noexcept {
    do {
        ++at;
    } while (at < text.size() && utf8::is_continuation(text[at]));
    return at;
}

std::int32_t character_at(std::string_view text, std::size_t at) noexcept {
    const auto byte = static_cast<unsigned char>(text[at]);
    return byte < 0x80 ? byte : utf8::next(text.substr(at)).code;
}

std::size_t find_text(std::string_view text, std::string_view needle, std::size_t from) noexcept {
    if (from > text.size()) return std::string_view::npos;
    if (needle.empty()) return from;
    const void* found =
        ::memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
    return found == nullptr
               ? std::string_view::npos
               : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

bool is_python_space(std::int32_t code) noexcept {
    if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 28 && code <= 32);
    return utf8::is_space(code);
}

byte_range stripped(std::string_view text, bool left, bool right) noexcept {
    std::size_t begin = 0, end = text.size();
    while (left && begin < end && is_python_space(character_at(text, begin))) {
        begin = next_character(text, begin);
    }
    while (right && end > begin) {
        const std::size_t last = utf8::start_of_last(text, end);
        if (!is_python_space(character_at(text, last))) break;
        end = last;
    }
    return {begin, end};
}

}  // namespace semantic::engine::jinja
