// SPDX-License-Identifier: Apache-2.0
#pragma once
// The normalizer of tokenizer.json, which rewrites text before it is split. For every byte of the
// result it keeps where its source ends, so that tokens get offsets in the original text.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/text/tokenizer/regex.hpp"

namespace boost::json {
class value;
}

namespace semantic::engine {

struct normalized_text {
    std::string text;
    /// For each byte of `text` the end of its source in the original. Empty: all offsets are equal.
    std::vector<std::uint32_t> ends;

    /// The end in the original text of the source of the first `position` bytes.
    std::uint32_t source_end(std::size_t position) const {
        if (position == 0) return 0;
        return ends.empty() ? static_cast<std::uint32_t>(position) : ends[position - 1];
    }
};

class normalizer {
  public:
    /// Errors: incompatible, with the type that is not supported.
    static storage::result<normalizer> parse(const boost::json::value& json);

    bool empty() const noexcept { return steps_.empty(); }
    normalized_text apply(std::string_view text) const;
    /// Whether a text that ends just before `right` can be normalised without it, with the same
    /// result. False if in doubt.
    bool parts_before(std::string_view right) const;
    /// Whether it adds text before every section, so that a section cannot be cut.
    bool prepends() const noexcept;
    /// The most bytes of the original that one byte of the result can come from; 0: any number.
    std::size_t shrinks_at_most() const noexcept;

  private:
    enum class form { nfc, nfkc };
    struct replace {
        regex pattern;
        std::string content;
        bool single_character;  // the pattern is a text of one character
        bool shortens;          // the replacement may be shorter
    };
    struct prepend {
        std::string text;
    };
    using step = std::variant<form, replace, prepend>;

    storage::result<void> add(const boost::json::value& json);
    static void run(form wanted, normalized_text& text);
    static void run(const replace& rule, normalized_text& text);
    static void run(const prepend& prefix, normalized_text& text);

    std::vector<step> steps_;  // done in order
};

}  // namespace semantic::engine
