// SPDX-License-Identifier: Apache-2.0
// Goal: clients of MCP, those of 2026-07-28 and earlier ones, are answered as the protocol says.
// Method: whole messages as files, compared byte for byte: tests/golden/wire/mcp/NAME.request.json
// is what a client sends, with its headers, and the status of the reply, NAME.expected.json its
// body. With SEMANTIC_UPDATE_GOLDEN set the latter are written instead.

#include "protocol/mcp/message.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace semantic::protocol::mcp {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

const fs::path folder = fs::path(SEMANTIC_SOURCE_DIR) / "tests/golden/wire/mcp";

std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file) << path;
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::optional<std::string> header_in(const json::object& headers, const char* key) {
    const json::value* field = headers.if_contains(key);
    if (field == nullptr) return std::nullopt;
    return std::string(field->as_string());
}

answer answered(const std::string& body, const message_headers& headers = {}) {
    auto asked = parse_message(body, headers, json_limits{});
    if (auto* refused = std::get_if<answer>(&asked)) return *refused;
    const auto alone = answer_alone(std::get<message>(asked), "1.2.3");
    return alone ? *alone : answer{0, "a call"};
}

TEST(mcp_wire, golden_exchanges_are_reproduced_byte_for_byte) {
    constexpr std::string_view ending = ".request.json";
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
        std::string name = entry.path().filename();
        if (!name.ends_with(ending)) continue;
        ++count;
        const json::value sent = json::parse(read(entry.path()));
        const json::object& heads = sent.at("headers").as_object();
        const answer told = answered(
            json::serialize(sent.at("message")),
            {header_in(heads, "version"), header_in(heads, "method"), header_in(heads, "name")});
        const std::string shown = told.body + "\n";
        EXPECT_EQ(told.status, sent.at("status").to_number<unsigned>()) << name;
        name.resize(name.size() - ending.size());
        const fs::path expected = folder / (name + ".expected.json");
        if (std::getenv("SEMANTIC_UPDATE_GOLDEN") != nullptr)
            std::ofstream(expected, std::ios::binary) << shown;
        else
            EXPECT_EQ(shown, read(expected)) << expected;
    }
    EXPECT_GE(count, 20);
}

TEST(mcp_message, what_is_no_json_or_too_long_is_refused) {
    EXPECT_EQ(answered("{").status, 400);
    EXPECT_NE(answered("{").body.find("-32700"), std::string::npos);
    json_limits limits;
    const std::string ping = R"({"jsonrpc":"2.0","id":1,"method":"ping"})";
    limits.bytes_max = ping.size();
    EXPECT_TRUE(std::holds_alternative<message>(parse_message(ping, {}, limits)));
    limits.bytes_max = ping.size() - 1;
    EXPECT_TRUE(std::holds_alternative<answer>(parse_message(ping, {}, limits)));
}

TEST(mcp_message, a_call_is_left_to_who_can_do_it) {
    EXPECT_EQ(
        answered(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}})").body,
        "a call");
}

TEST(mcp_message, a_result_says_that_it_is_complete_to_those_who_know_the_word) {
    message asked;
    asked.id = 7;
    EXPECT_EQ(tool_reply(asked, "a\"b", true).body,
              R"({"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"a\"b"}],)"
              R"("isError":true}})");
    asked.is_stateless = true;
    EXPECT_NE(tool_reply(asked, "", false).body.find(R"("resultType":"complete")"),
              std::string::npos);
}

}  // namespace
}  // namespace semantic::protocol::mcp
