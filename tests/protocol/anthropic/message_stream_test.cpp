// SPDX-License-Identifier: Apache-2.0
#include "protocol/anthropic/message_stream.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "protocol/thinking_signature.hpp"

namespace semantic::protocol::anthropic {
namespace {

namespace json = boost::json;
using engine::stop_reason;

engine::admitted admission() {
    engine::admitted event{*storage::agent_id::parse("sess_a"), {}};
    event.usage.prompt_tokens = 100;
    event.usage.reused_tokens = 70;
    event.usage.created_tokens = 29;
    event.usage.recomputed_tokens = 1;
    event.usage.restored_tokens = 64;
    event.usage.match = engine::match_kind::diverge;
    event.usage.why = engine::miss_reason::messages_changed;
    return event;
}

engine::finished ending(stop_reason why, int output_tokens = 9) {
    return {why, why == stop_reason::stop_sequence ? "END" : "", output_tokens, true};
}

struct sse {
    std::string name;
    json::value data;
};

/// Splits bytes as a client does; every event has a name, and data whose type is that name.
std::vector<sse> events_of(const std::string& bytes) {
    std::vector<sse> events;
    std::size_t at = 0;
    while (at < bytes.size()) {
        std::size_t end = bytes.find("\n\n", at);
        EXPECT_NE(end, std::string::npos);
        std::string event = bytes.substr(at, end - at);
        std::size_t line = event.find('\n');
        EXPECT_TRUE(event.starts_with("event: ")) << event;
        EXPECT_EQ(event.substr(line + 1, 6), "data: ") << event;
        events.push_back({event.substr(7, line - 7), json::parse(event.substr(line + 7))});
        EXPECT_EQ(events.back().data.at("type").as_string(), events.back().name);
        at = end + 2;
    }
    return events;
}

std::string names_of(const std::string& bytes) {
    std::string names;
    for (const sse& event : events_of(bytes)) names += event.name + " ";
    return names;
}

/// A stream and a collector fed alike.
class reply {
  public:
    explicit reply(std::optional<std::size_t> tool_calls_max = {}, bool shows_thinking = true)
        : stream_ids_([this] { return ++stream_draws_; }),
          collector_ids_([this] { return ++collector_draws_; }),
          stream_({"msg_1", "req_1", "m", tool_calls_max, shows_thinking}, stream_ids_),
          collector_({"msg_1", "req_1", "m", tool_calls_max, shows_thinking}, collector_ids_) {}

    std::string admitted() {
        collector_.on_admitted(admission());
        return keep(stream_.on_admitted(admission()));
    }
    std::string text(std::string_view piece) {
        collector_.on_text(piece);
        return keep(stream_.on_text(piece));
    }
    std::string thinking(std::string_view piece) {
        collector_.on_thinking(piece);
        return keep(stream_.on_thinking(piece));
    }
    std::string call(std::string_view name, std::string_view arguments) {
        collector_.on_tool_call(name, arguments);
        return keep(stream_.on_tool_call(name, arguments));
    }
    std::string finished(const engine::finished& event) {
        body_ = collector_.on_finished(event);
        return keep(stream_.on_finished(event));
    }

    json::value body() const { return json::parse(body_.value()); }
    const result<std::string>& raw_body() const { return body_; }
    const std::string& bytes() const { return bytes_; }
    message_stream& stream() { return stream_; }

  private:
    std::string keep(std::string bytes) {
        bytes_ += bytes;
        return bytes;
    }
    std::uint64_t stream_draws_ = 0;
    std::uint64_t collector_draws_ = 0;
    id_maker stream_ids_;
    id_maker collector_ids_;
    message_stream stream_;
    message_collector collector_;
    result<std::string> body_ = failure{errc::internal, "not finished", {}, {}};
    std::string bytes_;
};

TEST(message_stream, events_of_a_text_answer_come_in_the_vendors_order) {
    reply r;
    r.admitted();
    r.text("Hel");
    r.text("lo");
    r.finished(ending(stop_reason::end_turn));
    EXPECT_EQ(names_of(r.bytes()),
              "message_start content_block_start content_block_delta content_block_delta "
              "content_block_stop message_delta message_stop ");
    EXPECT_TRUE(r.stream().ended());
}

TEST(message_stream, each_token_with_text_leaves_at_once_as_its_own_event) {
    reply r;
    r.admitted();
    EXPECT_EQ(names_of(r.text("a")), "content_block_start content_block_delta ");
    for (std::string_view piece : {"b", " ", "\n", "é"})
        EXPECT_EQ(names_of(r.text(piece)), "content_block_delta ");
    EXPECT_EQ(r.text(""), "");
    EXPECT_EQ(r.text("c"),
              "event: content_block_delta\ndata: "
              R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"c"}})"
              "\n\n");
}

