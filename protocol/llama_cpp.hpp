// SPDX-License-Identifier: Apache-2.0
#pragma once
// GET /props and GET /slots, by which clients recognise a llama.cpp server and learn its context
// length. Pure. Source: the routes as llama.cpp of October 2026 documents them.

#include <string>

#include "protocol/models.hpp"

namespace semantic::protocol {

/// The body of GET /props. `slots`: how many requests run at once. Defaults of sampling and the
/// template's text are left out, since they are each model's own.
std::string props_body(const model_card& loaded, int slots, std::string_view version);
/// The body of GET /slots: one object for each slot, the first `running` of them busy. No prompt is
/// shown.
std::string slots_body(const model_card& loaded, int slots, int running);

}  // namespace semantic::protocol
