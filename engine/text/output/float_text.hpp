// SPDX-License-Identifier: Apache-2.0
#pragma once
// Floating-point numbers as chat templates print them.

#include <string>

namespace semantic::engine {

/// The number as Python's repr prints it: the shortest digits that read back as it, without
/// exponent between 1e-4 and 1e16: "2.0", "1e+16", "nan", "-inf".
std::string float_text(double number);

}  // namespace semantic::engine
