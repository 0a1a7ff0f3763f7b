// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much of an agent's memory a new prompt can reuse. Pure. Matching is by byte on the rendered
// prompt, so another tokenisation of old text can never miss; the stored tokens are authoritative,
// and only the text after the cut is tokenised. Source: design of the prefix rules in
// engine/README.md. Equal bytes may be a control token here and a client's text there. Texts part
// where they differ in that, or a forged turn would become a real one by way of a memory.

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
    std::size_t bytes =
        0;  // prompt bytes that they spell; the rest is to be tokenised (exact: is the rerun token)
    std::size_t common_bytes = 0;  // see common_bytes(); for reports
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

struct boundary_rules {
    /// Whether the prompt tokenises the same when cut at this byte offset. May be slow; asked a
    /// bounded number of times.
    std::function<bool(std::size_t)> safe_cut;
    /// Whether a token is a special one: a cut before or after it is always safe.
    std::function<bool(storage::token_id)> special;
    /// Whether the character that this byte offset of the prompt lies inside of can be written to
    /// its end with tokens of bytes: an answer that was cut there goes on as it was sampled.
    std::function<bool(std::size_t)> spells_rest_of_character;
    /// Whether a token with this text is a special one that is spelled there.
    std::function<bool(storage::token_id, std::string_view)> control;
};

/// Length of the common prefix, in bytes: up to where the texts differ, or one has a control token
/// and the other has not.
std::size_t common_bytes(const stored_prefix& stored, const prompt_view& prompt,
                         const boundary_rules& rules);

/// For the agent that the memory belongs to: it goes on with the tokens as they were sampled.
prefix_match match_prefix(const stored_prefix& stored, const prompt_view& prompt,
                          const boundary_rules& rules);

/// The same where the stored text ends inside of a message that was only read and now goes on: its
/// last tokens, up to a safe boundary of the prompt, are tokenised again with the text that
/// follows, as they would be if nothing had been read before.
prefix_match match_read_prefix(const stored_prefix& stored, const prompt_view& prompt,
                               const boundary_rules& rules);

/// For another agent, which must get the tokens that its prompt tokenises to. `canonical`: how many
/// of the stored tokens, from the start, are those that the stored text tokenises to. Reuses as
/// many of them as end at a safe boundary of the prompt. Never exact: the prompt's last token is
/// tokenised again.
prefix_match match_canonical_prefix(const stored_prefix& stored, std::size_t canonical,
                                    const prompt_view& prompt, const boundary_rules& rules);

/// The same where less is known of the stored tokens than the two texts share: compares with the
/// prompt's own tokens. `prompt`: its text, all of its tokens and their ends.
prefix_match match_tokens(const stored_prefix& stored, const stored_prefix& prompt);

}  // namespace semantic::engine
