// SPDX-License-Identifier: Apache-2.0
#pragma once
// The regular expression by which a scenario finds choices in what agents say. A client may have
// written it, so that matching has limits: an expression that reaches one finds nothing.
// Immutable; safe from any thread.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "protocol/wire/errc.hpp"
#include "storage/types/work_budget.hpp"

namespace semantic::protocol::scenarios {

class choice_pattern {
  public:
    /// Limits of one match, in PCRE2's terms and KiB; and how many of a text's matches are
    /// examined. PCRE2 starts to count again at each position where a match may begin, so that all
    /// of them together are bounded by a budget, too.
    static constexpr std::uint32_t match_steps_max = 100'000;
    static constexpr std::uint32_t heap_kib_max = 4'096;
    static constexpr int matches_max = 100;

    /// Compiles an expression in PCRE2's syntax; "(?i)" in front ignores case. Errors: bad_value
    /// for what is no expression, or has no group.
    static result<choice_pattern> compile(std::string_view pattern);

    /// Returns: the first group of the last match among the first matches_max; empty when there is
    /// none, or when the steps of `budget` do not suffice to find out. Charges the steps that it
    /// took.
    std::string last_choice(std::string_view text, storage::work_budget& budget) const;

  private:
    struct compiled;
    explicit choice_pattern(std::shared_ptr<const compiled> code) : code_(std::move(code)) {}
    std::shared_ptr<const compiled> code_;  // has at least one group
};

}  // namespace semantic::protocol::scenarios
