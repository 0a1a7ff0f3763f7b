// SPDX-License-Identifier: Apache-2.0
// What strangers send does not reach a terminal that shows the log.

#include "server/runtime/logging.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

#include "server/log/log_line.hpp"
#include "tests/support/temp_dir.hpp"

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

/// Keeps what it is given, call by call.
class pieces : public std::streambuf {
  public:
    std::vector<std::string> given;

  protected:
    std::streamsize xsputn(const char* text, std::streamsize size) override {
        given.emplace_back(text, static_cast<std::size_t>(size));
        return size;
    }
    int_type overflow(int_type one) override {
        given.emplace_back(1, traits_type::to_char_type(one));
        return one;
    }
};

// stderr is others' too: what they write comes before or after a line, never inside one.
TEST(logging, a_line_and_its_end_are_written_in_one_piece) {
    pieces written;
    std::ostream stream(&written);
    start_logging(log_level::info, stream);
    log_event(log_level::info, "one");
    log_event(log_level::info, "two");
    stop_logging();
    ASSERT_EQ(written.given.size(), 2u);
    EXPECT_EQ(written.given[0].substr(written.given[0].size() - 6), "- one\n");
    EXPECT_EQ(written.given[1].substr(written.given[1].size() - 6), "- two\n");
}

// 2026-01-02T03:04:05.006Z
const struct {
    std::chrono::system_clock::time_point time{std::chrono::milliseconds(1767323045006)};
} at;

TEST(log_line, as_json_it_is_one_object_with_its_ids) {
    EXPECT_EQ(json_line({at.time, "warning", "req_1", "ab", "it \"is\""}),
              R"({"time":"2026-01-02T03:04:05.006Z","level":"warning","request_id":"req_1",)"
              R"("trace_id":"ab","message":"it \"is\""})");
    EXPECT_EQ(json_line({at.time, "info", {}, {}, "a"}),
              R"({"time":"2026-01-02T03:04:05.006Z","level":"info","message":"a"})");
}

TEST(log_line, whatever_a_client_sent_is_json_and_moves_no_terminal) {
    const std::string hostile = std::string("a\r\n\x1b[2J\x7f\"\\\xc2\x9b") + '\0' + "\xc3\xa9";
    const std::string line = json_line({at.time, "info", {}, {}, hostile});
    EXPECT_EQ(line.find_first_of("\r\n\x1b\x7f"), std::string::npos);
    EXPECT_EQ(boost::json::parse(line).at("message"), boost::json::string(hostile));
    const auto bytes = json_line({at.time, "info", {}, {}, "\xff\x9bx"});
    EXPECT_EQ(boost::json::parse(bytes).at("message"), "\xef\xbf\xbd\xef\xbf\xbdx");
}

TEST(log_line, as_text_the_trace_stands_behind) {
    EXPECT_EQ(text_line({at.time, "info", "req_1", "ab", "it is"}),
              "2026-01-02T03:04:05.006Z info req_1 it is trace ab");
}

TEST(trace_context, the_trace_of_a_traceparent_is_taken_and_nothing_else_is) {
    const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    const std::string good = "00-" + trace + "-00f067aa0ba902b7-01";
    EXPECT_EQ(trace_id_of(good), trace);
    EXPECT_EQ(trace_id_of("cc" + good.substr(2) + "-what-comes-later"), trace);
    for (const std::string& bad : std::vector<std::string>{
             std::string(), good.substr(1), good + "-x", "ff" + good.substr(2),
             "cc" + good.substr(2) + "x", "00-" + std::string(32, '0') + "-00f067aa0ba902b7-01",
             "00-" + trace + "-" + std::string(16, '0') + "-01",
             "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
             "00-" + trace + "-00f067aa0ba902b7-0g", "00_" + good.substr(3)})
        EXPECT_EQ(trace_id_of(bad), "") << bad;
}

TEST(log_file, it_is_put_aside_at_its_size_and_so_many_are_kept) {
    tests::temp_dir dir;
    const std::string path = dir / "server.log";
    log_options options;
    options.file = path;
    options.file_bytes_max = 200;
    options.files_kept = 2;
    std::ostringstream stream;
    start_logging(options, stream);
    for (int i = 0; i < 12; ++i) log_event(log_level::info, "line " + std::to_string(100 + i));
    stop_logging();
    EXPECT_EQ(stream.str(), "") << "the file gets it";
    const auto text_of = [](const std::string& name) {
        std::ifstream file(name);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    EXPECT_NE(text_of(path).find("line 111\n"), std::string::npos);
    EXPECT_NE(text_of(path + ".1").find("line 10"), std::string::npos);
    EXPECT_FALSE(text_of(path + ".2").empty());
    EXPECT_FALSE(std::filesystem::exists(path + ".3"));
    for (const std::string& name : {path, path + ".1", path + ".2"}) {
        EXPECT_LE(std::filesystem::file_size(name), 200u) << name;
        EXPECT_EQ(std::filesystem::status(name).permissions(),
                  std::filesystem::perms::owner_read | std::filesystem::perms::owner_write)
            << name;
    }
    options.file_bytes_max = 1000;
    start_logging(options, stream);
    log_event(log_level::info, "after a restart");
    stop_logging();
    EXPECT_NE(text_of(path).find("line 111\n"), std::string::npos) << "it is appended to";
}

TEST(log_file, one_that_cannot_be_written_ends_the_start) {
    log_options options;
    options.file = "/nonexistent/server.log";
    std::ostringstream stream;
    try {
        start_logging(options, stream);
        FAIL() << "it was opened";
    } catch (const std::runtime_error& error) {
        EXPECT_EQ(std::string(error.what()).find("cannot write the log file: "), 0u);
        EXPECT_NE(std::string(error.what()).find("/nonexistent/server.log"), std::string::npos);
    }
}

}  // namespace
}  // namespace semantic::server
