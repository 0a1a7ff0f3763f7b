#pragma once
// Model text to tool calls while it streams: <tool_call>\n{"name": ..., "arguments":
// {...}}\n</tool_call>, the Hermes form. output_parser chooses it for the families that write so.
// For one stream; not for use from two threads at once.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/text/output/output_parser.hpp"

namespace semantic::engine {

class tool_call_parser {
  public:
    using call = answer_call;
    using piece = std::variant<std::string, call>;  // text to show, or a call

    /// Returns: what is certain so far, in order. Text that may be the start of a tag is held back,
    /// with the one line break in front of it, which the template writes and not the model's text.
    std::vector<piece> push(std::string_view text);
    /// Returns: what was held back. A tag that is not closed is a call if its JSON is whole, else
    /// text.
    std::vector<piece> finish() { return end(false); }
    /// The same, but without a call whose JSON stops in the middle.
    std::vector<piece> cut_off() { return end(true); }

    bool inside_call() const noexcept { return inside_; }

  private:
    std::vector<piece> end(bool was_cut);
    void outside(std::vector<piece>& out);
    bool inside(std::vector<piece>& out);
    void give_back(std::size_t count, std::vector<piece>& out);

    std::string held_;
    std::size_t tag_at_ = 0;    // inside: where the opening tag begins in held_
    std::size_t searched_ = 0;  // inside: closing tags before this have been tried
    bool inside_ = false;
};

}  // namespace semantic::engine
