// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text with marks of which bytes come from a request ("content") and which a template wrote.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/text_range.hpp"

namespace semantic::engine::jinja {

using byte_range = text_range;

/// UTF-8 text and its content ranges: ascending, not empty, not touching. A plain value. Texts that
/// are built from pieces of such texts keep the marks of each piece.
class marked_text {
  public:
    marked_text() = default;
    marked_text(std::string bytes, bool is_content);
    marked_text(std::string bytes, std::vector<byte_range> content)
        : bytes_(std::move(bytes)), content_(std::move(content)) {}

    const std::string& bytes() const noexcept { return bytes_; }
    const std::vector<byte_range>& content() const noexcept { return content_; }
    bool operator==(const marked_text&) const = default;
    std::size_t size() const noexcept { return bytes_.size(); }
    bool empty() const noexcept { return bytes_.empty(); }
    /// Whether byte `at`, which is < size(), is content.
    bool is_content(std::size_t at) const noexcept;

    void append(std::string_view text, bool is_content);
    /// write() appends text of the template, fill_in() text of a request, which is content.
    marked_text& write(std::string_view text) {
        append(text, false);
        return *this;
    }
    marked_text& fill_in(std::string_view text) {
        append(text, true);
        return *this;
    }
    void append(const marked_text& text) { append(text, 0, text.size()); }
    /// Bytes [begin, end) of `text`, with their marks.
    void append(const marked_text& text, std::size_t begin, std::size_t end);
    marked_text part(std::size_t begin, std::size_t end) const;

    /// Set by the filters safe and escape: the text is HTML, and `+` escapes texts that it joins to
    /// it. All other operations clear the flag.
    bool is_markup = false;

  private:
    /// Marks bytes [begin, end) as content. Requires: no later byte is marked.
    void mark(std::size_t begin, std::size_t end);
    std::string bytes_;
    std::vector<byte_range> content_;
};

// Functions on characters of UTF-8. An invalid byte counts as one character.

std::size_t count_characters(std::string_view text) noexcept;
/// The byte where character `index` begins; the size of `text` when there are fewer.
std::size_t byte_of_character(std::string_view text, std::size_t index) noexcept;
/// The end of the character that begins at `at`, which is < the size of `text`.
std::size_t next_character(std::string_view text, std::size_t at) noexcept;
/// The code point of the character at `at`; -1 for invalid bytes.
std::int32_t character_at(std::string_view text, std::size_t at) noexcept;
/// The first position of `needle` at or after `from`; npos if there is none. In linear time for all
/// texts.
std::size_t find_text(std::string_view text, std::string_view needle, std::size_t from) noexcept;
/// Whether Python's str.isspace() counts the code point as white space.
bool is_python_space(std::int32_t code) noexcept;
/// Bytes [begin, end) of `text` without white space at its ends.
byte_range stripped(std::string_view text, bool left, bool right) noexcept;

}  // namespace semantic::engine::jinja
