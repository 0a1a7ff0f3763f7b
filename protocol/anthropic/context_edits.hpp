// SPDX-License-Identifier: Apache-2.0
#pragma once
// context_management: what of a conversation is left out of the prompt when it grows. The client
// keeps its history as it was, so that every request with it is edited again. Pure.

#include <boost/json/array.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "engine/types/conversation.hpp"
#include "protocol/answer_request.hpp"
#include "protocol/history/parts.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::anthropic {

/// clear_tool_uses_20250919: replaces the results of all calls but the latest `kept` by a short
/// text.
struct clear_tool_uses {
    std::optional<std::int64_t> above_tokens;  // or:
    std::optional<std::size_t> above_uses;
    std::size_t kept = 3;
    std::int64_t clears_at_least = 0;  // tokens
    std::set<std::string> excluded;    // names of tools
    bool clears_all_inputs = false;
    std::set<std::string> clears_inputs_of{};
};
/// clear_thinking_20251015: removes the reasoning of all turns but the latest `kept` that have
/// some. Absent: removes none.
struct clear_thinking {
    std::optional<std::size_t> kept = 1;
};
/// compact_20260112: replaces the whole conversation by a summary.
struct compact {
    std::int64_t above_tokens = 150'000;
    bool pauses = false;       // the summary is the answer
    std::string instructions;  // in place of the server's question, or empty
};

struct context_edits {
    bool is_asked = false;  // the reply says what was applied
    std::vector<std::variant<clear_tool_uses, clear_thinking, compact>> list{};
};

/// Reads context_management. Edits of unknown types are left out by name.
context_edits parse_context_edits(const json_cursor& root, const request_limits& limits,
                                  left_out_names& left_out);

class prompt_counter {
  public:
    /// Returns: how many tokens the conversation's prompt has.
    virtual result<int> count_tokens(const engine::conversation& chat) const = 0;

  protected:
    ~prompt_counter() = default;
};

struct edited_context {
    boost::json::array applied{};  // as the reply has them
    int original_tokens = 0;       // of the prompt, where it was counted; else 0
    /// The summary that is due, or null.
    const compact* summary = nullptr;
};
/// Applies the edits to `chat` in their order. Tokens are counted only where an edit depends on
/// their exact number. Errors: those of `counter`.
result<edited_context> apply_context_edits(const context_edits& edits, engine::conversation& chat,
                                           const prompt_counter& counter);

}  // namespace semantic::protocol::anthropic
