// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a model writes in its turn, parted while it streams: text for the user, reasoning, and tool
// calls.
// One object per answer; not for use from two threads at once.
//
// What to feed: the text of every sampled token in order, special tokens as they are spelled (that
// is tokenizer::bytes and what token_text carries), except the token that ends the turn. Such
// tokens separate Harmony's parts, so they must not be filtered out before; none of them comes out
// again. Where a piece of text is cut does not matter.

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
/// What a parser that was asked to show progress says while it reads a call: this once, then its
/// arguments, then the call itself, or that it was none after all.
struct answer_call_begun {
    std::string name;  // of a tool that may be called
    bool operator==(const answer_call_begun&) const = default;
};
/// The arguments of one call, joined in order, are compact JSON.
struct answer_call_arguments {
    std::string text;
    bool operator==(const answer_call_arguments&) const = default;
};
/// What was begun is no call: it was cut off, or is malformed, and then its text follows.
struct answer_call_dropped {
    bool operator==(const answer_call_dropped&) const = default;
};
/// Neighbouring pieces of one kind belong together. Line breaks and blanks that the template writes
/// around a part are left out, so that a conversation made of the pieces renders to what was
/// sampled wherever the family allows it.
using answer_piece = std::variant<answer_text, answer_thinking, answer_call, answer_call_begun,
                                  answer_call_arguments, answer_call_dropped>;

class output_parser {
  public:
    virtual ~output_parser() = default;
    /// Returns: what is certain so far, in order. What may be the beginning of something else is
    /// held back.
    virtual std::vector<answer_piece> push(std::string_view text) = 0;
    /// The model has ended its turn. Returns: what was held back. A call that was not closed is one
    /// if its JSON is whole, else text. Nothing may be pushed afterwards.
    std::vector<answer_piece> finish() { return end(false); }
    /// The same where the turn was ended for the model, by a limit or a stop string: a call that it
    /// was still writing is left out, for it is neither a call nor text.
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

/// Without tools nothing is a call: what looks like one is text. A call to a name that is no tool
/// is one all the same, but it is not reported before it is whole.
std::unique_ptr<output_parser> make_output_parser(const answer_format& format,
                                                  const offered_tools& tools,
                                                  const parser_options& options = {});

// The parts of which that makes one.
std::unique_ptr<output_parser> make_plain_parser(bool drops_blank = false);
std::unique_ptr<output_parser> make_thinking_parser(std::unique_ptr<output_parser> rest,
                                                    thinking_format format, bool is_open);
std::unique_ptr<output_parser> make_llama3_parser(const offered_tools& tools, bool shows_progress);
std::unique_ptr<output_parser> make_harmony_parser(const offered_tools& tools, bool shows_progress);

}  // namespace semantic::engine
