// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ids that nobody else draws. Thread: any.

#include <string>

namespace semantic::storage {

/// Returns: 128 random bits as 32 lower-case hex digits.
std::string random_id();

}  // namespace semantic::storage
