// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/client/sse_parser.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace semantic::bench {
namespace {

using events = std::vector<std::pair<std::string, std::string>>;

/// Feeds `stream` in pieces of `piece` bytes.
events parse(std::string_view stream, std::size_t piece = 4096) {
    sse_parser parser;
    events found;
    for (; !stream.empty(); stream.remove_prefix(std::min(piece, stream.size()))) {
        parser.feed(stream.substr(0, piece),
                    [&](const sse_event& e) { found.emplace_back(e.name, e.data); });
    }
    return found;
}

TEST(sse_parser, all_line_ends_mean_the_same) {
    const events expected{{"a", "1"}, {"", "2"}};
    EXPECT_EQ(parse("event: a\ndata: 1\n\ndata: 2\n\n"), expected);
    EXPECT_EQ(parse("event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n"), expected);
    EXPECT_EQ(parse("event: a\rdata: 1\r\rdata: 2\r\r"), expected);
}

TEST(sse_parser, a_read_may_end_anywhere) {
    const std::string stream =
        "\xEF\xBB\xBF: hello\r\nevent: x\r\ndata: {\"a\":1}\r\n\r\ndata: two\ndata: lines\n\n";
    const events whole = parse(stream);
    ASSERT_EQ(whole, (events{{"x", "{\"a\":1}"}, {"", "two\nlines"}}));
    for (std::size_t piece = 1; piece < stream.size(); ++piece) {
        EXPECT_EQ(parse(stream, piece), whole) << "pieces of " << piece;
    }
}

TEST(sse_parser, comments_and_unknown_fields_are_skipped) {
    EXPECT_EQ(parse(": ping\n\n: data: no\nid: 7\nretry: 10\ndata: x\n\n"), (events{{"", "x"}}));
}

TEST(sse_parser, an_event_without_data_is_none) {
    EXPECT_EQ(parse("event: ping\n\ndata: x\n\n"), (events{{"", "x"}}));
}

TEST(sse_parser, empty_data_is_data) { EXPECT_EQ(parse("data:\n\n"), (events{{"", ""}})); }

TEST(sse_parser, one_space_behind_the_colon_is_not_content) {
    EXPECT_EQ(parse("data:x\n\ndata:  y\n\n"), (events{{"", "x"}, {"", " y"}}));
}

TEST(sse_parser, an_unfinished_event_is_none) { EXPECT_EQ(parse("data: x\n"), events{}); }

TEST(sse_parser, a_line_one_byte_too_long_is_an_error) {
    const std::string most(sse_parser::event_bytes_max - 5, 'x');
    EXPECT_NO_THROW(parse("data:" + most));
    EXPECT_THROW(parse("data:" + most + "x"), sse_error);
}

TEST(sse_parser, an_event_of_many_lines_is_bounded_too) {
    sse_parser parser;
    const std::string line = "data:" + std::string(sse_parser::event_bytes_max / 4, 'x') + "\n";
    const auto ignore = [](const sse_event&) {};
    for (int i = 0; i < 3; ++i) parser.feed(line, ignore);
    EXPECT_THROW(parser.feed(line, ignore), sse_error);
}

}  // namespace
}  // namespace semantic::bench
