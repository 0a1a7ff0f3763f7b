// SPDX-License-Identifier: Apache-2.0
#pragma once
// The route table: every method and path that this server answers, with its handler and its rules.

#include <span>

#include "server/http/router.hpp"

namespace semantic::server {

/// The rows of the table. The first one that fits a request counts.
std::span<const route> routes();

}  // namespace semantic::server
