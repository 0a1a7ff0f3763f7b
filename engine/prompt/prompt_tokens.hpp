#pragma once
// From a prompt's text, and the memory that it continues, to its tokens, and texts that are too
// long for any. Pure.

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/prompt/resolved_prompt.hpp"
#include "engine/prompt/source_search.hpp"
#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"

namespace semantic::engine {

/// Takes the tokens that are reused from `source`, tokenises the text behind them, and notes how
/// many are canonical.
void tokenise(const tokenizer& words, const prompt_source& source, resolved_prompt& prompt);
/// Says where the turn that is asked for begins, what of its answer is there already, and which
/// turns before it the model wrote. `end`: of the conversation, where the prompt is one.
void mark_turns(const chat_template& chat, const prompt_source& source, prompt_end end,
                resolved_prompt& prompt);
/// `vocabulary`: rows of the model's embedding. Errors: bad_value when the prompt is empty, or has
/// a token beyond them.
storage::result<void> check_tokens(const tokenizer& words, int vocabulary,
                                   const resolved_prompt& prompt);

/// Refuses texts that are too long for a conversation whatever their tokens are: a token stands for
/// so many bytes at most, so that a text's length says how many tokens it has at least. Thread:
/// any.
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
