// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small helpers of the output parsers. For engine/text/output/*_parser.cpp.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/output/calls/marks.hpp"
#include "engine/text/output/output_parser.hpp"

namespace semantic::engine {

/// Appends text to the last piece if that is of the kind, otherwise as a new piece. Empty text adds
/// nothing.
template <typename Kind>
void append_piece(std::vector<answer_piece>& out, std::string_view text) {
    if (text.empty()) return;
    Kind* last = out.empty() ? nullptr : std::get_if<Kind>(&out.back());
    if (last != nullptr) {
        last->text += text;
    } else {
        out.emplace_back(Kind{std::string(text)});
    }
}

/// Appends pieces, of which text, reasoning and arguments are joined to a last piece of their kind.
inline void append_pieces(std::vector<answer_piece>& out, std::vector<answer_piece> more) {
    for (answer_piece& piece : more) {
        if (const auto* text = std::get_if<answer_text>(&piece)) {
            append_piece<answer_text>(out, text->text);
        } else if (const auto* thinking = std::get_if<answer_thinking>(&piece)) {
            append_piece<answer_thinking>(out, thinking->text);
        } else if (const auto* arguments = std::get_if<answer_call_arguments>(&piece)) {
            append_piece<answer_call_arguments>(out, arguments->text);
        } else {
            out.push_back(std::move(piece));
        }
    }
}

}  // namespace semantic::engine
