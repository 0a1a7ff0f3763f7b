// SPDX-License-Identifier: Apache-2.0
#include "protocol/scenarios/choice_pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <utility>

namespace semantic::protocol::scenarios {

struct choice_pattern::compiled {
    explicit compiled(pcre2_code* pattern) : code(pattern) {}
    compiled(const compiled&) = delete;
    compiled& operator=(const compiled&) = delete;
    ~compiled() { pcre2_code_free(code); }
    pcre2_code* code;
};

result<choice_pattern> choice_pattern::compile(std::string_view pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    // AUTO_CALLOUT makes count_step() see each step.
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                     PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_AUTO_CALLOUT,
                                     &error, &offset, nullptr);
    if (code == nullptr) {
        PCRE2_UCHAR message[160] = {};
        pcre2_get_error_message(error, message, sizeof message);
        return fail(errc::bad_value, std::string("pattern is no expression: ") +
                                         reinterpret_cast<const char*>(message));
    }
    auto owned = std::make_shared<const compiled>(code);
    std::uint32_t groups = 0;
    pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &groups);
    if (groups < 1) return fail(errc::bad_value, "pattern needs a group around the choice");
    return choice_pattern(std::move(owned));
}

namespace {

struct step_count {
    std::uint64_t steps = 0;
    std::uint64_t max = 0;
};

/// PCRE2 calls it before each item of the expression that it tries. Returns: not 0, which ends the
/// match, when there are too many steps.
int count_step(pcre2_callout_block*, void* data) {
    auto& count = *static_cast<step_count*>(data);
    return ++count.steps > count.max ? PCRE2_ERROR_CALLOUT : 0;
}

}  // namespace

std::string choice_pattern::last_choice(std::string_view text, storage::work_budget& budget) const {
    // What is left of the budget.
    step_count count{0, budget.maximum().steps - budget.steps()};
    pcre2_match_data* data = pcre2_match_data_create_from_pattern(code_->code, nullptr);
    pcre2_match_context* context = pcre2_match_context_create(nullptr);
    pcre2_set_match_limit(context, match_steps_max);
    pcre2_set_heap_limit(context, heap_kib_max);
    pcre2_set_callout(context, count_step, &count);
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    std::string last;
    std::size_t at = 0;
    for (int i = 0; i < matches_max && at <= text.size(); ++i) {
        const int found = pcre2_match(code_->code, subject, text.size(), at, 0, data, context);
        // No further match, or one of the limits was reached.
        if (found < 0) break;
        const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data);
        if (found > 1 && bounds[2] != PCRE2_UNSET)
            last = text.substr(bounds[2], bounds[3] - bounds[2]);
        // Continues after the match, at least one byte further. At a byte inside a character
        // nothing matches, so this is safe in UTF-8.
        at = bounds[1] > at ? bounds[1] : at + 1;
    }
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
    budget.charge_steps(std::min(count.steps, count.max));
    // Out of steps: what was found until then need not be the last.
    return count.steps > count.max ? std::string() : last;
}

}  // namespace semantic::protocol::scenarios
