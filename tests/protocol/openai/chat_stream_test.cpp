// SPDX-License-Identifier: Apache-2.0
#include "protocol/openai/chat_stream.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "protocol/reply_parts.hpp"

namespace semantic::protocol::openai {
namespace {

namespace json = boost::json;
using engine::stop_reason;
using engine::token_id;

engine::admitted admission() {
    engine::admitted event{*storage::agent_id::parse("oai_a"), {}};
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

/// Splits bytes as a client does: data lines only, the last of which may be [DONE].
std::vector<json::value> chunks_of(const std::string& bytes) {
    std::vector<json::value> chunks;
    std::size_t at = 0;
    bool is_done = false;
    while (at < bytes.size()) {
        std::size_t end = bytes.find("\n\n", at);
        EXPECT_NE(end, std::string::npos);
        std::string event = bytes.substr(at, end - at);
        at = end + 2;
        EXPECT_FALSE(is_done) << "behind [DONE]: " << event;
        EXPECT_TRUE(event.starts_with("data: ")) << event;
        EXPECT_EQ(event.find('\n'), std::string::npos) << event;
        is_done = event == "data: [DONE]";
        if (!is_done) chunks.push_back(json::parse(event.substr(6)));
    }
    return chunks;
}

const json::object& choice_of(const json::value& chunk) {
    return chunk.at("choices").as_array().at(0).as_object();
}
const json::object& delta_of(const json::value& chunk) {
    return choice_of(chunk).at("delta").as_object();
}

/// A stream and a collector fed alike.
class reply {
  public:
    explicit reply(bool include_usage = false, std::optional<std::size_t> tool_calls_max = {},
                   int choices = 1)
        : stream_ids_([this] { return ++stream_draws_; }),
          collector_ids_([this] { return ++collector_draws_; }),
          stream_(options(include_usage, tool_calls_max, choices), stream_ids_),
          collector_(options(include_usage, tool_calls_max, choices), collector_ids_) {}

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
    void choice(int index) {
        collector_.on_choice(index);
        stream_.on_choice(index);
    }
    void scores(const std::vector<engine::token_scores>& list) {
        collector_.on_scores(list);
        stream_.on_scores(list);
    }
    std::string choice_finished(const engine::choice_finished& event) {
        collector_.on_choice_finished(event);
        return keep(stream_.on_choice_finished(event));
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
    json::object message() const { return body().at("choices").at(0).at("message").as_object(); }
    std::string_view finish_reason() const {
        reason_ = json::serialize(body().at("choices").at(0).at("finish_reason"));
        return reason_;
    }
    const result<std::string>& raw_body() const { return body_; }
    const std::string& bytes() const { return bytes_; }
    chat_stream& stream() { return stream_; }

  private:
    static reply_options options(bool include_usage, std::optional<std::size_t> tool_calls_max,
                                 int choices) {
        return {"chatcmpl-1", "m", "fp_1", 1'700'000'000, include_usage, tool_calls_max, choices};
    }
    std::string keep(std::string bytes) {
        bytes_ += bytes;
        return bytes;
    }
    std::uint64_t stream_draws_ = 0;
    std::uint64_t collector_draws_ = 0;
    id_maker stream_ids_;
    id_maker collector_ids_;
    chat_stream stream_;
    chat_collector collector_;
    result<std::string> body_ = failure{errc::internal, "not finished", {}, {}};
    std::string bytes_;
    mutable std::string reason_;
};

TEST(chat_stream, the_first_chunk_has_no_text_for_which_a_client_would_open_a_part) {
    reply r;
    auto first = chunks_of(r.admitted());
    ASSERT_EQ(first.size(), 1u);
    EXPECT_TRUE(delta_of(first[0]).at("content").is_null());
}

TEST(chat_stream, chunks_of_a_text_answer_come_in_the_vendors_order) {
    reply r;
    r.admitted();
    r.text("Hel");
    r.text("lo");
    r.finished(ending(stop_reason::end_turn));
    auto chunks = chunks_of(r.bytes());
    ASSERT_EQ(chunks.size(), 4u);
    EXPECT_EQ(json::serialize(delta_of(chunks[0])), R"({"role":"assistant","content":null})");
    EXPECT_EQ(json::serialize(delta_of(chunks[1])), R"({"content":"Hel"})");
    EXPECT_EQ(json::serialize(delta_of(chunks[2])), R"({"content":"lo"})");
    EXPECT_EQ(json::serialize(delta_of(chunks[3])), "{}");
    for (std::size_t i = 0; i < 3; ++i)
        EXPECT_TRUE(choice_of(chunks[i]).at("finish_reason").is_null());
    EXPECT_EQ(choice_of(chunks[3]).at("finish_reason").as_string(), "stop");
    EXPECT_TRUE(r.bytes().ends_with("data: [DONE]\n\n"));
    EXPECT_TRUE(r.stream().ended());
}

TEST(chat_stream, each_token_with_text_leaves_at_once_as_its_own_chunk) {
    reply r;
    r.admitted();
    for (std::string_view piece : {"a", "b", " ", "\n", "é"})
        EXPECT_EQ(chunks_of(r.text(piece)).size(), 1u);
    EXPECT_EQ(r.text(""), "");
    EXPECT_EQ(
        r.text("c"),
        R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,)"
        R"("model":"m","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":"c"},)"
        R"("logprobs":null,"finish_reason":null}]})"
        "\n\n");
}

TEST(chat_stream, every_chunk_carries_the_same_head) {
    reply r(true);
    r.admitted();
    r.text("a");
    r.call("f", "{}");
    r.finished(ending(stop_reason::end_turn));
    for (const json::value& chunk : chunks_of(r.bytes())) {
        EXPECT_EQ(chunk.at("id").as_string(), "chatcmpl-1");
        EXPECT_EQ(chunk.at("object").as_string(), "chat.completion.chunk");
        EXPECT_EQ(chunk.at("created").as_int64(), 1'700'000'000);
        EXPECT_EQ(chunk.at("model").as_string(), "m");
        EXPECT_EQ(chunk.at("system_fingerprint").as_string(), "fp_1");
    }
    EXPECT_EQ(r.body().at("object").as_string(), "chat.completion");
    EXPECT_EQ(r.body().at("id").as_string(), "chatcmpl-1");
}

TEST(chat_stream, usage_is_null_until_a_last_chunk_without_choices) {
    reply r(true);
    r.admitted();
    r.text("a");
    r.finished(ending(stop_reason::end_turn, 57));
    auto chunks = chunks_of(r.bytes());
    ASSERT_EQ(chunks.size(), 4u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(chunks[i].at("usage").is_null());
    EXPECT_TRUE(chunks[3].at("choices").as_array().empty());
    const std::string usage =
        R"({"prompt_tokens":100,"completion_tokens":57,"total_tokens":157,)"
        R"("prompt_tokens_details":{"cached_tokens":70,"cache_write_tokens":29},)"
        R"("completion_tokens_details":{"reasoning_tokens":0}})";
    EXPECT_EQ(json::serialize(chunks[3].at("usage")), usage);
    EXPECT_EQ(json::serialize(r.body().at("usage")), usage);
}

TEST(chat_stream, reasoning_is_kept_apart_from_the_answer_and_counted) {
    reply r(true);
    r.admitted();
    EXPECT_EQ(r.thinking(""), "");
    r.thinking("h");
    r.thinking("m");
    r.text("a");
    r.finished(ending(stop_reason::end_turn));
    auto chunks = chunks_of(r.bytes());
    ASSERT_EQ(chunks.size(), 6u);
    EXPECT_EQ(json::serialize(delta_of(chunks[1])), R"({"reasoning_content":"h"})");
    EXPECT_EQ(json::serialize(delta_of(chunks[2])), R"({"reasoning_content":"m"})");
    EXPECT_EQ(json::serialize(delta_of(chunks[3])), R"({"content":"a"})");
    EXPECT_EQ(r.message().at("content").as_string(), "a");
    EXPECT_EQ(r.message().at("reasoning_content").as_string(), "hm");
    for (const json::value& usage : {chunks[5].at("usage"), r.body().at("usage")})
        EXPECT_EQ(usage.at("completion_tokens_details").at("reasoning_tokens").as_int64(), 2);
}

TEST(chat_stream, usage_that_was_not_asked_for_is_not_sent) {
    reply r;
    r.admitted();
    r.text("a");
    r.finished(ending(stop_reason::end_turn));
    EXPECT_EQ(r.bytes().find("usage"), std::string::npos);
}

TEST(chat_stream, memory_of_the_agent_is_reported_beside_the_vendors_fields) {
    reply r;
    std::string memory =
        R"({"agent":"oai_a","prompt_tokens":100,"reused_tokens":70,"restored_tokens":64,)"
        R"("computed_tokens":30,"match":"diverge","miss_reason":"messages_changed"})";
    EXPECT_EQ(json::serialize(chunks_of(r.admitted()).at(0).at("semantic")), memory);
    memory.insert(memory.size() - 1, R"(,"saved":true)");
    auto last = chunks_of(r.finished(ending(stop_reason::end_turn))).at(0);
    EXPECT_EQ(json::serialize(last.at("semantic")), memory);
    EXPECT_EQ(json::serialize(r.body().at("semantic")), memory);
}

TEST(chat_stream, every_stop_reason_has_the_vendors_word) {
    struct row {
        stop_reason why;
        const char* reason;
    };
    for (const row& expected :
         {row{stop_reason::end_turn, "\"stop\""}, row{stop_reason::stop_sequence, "\"stop\""},
          row{stop_reason::max_tokens, "\"length\""},
          row{stop_reason::context_full, "\"length\""}}) {
        reply r;
        r.admitted();
        r.text("x");
        auto chunks = chunks_of(r.finished(ending(expected.why)));
        EXPECT_EQ(json::serialize(choice_of(chunks.at(0)).at("finish_reason")), expected.reason);
        EXPECT_EQ(r.finish_reason(), expected.reason);
    }
}

TEST(chat_stream, tool_calls_have_indices_of_their_own_and_whole_arguments) {
    reply r;
    r.admitted();
    r.text("Let me look.");
    auto first = chunks_of(r.call("ls", R"({"path": "/", "n": 0.5})"));
    ASSERT_EQ(first.size(), 2u);
    EXPECT_EQ(json::serialize(delta_of(first[0])),
              R"({"tool_calls":[{"index":0,"id":"call_100000002000000030000000","type":"function",)"
              R"("function":{"name":"ls","arguments":""}}]})");
    EXPECT_EQ(
        json::serialize(delta_of(first[1])),
        R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\"/\",\"n\":0.5}"}}]})");
    auto second = chunks_of(r.call("pwd", "{}"));
    EXPECT_EQ(delta_of(second.at(0)).at("tool_calls").at(0).at("index").to_number<int>(), 1);
    EXPECT_EQ(delta_of(second.at(1)).at("tool_calls").at(0).at("index").to_number<int>(), 1);
    auto last = chunks_of(r.finished(ending(stop_reason::end_turn)));
    EXPECT_EQ(choice_of(last.at(0)).at("finish_reason").as_string(), "tool_calls");
    EXPECT_EQ(json::serialize(r.message()),
              R"({"role":"assistant","content":"Let me look.","refusal":null,"tool_calls":[)"
              R"({"id":"call_100000002000000030000000","type":"function","function":{"name":"ls",)"
              R"("arguments":"{\"path\":\"/\",\"n\":0.5}"}},)"
              R"({"id":"call_400000005000000060000000","type":"function","function":{"name":"pwd",)"
              R"("arguments":"{}"}}]})");
}

