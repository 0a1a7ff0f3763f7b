// SPDX-License-Identifier: Apache-2.0
#pragma once
// A client sends a model's turns back in its own words: arguments in another order, blanks and
// reasoning left out. Here such a turn is recognised and given back as the model wrote it, so that
// the prompt goes on where the agent's memory ends. Pure.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/template/chat_template.hpp"
#include "engine/types/conversation.hpp"

namespace semantic::engine {

/// The position in an agent's text of a turn that the model wrote and ended: from the first byte of
/// the assistant's turn, including the generation prompt's part, to the last sampled byte.
struct sampled_turn {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    bool operator==(const sampled_turn&) const = default;
};

/// Of an agent's notes, the one that holds its turns.
constexpr const char* turns_note = "turns";
// A memory remembers this many turns, the latest ones.
constexpr std::size_t sampled_turns_max = 1024;

/// As a note of the agent: "begin-end begin-end ...".
std::string encode_turns(std::span<const sampled_turn> turns);
/// Returns: the turns, as far as they are in order and within `text_bytes`.
std::vector<sampled_turn> decode_turns(std::string_view note, std::size_t text_bytes);

/// Sets message::as_sampled, with its content, in each assistant message of `chat` that says the
/// same as one of `turns` of `text`, taken in order. The same is: equal text but for white space at
/// both ends, the same calls with arguments of equal value, and equal reasoning or none. A call
/// that was cut is sent back as it was shown, as the object that begins so, or not at all. `text`:
/// see remembered_text(). Returns: how many messages were found.
std::size_t replay_turns(conversation& chat, const marked_text& text,
                         std::span<const sampled_turn> turns, const chat_template& family);

}  // namespace semantic::engine
