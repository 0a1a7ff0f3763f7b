// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens that are found in the text as they are spelled, before anything else happens to it.
// Immutable after build; safe from any thread.

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
    bool single_word = false;  // only where no word character touches it
    bool lstrip = false;       // takes the white space in front of it
    bool rstrip = false;       // takes the white space after it
};

/// Where a text is content: there, special tokens are text like any other. A view.
struct content_view {
    std::span<const text_range> ranges{};    // of the text as it came; in order, apart
    std::size_t begin = 0;                   // of what is searched, in that text
    const normalized_text* moved = nullptr;  // what is searched, where a normalizer made it

    /// Whether a part of `where`, of what is searched, is content.
    bool touches(text_range where) const;
};

class added_token_finder {
  public:
    /// `spelling` is what is searched: the content, or what the normalizer makes of it.
    void add(std::string_view spelling, const added_token& token);

    struct hit {
        text_range where;  // with the white space that it takes
        storage::token_id id;
        text_range spelling;  // without
    };
    /// Leftmost first, the longest of those that start together; special tokens only where nothing
    /// of their spelling is content.
    std::vector<hit> find_all(std::string_view text, const content_view& content = {}) const;

    /// True when some spelling occurs in `text` that begins before `at` and ends after it.
    bool crosses(std::string_view text, std::size_t at, const content_view& content = {}) const;
    bool empty() const noexcept { return rules_.empty(); }
    bool has_special() const noexcept { return has_special_; }
    /// Whether some token looks at the characters next to it (single_word, lstrip, rstrip).
    bool looks_around() const noexcept { return looks_around_; }
    std::size_t longest() const noexcept { return longest_; }

  private:
    struct node {
        std::map<unsigned char, std::int32_t> children;
        std::int32_t rule = -1;
    };
    std::int32_t child(std::int32_t from, char byte) const;
    /// The longest rule that matches at `at`, or -1.
    std::int32_t longest_at(std::string_view text, std::size_t at, const content_view& content,
                            std::size_t& end) const;

    std::vector<node> nodes_{1};
    std::array<std::int32_t, 256> first_{};  // children of the root, by byte; 0 is none
    std::vector<added_token> rules_;
    std::size_t longest_ = 0;
    bool looks_around_ = false;
    bool has_special_ = false;
};

}  // namespace semantic::engine
