// SPDX-License-Identifier: Apache-2.0
#pragma once
// The pre_tokenizer of tokenizer.json: cuts a section of text into pieces, such as words; merges
// never cross the end of a piece. Immutable; safe from any thread.

#include <cstddef>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer/regex.hpp"
#include "engine/types/text_range.hpp"

namespace boost::json {
class value;
}

namespace semantic::engine {

class pre_tokenizer {
  public:
    /// Errors: incompatible, with the type or option that is not supported.
    static storage::result<pre_tokenizer> parse(const boost::json::value& json);

    /// Returns: the pieces in order, none empty. Text that is dropped (behaviour Removed) is in no
    /// piece; bytes that are not UTF-8 are pieces of one byte each.
    std::vector<text_range> split(std::string_view text) const;

    bool byte_level() const noexcept { return byte_level_; }
    /// Whether text may be dropped, so that a piece may come from any number of bytes.
    bool drops() const noexcept;
    /// Whether a space is added before every section that does not begin with one.
    bool adds_prefix_space() const noexcept { return adds_prefix_space_; }

  private:
    enum class behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
    struct stage {
        regex pattern;
        behavior action;
        bool invert;  // matches and what is between them change places
    };
    struct span {
        text_range where;
        bool match;  // of the stage's pattern, unless inverted
    };

    storage::result<void> add(const boost::json::value& json);
    storage::result<void> add_split(const boost::json::value& json);
    storage::result<void> add_byte_level(const boost::json::value& json);
    storage::result<void> add_stage(std::string_view pattern, behavior action);
    static void arrange(behavior action, const std::vector<span>& spans,
                        std::vector<text_range>& out);

    std::vector<stage> stages_;  // done in order, each on the pieces of the one before
    bool byte_level_ = false;
    bool adds_prefix_space_ = false;
};

}  // namespace semantic::engine
