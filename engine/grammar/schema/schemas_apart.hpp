// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether schemas exclude each other. Pure but for what it charges.

#include <boost/json.hpp>

#include <vector>

#include "storage/types/work_budget.hpp"

namespace semantic::engine {

/// Whether it is plain to see that no value satisfies two of them: they differ in type, or in the
/// constants that they or one of their required properties may be. Throws work_limit_exceeded.
bool are_apart(const std::vector<const boost::json::object*>& schemas,
               storage::work_budget& budget);

}  // namespace semantic::engine
