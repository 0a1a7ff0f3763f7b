// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides how much of an agent's memory a new prompt can reuse. Pure. The rendered prompt is
// compared with the stored text byte by byte, so a prompt matches however it would be tokenised;
// the stored tokens are reused, and only the text after them is tokenised. See "Prefix rules" in
// engine/README.md. Equal bytes may be a control token in one text and plain content in the other:
// there the texts count as different, so that content never becomes a real turn through a memory.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

/// Whether the byte at this offset of UTF-8 belongs to a character that begins before it.
inline bool is_inside_character(std::string_view text, std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

struct prefix_match {
    match_kind kind = match_kind::miss;
    std::size_t tokens = 0;  // stored tokens to reuse
    // Prompt bytes that these tokens spell; the rest is to be tokenised. If `kind` is exact the
    // rest is the last stored token, which runs again.
    std::size_t bytes = 0;
    std::size_t common_bytes = 0;  // as the function common_bytes(); for reports
};

struct stored_prefix {
    std::string_view text;
    std::span<const storage::token_id> tokens;
    std::span<const std::uint32_t> token_ends;  // [tokens] end of each in text
};

struct prompt_view {
    std::string_view text;
    std::span<const control_token> control;  // the special tokens that it tokenises to, in order
};

/// Questions about a prompt's tokenisation, which decide where it may be cut from a memory.
struct boundary_rules {
    /// Whether the prompt gives the same tokens if the parts before and after this byte offset are
    /// tokenised separately. May be slow; asked a bounded number of times.
    std::function<bool(std::size_t)> safe_cut;
    /// Whether a token is a special one: a cut before or after it is always safe.
    std::function<bool(storage::token_id)> special;
    /// Whether the bytes from this offset to the end of the character around it can be spelled by
    /// tokens: then an answer that was cut within a character can be continued.
    std::function<bool(std::size_t)> spells_rest_of_character;
    /// Whether a token with this text is a control token, as opposed to content of the same bytes.
    std::function<bool(storage::token_id, std::string_view)> control;
};

/// Length of the common prefix in bytes: up to the first byte that differs, or the first control
/// token that only one of the texts has.
std::size_t common_bytes(const stored_prefix& stored, const prompt_view& prompt,
                         const boundary_rules& rules);

/// For the agent that the memory belongs to: it continues with its tokens as they were sampled,
/// even if the text would be tokenised otherwise.
prefix_match match_prefix(const stored_prefix& stored, const prompt_view& prompt,
                          const boundary_rules& rules);

/// As match_prefix(), for a memory that ends inside a message which was only read and has grown
/// since. Its last tokens, back to a safe boundary, are tokenised again together with the new text,
/// so that the tokens are those of the whole message.
prefix_match match_read_prefix(const stored_prefix& stored, const prompt_view& prompt,
                               const boundary_rules& rules);

/// For another agent than the memory's, which must get exactly the tokens that its prompt tokenises
/// to. `canonical`: how many of the stored tokens, from the start, are the tokenisation of the
/// stored text (sampled tokens may not be). Reuses as many of these as end at a safe boundary of
/// the prompt. The kind is never exact: the prompt's last token is tokenised again.
prefix_match match_canonical_prefix(const stored_prefix& stored, std::size_t canonical,
                                    const prompt_view& prompt, const boundary_rules& rules);

/// As match_canonical_prefix(), if the two texts share more than the canonical tokens: compares the
/// stored tokens with the prompt's own. `prompt`: its text, all of its tokens and their ends.
prefix_match match_tokens(const stored_prefix& stored, const stored_prefix& prompt);

}  // namespace semantic::engine
