// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text that KV recipes are measured on. It begins with prose, more than is compared: prose is
// hardest to predict, so a recipe that is good enough for it is good enough for code and forms.
// Talk, code, JSON, numbers and four scripts follow; the means of keys are taken from these, too. A
// change of one byte may change which recipe a model gets, and so void its caches: then raise
// calibration_version.

#include <string_view>

namespace semantic::engine {

std::string_view calibration_text() noexcept;

}  // namespace semantic::engine
