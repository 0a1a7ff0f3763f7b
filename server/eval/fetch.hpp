// SPDX-License-Identifier: Apache-2.0
#pragma once
// fetch: a model by its name on a hub, into the Hugging Face cache.

#include <string>
#include <vector>

#include "server/eval/command_line.hpp"

namespace semantic::eval {

/// Runs the command, as command::run. The first word may be the model's name without --name. Throws
/// bad_input.
int run_fetch(const command& self, const std::vector<std::string>& words);

}  // namespace semantic::eval
