// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random damage to valid bodies: always a request or an error that names its reason, never anything
// else.

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "protocol/wire/api_error.hpp"

namespace semantic::protocol {

/// Parses one body and checks what a request must have. Returns: the error, or nothing.
using body_check = std::function<std::optional<failure>(const std::string& body)>;

/// Bodies with a few bytes changed. Fails unless both outcomes were met.
void expect_damaged_bodies_are_answered(std::span<const std::string> seeds, dialect d,
                                        const body_check& check);
/// Bodies that are still JSON, with one value changed. Fails unless both outcomes were met.
void expect_other_values_are_answered(std::span<const std::string> seeds, dialect d,
                                      const body_check& check);

}  // namespace semantic::protocol
