// SPDX-License-Identifier: Apache-2.0
#pragma once
// Brings a conversation into a shape that a template renders: whatever another server, another
// model or a client has put into a history is rendered, in the nearest form that the template has.
// Pure.
//
// What a message becomes depends on those before it, and on the next ones only up to the next
// answer: so the rendering of a longer conversation goes on where that of a shorter one ended, and
// memories are reused.

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/template/probe/template_shape.hpp"
#include "engine/text/template/template_families.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// What a fit did, as replies name it.
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

/// Mends what `can` says that the template does not render. Nothing else changes. `calls`: the form
/// in which calls are written as text. Errors: bad_value for a tool that cannot be written as text.
storage::result<fitted_conversation> fit_conversation(std::vector<template_message> messages,
                                                      std::vector<tool_definition> tools,
                                                      const template_shape& can,
                                                      call_format calls = call_format::hermes);

/// The shapes to try for a conversation that a template does not render as it is, the nearest
/// first. `native`: what the template renders.
std::vector<template_shape> shapes_to_try(const template_shape& native);

/// `id` where it is nine letters and digits, else nine that only depend on it: templates of Mistral
/// take no others, and a result finds its call by them.
std::string nine_character_id(std::string_view id);

}  // namespace semantic::engine
