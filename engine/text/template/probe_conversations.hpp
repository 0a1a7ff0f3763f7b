#pragma once
// Small conversations that templates are tried on, of words that no template writes. Pure.

#include "engine/types/conversation.hpp"

namespace semantic::engine::probe {

constexpr const char* asked = "probe-asked-71c3";
constexpr const char* added = "probe-added-71c3";
constexpr const char* answered = "probe-answered-71c3";
constexpr const char* instructed = "probe-instructed-71c3";
constexpr const char* tool_name = "probe_tool_71c3";
constexpr const char* argument = "probe-argument-71c3";
constexpr const char* returned = "probe-returned-71c3";

conversation question();
conversation with_system_text();
/// A system text behind an answer, and another question.
conversation with_later_system_text();
conversation two_questions();
conversation with_answer();
conversation with_tool();
/// The tool's call and its result.
conversation with_call();
/// A result without its call.
conversation with_stray_result();

}  // namespace semantic::engine::probe
