// SPDX-License-Identifier: Apache-2.0
// The stream of /v1/chat/completions as a table: what it sends in each state at each event.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "protocol/openai/chat_stream.hpp"

namespace semantic::protocol::openai {
namespace {

namespace json = boost::json;
using feed = std::function<std::string(chat_stream&)>;

/// What one chunk says: "role0" of choice 0, "text1" of choice 1, "call0.2" the third call of
/// choice 0, "arguments0.2" its arguments, "stop0", "usage".
std::string word_of(const json::value& chunk) {
    if (chunk.as_object().contains("error")) return "error";
    if (chunk.at("choices").as_array().empty()) return "usage";
    const json::value& choice = chunk.at("choices").at(0);
    const json::object& delta = choice.at("delta").as_object();
    std::string index = json::serialize(choice.at("index"));
    if (choice.at("finish_reason").is_string())
        return std::string(choice.at("finish_reason").as_string()) + index;
    if (delta.contains("role")) return "role" + index;
    if (delta.contains("content")) return "text" + index;
    if (delta.contains("reasoning_content")) return "thinking" + index;
    const json::object& call = delta.at("tool_calls").at(0).as_object();
    std::string place = index + "." + json::serialize(call.at("index"));
    return (call.contains("id") ? "call" : "arguments") + place;
}

std::string brief(const std::string& bytes) {
    std::string all;
    for (std::size_t at = 0; at < bytes.size();) {
        std::size_t end = bytes.find("\n\n", at);
        std::string event = bytes.substr(at, end - at);
        at = end + 2;
        std::string word = event.starts_with(":")    ? "comment"
                           : event == "data: [DONE]" ? "done"
                                                     : word_of(json::parse(event.substr(6)));
        all += (all.empty() ? "" : " ") + word;
    }
    return all;
}

engine::choice_finished end_of(int choice) {
    return {choice, engine::stop_reason::end_turn, {}, 1};
}

const std::map<std::string, feed> events{
    {"admitted",
     [](auto& s) {
         return s.on_admitted({*storage::agent_id::parse("oai_a"), {}});
     }},
    {"text", [](auto& s) { return s.on_text("a"); }},
    {"nothing", [](auto& s) { return s.on_text("") + s.on_thinking(""); }},
    {"space", [](auto& s) { return s.on_text("\n"); }},
    {"thinking", [](auto& s) { return s.on_thinking("hm"); }},
    {"call", [](auto& s) { return s.on_tool_call("f", "{}"); }},
    {"no call", [](auto& s) { return s.on_tool_call("f", "[]"); }},
    {"first ends", [](auto& s) { return s.on_choice_finished(end_of(0)); }},
    {"second ends", [](auto& s) { return s.on_choice_finished(end_of(1)); }},
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
    {"to the second",
     [](auto& s) {
         s.on_choice(1);
         return std::string();
     }},
};

const std::map<std::string, std::vector<std::string>> ways{
    {"fresh", {}},
    {"open", {"admitted"}},
    {"behind a call", {"admitted", "call"}},
    {"behind a call and space", {"admitted", "call", "space"}},
    {"second choice", {"admitted", "call", "to the second"}},
    {"ended", {"admitted", "text", "finished"}},
};

const std::map<std::string, std::string> silence{
    {"admitted", ""}, {"text", ""},          {"nothing", ""}, {"space", ""},
    {"thinking", ""}, {"call", ""},          {"no call", ""}, {"first ends", ""},
    {"finished", ""}, {"cancelled", ""},     {"failed", ""},  {"second ends", ""},
    {"ping", ""},     {"to the second", ""},
};

/// `silence` but for these.
std::map<std::string, std::string> but(std::map<std::string, std::string> sent) {
    sent.insert(silence.begin(), silence.end());
    return sent;
}

struct row {
    const char* state;
    std::map<std::string, std::string> sent;
};

const std::array<row, 6> table{{
    {"fresh", but({{"admitted", "role0 role1"},
                   {"finished", "error"},
                   {"cancelled", "error"},
                   {"failed", "error"},
                   {"ping", "comment"}})},
    {"open", but({{"text", "text0"},
                  {"space", "text0"},
                  {"thinking", "thinking0"},
                  {"call", "call0.0 arguments0.0"},
                  {"no call", "text0"},
                  {"second ends", "stop1"},
                  {"finished", "stop0 usage done"},
                  {"cancelled", "error"},
                  {"failed", "error"},
                  {"ping", "comment"}})},
    {"behind a call", but({{"text", "text0"},
                           {"thinking", "thinking0"},
                           {"call", "call0.1 arguments0.1"},
                           {"no call", "text0"},
                           {"second ends", "stop1"},
                           {"finished", "tool_calls0 usage done"},
                           {"cancelled", "error"},
                           {"failed", "error"},
                           {"ping", "comment"}})},
    {"behind a call and space", but({{"text", "text0"},
                                     {"thinking", "thinking0"},
                                     {"call", "call0.1 arguments0.1"},
                                     {"no call", "text0"},
                                     {"second ends", "stop1"},
                                     {"finished", "tool_calls0 usage done"},
                                     {"cancelled", "error"},
                                     {"failed", "error"},
                                     {"ping", "comment"}})},
    {"second choice", but({{"text", "text1"},
                           {"space", "text1"},
                           {"thinking", "thinking1"},
                           {"call", "call1.0 arguments1.0"},
                           {"no call", "text1"},
                           {"second ends", "stop1"},
                           {"finished", "tool_calls0 usage done"},
                           {"cancelled", "error"},
                           {"failed", "error"},
                           {"ping", "comment"}})},
    {"ended", silence},
}};

TEST(chat_stream_states, every_event_in_every_state_sends_what_the_table_says) {
    ASSERT_EQ(table.size(), ways.size());
    for (const row& line : table) {
        ASSERT_EQ(line.sent.size(), events.size()) << line.state;
        for (const auto& [event, expected] : line.sent) {
            id_maker ids([] { return 1; });
            chat_stream stream({"chatcmpl-1", "m", "fp_1", 1, true, {}, 2}, ids);
            for (const std::string& step : ways.at(line.state)) events.at(step)(stream);
            EXPECT_EQ(brief(events.at(event)(stream)), expected) << line.state << ", " << event;
            bool ends = event == "finished" || event == "cancelled" || event == "failed" ||
                        std::string(line.state) == "ended";
            EXPECT_EQ(stream.ended(), ends) << line.state << ", " << event;
        }
    }
}

}  // namespace
}  // namespace semantic::protocol::openai
