#pragma once
// From a prompt's text, and the memory that it continues, to its tokens. Pure.

#include "engine/prompt/resolved_prompt.hpp"
#include "engine/prompt/source_search.hpp"
#include "engine/text/template/chat_template.hpp"

namespace semantic::engine {

/// Takes the tokens that are reused from `source`, tokenises the text behind them, and notes how
/// many are canonical.
void tokenise(const tokenizer& words, const prompt_source& source, resolved_prompt& prompt);
/// Says where the turn that is asked for begins, and which before it the model wrote.
void mark_turns(const chat_template& chat, const prompt_source& source, resolved_prompt& prompt);
/// `vocabulary`: rows of the model's embedding. Errors: bad_value when the prompt is empty, or has
/// a token beyond them.
storage::result<void> check_tokens(const tokenizer& words, int vocabulary,
                                   const resolved_prompt& prompt);

}  // namespace semantic::engine