TEST(chat_stream, calls_alone_have_null_content_and_silence_has_empty_content) {
    reply calls;
    calls.admitted();
    calls.call("f", "{}");
    calls.finished(ending(stop_reason::end_turn));
    EXPECT_TRUE(calls.message().at("content").is_null());
    reply silent;
    silent.admitted();
    silent.finished(ending(stop_reason::end_turn, 1));
    EXPECT_EQ(silent.message().at("content").as_string(), "");
    EXPECT_FALSE(silent.message().contains("tool_calls"));
    EXPECT_EQ(chunks_of(silent.bytes()).size(), 2u);
}

TEST(chat_stream, truncated_turn_never_says_tool_calls) {
    for (auto why :
         {stop_reason::max_tokens, stop_reason::context_full, stop_reason::stop_sequence}) {
        reply r;
        r.admitted();
        r.call("ls", "{}");
        auto last = chunks_of(r.finished(ending(why)));
        EXPECT_NE(choice_of(last.at(0)).at("finish_reason").as_string(), "tool_calls");
        EXPECT_NE(r.finish_reason(), "\"tool_calls\"");
    }
}

TEST(chat_stream, white_space_behind_a_tool_call_is_shown_only_when_text_follows) {
    reply r;
    r.admitted();
    r.call("a", "{}");
    EXPECT_EQ(r.text("\n"), "");
    r.call("b", "{}");
    EXPECT_EQ(r.text("\n"), "");
    EXPECT_EQ(r.text("\n"), "");
    EXPECT_EQ(delta_of(chunks_of(r.text("done")).at(0)).at("content").as_string(), "\n\ndone");
    EXPECT_NE(r.text(" "), "");
    r.call("c", "{}");
    r.text("\n");
    r.finished(ending(stop_reason::end_turn));
    EXPECT_EQ(r.message().at("content").as_string(), "\n\ndone ");
}

