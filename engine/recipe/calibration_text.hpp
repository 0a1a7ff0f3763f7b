// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text that recipes are measured on. Prose comes first, more than is compared: what is hard to
// predict changes its most likely token soonest, so a recipe that is good enough there is so for
// code and forms. Talk, code, JSON, numbers and four scripts follow, which the means of the keys
// are taken from too. A change of one byte changes what models choose, and with that their caches:
// calibration_version says so.

#include <string_view>

namespace semantic::engine {

std::string_view calibration_text() noexcept;

}  // namespace semantic::engine
