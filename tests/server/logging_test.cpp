// What strangers send does not reach a terminal that shows the log.

#include "server/runtime/logging.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace semantic::server {
namespace {

std::string logged(std::string_view text) {
    std::ostringstream lines;
    start_logging(log_level::info, lines);
    log_event(log_level::info, text);
    stop_logging();
    std::string line = lines.str();
    const std::size_t start = line.find(" - ");
    return start == std::string::npos ? line : line.substr(start + 3);
}

TEST(logging, control_characters_are_escaped_also_those_beyond_ascii) {
    EXPECT_EQ(logged("a\r\n\x1b[2J\x7f"), "a\\x0d\\x0a\\x1b[2J\\x7f\n");
    EXPECT_EQ(logged("\xc2\x9b"
                     "2J \xc2\x80 \xc2\x9f"),
              "\\xc2\\x9b2J \\xc2\\x80 \\xc2\\x9f\n");
    EXPECT_EQ(logged("\x9b"
                     "2J"),
              "\\x9b2J\n");
    EXPECT_EQ(logged("\xc3\xa9 \x9b"), "\\xc3\\xa9 \\x9b\n") << "no UTF-8: any byte may be one";
}

TEST(logging, other_text_stays_as_it_is) {
    // U+00A0, U+00E9, U+5B57 and U+1F600, whose bytes beyond the first look like control
    // characters.
    const std::string text = "a\xc2\xa0 \xc3\xa9 \xe5\xad\x97 \xf0\x9f\x98\x80";
    EXPECT_EQ(logged(text), text + "\n");
}

}  // namespace
}  // namespace semantic::server
