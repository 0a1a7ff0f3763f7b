#pragma once
// Tokens that are found in the text as they are spelled, before anything else happens to it.
// Immutable after build; safe from any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer/pre_tokenizer.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

struct added_token {
    storage::token_id id = 0;
    std::string content;
    bool special = false;
    bool normalized = false;   // searched in the normalised text
    bool single_word = false;  // only where no word character touches it
    bool lstrip = false;       // takes the white space in front of it
    bool rstrip = false;       // takes the white space behind it
};

class added_token_finder {
  public:
    /// `spelling` is what is searched: the content, or what the normalizer makes of it.
    void add(std::string_view spelling, const added_token& token);

    struct hit {
        text_range where;
        storage::token_id id;
    };
    /// Leftmost first, the longest of those that start together.
    std::vector<hit> find_all(std::string_view text) const;

    /// True when some spelling occurs in `text` beginning before `at` and ending behind it.
    bool crosses(std::string_view text, std::size_t at) const;
    bool empty() const noexcept { return rules_.empty(); }
    /// A token looks at the characters beside it (single_word, lstrip, rstrip).
    bool looks_around() const noexcept { return looks_around_; }
    std::size_t longest() const noexcept { return longest_; }

  private:
    struct node {
        std::map<unsigned char, std::int32_t> children;
        std::int32_t rule = -1;
    };
    std::int32_t child(std::int32_t from, char byte) const;
    /// The longest rule that matches at `at`, or -1.
    std::int32_t longest_at(std::string_view text, std::size_t at, std::size_t& end) const;

    std::vector<node> nodes_{1};
    std::array<std::int32_t, 256> first_{};  // children of the root, by byte; 0 is none
    std::vector<added_token> rules_;
    std::size_t longest_ = 0;
    bool looks_around_ = false;
};

}  // namespace semantic::engine
