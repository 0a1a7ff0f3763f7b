// SPDX-License-Identifier: Apache-2.0
// The stream of /v1/messages as a table: what it sends in each state at each event.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "protocol/anthropic/message_stream.hpp"

namespace semantic::protocol::anthropic {
namespace {

namespace json = boost::json;
using feed = std::function<std::string(message_stream&)>;

/// "+text0" a block begins, "text0" a delta of it, "-0" its end; the other events by their names.
std::string brief(const std::string& bytes) {
    std::string all;
    for (std::size_t at = 0; at < bytes.size();) {
        std::size_t end = bytes.find("\n\n", at);
        std::size_t data = bytes.find("\ndata: ", at) + 7;
        json::value event = json::parse(bytes.substr(data, end - data));
        at = end + 2;
        std::string word(event.at("type").as_string());
        std::string index =
            event.as_object().contains("index") ? json::serialize(event.at("index")) : "";
        if (word == "content_block_start")
            word = "+" + std::string(event.at("content_block").at("type").as_string()) + index;
        else if (word == "content_block_delta")
            word = std::string(event.at("delta").at("type").as_string()) + index;
        else if (word == "content_block_stop")
            word = "-" + index;
        all += (all.empty() ? "" : " ") + word;
    }
    return all;
}

const std::map<std::string, feed> events{
    {"admitted",
     [](auto& s) {
         return s.on_admitted({*storage::agent_id::parse("sess_a"), {}});
     }},
    {"text", [](auto& s) { return s.on_text("a"); }},
    {"nothing", [](auto& s) { return s.on_text("") + s.on_thinking(""); }},
    {"space", [](auto& s) { return s.on_text("\n"); }},
    {"thinking", [](auto& s) { return s.on_thinking("hm"); }},
    {"call", [](auto& s) { return s.on_tool_call("f", "{}"); }},
    {"no call", [](auto& s) { return s.on_tool_call("f", "[]"); }},
    {"finished",
     [](auto& s) {
         return s.on_finished({engine::stop_reason::end_turn, {}, 1, true});
     }},
    {"cancelled",
     [](auto& s) {
         return s.on_finished({engine::stop_reason::cancelled, {}, 1, true});
     }},
    {"failed",
     [](auto& s) {
         return s.on_failed({errc::internal, "x", {}, {}});
     }},
    {"ping", [](auto& s) { return s.ping(); }},
};

const std::map<std::string, std::vector<std::string>> ways{
    {"fresh", {}},
    {"admitted", {"admitted"}},
    {"in text", {"admitted", "text"}},
    {"in thinking", {"admitted", "thinking"}},
    {"behind a call", {"admitted", "call"}},
    {"behind a call and space", {"admitted", "call", "space"}},
    {"ended", {"admitted", "text", "finished"}},
    {"ended by failure", {"failed"}},
};

struct row {
    const char* state;
    std::map<std::string, std::string> sent;
};

const std::array<row, 8> table{{
    {"fresh",
     {{"admitted", "message_start"},
      {"text", ""},
      {"nothing", ""},
      {"space", ""},
      {"thinking", ""},
      {"call", ""},
      {"no call", ""},
      {"finished", "error"},
      {"cancelled", "error"},
      {"failed", "error"},
      {"ping", "ping"}}},
    {"admitted",
     {{"admitted", ""},
      {"text", "+text0 text_delta0"},
      {"nothing", ""},
      {"space", "+text0 text_delta0"},
      {"thinking", "+thinking0 thinking_delta0"},
      {"call", "+tool_use0 input_json_delta0 -0"},
      {"no call", "+text0 text_delta0"},
      {"finished", "message_delta message_stop"},
      {"cancelled", "error"},
      {"failed", "error"},
      {"ping", "ping"}}},
    {"in text",
     {{"admitted", ""},
      {"text", "text_delta0"},
      {"nothing", ""},
      {"space", "text_delta0"},
      {"thinking", "-0 +thinking1 thinking_delta1"},
      {"call", "-0 +tool_use1 input_json_delta1 -1"},
      {"no call", "text_delta0"},
      {"finished", "-0 message_delta message_stop"},
      {"cancelled", "error"},
      {"failed", "error"},
      {"ping", "ping"}}},
    {"in thinking",
     {{"admitted", ""},
      {"text", "signature_delta0 -0 +text1 text_delta1"},
      {"nothing", ""},
      {"space", "signature_delta0 -0 +text1 text_delta1"},
      {"thinking", "thinking_delta0"},
      {"call", "signature_delta0 -0 +tool_use1 input_json_delta1 -1"},
      {"no call", "signature_delta0 -0 +text1 text_delta1"},
      {"finished", "signature_delta0 -0 message_delta message_stop"},
      {"cancelled", "error"},
      {"failed", "error"},
      {"ping", "ping"}}},
    {"behind a call",
     {{"admitted", ""},
      {"text", "+text1 text_delta1"},
      {"nothing", ""},
      {"space", ""},
      {"thinking", "+thinking1 thinking_delta1"},
      {"call", "+tool_use1 input_json_delta1 -1"},
      {"no call", "+text1 text_delta1"},
      {"finished", "message_delta message_stop"},
      {"cancelled", "error"},
      {"failed", "error"},
      {"ping", "ping"}}},
    {"behind a call and space",
     {{"admitted", ""},
      {"text", "+text1 text_delta1"},
      {"nothing", ""},
      {"space", ""},
      {"thinking", "+thinking1 thinking_delta1"},
      {"call", "+tool_use1 input_json_delta1 -1"},
      {"no call", "+text1 text_delta1"},
      {"finished", "message_delta message_stop"},
      {"cancelled", "error"},
      {"failed", "error"},
      {"ping", "ping"}}},
    {"ended",
     {{"admitted", ""},
      {"text", ""},
      {"nothing", ""},
      {"space", ""},
      {"thinking", ""},
      {"call", ""},
      {"no call", ""},
      {"finished", ""},
      {"cancelled", ""},
      {"failed", ""},
      {"ping", ""}}},
    {"ended by failure",
     {{"admitted", ""},
      {"text", ""},
      {"nothing", ""},
      {"space", ""},
      {"thinking", ""},
      {"call", ""},
      {"no call", ""},
      {"finished", ""},
      {"cancelled", ""},
      {"failed", ""},
      {"ping", ""}}},
}};

TEST(message_stream_states, every_event_in_every_state_sends_what_the_table_says) {
    ASSERT_EQ(table.size(), ways.size());
    for (const row& line : table) {
        ASSERT_EQ(line.sent.size(), events.size()) << line.state;
        for (const auto& [event, expected] : line.sent) {
            id_maker ids([] { return 1; });
            message_stream stream({"msg_1", "req_1", "m", {}, true}, ids);
            for (const std::string& step : ways.at(line.state)) events.at(step)(stream);
            EXPECT_EQ(brief(events.at(event)(stream)), expected) << line.state << ", " << event;
            bool ends = event == "finished" || event == "cancelled" || event == "failed" ||
                        std::string(line.state).starts_with("ended");
            EXPECT_EQ(stream.ended(), ends) << line.state << ", " << event;
        }
    }
}

}  // namespace
}  // namespace semantic::protocol::anthropic
