// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides whether schemas exclude each other, as oneOf needs it. Pure, apart from charging a
// budget.

#include <boost/json.hpp>

#include <vector>

#include "storage/types/work_budget.hpp"

namespace semantic::engine {

/// Whether it is certain that no value satisfies two of the schemas: they differ in type, or in the
/// constants that they, or one of their required properties, allow. Throws work_limit_exceeded.
bool are_apart(const std::vector<const boost::json::object*>& schemas,
               storage::work_budget& budget);

}  // namespace semantic::engine