/// "thinking:hm text:b tool_use:{}": the blocks of a reply, as its client puts them together.
std::string blocks_of(const json::value& content) {
    std::string blocks;
    for (const json::value& block : content.as_array()) {
        std::string type(block.at("type").as_string());
        if (!blocks.empty()) blocks += ' ';
        blocks += type + ":";
        if (type == "tool_use") {
            blocks += json::serialize(block.at("input"));
        } else {
            blocks += block.at(type).as_string();
        }
    }
    return blocks;
}

json::array folded(const std::string& bytes) {
    json::array blocks;
    std::string input;
    for (const sse& event : events_of(bytes)) {
        if (event.name == "content_block_start") {
            EXPECT_EQ(event.data.at("index").as_int64(), static_cast<int>(blocks.size()));
            blocks.push_back(event.data.at("content_block"));
            input.clear();
        } else if (event.name == "content_block_delta") {
            EXPECT_EQ(event.data.at("index").as_int64(), static_cast<int>(blocks.size()) - 1);
            const json::object& delta = event.data.at("delta").as_object();
            json::object& block = blocks.back().as_object();
            for (const char* field : {"text", "thinking", "signature"})
                if (delta.contains(field)) {
                    EXPECT_EQ(delta.at("type").as_string(), std::string(field) + "_delta");
                    json::string whole = block[field].as_string();
                    whole += delta.at(field).as_string();
                    block[field] = whole;
                }
            if (delta.contains("partial_json")) {
                input += delta.at("partial_json").as_string();
                block["input"] = json::parse(input);
            }
        }
    }
    return blocks;
}

// Feeds: t text, h thinking, c a call, _ white space; each row's stream and body hold the same.
TEST(message_stream, thinking_text_and_calls_are_blocks_of_their_own_in_any_order) {
    struct row {
        const char* feed;
        const char* blocks;
    };
    for (const row& expected :
         {row{"ht", "thinking:h text:t"}, row{"hht", "thinking:hh text:t"},
          row{"th", "text:t thinking:h"}, row{"hth", "thinking:h text:t thinking:h"},
          row{"hc", "thinking:h tool_use:{}"},
          row{"hcht", "thinking:h tool_use:{} thinking:h text:t"},
          row{"hc_c", "thinking:h tool_use:{} tool_use:{}"},
          row{"hc_t", "thinking:h tool_use:{} text: t"}, row{"c_h", "tool_use:{} thinking:h"},
          row{"h_t", "thinking:h text: t"}, row{"h", "thinking:h"}, row{"", ""}}) {
        SCOPED_TRACE(expected.feed);
        reply r;
        r.admitted();
        for (char c : std::string_view(expected.feed)) {
            if (c == 'c') r.call("f", "{}");
            if (c == 'h') r.thinking("h");
            if (c == 't') r.text("t");
            if (c == '_') r.text(" ");
        }
        r.finished(ending(stop_reason::end_turn));
        EXPECT_EQ(blocks_of(folded(r.bytes())), expected.blocks);
        EXPECT_EQ(blocks_of(r.body().at("content")), expected.blocks);
        for (const json::value& block : folded(r.bytes()))
            if (block.at("type").as_string() == "thinking") {
                EXPECT_TRUE(block.at("signature").as_string().starts_with("semantic-1-"));
            }
    }
}

