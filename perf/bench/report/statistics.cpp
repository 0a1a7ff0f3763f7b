// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/report/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace semantic::bench {
namespace {

/// percentile() of values that are sorted.
double sorted_percentile(const std::vector<double>& sorted, double p) {
    if (sorted.empty()) return 0;
    const double position = std::clamp(p, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const auto above = std::min(below + 1, sorted.size() - 1);
    const double share = position - static_cast<double>(below);
    return sorted[below] + share * (sorted[above] - sorted[below]);
}

}  // namespace

double percentile(std::vector<double> values, double p) {
    std::sort(values.begin(), values.end());
    return sorted_percentile(values, p);
}

summary summarise(const std::vector<double>& values) {
    if (values.empty()) return {};
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
    return {.count = sorted.size(),
            .min = sorted.front(),
            .mean = sum / static_cast<double>(sorted.size()),
            .p50 = sorted_percentile(sorted, 0.5),
            .p99 = sorted_percentile(sorted, 0.99),
            .max = sorted.back()};
}

}  // namespace semantic::bench
