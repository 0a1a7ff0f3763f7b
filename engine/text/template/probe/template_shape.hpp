// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shapes of conversation that a template renders by itself, found by trying it on small ones.

#include <functional>
#include <optional>
#include <string>

#include "engine/types/conversation.hpp"

namespace semantic::engine {

/// What conversations may have. False: the template has no place for it.
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
    /// Of calls whose turn comes as the model wrote it, several in one message.
    bool sampled_parallel_calls = true;
    /// Reasoning of earlier turns.
    bool thinking = true;
    bool operator==(const template_shape&) const = default;
};

struct template_shapes {
    template_shape renders;     // false: the template raises, or leaves something out
    template_shape leaves_out;  // false: it leaves something out without a word
};

/// Renders a conversation as it is. Returns: nothing where the template does not.
using shape_trial = std::function<std::optional<std::string>(const conversation&)>;

/// Pure, if `render` is.
template_shapes find_template_shapes(const shape_trial& render);

}  // namespace semantic::engine
