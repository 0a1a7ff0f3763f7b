// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a request comes to: its agent, its tokens, and how much of a stored memory they continue.

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
    std::vector<text_range> content{};  // of `text`: where no control token is found
    std::vector<token_id>
        tokens{};  // of the whole text: stored ones as they were, then the new ones
    std::vector<std::uint32_t> token_ends{};  // [tokens] end of each in `text`, in bytes
    std::shared_ptr<const storage::agent_state>
        source{};          // whose blocks are reused; null when none
    int reuse_tokens = 0;  // tokens taken from `source`, always fewer than tokens.size()
    storage::block_hash private_salt{};  // of `source`: what is computed on top of it has the same
    match_kind match = match_kind::miss;
    miss_reason why = miss_reason::none;  // why no more was reused
    std::string detail{};
    std::optional<text_difference> difference{};  // set where texts were compared for `why`
    /// Set: the text cannot fit whatever its tokens are (text_bound); none of them is here.
    std::optional<failed> refused{};
    std::map<std::string, std::string> notes{};    // what to remember with the agent
    std::vector<storage::message_end> messages{};  // the agent's, as far as `tokens` has them
    std::vector<std::string> template_fit{};  // what was rendered in another shape, by fit_name
    std::size_t turn_begin = 0;               // where in `text` the turn starts that is asked for
    std::size_t begun_bytes = 0;              // of its answer, at the end of `text`
    bool ends_in_message = false;             // a user's, which may go on: no answer begins
    std::vector<sampled_turn> turns{};        // those before it that the model wrote

    /// What the answer begins with.
    std::string_view begun() const {
        return std::string_view(text).substr(text.size() - begun_bytes);
    }
    /// Where in `text` the answer begins.
    std::size_t answer_begin() const { return text.size() - begun_bytes; }
};

}  // namespace semantic::engine
