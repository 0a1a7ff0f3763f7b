// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds which shapes of conversations a template can render, by rendering small ones.

#include <functional>
#include <optional>
#include <string>

#include "engine/types/conversation.hpp"

namespace semantic::engine {

/// The shapes that conversations may have. False: the template cannot render it.
struct template_shape {
    bool system_text = true;           // at the start
    bool system_text_alone = true;     // without any other message
    bool several_system_texts = true;  // at the start
    bool later_system_text = true;
    bool users_in_a_row = true;
    bool assistants_in_a_row = true;
    bool assistant_first = true;
    bool user_after_result = true;
    bool tools = true;
    bool tool_calls = true;
    bool parallel_calls = true;    // several in one message
    bool unanswered_calls = true;  // without a result, and the user goes on
    bool tool_results = true;      // after their calls
    bool stray_results = true;     // without a call
    bool any_call_id = true;       // false: nine letters and digits
    bool text_with_call = true;
    bool text_with_reasoned_call = true;
    /// Several calls in one message, if the turn is written as the model sampled it.
    bool sampled_parallel_calls = true;
    /// Reasoning of earlier turns.
    bool thinking = true;
    bool operator==(const template_shape&) const = default;
};

struct template_shapes {
    template_shape renders;     // false: the template raises, or leaves something out
    template_shape leaves_out;  // false: it leaves something out without a word
};

/// Renders a conversation without changing its shape. Returns: nothing if the template cannot.
using shape_trial = std::function<std::optional<std::string>(const conversation&)>;

/// Renders the probe conversations with `render`, and finds what the template renders and what it
/// leaves out. Pure, if `render` is.
template_shapes find_template_shapes(const shape_trial& render);

}  // namespace semantic::engine
