#pragma once
// What a model writes in its turn, parted while it streams: text for the user, reasoning, and tool
// calls.
// One object per answer; not for use from two threads at once.
//
// What to feed: the text of every sampled token in order, special tokens as they are spelled (that
// is tokenizer::bytes and what token_text carries), except the token that ends the turn. Harmony's
// parts are told apart by such tokens, so they must not be filtered out before; none of them comes
// out again. Where a piece of text is cut does not matter.

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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
/// Neighbouring pieces of one kind belong together. Line breaks and blanks that the template writes
/// around a part are left out, so that a conversation made of the pieces renders to what was
/// sampled wherever the family allows it.
using answer_piece = std::variant<answer_text, answer_thinking, answer_call>;

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
    /// Whether what comes next is reasoning, as far as the text so far tells.
    virtual bool is_thinking() const { return false; }

  private:
    virtual std::vector<answer_piece> end(bool was_cut) = 0;
};

/// One a family; template/template_families.cpp says which. The name is of the format, not of the
/// model. Without tools in the request nothing is a call: what looks like one is text.
std::unique_ptr<output_parser> make_plain_parser(bool has_tools);
std::unique_ptr<output_parser> make_deepseek2_parser(bool has_tools);
std::unique_ptr<output_parser> make_hermes_parser(bool has_tools);
std::unique_ptr<output_parser> make_qwen3_parser(bool has_tools);
std::unique_ptr<output_parser> make_qwen3_thinking_parser(bool has_tools);
std::unique_ptr<output_parser> make_llama3_parser(bool has_tools);
std::unique_ptr<output_parser> make_harmony_parser(bool has_tools);

}  // namespace semantic::engine
