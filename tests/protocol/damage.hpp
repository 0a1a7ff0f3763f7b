// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random damage to JSON bodies, for tests that feed parsers what no client should send.

#include <random>
#include <string>

namespace semantic::protocol {

/// Bytes changed, cut out, doubled, or replaced by tokens that parsers trip over.
void damage(std::string& body, std::mt19937& random);
/// A value of the body replaced by another: damage that always parses as JSON.
std::string with_value_replaced(const std::string& body, std::mt19937& random);

}  // namespace semantic::protocol
