// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small conversations that are rendered to learn what a template supports. Their words are ones
// that no template writes. Pure.

#include "engine/types/conversation.hpp"

namespace semantic::engine::probe {

constexpr const char* asked = "probe-asked-71c3";
constexpr const char* added = "probe-added-71c3";
constexpr const char* answered = "probe-answered-71c3";
constexpr const char* instructed = "probe-instructed-71c3";
constexpr const char* first_instructed = "probe-first-71c3";
constexpr const char* tool_name = "probe_tool_71c3";
constexpr const char* argument = "probe-argument-71c3";
constexpr const char* returned = "probe-returned-71c3";

conversation question();
conversation with_system_text();
conversation with_system_text_alone();
/// Two system texts at the start.
conversation with_two_system_texts();
/// A system text after an answer, and another question.
conversation with_later_system_text();
/// System texts at the start and after an answer, and another question. In some templates the later
/// one replaces the first.
conversation with_first_and_later_system_text();
conversation two_questions();
conversation with_answer();
/// Two messages of the assistant in a row, and another question.
conversation two_answers();
/// An answer in front of the question.
conversation answer_first();
conversation with_tool();
/// The tool's call and its result.
conversation with_call();
/// A call, and another question in place of its result.
conversation with_unanswered_call();
/// Two calls in one message, and their results.
conversation with_two_calls();
/// A call whose id is as long as other servers' are.
conversation with_long_call_id();
conversation with_text_and_call();
/// Reasoning, a text and a call in one message.
conversation with_reasoned_call();
/// The user goes on after a result.
conversation with_question_after_result();
/// A tool with typed parameters, `count` calls of it with a text and a number, and their results.
conversation with_typed_calls(int count);
/// A result without its call.
conversation with_stray_result();

}  // namespace semantic::engine::probe