TEST(chat_stream, calls_beyond_what_the_request_allows_are_left_out) {
    reply none(false, 0);
    none.admitted();
    EXPECT_EQ(none.call("ls", "{}"), "");
    none.finished(ending(stop_reason::end_turn));
    EXPECT_EQ(none.finish_reason(), "\"stop\"");
    EXPECT_FALSE(none.message().contains("tool_calls"));
    reply one(false, 1);
    one.admitted();
    EXPECT_NE(one.call("ls", "{}"), "");
    EXPECT_EQ(one.call("ls", "{}"), "");
    one.finished(ending(stop_reason::end_turn));
    EXPECT_EQ(one.message().at("tool_calls").as_array().size(), 1u);
    EXPECT_EQ(one.finish_reason(), "\"tool_calls\"");
}

TEST(chat_stream, arguments_that_are_no_json_object_become_text) {
    for (std::string_view arguments : {"{\"a\":[1,", "[1]", "", "7"}) {
        reply r;
        r.admitted();
        EXPECT_EQ(r.call("ls", arguments).find("tool_calls"), std::string::npos);
        r.finished(ending(stop_reason::end_turn));
        EXPECT_EQ(r.finish_reason(), "\"stop\"");
        EXPECT_EQ(r.message().at("content").as_string(), arguments);
    }
}

