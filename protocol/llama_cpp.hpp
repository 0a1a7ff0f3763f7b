// SPDX-License-Identifier: Apache-2.0
#pragma once
// GET /props and GET /slots, by which clients recognise a llama.cpp server and learn its context
// length. Pure. Source: the routes as llama.cpp of October 2026 documents them.

#include <string>

#include "protocol/models.hpp"

namespace semantic::protocol {

/// `slots`: requests that are answered at once. Defaults of sampling are each model's own and left
/// out, as is the template's text.
std::string props_body(const model_card& loaded, int slots, std::string_view version);
/// One object a slot, the first `running` of them busy. No prompt is shown.
std::string slots_body(const model_card& loaded, int slots, int running);

}  // namespace semantic::protocol
