// SPDX-License-Identifier: Apache-2.0
#include "protocol/ollama/reply.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "protocol/ollama/models.hpp"

namespace semantic::protocol::ollama {
namespace {

namespace json = boost::json;
using engine::stop_reason;
using std::chrono::milliseconds;
using std::chrono::system_clock;

/// A clock that goes on by a millisecond with each look at it.
reply_options options_of(reply_kind kind) {
    auto now = std::make_shared<system_clock::time_point>(
        std::chrono::sys_days(std::chrono::year(2026) / 11 / 20));
    return {kind, "m:latest", *now, [now] { return *now += milliseconds(1); }};
}

id_maker ids([] { return std::uint64_t{7}; });

engine::admitted admission() {
    engine::admitted event{*storage::agent_id::parse("oai_a"), {}};
    event.usage.prompt_tokens = 100;
    event.usage.reused_tokens = 70;
    event.usage.created_tokens = 29;
    event.usage.recomputed_tokens = 1;
    event.usage.match = engine::match_kind::extend;
    return event;
}

std::vector<json::object> lines_of(const std::string& bytes) {
    std::vector<json::object> lines;
    std::size_t at = 0;
    while (at < bytes.size()) {
        const std::size_t end = bytes.find('\n', at);
        EXPECT_NE(end, std::string::npos) << bytes;
        lines.push_back(json::parse(bytes.substr(at, end - at)).as_object());
        at = end + 1;
    }
    return lines;
}

/// A line without what every line has, and what is this server's own.
std::string rest_of(json::object line) {
    EXPECT_EQ(line["model"], "m:latest");
    EXPECT_TRUE(line["created_at"].as_string().starts_with("2026-11-20T00:00:00.0"));
    EXPECT_TRUE(line["created_at"].as_string().ends_with("Z"));
    for (const char* key : {"model", "created_at", "semantic"}) line.stable_erase(key);
    return json::serialize(line);
}

TEST(ollama_stream, is_a_line_for_each_event_and_counts_in_the_last) {
    answer_stream stream(options_of(reply_kind::chat), ids);
    EXPECT_STREQ(stream.content_type(), "application/x-ndjson");
    EXPECT_EQ(stream.on_admitted(admission()), "");
    std::string bytes = stream.on_thinking("hm");
    bytes += stream.on_text("Hel");
    bytes += stream.on_text("");
    bytes += stream.ping();
    bytes += stream.on_finished({stop_reason::end_turn, "", 3, true});
    EXPECT_TRUE(stream.ended());
    EXPECT_EQ(stream.on_text("more") + stream.ping(), "");
    const auto lines = lines_of(bytes);
    ASSERT_EQ(lines.size(), 4u);
    EXPECT_EQ(rest_of(lines[0]),
              R"({"message":{"role":"assistant","content":"","thinking":"hm"},"done":false})");
    EXPECT_EQ(rest_of(lines[1]),
              R"({"message":{"role":"assistant","content":"Hel"},"done":false})");
    EXPECT_EQ(rest_of(lines[2]), R"({"message":{"role":"assistant","content":""},"done":false})");
    const json::object& last = lines[3];
    EXPECT_EQ(last.at("done"), true);
    EXPECT_EQ(last.at("done_reason"), "stop");
    EXPECT_EQ(last.at("prompt_eval_count"), 100);
    EXPECT_EQ(last.at("eval_count"), 3);
    const auto time = [&](const char* key) { return last.at(key).to_number<std::int64_t>(); };
    EXPECT_GT(time("prompt_eval_duration"), 0);
    EXPECT_GT(time("eval_duration"), 0);
    EXPECT_GE(time("total_duration"), time("prompt_eval_duration") + time("eval_duration"));
    EXPECT_EQ(last.at("semantic").at("reused_tokens"), 70);
    EXPECT_EQ(last.at("semantic").at("saved"), true);
}

TEST(ollama_stream, a_call_is_one_line_however_it_comes) {
    answer_stream stream(options_of(reply_kind::chat), ids);
    stream.on_admitted(admission());
    EXPECT_EQ(stream.on_call_begun("f"), "");
    EXPECT_EQ(stream.on_call_arguments(R"({"x")"), "");
    EXPECT_EQ(stream.on_call_arguments(R"(:1})"), "");
    const auto whole = lines_of(stream.on_call_ended(true));
    ASSERT_EQ(whole.size(), 1u);
    const json::object& call = whole[0].at("message").at("tool_calls").as_array()[0].as_object();
    EXPECT_TRUE(call.at("id").as_string().starts_with("call_"));
    EXPECT_EQ(json::serialize(call.at("function")),
              R"({"index":0,"name":"f","arguments":{"x":1}})");
    stream.on_call_begun("g");
    EXPECT_EQ(stream.on_call_ended(false), "") << "one that was none is not shown";
    const auto next = lines_of(stream.on_tool_call("g", "{}"));
    EXPECT_EQ(next[0].at("message").at("tool_calls").at(0).at("function").at("index"), 1);
    const auto text = lines_of(stream.on_tool_call("g", "no JSON"));
    EXPECT_EQ(text[0].at("message").at("content"), "no JSON");
}

TEST(ollama_stream, a_failure_is_a_last_line_with_its_sentence) {
    answer_stream stream(options_of(reply_kind::chat), ids);
    stream.on_admitted(admission());
    EXPECT_EQ(stream.on_failed(fail(errc::internal, "the disk is gone")),
              "{\"error\":\"the disk is gone\"}\n");
    EXPECT_EQ(stream.on_finished({stop_reason::end_turn, "", 1, true}), "");
    answer_stream cut(options_of(reply_kind::chat), ids);
    EXPECT_EQ(cut.on_finished({stop_reason::deadline, "", 2, false}),
              "{\"error\":\"the deadline passed after 2 tokens\"}\n");
}

TEST(ollama_collector, is_one_object_with_text_thinking_and_calls) {
    answer_collector collector(options_of(reply_kind::chat), ids);
    collector.on_admitted(admission());
    collector.on_thinking("hm");
    collector.on_text("Hel");
    collector.on_text("lo");
    collector.on_tool_call("f", R"({"x": 1})");
    auto body = collector.on_finished({stop_reason::max_tokens, "", 5, true});
    ASSERT_TRUE(body);
    const json::object said = json::parse(*body).as_object();
    EXPECT_EQ(said.at("done_reason"), "length");
    EXPECT_EQ(said.at("message").at("content"), "Hello");
    EXPECT_EQ(said.at("message").at("thinking"), "hm");
    EXPECT_EQ(said.at("message").at("tool_calls").at(0).at("function").at("name"), "f");
    EXPECT_FALSE(answer_collector(options_of(reply_kind::chat), ids)
                     .on_finished({stop_reason::cancelled, "", 0, false}));
}

TEST(ollama_generate, says_response_in_place_of_a_message) {
    answer_stream stream(options_of(reply_kind::generate), ids);
    stream.on_admitted(admission());
    EXPECT_EQ(rest_of(lines_of(stream.on_text("Hi"))[0]), R"({"response":"Hi","done":false})");
    EXPECT_EQ(rest_of(lines_of(stream.on_thinking("hm"))[0]),
              R"({"response":"","thinking":"hm","done":false})");
    EXPECT_EQ(rest_of(json::parse(empty_reply(options_of(reply_kind::generate))).as_object()),
              R"({"response":"","done":true,"done_reason":"load"})");
}

listed_model one(const std::string& id, const std::string& state) {
    listed_model model;
    model.card.id = id;
    model.card.state = state;
    model.card.aliases = {"alias-of-" + id};
    model.card.max_input_tokens = 8192;
    model.card.call_format = "hermes";
    model.family = "qwen2";
    model.fingerprint = "00ff";
    model.weight_bytes = 10;
    model.memory_bytes = 30;
    return model;
}

TEST(ollama_models, lists_what_can_answer_and_shows_by_every_name) {
    const std::vector<listed_model> models{one("a", "loaded"), one("b", "available"),
                                           one("c", "failed")};
    const auto names = [](const std::string& body) {
        std::string all;
        const json::value parsed = json::parse(body);
        for (const json::value& each : parsed.at("models").as_array())
            all += std::string(each.at("name").as_string()) + " ";
        return all;
    };
    EXPECT_EQ(names(tags_body(models)), "a b ");
    EXPECT_EQ(names(running_body(models)), "a ");
    EXPECT_EQ(json::parse(running_body(models)).at("models").at(0).at("size"), 30);
    const json::value tag = json::parse(tags_body(models)).at("models").at(0);
    EXPECT_EQ(tag.at("digest").as_string(), "00ff" + std::string(60, '0'));
    for (const char* name : {"b", "b:latest", "alias-of-b", "alias-of-b:latest"}) {
        auto shown = show_body(models, name);
        ASSERT_TRUE(shown) << name;
        const json::value body = json::parse(*shown);
        EXPECT_EQ(body.at("model_info").at("qwen2.context_length"), 8192);
        EXPECT_EQ(json::serialize(body.at("capabilities")), R"(["completion","tools"])");
    }
    auto none = show_body(models, "d");
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, errc::not_found);
    EXPECT_EQ(none.error().message, "model 'd' not found");
}

}  // namespace
}  // namespace semantic::protocol::ollama
