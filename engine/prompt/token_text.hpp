// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks that the tokens of an imported memory spell its text. Pure.

#include "engine/text/tokenizer/tokenizer.hpp"
#include "storage/pool/agent_state.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// Checks that each token spells the bytes of the text that it is stored with, or, where the
/// tokenizer rewrites text (normalisation, a space in front, an unknown character), that tokenising
/// these bytes gives the token; and that the last token ends the text. Linear in the text's length.
/// Errors: bad_value for an id of `vocabulary` or more; corrupt, with the first wrong token.
storage::result<void> check_token_text(const tokenizer& words, int vocabulary,
                                       const storage::agent_state& state);

}  // namespace semantic::engine