engine::scored_token scored(token_id token, float log_probability, std::string bytes,
                            std::string text) {
    return {token, log_probability, std::move(bytes), std::move(text)};
}

TEST(chat_stream, log_probabilities_leave_with_the_text_of_their_tokens) {
    reply said;
    said.admitted();
    // Two tokens make one character; the second choice of the first is impossible.
    std::vector<engine::token_scores> scores{
        {scored(5, -0.5f, "\xC3", "\xEF\xBF\xBD"),
         {scored(5, -0.5f, "\xC3", "\xEF\xBF\xBD"),
          scored(6, -std::numeric_limits<float>::infinity(), "a", "a")}},
        {scored(7, -2.0f, "\xA9", "\xEF\xBF\xBD"), {}}};
    said.scores(scores);
    auto chunks = chunks_of(said.text("\xC3\xA9"));
    ASSERT_EQ(chunks.size(), 1u);
    json::value expected = json::parse(R"({"content":[
        {"token":"\uFFFD","logprob":-0.5,"bytes":[195],"top_logprobs":[
            {"token":"\uFFFD","logprob":-0.5,"bytes":[195]},
            {"token":"a","logprob":-9999.0,"bytes":[97]}]},
        {"token":"\uFFFD","logprob":-2.0,"bytes":[169],"top_logprobs":[]}],"refusal":null})");
    EXPECT_EQ(choice_of(chunks[0]).at("logprobs"), expected);
    EXPECT_TRUE(choice_of(chunks_of(said.text("b"))[0]).at("logprobs").is_null());
    said.finished(ending(stop_reason::end_turn));
    EXPECT_EQ(said.body().at("choices").at(0).at("logprobs"), expected);
}

