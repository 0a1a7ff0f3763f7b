// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds added tokens (such as <|im_end|>): they are searched for in a text by their spelling,
// before the rest is split and merged. Immutable after build; safe from any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer/normalizer.hpp"
#include "engine/types/text_range.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

struct added_token {
    storage::token_id id = 0;
    std::string content;
    bool special = false;
    bool normalized = false;   // searched in the normalised text
    bool single_word = false;  // found only if no word character is next to it
    bool lstrip = false;       // includes the white space before it
    bool rstrip = false;       // includes the white space after it
};

/// The parts of a text that are content (what clients wrote): special tokens are not recognised
/// there. A view.
struct content_view {
    std::span<const text_range> ranges{};    // of the original text; ascending, not overlapping
    std::size_t begin = 0;                   // where the searched section begins in that text
    const normalized_text* moved = nullptr;  // the searched section, if it was normalised
    /// Whether a part of the range `where` of the searched section is content.
    bool touches(text_range where) const;
};

class added_token_finder {
  public:
    /// `spelling`: the text to search for: token.content, or its normalised form.
    void add(std::string_view spelling, const added_token& token);

    struct hit {
        text_range where;  // including white space
        storage::token_id id;
        text_range spelling;  // without white space
    };
    /// All tokens from left to right, the longest of those that start at the same byte. Special
    /// tokens are found only if no part of their spelling is content.
    std::vector<hit> find_all(std::string_view text, const content_view& content = {}) const;

    /// Whether some token's spelling begins before byte `at` of `text` and ends after it.
    bool crosses(std::string_view text, std::size_t at, const content_view& content = {}) const;
    bool empty() const noexcept { return rules_.empty(); }
    bool has_special() const noexcept { return has_special_; }
    /// Whether some token depends on the characters next to it (single_word, lstrip, rstrip).
    bool looks_around() const noexcept { return looks_around_; }
    std::size_t longest() const noexcept { return longest_; }

  private:
    // Of a tree of spellings: its children by their bytes, and the index in rules_ of the token
    // whose spelling ends here; -1: none.
    struct node {
        std::map<unsigned char, std::int32_t> children;
        std::int32_t rule = -1;
    };
    std::int32_t child(std::int32_t from, char byte) const;
    /// The longest rule that matches at `at`, or -1.
    std::int32_t longest_at(std::string_view text, std::size_t at, const content_view& content,
                            std::size_t& end) const;

    std::vector<node> nodes_{1};             // the root first
    std::array<std::int32_t, 256> first_{};  // children of the root, by byte; 0 is none
    std::vector<added_token> rules_;
    std::size_t longest_ = 0;  // bytes of the longest spelling
    bool looks_around_ = false;
    bool has_special_ = false;
};

}  // namespace semantic::engine
