// SPDX-License-Identifier: Apache-2.0
#pragma once
// Changes a conversation to a shape that a template can render: histories from other servers,
// models or clients may have messages in shapes for which the template has no form. Pure.
//
// How a message is changed depends on the messages before it, and on later ones only up to the next
// answer. So the rendering of a longer conversation continues that of a shorter one, and memories
// are reused.

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/template/probe/template_shape.hpp"
#include "engine/text/template/template_families.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// The names of changes, as replies report them.
namespace fit_name {
constexpr std::string_view system_texts_joined = "system_texts_joined";
constexpr std::string_view system_text_in_user_turn = "system_text_in_user_turn";
constexpr std::string_view later_system_text_in_user_turn = "later_system_text_in_user_turn";
constexpr std::string_view messages_joined = "messages_joined";
constexpr std::string_view opening_user_turn_added = "opening_user_turn_added";
constexpr std::string_view answer_added = "answer_added";
constexpr std::string_view calls_split = "calls_split";
constexpr std::string_view results_added = "results_added";
constexpr std::string_view calls_as_text = "calls_as_text";
constexpr std::string_view results_as_text = "results_as_text";
constexpr std::string_view tools_as_text = "tools_as_text";
constexpr std::string_view call_ids_renamed = "call_ids_renamed";
constexpr std::string_view text_joined_to_reasoning = "text_joined_to_reasoning";
constexpr std::string_view thinking_left_out = "thinking_left_out";
}  // namespace fit_name

struct fitted_conversation {
    std::vector<template_message> messages;
    std::vector<tool_definition> tools;
    std::vector<std::string> changes{};  // each of fit_name once, in the order they were made
};

/// Changes only what the template cannot render, as `can` says. `calls`: the format in which calls
/// are written as text. Errors: bad_value for a tool that cannot be written as text.
storage::result<fitted_conversation> fit_conversation(std::vector<template_message> messages,
                                                      std::vector<tool_definition> tools,
                                                      const template_shape& can,
                                                      call_format calls = call_format::hermes);

/// The shapes to try for a conversation that a template cannot render, the nearest first. `native`:
/// the shapes that it can render.
std::vector<template_shape> shapes_to_try(const template_shape& native);

/// Returns: `id` if it has nine letters and digits, otherwise nine that depend only on it:
/// Mistral's templates accept no other ids, and results are matched with calls by them.
std::string nine_character_id(std::string_view id);

}  // namespace semantic::engine