TEST(message_stream, a_thinking_block_ends_with_its_signature) {
    reply r;
    r.admitted();
    EXPECT_EQ(r.thinking(""), "");
    EXPECT_EQ(names_of(r.thinking("h")), "content_block_start content_block_delta ");
    EXPECT_EQ(r.thinking("m"),
              "event: content_block_delta\ndata: "
              R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta",)"
              R"("thinking":"m"}})"
              "\n\n");
    auto events = events_of(r.text("x"));
    ASSERT_EQ(events.size(), 4u);
    EXPECT_EQ(events[0].data.at("delta").at("type").as_string(), "signature_delta");
    EXPECT_EQ(events[0].data.at("index").as_int64(), 0);
    EXPECT_EQ(events[1].name, "content_block_stop");
    EXPECT_EQ(events[2].data.at("index").as_int64(), 1);
    r.finished(ending(stop_reason::end_turn));
    EXPECT_EQ(r.body().at("content").at(0).at("signature"),
              events[0].data.at("delta").at("signature"));
}

TEST(message_stream, thinking_that_nobody_asked_for_is_left_out) {
    reply r({}, false);
    r.admitted();
    EXPECT_EQ(r.thinking("hm"), "");
    r.text("x");
    r.finished(ending(stop_reason::end_turn));
    EXPECT_EQ(blocks_of(r.body().at("content")), "text:x");
    EXPECT_EQ(blocks_of(folded(r.bytes())), "text:x");
}

TEST(message_stream, hidden_thinking_is_a_block_without_text_whose_signature_carries_it) {
    std::uint64_t draws = 0;
    id_maker ids([&draws] { return ++draws; });
    const reply_options options{"msg_1", "req_1", "m", {}, true, true};
    message_stream stream(options, ids);
    message_collector collector(options, ids);
    stream.on_admitted(admission());
    collector.on_admitted(admission());
    std::string bytes = stream.on_thinking("h");
    bytes += stream.on_thinking("m");
    bytes += stream.on_text("x");
    collector.on_thinking("hm");
    EXPECT_EQ(names_of(bytes),
              "content_block_start content_block_delta content_block_stop content_block_start "
              "content_block_delta ");
    auto delta = events_of(bytes)[1].data.at("delta");
    EXPECT_EQ(delta.at("type").as_string(), "signature_delta");
    EXPECT_EQ(carried_by(delta.at("signature").as_string()), "hm");
    auto block =
        json::parse(*collector.on_finished(ending(stop_reason::end_turn))).at("content").at(0);
    EXPECT_EQ(block.at("thinking").as_string(), "");
    EXPECT_EQ(block.at("signature"), delta.at("signature"));
}

// {"type":"system_changed","cache_missed_input_tokens":29} and its like; "null" and "absent".
std::string diagnosis(reply_options options, engine::miss_reason why, int reused) {
    std::uint64_t draws = 0;
    id_maker ids([&draws] { return ++draws; });
    engine::admitted event = admission();
    event.usage.why = why;
    event.usage.reused_tokens = reused;
    message_stream stream(options, ids);
    message_collector collector(options, ids);
    auto start = events_of(stream.on_admitted(event)).at(0).data.at("message").as_object();
    collector.on_admitted(event);
    auto body = json::parse(*collector.on_finished(ending(stop_reason::end_turn))).as_object();
    if (!start.contains("diagnostics")) return body.contains("diagnostics") ? "?" : "absent";
    EXPECT_EQ(start["diagnostics"], body["diagnostics"]);
    return json::serialize(start["diagnostics"].at("cache_miss_reason"));
}

TEST(message_stream, diagnostics_say_why_not_more_was_remembered_in_the_vendors_words) {
    using engine::miss_reason;
    const reply_options silent{"msg_1", "req_1", "m", {}};
    const reply_options asked{"msg_1", "req_1", "m", {}, false, false, true};
    const reply_options continued{"msg_1", "req_1", "m", {}, false, false, true, "msg_0"};
    EXPECT_EQ(diagnosis(silent, miss_reason::system_changed, 0), "absent");
    EXPECT_EQ(diagnosis(asked, miss_reason::none, 0), "null") << "the first turn";
    EXPECT_EQ(diagnosis(continued, miss_reason::none, 70), "null");
    EXPECT_EQ(diagnosis(continued, miss_reason::none, 0),
              R"({"type":"previous_message_not_found"})");
    for (const char* type :
         {"model_changed", "system_changed", "tools_changed", "messages_changed"})
        for (int i = 1; i <= static_cast<int>(miss_reason::too_short); ++i) {
            const auto why = static_cast<miss_reason>(i);
            if (to_string(why) != std::string(type)) continue;
            EXPECT_EQ(diagnosis(continued, why, 70),
                      R"({"type":")" + std::string(type) + R"(","cache_missed_input_tokens":29})");
        }
    for (miss_reason why : {miss_reason::evicted, miss_reason::corrupt, miss_reason::incompatible,
                            miss_reason::too_short})
        EXPECT_EQ(diagnosis(continued, why, 70), R"({"type":"unavailable"})");
}

