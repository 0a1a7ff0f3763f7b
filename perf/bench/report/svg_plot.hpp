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

/// Draws the plot. Returns: a whole SVG document. Values that are not finite, or that a logarithmic
/// axis cannot show (zero and below), are left out.
std::string render_svg(const plot& drawn);

/// Ticks with a round step that cover [0, top] in about five steps, 0 included. Requires: top > 0.
std::vector<double> nice_ticks(double top);

}  // namespace semantic::bench
