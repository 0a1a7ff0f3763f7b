// SPDX-License-Identifier: Apache-2.0
#pragma once
// Unicode regular expressions of tokenizer files. Immutable; safe from any thread.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/types/errc.hpp"

namespace semantic::engine {

/// Translates a pattern for PCRE2: constructs that mean something else in the reference (Oniguruma)
/// are written out. Errors: incompatible, with a construct that cannot be translated.
storage::result<std::string> translate_pattern(std::string_view pattern);

class regex {
  public:
    /// Errors: incompatible, with the pattern and what is wrong with it.
    static storage::result<regex> compile(std::string_view pattern);
    /// An expression that matches just `text`.
    static storage::result<regex> literal(std::string_view text);

    /// Finds all matches from left to right, as [begin, end), without empty ones. `text` must be
    /// valid UTF-8.
    void find_all(std::string_view text,
                  std::vector<std::pair<std::size_t, std::size_t>>& matches) const;

  private:
    struct impl;
    explicit regex(std::shared_ptr<const impl> state) : impl_(std::move(state)) {}
    static storage::result<regex> build(std::string_view translated, std::string_view shown);
    std::shared_ptr<const impl> impl_;
};

}  // namespace semantic::engine