TEST(message_stream, usage_adds_up_to_the_prompt_in_start_and_end) {
    reply r;
    auto start = events_of(r.admitted()).at(0).data.at("message").at("usage");
    EXPECT_EQ(start.at("cache_read_input_tokens").as_int64(), 70);
    EXPECT_EQ(start.at("cache_creation_input_tokens").as_int64(), 29);
    EXPECT_EQ(start.at("cache_creation").at("ephemeral_5m_input_tokens").as_int64(), 29);
    EXPECT_EQ(start.at("cache_creation").at("ephemeral_1h_input_tokens").as_int64(), 0);
    EXPECT_EQ(start.at("input_tokens").as_int64(), 1);
    auto end = events_of(r.finished(ending(stop_reason::end_turn, 57))).at(0).data.at("usage");
    EXPECT_EQ(end.at("input_tokens").as_int64() + end.at("cache_read_input_tokens").as_int64() +
                  end.at("cache_creation_input_tokens").as_int64(),
              100);
    EXPECT_EQ(end.at("output_tokens").as_int64(), 57);
}

TEST(message_stream, memory_of_the_agent_is_reported_beside_the_vendors_fields) {
    reply r;
    auto memory = events_of(r.admitted()).at(0).data.at("message").at("semantic");
    EXPECT_EQ(json::serialize(memory),
              R"({"agent":"sess_a","prompt_tokens":100,"reused_tokens":70,"restored_tokens":64,)"
              R"("computed_tokens":30,"match":"diverge","miss_reason":"messages_changed"})");
    auto end = events_of(r.finished(ending(stop_reason::end_turn))).at(0).data;
    EXPECT_TRUE(end.at("semantic").at("saved").as_bool());
    EXPECT_TRUE(r.body().at("semantic").at("saved").as_bool());
}

TEST(message_stream, every_stop_reason_has_the_vendors_word) {
    struct row {
        stop_reason why;
        const char* reason;
        const char* sequence;
    };
    for (const row& expected :
         {row{stop_reason::end_turn, "\"end_turn\"", "null"},
          row{stop_reason::max_tokens, "\"max_tokens\"", "null"},
          row{stop_reason::stop_sequence, "\"stop_sequence\"", "\"END\""},
          row{stop_reason::context_full, "\"model_context_window_exceeded\"", "null"}}) {
        reply r;
        r.admitted();
        r.text("x");
        auto delta = events_of(r.finished(ending(expected.why))).at(1).data.at("delta");
        EXPECT_EQ(json::serialize(delta.at("stop_reason")), expected.reason);
        EXPECT_EQ(json::serialize(delta.at("stop_sequence")), expected.sequence);
        EXPECT_EQ(json::serialize(r.body().at("stop_reason")), expected.reason);
        EXPECT_EQ(json::serialize(r.body().at("stop_sequence")), expected.sequence);
    }
}

TEST(message_stream, tool_call_closes_the_text_and_has_an_index_of_its_own) {
    reply r;
    r.admitted();
    r.text("Let me look.");
    std::string bytes = r.call("ls", R"({"path": "/", "n": 0.5})");
    EXPECT_EQ(names_of(bytes),
              "content_block_stop content_block_start content_block_delta content_block_stop ");
    auto events = events_of(bytes);
    EXPECT_EQ(events[0].data.at("index").as_int64(), 0);
    EXPECT_EQ(json::serialize(events[1].data),
              R"({"type":"content_block_start","index":1,"content_block":{"type":"tool_use",)"
              R"("id":"toolu_100000002000000030000000","name":"ls","input":{}}})");
    EXPECT_EQ(events[2].data.at("delta").at("type").as_string(), "input_json_delta");
    EXPECT_EQ(events[2].data.at("delta").at("partial_json").as_string(), R"({"path":"/","n":0.5})");
    auto delta = events_of(r.finished(ending(stop_reason::end_turn))).at(0).data.at("delta");
    EXPECT_EQ(delta.at("stop_reason").as_string(), "tool_use");
    EXPECT_NE(r.raw_body()->find(R"("input":{"path":"/","n":0.5})"), std::string::npos);
}

