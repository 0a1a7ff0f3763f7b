#pragma once
// The pieces of what clients send.

#include "tests/cost/hostile_text.hpp"

namespace semantic::cost {

const language& schemas();
const language& grammars();
const language& expressions();
const language& scenarios();
const language& openai_bodies();
const language& anthropic_bodies();
const language& responses_bodies();
const language& ollama_bodies();
const language& native_bodies();
const language& call_texts();
const language& contents();

}  // namespace semantic::cost
