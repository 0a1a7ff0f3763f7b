// SPDX-License-Identifier: Apache-2.0
#pragma once
// The result of resolving a request: its agent, its tokens, and how much of a stored memory they
// continue.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/prompt/prefix_match.hpp"
#include "engine/prompt/turn_replay.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"
#include "storage/pool/agent_state.hpp"

namespace semantic::engine {

struct resolved_prompt {
    storage::agent_id agent;            // whose memory the answer extends
    std::string text{};                 // rendered, with the generation prompt
    std::vector<text_range> content{};  // parts of `text` where no control token is recognised
    std::vector<token_id> tokens{};     // of the whole text: the reused ones, then the new ones
    std::vector<std::uint32_t> token_ends{};  // [tokens] end of each in `text`, in bytes
    std::shared_ptr<const storage::agent_state>
        source{};          // the memory whose blocks are reused; null: none
    int reuse_tokens = 0;  // tokens taken from `source`, always fewer than tokens.size()
    storage::block_hash private_salt{};  // of `source`; blocks that continue it have the same
    match_kind match = match_kind::miss;
    miss_reason why = miss_reason::none;  // why no more was reused
    std::string detail{};
    /// Where the prompt diverges from the memory.
    std::optional<text_difference> difference{};
    /// Set if the text is too long for any tokenisation (text_bound); then `tokens` is empty.
    std::optional<failed> refused{};
    std::map<std::string, std::string> notes{};    // to be kept with the agent (prompt_notes.hpp)
    std::vector<storage::message_end> messages{};  // named answers of the agent within `tokens`
    std::vector<std::string> template_fit{};       // shapes that the template lacks, by fit_name
    std::size_t turn_begin = 0;                    // byte of `text` at which the wanted turn begins
    std::size_t begun_bytes = 0;                   // bytes of its answer that `text` ends with
    bool ends_in_message = false;                  // the user's message may go on: no answer begins
    std::vector<sampled_turn> turns{};             // earlier turns that the model wrote
    /// The beginning of the answer that the prompt has already.
    std::string_view begun() const {
        return std::string_view(text).substr(text.size() - begun_bytes);
    }
    /// The byte of `text` at which the answer begins.
    std::size_t answer_begin() const { return text.size() - begun_bytes; }
};

}  // namespace semantic::engine