TEST(message_stream, truncated_turn_never_says_tool_use) {
    for (auto why :
         {stop_reason::max_tokens, stop_reason::context_full, stop_reason::stop_sequence}) {
        reply r;
        r.admitted();
        r.call("ls", "{}");
        auto delta = events_of(r.finished(ending(why))).at(0).data.at("delta");
        EXPECT_NE(delta.at("stop_reason").as_string(), "tool_use");
        EXPECT_NE(r.body().at("stop_reason").as_string(), "tool_use");
    }
}

TEST(message_stream, white_space_behind_a_tool_call_makes_no_block_unless_text_follows) {
    reply r;
    r.admitted();
    r.call("a", "{}");
    EXPECT_EQ(r.text("\n"), "");
    EXPECT_TRUE(names_of(r.call("b", "{}")).starts_with("content_block_start"));
    EXPECT_EQ(r.text("\n"), "");
    EXPECT_EQ(r.text("\n"), "");
    auto events = events_of(r.text("done"));
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].data.at("index").as_int64(), 2);
    EXPECT_EQ(events[1].data.at("delta").at("text").as_string(), "\n\ndone");
    r.finished(ending(stop_reason::end_turn));
    EXPECT_EQ(r.body().at("content").as_array().size(), 3u);
}

TEST(message_stream, calls_beyond_what_the_request_allows_are_left_out) {
    reply none(0);
    none.admitted();
    EXPECT_EQ(none.call("ls", "{}"), "");
    none.finished(ending(stop_reason::end_turn));
    EXPECT_EQ(none.body().at("stop_reason").as_string(), "end_turn");
    EXPECT_TRUE(none.body().at("content").as_array().empty());
    reply one(1);
    one.admitted();
    EXPECT_NE(one.call("ls", "{}"), "");
    EXPECT_EQ(one.call("ls", "{}"), "");
    one.finished(ending(stop_reason::end_turn));
    EXPECT_EQ(one.body().at("content").as_array().size(), 1u);
    EXPECT_EQ(one.body().at("stop_reason").as_string(), "tool_use");
}

TEST(message_stream, arguments_that_are_no_json_object_become_text) {
    for (std::string_view arguments : {"{\"a\":[1,", "[1]", "", "7"}) {
        reply r;
        r.admitted();
        std::string bytes = r.call("ls", arguments);
        EXPECT_EQ(bytes.find("tool_use"), std::string::npos);
        r.finished(ending(stop_reason::end_turn));
        EXPECT_EQ(r.body().at("stop_reason").as_string(), "end_turn");
    }
}

TEST(message_stream, answer_without_text_is_still_a_whole_message) {
    reply r;
    r.admitted();
    r.text("");
    r.finished(ending(stop_reason::end_turn, 1));
    EXPECT_EQ(names_of(r.bytes()), "message_start message_delta message_stop ");
    EXPECT_TRUE(r.body().at("content").as_array().empty());
}

TEST(message_stream, failure_is_one_error_event_and_nothing_follows) {
    reply r;
    r.admitted();
    r.text("Hel");
    std::string bytes = r.stream().on_failed({errc::overloaded, "the pool is full", {}, {}});
    EXPECT_EQ(bytes,
              "event: error\ndata: "
              R"({"type":"error","error":{"type":"overloaded_error","message":"the pool is )"
              R"(full"},"request_id":"req_1"})"
              "\n\n");
    EXPECT_TRUE(r.stream().ended());
    EXPECT_EQ(r.text("lo"), "");
    EXPECT_EQ(r.call("ls", "{}"), "");
    EXPECT_EQ(r.stream().ping(), "");
    EXPECT_EQ(r.stream().on_failed({errc::internal, "again", {}, {}}), "");
    EXPECT_EQ(r.finished(ending(stop_reason::end_turn)), "");
}

