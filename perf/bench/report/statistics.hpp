// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is said about many measured values: median, extremes, percentiles. Pure.

#include <cstddef>
#include <vector>

namespace semantic::bench {

/// The percentile `p` (0 to 1) of the values, interpolated linearly between the two nearest in
/// order of size: 0 gives the smallest, 1 the largest. Returns: 0 for no values.
double percentile(std::vector<double> values, double p);
inline double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

struct summary {
    std::size_t count = 0;
    double min = 0;
    double mean = 0;
    double p50 = 0;
    double p99 = 0;
    double max = 0;
};
summary summarise(const std::vector<double>& values);

}  // namespace semantic::bench
