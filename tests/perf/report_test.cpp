// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/report/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "perf/bench/report/svg_plot.hpp"

namespace semantic::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::size_t count_of(const std::string& text, const std::string& word) {
    std::size_t count = 0;
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
    return count;
}

TEST(report, tables_are_aligned_and_gaps_are_dashes) {
    const table t{"Title", {"name", "µs"}, {{"a", std::int64_t{12345}}, {"long", {}}}};
    EXPECT_EQ(render_text(t), "Title\nname     µs\na     12345\nlong      -\n");
}

TEST(report, csv_quotes_what_needs_it_and_leaves_gaps_empty) {
    const table t{"T", {"a,b", "c"}, {{"say \"x\"", {}}, {1.5, std::int64_t{2}}}};
    EXPECT_EQ(render_csv(t), "\"a,b\",c\n\"say \"\"x\"\"\",\n1.500,2\n");
}

TEST(report, a_note_is_made_once) {
    report r;
    r.note("x");
    r.note("x");
    EXPECT_EQ(r.notes.size(), 1U);
}

TEST(nice_ticks, steps_are_round_and_cover_the_top) {
    EXPECT_THAT(nice_ticks(10), ElementsAre(0, 2, 4, 6, 8, 10));
    EXPECT_THAT(nice_ticks(1), testing::SizeIs(6));
    EXPECT_THAT(nice_ticks(103), ElementsAre(0, 50, 100, 150));
    for (const double top : {0.0003, 0.7, 1.0, 42.0, 99.0, 12345.0, 7e8}) {
        EXPECT_GE(nice_ticks(top).back(), top * (1 - 1e-9));
        EXPECT_LE(nice_ticks(top).size(), 7U);
    }
}

TEST(svg_plot, lines_have_axes_labels_and_a_legend) {
    const plot p{
        "p",     "A < B",
        "x & y", "\"s\"",
        true,    true,
        {},      {{"cold", {{1024, 0.1}, {2048, 1}, {4096, 10}}}, {"hot", {{1024, 0.01}}}}};
    const std::string svg = render_svg(p);
    EXPECT_THAT(svg, HasSubstr("A &lt; B"));
    EXPECT_THAT(svg, HasSubstr("x &amp; y"));
    EXPECT_THAT(svg, HasSubstr("&quot;s&quot;"));
    for (const char* text : {">1K<", ">2K<", ">4K<", ">0.01<", ">10<", ">cold<", ">hot<"}) {
        EXPECT_THAT(svg, HasSubstr(text));
    }
    EXPECT_EQ(count_of(svg, "<circle"), 4U);
    EXPECT_EQ(count_of(svg, "<polyline"), 2U);
}

TEST(svg_plot, points_that_cannot_be_shown_are_left_out) {
    const plot p{
        "p",  "t",  "x", "y",
        true, true, {},  {{"s", {{0, 1}, {1, 0}, {1, std::nan("")}, {1, 1}, {2, INFINITY}}}}};
    const std::string svg = render_svg(p);
    EXPECT_EQ(count_of(svg, "<circle"), 1U);
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(svg_plot, a_plot_without_points_is_still_a_plot) {
    for (const bool log : {false, true}) {
        const std::string svg = render_svg({"p", "t", "x", "y", log, log, {}, {{"s", {}}}});
        EXPECT_THAT(svg, Not(HasSubstr("nan")));
        EXPECT_THAT(svg, HasSubstr("</svg>"));
    }
}

TEST(svg_plot, each_category_has_a_bar_of_each_series) {
    const plot p{"p",
                 "t",
                 "x",
                 "y",
                 false,
                 false,
                 {"cold", "warm", "tiny"},
                 {{"alone", {{0, 1}, {1, 2}, {2, 3}}}, {"beside", {{0, 2}, {1, 3}, {2, 4}}}}};
    const std::string svg = render_svg(p);
    // Six bars, two legend squares, one background.
    EXPECT_EQ(count_of(svg, "<rect"), 9U);
    EXPECT_THAT(svg, HasSubstr(">warm<"));
}

}  // namespace
}  // namespace semantic::bench
