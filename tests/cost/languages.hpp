// SPDX-License-Identifier: Apache-2.0
#pragma once
// The pieces of what clients and other machines send.

#include "tests/cost/hostile_text.hpp"

namespace semantic::cost {

// Forms of answers.
const language& schemas();
const language& grammars();
const language& expressions();

// Bodies of requests, in JSON.
const language& openai_bodies();
const language& anthropic_bodies();
const language& responses_bodies();
const language& response_items();
const language& ollama_bodies();
const language& native_bodies();
const language& session_bodies();
const language& mcp_messages();

// The same with what clients of late 2026 send.
const language& late_messages();
const language& late_responses();
const language& late_chats();
const language& memory_orders();
const language& mcp_calls();
const language& verdicts();

// Other texts.
const language& scenarios();
const language& yaml_texts();
const language& call_texts();
const language& contents();
const language& templates();
const language& object_lists();

/// Kinds that every JSON text may have: `s schemas, `q members of "properties", `v values, `r names
/// in quotes.
std::vector<piece_kind> json_kinds();

}  // namespace semantic::cost
