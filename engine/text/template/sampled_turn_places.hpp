// SPDX-License-Identifier: Apache-2.0
#pragma once
// Puts turns as a model wrote them into the rendering of its own template: the template renders
// placeholders, which are then replaced by the sampled turns. Thread: one at a time.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/jinja/program.hpp"
#include "engine/text/template/template_families.hpp"

namespace semantic::engine {

class sampled_turn_places {
  public:
    /// Takes the messages that have as_sampled. All arguments must outlive this. `turn_begin`: the
    /// text that begins an assistant's turn; `stop_tokens`: spellings of tokens that may end one.
    sampled_turn_places(const std::vector<template_message>& messages, std::string_view turn_begin,
                        const std::vector<std::string>& stop_tokens);

    /// Whether there is no turn to replace.
    bool empty() const noexcept { return turns_.empty(); }
    /// The messages with placeholders for the sampled turns.
    std::vector<template_message> with_stand_ins() const;
    /// Replaces the placeholders' turns in `made`. Returns: nothing if a placeholder is not in a
    /// turn of its own; such turns are given up, and the caller renders again.
    std::optional<jinja::rendering> fill(const jinja::rendering& made);

  private:
    struct turn {
        std::size_t message;  // index in messages_
        std::string mark;     // the placeholder
    };
    /// The range of a placeholder's whole turn, without the text that ends it, after byte
    /// `from_byte`.
    std::optional<text_range> place_of(const turn& one, const marked_text& made,
                                       std::size_t from_byte) const;
    std::size_t end_of_calls(const marked_text& made, std::size_t from) const;

    const std::vector<template_message>& messages_;
    const std::string_view turn_begin_;
    const std::vector<std::string>& stop_tokens_;
    std::vector<turn> turns_;  // those that are still to be replaced, in order
};

}  // namespace semantic::engine
