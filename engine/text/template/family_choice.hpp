// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the family whose renderer prints the same as a model's template.

#include "engine/text/template/own_template.hpp"
#include "engine/text/template/source/template_source.hpp"
#include "engine/text/template/template_families.hpp"

namespace semantic::engine {

/// The first family of the table that renders conversations of all kinds as `own` does, byte for
/// byte (conversations that one of the two refuses are not compared); null if there is none. Tokens
/// that `source` does not name are spelled as the family spells them. Pure.
const template_family* find_family_rendering_as(const own_template& own,
                                                const template_source& source);

}  // namespace semantic::engine
