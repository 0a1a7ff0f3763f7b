#pragma once
// A conversation that has become long is put into fewer words by its model, in every dialect that
// asks for it. Pure.

#include <string_view>

#include "protocol/answer_request.hpp"

namespace semantic::protocol {

/// The most tokens of a summary, where the request names no smaller limit.
inline constexpr int summary_tokens_max = 1024;

/// The question to the model after the conversation.
std::string_view summary_question();

/// Makes the request one for a summary of its conversation. The tools stay in the prompt, so that
/// the memory of the conversation matches, and are not called. `question`: what is asked.
void ask_for_summary(answer_request& request, std::string_view question);

}  // namespace semantic::protocol
