// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text that remembers which of its bytes a request brought ("content") and which a template wrote.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/text_range.hpp"

namespace semantic::engine::jinja {

using byte_range = text_range;

/// UTF-8 and its content ranges: in order, none empty, apart from each other (neighbours are
/// joined). A plain value. Whatever is built from pieces of such texts keeps the marks of each
/// piece.
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
    /// Appends what a template writes, and what it fills in of a request.
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

    /// HTML that needs no escaping, as the filters safe and escape leave it: `+` escapes what it
    /// joins to it. Nothing else keeps the flag.
    bool is_markup = false;

  private:
    void mark(std::size_t begin, std::size_t end);
    std::string bytes_;
    std::vector<byte_range> content_;
};

// Characters of UTF-8 by their code points. A byte that begins no character counts as one.

std::size_t count_characters(std::string_view text) noexcept;
/// The byte where character `index` begins; the size of `text` when there are fewer.
std::size_t byte_of_character(std::string_view text, std::size_t index) noexcept;
/// The end of the character that begins at `at`, which is < the size of `text`.
std::size_t next_character(std::string_view text, std::size_t at) noexcept;
/// Its code point; -1 for stray bytes.
std::int32_t character_at(std::string_view text, std::size_t at) noexcept;
/// The first position of `needle` at or after `from`; npos when there is none. Linear, whatever the
/// texts.
std::size_t find_text(std::string_view text, std::string_view needle, std::size_t from) noexcept;
/// What Python's str.isspace() takes for white space.
bool is_python_space(std::int32_t code) noexcept;
/// Bytes [begin, end) of `text` without white space at its ends.
byte_range stripped(std::string_view text, bool left, bool right) noexcept;

}  // namespace semantic::engine::jinja
