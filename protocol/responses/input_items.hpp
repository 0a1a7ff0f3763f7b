#pragma once
// The items of a Responses request that become the prompt. Pure.

#include <boost/json/array.hpp>

#include "engine/types/conversation.hpp"
#include "protocol/responses/request.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::responses {

/// `root` is the whole body: its `instructions` and `input`. Complains with missing_field,
/// bad_value, unsupported. `earlier`: items that stand between the two. `item_of`: of references.
/// `is_asked`: somebody is to be answered, so that there is a message.
///
/// - `instructions` and the system and developer messages that open the input become the system
///   text, in that order, with an empty line between them; later ones stay where they are, and so
///   do all behind `earlier`.
/// - What a model said in several items (reasoning, text, calls) is one message again.
/// - Reasoning comes back by its text or by `encrypted_content` of this server; another server's is
///   left out.
engine::conversation parse_input(const json_cursor& root, const boost::json::array& earlier,
                                 const referenced_item& item_of, bool is_asked,
                                 const response_limits& limits);

/// A call of a tool whose input is a text, as the model writes it: {"input": TEXT}.
std::string text_arguments(std::string_view text);

}  // namespace semantic::protocol::responses
