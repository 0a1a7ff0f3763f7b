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

/// The key of the agent's note that has its turns.
constexpr const char* turns_note = "turns";
// A memory remembers this many turns, the latest ones.
constexpr std::size_t sampled_turns_max = 1024;

/// The turns as text of that note: "begin-end begin-end ...", the latest sampled_turns_max.
std::string encode_turns(std::span<const sampled_turn> turns);
/// Returns: the turns of a note, up to the first that is out of order or beyond `text_bytes`.
std::vector<sampled_turn> decode_turns(std::string_view note, std::size_t text_bytes);

/// Finds the assistant messages of `chat` that repeat a turn which the model wrote, and sets their
/// message::as_sampled to what it wrote, so that the prompt continues the memory. Clients send
/// turns back in their own words; a message repeats a turn if it has equal text but for white space
/// at both ends, the same calls with arguments of equal value, and equal reasoning or none. A call
/// that was cut off may come back as it was shown, as an object that begins so, or not at all.
/// `text`: the memory's text (remembered_text()); `turns`: the turns in it, which are matched in
/// order. Returns: how many messages were found.
std::size_t replay_turns(conversation& chat, const marked_text& text,
                         std::span<const sampled_turn> turns, const chat_template& family);

}  // namespace semantic::engine
