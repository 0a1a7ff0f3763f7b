// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/report/svg_plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace semantic::bench {
namespace {

constexpr double width = 760;
constexpr double height = 460;
constexpr double left = 84;
constexpr double right = 24;
constexpr double top = 56;
constexpr double bottom = 64;
constexpr double legend_line = 18;

// Colours that people with colour blindness can distinguish (Okabe and Ito).
constexpr std::array<const char*, 8> colours{"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                             "#E69F00", "#56B4E9", "#666666", "#000000"};

const char* colour(std::size_t i) { return colours[i % colours.size()]; }

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

std::string fixed(double value) {
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "%.1f", value);
    return text.data();
}

/// The label of a tick: 1024 -> "1K" (only where `powers_of_two`), 0.25 -> "0.25", 1500 -> "1500".
std::string tick_text(double value, bool powers_of_two) {
    std::array<char, 48> text{};
    const bool kibi = powers_of_two && value >= 1024 && std::fmod(value, 1024) == 0;
    std::snprintf(text.data(), text.size(), kibi ? "%gK" : "%g", kibi ? value / 1024 : value);
    return text.data();
}

struct axis {
    double low = 0;
    double high = 1;
    bool log = false;
    std::vector<double> ticks;

    bool shows(double v) const { return std::isfinite(v) && (!log || v > 0); }
    /// The place of a value on the axis: 0 at `low`, 1 at `high`.
    double share(double v) const {
        if (log) return (std::log(v) - std::log(low)) / (std::log(high) - std::log(low));
        return (v - low) / (high - low);
    }
};

/// A logarithmic axis with ticks at powers of `base`, at most about twelve.
axis log_axis(double low, double high, double base) {
    axis a;
    a.log = true;
    const double first = std::floor(std::log(low) / std::log(base) + 1e-9);
    const double last = std::max(first + 1, std::ceil(std::log(high) / std::log(base) - 1e-9));
    const double step = std::max(1.0, std::ceil((last - first) / 12));
    for (double e = first; e <= last; e += step) a.ticks.push_back(std::pow(base, e));
    a.low = std::pow(base, first);
    a.high = std::pow(base, last);
    return a;
}

axis linear_axis(double high) {
    axis a;
    a.ticks = nice_ticks(high > 0 ? high : 1);
    a.high = a.ticks.back();
    return a;
}

enum class direction { x, y };

/// The axis that shows all values of the plot on this side.
axis make_axis(const plot& drawn, direction side) {
    const bool log = side == direction::x ? drawn.log_x : drawn.log_y;
    double low = 0;
    double high = 0;
    for (const series& s : drawn.lines) {
        for (const auto& [x, y] : s.points) {
            const double v = side == direction::x ? x : y;
            if (!std::isfinite(v) || (log && v <= 0)) continue;
            low = low == 0 ? v : std::min(low, v);
            high = std::max(high, v);
        }
    }
    if (!log || high <= 0) return linear_axis(high);
    return log_axis(low, high, side == direction::x ? 2 : 10);
}

double place_x(const axis& a, double v) { return left + a.share(v) * (width - left - right); }
double place_y(const axis& a, double v) {
    return height - bottom - a.share(v) * (height - top - bottom);
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text,
                    std::string_view more = "") {
    return "<text x=\"" + fixed(x) + "\" y=\"" + fixed(y) + "\" text-anchor=\"" +
           std::string(anchor) + "\"" + std::string(more) + ">" + escaped(text) + "</text>\n";
}

std::string line_between(double x1, double y1, double x2, double y2, std::string_view stroke) {
    return "<line x1=\"" + fixed(x1) + "\" y1=\"" + fixed(y1) + "\" x2=\"" + fixed(x2) +
           "\" y2=\"" + fixed(y2) + "\" stroke=\"" + std::string(stroke) + "\"/>\n";
}

/// The title, the axes, and the ticks of the y axis.
std::string frame(const plot& drawn, const axis& y) {
    std::string svg =
        text_at(width / 2, 24, "middle", drawn.title, " font-size=\"16\" font-weight=\"bold\"");
    for (const double tick : y.ticks) {
        const double at = place_y(y, tick);
        svg += line_between(left, at, width - right, at, "#DDDDDD");
        svg += text_at(left - 8, at + 4, "end", tick_text(tick, false));
    }
    svg += line_between(left, top, left, height - bottom, "#333333");
    svg += line_between(left, height - bottom, width - right, height - bottom, "#333333");
    svg += text_at((left + width - right) / 2, height - 18, "middle", drawn.x_label);
    const std::string turn =
        " transform=\"rotate(-90 20 " + fixed((top + height - bottom) / 2) + ")\"";
    return svg + text_at(20, (top + height - bottom) / 2, "middle", drawn.y_label, turn);
}

/// The names of the lines with their colours.
std::string legend(const plot& drawn) {
    // In one row under the title, which no data can reach.
    std::string svg;
    double x = left;
    for (std::size_t i = 0; i < drawn.lines.size(); ++i) {
        svg += "<rect x=\"" + fixed(x) + "\" y=\"" + fixed(legend_line + 16) +
               "\" width=\"12\" height=\"12\" fill=\"" + colour(i) + "\"/>\n";
        svg += text_at(x + 17, legend_line + 26, "start", drawn.lines[i].name);
        x += 34 + 7.2 * static_cast<double>(drawn.lines[i].name.size());
    }
    return svg;
}

/// The ticks of the x axis and the lines.
std::string lines_body(const plot& drawn, const axis& y) {
    const axis x = make_axis(drawn, direction::x);
    constexpr std::size_t marked_max = 40;  // more marks would hide the line
    std::string svg;
    for (const double tick : x.ticks) {
        const double at = place_x(x, tick);
        svg += line_between(at, height - bottom, at, height - bottom + 5, "#333333");
        svg += text_at(at, height - bottom + 20, "middle", tick_text(tick, true));
    }
    for (std::size_t i = 0; i < drawn.lines.size(); ++i) {
        std::string path;
        std::string marks;
        for (const auto& [px, py] : drawn.lines[i].points) {
            if (!x.shows(px) || !y.shows(py)) continue;
            const std::string cx = fixed(place_x(x, px));
            const std::string cy = fixed(place_y(y, py));
            path += (path.empty() ? "" : " ") + cx + "," + cy;
            if (drawn.lines[i].points.size() > marked_max) continue;
            marks += "<circle cx=\"" + cx + "\" cy=\"" + cy + "\" r=\"3.5\" fill=\"" + colour(i) +
                     "\"/>\n";
        }
        svg += "<polyline points=\"" + path + "\" fill=\"none\" stroke=\"" + colour(i) +
               "\" stroke-width=\"1.5\"/>\n" + marks;
    }
    return svg;
}

/// The names of the categories and a group of bars for each.
std::string bars_body(const plot& drawn, const axis& y) {
    const double group = (width - left - right) / static_cast<double>(drawn.categories.size());
    const double bar =
        group * 0.8 / static_cast<double>(std::max<std::size_t>(drawn.lines.size(), 1));
    std::string svg;
    for (std::size_t c = 0; c < drawn.categories.size(); ++c) {
        svg += text_at(left + group * (static_cast<double>(c) + 0.5), height - bottom + 20,
                       "middle", drawn.categories[c]);
    }
    for (std::size_t i = 0; i < drawn.lines.size(); ++i) {
        for (const auto& [category, value] : drawn.lines[i].points) {
            if (!y.shows(value)) continue;
            const double x = left + group * (category + 0.1) + bar * static_cast<double>(i);
            const double at = place_y(y, value);
            svg += "<rect x=\"" + fixed(x) + "\" y=\"" + fixed(at) + "\" width=\"" +
                   fixed(bar * 0.92) + "\" height=\"" + fixed(height - bottom - at) + "\" fill=\"" +
                   colour(i) + "\"/>\n";
            std::array<char, 32> label{};
            std::snprintf(label.data(), label.size(), "%.3g", value);
            svg += text_at(x + bar * 0.46, at - 5, "middle", label.data(), " font-size=\"11\"");
        }
    }
    return svg;
}

}  // namespace

std::vector<double> nice_ticks(double highest) {
    const double raw = highest / 5;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    double step = 10 * power;
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power >= raw * (1 - 1e-9)) {
            step = factor * power;
            break;
        }
    }
    std::vector<double> ticks;
    const auto count = static_cast<int>(std::ceil(highest / step - 1e-9));
    for (int i = 0; i <= count; ++i) ticks.push_back(step * i);
    return ticks;
}

std::string render_svg(const plot& drawn) {
    const axis y = make_axis(drawn, direction::y);
    std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + fixed(width) +
                      "\" height=\"" + fixed(height) + "\" viewBox=\"0 0 " + fixed(width) + " " +
                      fixed(height) + "\" font-family=\"sans-serif\" font-size=\"12\">\n" +
                      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    svg += frame(drawn, y) + legend(drawn);
    svg += drawn.categories.empty() ? lines_body(drawn, y) : bars_body(drawn, y);
    return svg + "</svg>\n";
}

}  // namespace semantic::bench
