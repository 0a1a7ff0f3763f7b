#pragma once
// Small helpers of the output parsers. For engine/text/*_parser.cpp only.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/output/output_parser.hpp"

namespace semantic::engine {

/// Appends text of one kind, to the last piece if that is of the kind. Empty text is left out.
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

inline void append_pieces(std::vector<answer_piece>& out, std::vector<answer_piece> more) {
    for (answer_piece& piece : more) {
        if (const auto* text = std::get_if<answer_text>(&piece)) {
            append_piece<answer_text>(out, text->text);
        } else if (const auto* thinking = std::get_if<answer_thinking>(&piece)) {
            append_piece<answer_thinking>(out, thinking->text);
        } else {
            out.push_back(std::move(piece));
        }
    }
}

/// The length of the longest end of `text` that `mark` begins with and is longer than.
inline std::size_t begun_mark(std::string_view text, std::string_view mark) {
    for (std::size_t length = std::min(text.size(), mark.size() - 1); length > 0; --length) {
        if (mark.starts_with(text.substr(text.size() - length))) return length;
    }
    return 0;
}

}  // namespace semantic::engine
