// SPDX-License-Identifier: Apache-2.0
#pragma once
// Divides what a model writes in its turn, while it streams, into text for the user, reasoning, and
// tool calls. One object per answer; not for use from two threads at once.
//
// Input: the text of every sampled token in order (tokenizer::bytes, token_text::text), without the
// token that ends the turn. Special tokens are part of it, as they are spelled: they separate the
// parts, and never appear in the output. How the text is cut into pieces does not matter.

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/text/output/answer_format.hpp"
#include "engine/text/output/calls/offered_tools.hpp"

namespace semantic::engine {

struct answer_text {
    std::string text;
    bool operator==(const answer_text&) const = default;
};
struct answer_thinking {
    std::string text;
    bool operator==(const answer_thinking&) const = default;
};
struct answer_call {
    std::string name;
    std::string arguments_json;  // an object, spaced as templates print it
    bool operator==(const answer_call&) const = default;
};
/// Sent once when a call begins, if progress was asked for; then its arguments follow, then the
/// call itself, or answer_call_dropped.
struct answer_call_begun {
    std::string name;  // of a tool that may be called
    bool operator==(const answer_call_begun&) const = default;
};
/// A part of a call's arguments; joined in order they are compact JSON.
struct answer_call_arguments {
    std::string text;
    bool operator==(const answer_call_arguments&) const = default;
};
/// The call that had begun was cut off, or is malformed; in that case its text follows.
struct answer_call_dropped {
    bool operator==(const answer_call_dropped&) const = default;
};
/// A piece of an answer. Consecutive pieces of one kind belong together. Line breaks and blanks
/// that the template writes around a part are left out, so that rendering the pieces gives the
/// sampled text again, if the family allows it.
using answer_piece = std::variant<answer_text, answer_thinking, answer_call, answer_call_begun,
                                  answer_call_arguments, answer_call_dropped>;

class output_parser {
  public:
    virtual ~output_parser() = default;
    /// Takes in text. Returns: the pieces that are certain now, in order. Text that may be the
    /// beginning of a mark is held back.
    virtual std::vector<answer_piece> push(std::string_view text) = 0;
    /// Ends the answer, because the model has ended its turn. Returns: what was held back. A call
    /// that was not closed counts as a call if its JSON is complete, otherwise as text. Nothing may
    /// be pushed afterwards.
    std::vector<answer_piece> finish() { return end(false); }
    /// Ends the answer, because a limit or a stop string has ended the turn. Returns: what was held
    /// back, without an incomplete call.
    std::vector<answer_piece> cut_off() { return end(true); }
    /// Whether the next text is reasoning, as far as the text so far shows.
    virtual bool is_thinking() const { return false; }

  private:
    virtual std::vector<answer_piece> end(bool was_cut) = 0;
};

struct parser_options {
    bool thinks = true;           // the request has reasoning switched on
    bool shows_progress = false;  // of calls, while they are read
};

/// The parser for a format. `tools`: those that may be called; without tools nothing is a call, and
/// text that looks like one is text. A call to an unknown name is a call, too, but it is not
/// reported before it is complete.
std::unique_ptr<output_parser> make_output_parser(const answer_format& format,
                                                  const offered_tools& tools,
                                                  const parser_options& options = {});

// The parsers from which make_output_parser() chooses.
std::unique_ptr<output_parser> make_plain_parser(bool drops_blank = false);
std::unique_ptr<output_parser> make_thinking_parser(std::unique_ptr<output_parser> rest,
                                                    thinking_format format, bool is_open);
std::unique_ptr<output_parser> make_llama3_parser(const offered_tools& tools, bool shows_progress);
std::unique_ptr<output_parser> make_harmony_parser(const offered_tools& tools, bool shows_progress);

}  // namespace semantic::engine
