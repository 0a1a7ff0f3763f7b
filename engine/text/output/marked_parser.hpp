// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parses text with calls between marks: finds where a call begins, chooses its reader, and treats
// it as text if it turns out not to be a call. For make_output_parser() only.

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "engine/text/output/calls/call_reader.hpp"
#include "engine/text/output/output_parser.hpp"

namespace semantic::engine {

/// How the calls of a format begin.
struct call_openers {
    std::span<const std::string_view> marks;
    std::size_t line_breaks;  // so many in front of a mark are the template's
    bool takes_bare_calls;    // JSON that is all of an answer, or of a fence, may be a call
    make_reader make;
};

/// Makes the parser. `openers` must outlive it. `shows_progress`: calls are reported while they are
/// read, and not only when they are complete.
std::unique_ptr<output_parser> make_marked_parser(const call_openers& openers,
                                                  const offered_tools& tools, bool shows_progress);

/// Reports the progress of a call while it is read. One object a call.
class call_progress {
  public:
    call_progress(const offered_tools& tools, bool is_shown) : tools_(tools), is_shown_(is_shown) {}

    /// Appends what is new: the name, if a tool has it, and arguments.
    void show(const call_reader& reader, std::vector<answer_piece>& out);
    /// Ends the call. Returns: whether it is one; then it is appended to `out`.
    bool finish(const call_reader& reader, std::vector<answer_piece>& out);
    /// Says that the text is not a call, if its beginning was reported.
    void drop(std::vector<answer_piece>& out);

  private:
    offered_tools tools_;
    // Whether progress is asked for, and whether the call's begin was reported.
    bool is_shown_;
    bool has_begun_ = false;
    std::size_t shown_ = 0;  // bytes of the arguments
};

}  // namespace semantic::engine