TEST(message_stream, failure_may_come_first_and_alone) {
    reply r;
    EXPECT_EQ(names_of(r.stream().on_failed({errc::internal, "m", {}, {}})), "error ");
    EXPECT_EQ(r.admitted(), "");
}

TEST(message_stream, answer_that_was_cut_off_is_an_error_and_no_message) {
    struct row {
        stop_reason why;
        errc code;
        const char* type;
        const char* message;
    };
    for (const row& expected : {row{stop_reason::cancelled, errc::cancelled, "overloaded_error",
                                    "the answer was stopped after 9 tokens; ask again"},
                                row{stop_reason::deadline, errc::timeout, "timeout_error",
                                    "the deadline passed after 9 tokens"}}) {
        reply r;
        r.admitted();
        r.text("x");
        auto events = events_of(r.finished(ending(expected.why)));
        ASSERT_EQ(events.size(), 1u);
        EXPECT_EQ(events[0].name, "error");
        EXPECT_EQ(events[0].data.at("error").at("type").as_string(), expected.type);
        EXPECT_EQ(events[0].data.at("error").at("message").as_string(), expected.message);
        ASSERT_FALSE(r.raw_body());
        EXPECT_EQ(r.raw_body().error().code, expected.code);
    }
}

TEST(message_stream, ping_may_come_at_any_time_and_changes_nothing) {
    reply r;
    EXPECT_EQ(r.stream().ping(), "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    r.admitted();
    EXPECT_NE(r.stream().ping(), "");
    r.text("a");
    EXPECT_NE(r.stream().ping(), "");
    EXPECT_EQ(names_of(r.text("b")), "content_block_delta ");
    r.finished(ending(stop_reason::end_turn));
    EXPECT_EQ(r.stream().ping(), "");
}

/// What a client makes of the stream: blocks must be contiguous from 0, one open at a time, all
/// closed at the end.
json::array content_of(const std::string& bytes) {
    json::array content;
    bool is_open = false;
    std::string arguments;
    for (const sse& event : events_of(bytes)) {
        if (event.name == "content_block_start") {
            EXPECT_FALSE(is_open);
            EXPECT_EQ(event.data.at("index").to_number<std::size_t>(), content.size());
            json::object block = event.data.at("content_block").as_object();
            block.erase("citations");
            content.push_back(std::move(block));
            arguments.clear();
            is_open = true;
        } else if (event.name == "content_block_delta") {
            EXPECT_TRUE(is_open);
            EXPECT_EQ(event.data.at("index").to_number<std::size_t>() + 1, content.size());
            const json::object& delta = event.data.at("delta").as_object();
            json::object& block = content.back().as_object();
            if (delta.at("type").as_string() == "text_delta")
                block["text"].as_string() += delta.at("text").as_string();
            else
                arguments += delta.at("partial_json").as_string();
        } else if (event.name == "content_block_stop") {
            EXPECT_TRUE(is_open);
            is_open = false;
            json::object& block = content.back().as_object();
            if (block.contains("input")) block["input"] = json::parse(arguments);
        }
    }
    EXPECT_FALSE(is_open);
    return content;
}

TEST(message_stream, any_feed_gives_contiguous_blocks_and_the_same_content_as_the_collected_reply) {
    std::mt19937 random(3);
    const std::array<const char*, 6> texts{"a", " ", "\n", "", "é\"\\", "{\"x\":1}"};
    const std::array<const char*, 4> arguments{"{}", R"({"a":[1,"b"]})", "broken", "[]"};
    for (int round = 0; round < 2000; ++round) {
        reply r;
        r.admitted();
        for (auto steps = random() % 12; steps > 0; --steps) {
            if (random() % 3)
                r.text(texts[random() % texts.size()]);
            else
                r.call("f", arguments[random() % arguments.size()]);
        }
        r.finished(ending(random() % 2 ? stop_reason::end_turn : stop_reason::max_tokens));
        EXPECT_EQ(content_of(r.bytes()), r.body().at("content").as_array()) << r.bytes();
        EXPECT_TRUE(names_of(r.bytes()).ends_with("message_delta message_stop "));
    }
}

}  // namespace
}  // namespace semantic::protocol::anthropic
