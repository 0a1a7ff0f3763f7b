#pragma once
// Texts that are too long for a conversation whatever their tokens are: a token stands for so many
// bytes at most, so that a text's length says how many tokens it has at least. Thread: any.

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"

namespace semantic::engine {

class text_bound {
  public:
    /// `context_tokens_max`: of a conversation, its answer included. `words` must outlive the
    /// bound.
    text_bound(const tokenizer& words, int context_tokens_max)
        : tokenizer_(words), context_tokens_max_(context_tokens_max) {}

    /// Returns: how many tokens `text` has at least where they are too many for a prompt, else 0;
    /// 0 too where the tokenizer knows no bound.
    std::int64_t excess_of(std::string_view text) const {
        const std::size_t widest = tokenizer_.bytes_per_token_max();
        if (widest == 0) return 0;
        const auto least = static_cast<std::int64_t>((text.size() + widest - 1) / widest);
        return least >= context_tokens_max_ ? least : 0;
    }
    failed refusal(std::int64_t least_tokens) const {
        return {failure_kind::too_large,
                "the prompt has at least " + std::to_string(least_tokens) +
                    " tokens; with room for an answer, this model and cache budget hold " +
                    std::to_string(context_tokens_max_) + " tokens a conversation",
                {},
                request_part::prompt,
                prompt_excess{least_tokens, context_tokens_max_, true}};
    }

  private:
    const tokenizer& tokenizer_;
    const int context_tokens_max_;
};

}  // namespace semantic::engine
