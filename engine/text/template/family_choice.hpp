// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which family's renderer prints what a template prints.

#include "engine/text/template/own_template.hpp"
#include "engine/text/template/source/template_source.hpp"
#include "engine/text/template/template_families.hpp"

namespace semantic::engine {

/// The first family of the table that renders conversations of all kinds as `own` does, byte for
/// byte; what one of the two refuses is not compared. Null when there is none. A token that
/// `source` does not name is spelled as the family's. Pure.
const template_family* find_family_rendering_as(const own_template& own,
                                                const template_source& source);

}  // namespace semantic::engine
