#pragma once
// What a chat template can say, found by trying it on small conversations. Pure.

#include <string>

#include "engine/text/template/chat_template.hpp"
#include "engine/types/template_abilities.hpp"

namespace semantic::engine {

/// What `chat` neither refuses nor leaves out.
template_abilities abilities_of(const chat_template& chat);

/// What is missing, in words: "tools, tool calls"; empty when nothing is.
std::string missing_abilities(const template_abilities& of);

}  // namespace semantic::engine
