// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes a prompt's tokens from its text and the memory that it continues, and refuses texts that
// are too long to be tokenised. Pure.

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/prompt/resolved_prompt.hpp"
#include "engine/prompt/source_search.hpp"
#include "engine/scheduler/policy/kept_places.hpp"
#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"

namespace semantic::engine {

/// Fills the prompt's tokens: those reused from `source`, then the tokenisation of the text after
/// them. Notes how many of them are canonical (canonical_note).
void tokenise(const tokenizer& words, const prompt_source& source, resolved_prompt& prompt);
/// Fills the prompt's positions of turns: where the wanted turn begins, how much of its answer the
/// prompt has already, and which earlier turns the model wrote. `end`: how the prompt ends.
void mark_turns(const chat_template& chat, const prompt_source& source, prompt_end end,
                resolved_prompt& prompt);
/// Guesses at which positions of the prompt later prompts will diverge from it; recurrent states
/// are kept there. A wrong guess only costs time. `chat`: the conversation that was rendered.
prompt_places find_places(const conversation& chat, const resolved_prompt& prompt,
                          const tokenizer& words);
/// Checks that the prompt has tokens and that the model knows all of them. `vocabulary`: rows of
/// the model's embedding. Errors: bad_value.
storage::result<void> check_tokens(const tokenizer& words, int vocabulary,
                                   const resolved_prompt& prompt);

/// Refuses texts that are too long for a conversation before all of their tokens are made. A token
/// has a largest number of bytes, so that a text's length gives the least number of its tokens; a
/// text that is far longer than conversations are is counted piece by piece, until there are too
/// many. Thread: any.
class text_bound {
  public:
    /// `context_tokens_max`: of a conversation, its answer included. `words` must outlive the
    /// bound.
    text_bound(const tokenizer& words, int context_tokens_max)
        : tokenizer_(words), context_tokens_max_(context_tokens_max) {}

    /// Returns: 0 if the text may fit; otherwise a lower bound of its tokens, which exceeds the
    /// context.
    std::int64_t excess_of(std::string_view text) const;
    /// As excess_of(text), for a conversation that is not rendered yet, from the texts that every
    /// template writes.
    std::int64_t excess_of(const conversation& chat) const;
    /// The error for a prompt that has at least `least_tokens` tokens.
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
    class counter;

    /// Whether a text of so many bytes is counted in pieces, because it is unlikely to fit.
    bool is_far_too_long(std::size_t bytes) const;
    /// A lower bound of a text's tokens if it exceeds the context, otherwise 0; from its bytes and
    /// the longest token of the vocabulary alone.
    std::int64_t least_tokens(std::size_t bytes) const;

    const tokenizer& tokenizer_;
    const int context_tokens_max_;
};

}  // namespace semantic::engine