TEST(chat_stream, log_probabilities_that_were_not_asked_for_are_null) {
    reply said;
    said.admitted();
    said.text("a");
    said.finished(ending(stop_reason::end_turn));
    for (const json::value& chunk : chunks_of(said.bytes()))
        EXPECT_TRUE(choice_of(chunk).at("logprobs").is_null());
    EXPECT_TRUE(said.body().at("choices").at(0).at("logprobs").is_null());
}

TEST(chat_stream, choices_have_roles_texts_calls_and_ends_of_their_own) {
    reply said(true, {}, 3);
    said.admitted();
    said.choice(1);
    said.text("one");
    said.choice(0);
    said.text("ze");
    said.choice(2);
    said.call("f", R"({"a":1})");
    said.choice(0);
    said.text("ro");
    said.choice_finished({2, stop_reason::end_turn, "", 3});
    said.choice_finished({0, stop_reason::max_tokens, "", 2});
    said.choice_finished({1, stop_reason::stop_sequence, "END", 1});
    said.finished(ending(stop_reason::max_tokens, 6));
    std::map<std::int64_t, std::string> roles, texts, ends;
    for (const json::value& chunk : chunks_of(said.bytes())) {
        if (chunk.at("choices").as_array().empty()) {
            EXPECT_EQ(chunk.at("usage").at("completion_tokens").as_int64(), 6);
            continue;
        }
        const json::object& choice = choice_of(chunk);
        std::int64_t index = choice.at("index").to_number<std::int64_t>();
        const json::object& delta = choice.at("delta").as_object();
        EXPECT_FALSE(ends.contains(index)) << "behind its end";
        if (delta.contains("role")) roles[index] += delta.at("role").as_string();
        if (const auto* piece = delta.if_contains("content"))
            texts[index] += piece->is_string() ? std::string(piece->as_string()) : "";
        if (!choice.at("finish_reason").is_null())
            ends[index] = choice.at("finish_reason").as_string();
    }
    using by_index = std::map<std::int64_t, std::string>;
    EXPECT_EQ(roles, (by_index{{0, "assistant"}, {1, "assistant"}, {2, "assistant"}}));
    EXPECT_EQ(texts, (by_index{{0, "zero"}, {1, "one"}, {2, ""}}));
    EXPECT_EQ(ends, (by_index{{0, "length"}, {1, "stop"}, {2, "tool_calls"}}));
    const json::value body = said.body();
    const json::array& choices = body.at("choices").as_array();
    ASSERT_EQ(choices.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        auto index = static_cast<std::int64_t>(i);
        EXPECT_EQ(choices[i].at("index").to_number<std::int64_t>(), index);
        EXPECT_EQ(choices[i].at("finish_reason").as_string(), ends[index]);
        const json::value& content = choices[i].at("message").at("content");
        if (i < 2) {
            EXPECT_EQ(content.as_string(), texts[index]);
        } else {
            EXPECT_TRUE(content.is_null());
            EXPECT_EQ(choices[i].at("message").at("tool_calls").as_array().size(), 1u);
        }
    }
}

TEST(chat_stream, failure_is_one_error_without_a_name_and_nothing_follows) {
    reply r;
    r.admitted();
    r.text("Hel");
    EXPECT_EQ(r.stream().on_failed({errc::overloaded, "the pool is full", {}, {}}),
              R"(data: {"error":{"message":"the pool is full","type":"server_error",)"
              R"("param":null,"code":"overloaded"}})"
              "\n\n");
    EXPECT_TRUE(r.stream().ended());
    EXPECT_EQ(r.text("lo"), "");
    EXPECT_EQ(r.call("ls", "{}"), "");
    EXPECT_EQ(r.stream().ping(), "");
    EXPECT_EQ(r.stream().on_failed({errc::internal, "again", {}, {}}), "");
    EXPECT_EQ(r.finished(ending(stop_reason::end_turn)), "");
}

TEST(chat_stream, failure_may_come_first_and_alone) {
    reply r;
    EXPECT_EQ(chunks_of(r.stream().on_failed({errc::internal, "m", {}, {}})).size(), 1u);
    EXPECT_EQ(r.admitted(), "");
}

