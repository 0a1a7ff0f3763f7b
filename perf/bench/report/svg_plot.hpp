// SPDX-License-Identifier: Apache-2.0
#pragma once
// Line and bar plots as SVG text: axes, labels, legend. Pure.

#include <string>
#include <utility>
#include <vector>

namespace semantic::bench {

struct series {
    std::string name;
    std::vector<std::pair<double, double>> points;  // x, y; a bar plot takes x as category index
};

struct plot {
    std::string file_stem;  // "prefill" becomes prefill.svg
    std::string title;
    std::string x_label;
    std::string y_label;
    bool log_x = false;                   // powers of two: contexts, agents
    bool log_y = false;                   // powers of ten: times that differ by orders of magnitude
    std::vector<std::string> categories;  // not empty: bars, one group each
    std::vector<series> lines;
};

/// Returns: a whole SVG document. Points that a logarithmic axis cannot show (not above zero) and
/// values that are not finite are left out.
std::string render_svg(const plot& drawn);

/// Round steps that cover [0, top] with about five of them, 0 included. Requires: top > 0.
std::vector<double> nice_ticks(double top);

}  // namespace semantic::bench
