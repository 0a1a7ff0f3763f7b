// SPDX-License-Identifier: Apache-2.0
#pragma once
// The error for a request that would take more work or memory than one may
// (storage/types/work_budget.hpp). Pure.

#include "protocol/wire/errc.hpp"
#include "storage/types/work_budget.hpp"

namespace semantic::protocol {

/// Returns: the failure for the client: bad_value that names the limit; timeout for a deadline that
/// has passed; cancelled where the request was cancelled.
failure from_work_limit(const storage::work_limit_exceeded& reached);

}  // namespace semantic::protocol
