// SPDX-License-Identifier: Apache-2.0
#pragma once
// Why a start failed, for the one line on stderr.

#include <exception>
#include <string>

namespace semantic::server {

/// Returns: what `error` says; where the system refused a thread or memory, also which limits may
/// be the cause.
std::string start_failure(const std::exception& error);

}  // namespace semantic::server
