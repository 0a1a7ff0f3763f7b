// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a prompt's text, and the memory that it continues, to its tokens, and texts that are too
// long for any. Pure.

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

/// Takes the tokens that are reused from `source`, tokenises the text after them, and notes how
/// many are canonical.
void tokenise(const tokenizer& words, const prompt_source& source, resolved_prompt& prompt);
/// Says where the turn that is asked for begins, what of its answer is there already, and which
/// turns before it the model wrote. `end`: of the conversation, where the prompt is one.
void mark_turns(const chat_template& chat, const prompt_source& source, prompt_end end,
                resolved_prompt& prompt);
/// Where in the prompt others are likely to part from it. Wrong guesses cost a reader time and
/// change nothing else. `chat`: what was rendered.
prompt_places find_places(const conversation& chat, const resolved_prompt& prompt,
                          const tokenizer& words);
/// `vocabulary`: rows of the model's embedding. Errors: bad_value when the prompt is empty, or has
/// a token beyond them.
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

    /// Returns: how many tokens `text` has at least where they are known to be too many for a
    /// prompt, else 0.
    std::int64_t excess_of(std::string_view text) const;
    /// The same of a conversation that is not rendered yet, by the texts that every template
    /// writes.
    std::int64_t excess_of(const conversation& chat) const;
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

    /// Whether its tokens are counted before all of them are made.
    bool is_far_too_long(std::size_t bytes) const;
    /// Of a text of so many bytes, where they are too many; else 0.
    std::int64_t least_tokens(std::size_t bytes) const;

    const tokenizer& tokenizer_;
    const int context_tokens_max_;
};

}  // namespace semantic::engine