TEST(chat_stream, nothing_is_said_before_admission) {
    reply r;
    EXPECT_EQ(r.text("early"), "");
    EXPECT_EQ(r.call("f", "{}"), "");
    EXPECT_NE(r.finished(ending(stop_reason::end_turn)).find("\"error\""), std::string::npos);
}

TEST(chat_stream, answer_that_was_cut_off_is_an_error_and_no_completion) {
    struct row {
        stop_reason why;
        errc code;
        const char* message;
    };
    for (const row& expected :
         {row{stop_reason::cancelled, errc::cancelled,
              "the answer was stopped after 9 tokens; ask again"},
          row{stop_reason::deadline, errc::timeout, "the deadline passed after 9 tokens"}}) {
        reply r;
        r.admitted();
        r.text("x");
        std::string bytes = r.finished(ending(expected.why));
        EXPECT_EQ(bytes.find("[DONE]"), std::string::npos);
        auto chunks = chunks_of(bytes);
        ASSERT_EQ(chunks.size(), 1u);
        EXPECT_EQ(chunks[0].at("error").at("message").as_string(), expected.message);
        ASSERT_FALSE(r.raw_body());
        EXPECT_EQ(r.raw_body().error().code, expected.code);
    }
}

TEST(chat_stream, ping_is_a_comment_and_may_come_at_any_time) {
    reply r;
    EXPECT_EQ(r.stream().ping(), ": ping\n\n");
    r.admitted();
    EXPECT_EQ(r.stream().ping(), ": ping\n\n");
    r.finished(ending(stop_reason::end_turn));
    EXPECT_EQ(r.stream().ping(), "");
}

/// What a client makes of the chunks: the message and why it ended.
json::object folded(const std::string& bytes) {
    json::object message;
    std::string text;
    json::array calls;
    json::value reason;
    for (const json::value& chunk : chunks_of(bytes)) {
        EXPECT_TRUE(reason.is_null()) << "behind the finish_reason";
        reason = choice_of(chunk).at("finish_reason");
        const json::object& delta = delta_of(chunk);
        if (const auto* role = delta.if_contains("role")) message["role"] = *role;
        if (const auto* piece = delta.if_contains("content"); piece && piece->is_string())
            text += piece->as_string();
        const auto* list = delta.if_contains("tool_calls");
        if (!list) continue;
        const json::object& call = list->as_array().at(0).as_object();
        auto index = call.at("index").to_number<std::size_t>();
        if (call.contains("id")) {
            EXPECT_EQ(index, calls.size());
            calls.push_back(call);
            calls.back().as_object().erase("index");
        } else {
            calls.at(index).at("function").at("arguments").as_string() +=
                call.at("function").at("arguments").as_string();
        }
    }
    message["content"] = text;
    message["tool_calls"] = std::move(calls);
    message["finish_reason"] = reason;
    return message;
}

TEST(chat_stream, any_feed_gives_the_same_message_as_the_collected_reply) {
    std::mt19937 random(3);
    const std::array<const char*, 6> texts{"a", " ", "\n", "", "é\"\\", "{\"x\":1}"};
    const std::array<const char*, 4> arguments{"{}", R"({"a":[1,"b"]})", "broken", "[]"};
    for (int round = 0; round < 2000; ++round) {
        reply r(false, random() % 3 ? std::optional<std::size_t>() : random() % 3);
        r.admitted();
        for (auto steps = random() % 12; steps > 0; --steps) {
            if (random() % 3)
                r.text(texts[random() % texts.size()]);
            else
                r.call("f", arguments[random() % arguments.size()]);
        }
        r.finished(ending(random() % 2 ? stop_reason::end_turn : stop_reason::max_tokens));
        json::object whole = r.message();
        whole.erase("refusal");
        if (whole.at("content").is_null()) whole["content"] = "";
        if (!whole.contains("tool_calls")) whole["tool_calls"] = json::array();
        whole["finish_reason"] = r.body().at("choices").at(0).at("finish_reason");
        EXPECT_EQ(folded(r.bytes()), whole) << r.bytes();
    }
}

}  // namespace
}  // namespace semantic::protocol::openai
