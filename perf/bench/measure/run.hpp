// SPDX-License-Identifier: Apache-2.0
#pragma once
// One run of one subcommand, from the first connection to the finished report.

#include <string>

#include "perf/bench/measure/options.hpp"
#include "perf/bench/report/report.hpp"

namespace semantic::bench {

struct outcome {
    report found;         // also what was measured before a failure
    std::string failure;  // empty: the run came to its end
    int status = 0;       // 0 done, 1 failed, 3 --max-seconds were over first
};

/// Runs the subcommand. Blocks until the end. A failure that a server causes is in the outcome and
/// not thrown.
outcome run(const options& opts);

}  // namespace semantic::bench
