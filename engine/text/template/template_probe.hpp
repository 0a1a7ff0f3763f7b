// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a chat template can say, found by trying it on small conversations. Pure.

#include <string>
#include <vector>

#include "engine/text/template/chat_template.hpp"
#include "engine/types/template_abilities.hpp"

namespace semantic::engine {

/// What `chat` neither refuses nor leaves out, in whatever shape it renders it.
template_abilities abilities_of(const chat_template& chat);
/// What the template itself has a place for. All else is rendered in another shape.
template_abilities own_places_of(const chat_template& chat);

/// What is missing, in words: "tools, tool calls"; empty when nothing is.
std::string missing_abilities(const template_abilities& found);

/// What an operator should know of a template, a sentence each.
std::vector<std::string> template_warnings(const chat_template& chat);

}  // namespace semantic::engine
