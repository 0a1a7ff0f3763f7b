// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/client/dialect.hpp"

#include <boost/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "perf/bench/client/errors.hpp"

namespace semantic::bench {
namespace {

using testing::ElementsAre;

const generation_request request{{{"user", "hi"}}, 7, "s1"};

TEST(chat_body, anthropic_has_what_the_api_wants_and_no_more) {
    EXPECT_EQ(boost::json::parse(chat_body(api::anthropic, "m", request, {})),
              boost::json::parse(R"({"model":"m","max_tokens":7,"temperature":0,"stream":true,
                                     "messages":[{"role":"user","content":"hi"}]})"));
}

TEST(chat_body, openai_asks_for_usage_and_names_its_session) {
    EXPECT_EQ(boost::json::parse(chat_body(api::openai, "m", request, {})),
              boost::json::parse(R"({"model":"m","max_tokens":7,"temperature":0,"stream":true,
                                     "messages":[{"role":"user","content":"hi"}],
                                     "stream_options":{"include_usage":true},
                                     "session_id":"s1","ignore_eos":true})"));
}

TEST(chat_body, extra_fields_win) {
    const auto extra = boost::json::parse(R"({"temperature":1,"cache_prompt":true})").as_object();
    const auto body = boost::json::parse(chat_body(api::openai, "m", request, extra)).as_object();
    EXPECT_EQ(body.at("temperature"), 1);
    EXPECT_EQ(body.at("cache_prompt"), true);
}

TEST(stream_reader, anthropic_usage_replaces_and_adds_up_to_the_whole_prompt) {
    stream_reader reader(api::anthropic);
    reader.on_event({"message_start",
                     R"({"type":"message_start","message":{"usage":{"input_tokens":5,
                         "cache_creation_input_tokens":10,"cache_read_input_tokens":100,
                         "output_tokens":1}}})"},
                    0.1);
    reader.on_event({"ping", R"({"type":"ping"})"}, 0.2);
    for (const double at : {0.5, 0.75, 1.0}) {
        reader.on_event({"content_block_delta",
                         R"({"type":"content_block_delta","index":0,
                             "delta":{"type":"text_delta","text":"a"}})"},
                        at);
    }
    reader.on_event({"message_delta",
                     R"({"type":"message_delta","delta":{"stop_reason":"max_tokens"},
                         "usage":{"output_tokens":3}})"},
                    1.5);
    reader.on_event({"message_stop", R"({"type":"message_stop"})"}, 1.5);
    const generation g = reader.finish(2.0);
    EXPECT_EQ(g.prompt_tokens, 115);
    EXPECT_EQ(g.cached_tokens, 100);
    EXPECT_TRUE(g.cached_reported);
    EXPECT_EQ(g.computed_tokens(), 15);
    EXPECT_EQ(g.output_tokens, 3);
    EXPECT_EQ(g.text, "aaa");
    EXPECT_EQ(g.stop_reason, "max_tokens");
    EXPECT_DOUBLE_EQ(g.first_s, 0.5);
    EXPECT_DOUBLE_EQ(g.last_s, 1.0);
    EXPECT_DOUBLE_EQ(g.end_s, 2.0);
    EXPECT_DOUBLE_EQ(g.decode_speed(), 4);
    EXPECT_THAT(g.gaps(), ElementsAre(0.25, 0.25));
}

TEST(stream_reader, openai_counts_the_reused_part_within_the_prompt) {
    stream_reader reader(api::openai);
    reader.on_event({"", R"({"choices":[{"delta":{"role":"assistant","content":""}}]})"}, 0.1);
    reader.on_event({"", R"({"choices":[{"delta":{"content":"a"}}],"usage":null})"}, 1);
    reader.on_event({"", R"({"choices":[{"delta":{"content":"b"},"finish_reason":"length"}]})"}, 2);
    reader.on_event({"", R"({"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":2,
                             "prompt_tokens_details":{"cached_tokens":15}}})"},
                    2);
    reader.on_event({"", "[DONE]"}, 2);
    const generation g = reader.finish(2);
    EXPECT_EQ(g.prompt_tokens, 20);
    EXPECT_EQ(g.computed_tokens(), 5);
    EXPECT_DOUBLE_EQ(g.first_s, 1) << "an empty delta is no token";
    EXPECT_DOUBLE_EQ(g.decode_speed(), 1);
}

TEST(stream_reader, an_end_token_without_text_is_not_timed) {
    stream_reader reader(api::openai);
    for (const double at : {1.0, 2.0, 3.0}) {
        reader.on_event({"", R"({"choices":[{"delta":{"content":"a"}}]})"}, at);
    }
    reader.on_event({"", R"({"choices":[{"delta":{},"finish_reason":"stop"}],
                             "usage":{"prompt_tokens":1,"completion_tokens":4}})"},
                    3);
    EXPECT_DOUBLE_EQ(reader.finish(3).decode_speed(), 1);
}

TEST(stream_reader, an_answer_without_text_is_timed_by_its_end) {
    stream_reader reader(api::openai);
    reader.on_event({"", R"({"choices":[{"delta":{},"finish_reason":"stop"}],
                             "usage":{"prompt_tokens":1,"completion_tokens":1}})"},
                    3);
    const generation g = reader.finish(4);
    EXPECT_DOUBLE_EQ(g.first_s, 4);
    EXPECT_DOUBLE_EQ(g.decode_speed(), 0);
}

TEST(stream_reader, errors_in_the_stream_are_told) {
    stream_reader anthropic(api::anthropic);
    EXPECT_THROW(
        anthropic.on_event({"error", R"({"type":"error","error":{"message":"overloaded"}})"}, 1),
        server_error);
    stream_reader openai(api::openai);
    EXPECT_THROW(openai.on_event({"", R"({"error":{"message":"overloaded"}})"}, 1), server_error);
    EXPECT_THROW(openai.on_event({"", "not json"}, 1), server_error);
}

TEST(stream_reader, a_stream_that_breaks_off_is_an_error) {
    stream_reader cut(api::anthropic);
    cut.on_event({"message_start", R"({"type":"message_start",
                   "message":{"usage":{"input_tokens":5,"output_tokens":1}}})"},
                 1);
    EXPECT_THROW(cut.finish(2), server_error);
}

TEST(stream_reader, an_answer_without_usage_is_an_error) {
    stream_reader silent(api::openai);
    silent.on_event({"", R"({"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]})"}, 1);
    EXPECT_THROW(silent.finish(2), server_error);
}

TEST(read_models, both_dialects_and_peers_tell_their_context) {
    const auto ours = read_models(R"({"data":[{"id":"a","max_input_tokens":100},{"id":"b"}]})", "");
    ASSERT_TRUE(ours);
    EXPECT_EQ(ours->id, "a");
    EXPECT_EQ(ours->context_max, 100);
    const auto named = read_models(R"({"data":[{"id":"a"},{"id":"b","max_model_len":7}]})", "b");
    ASSERT_TRUE(named);
    EXPECT_EQ(named->context_max, 7);
    EXPECT_FALSE(read_models(R"({"data":[]})", ""));
    EXPECT_FALSE(read_models("<html>", ""));
}

TEST(read_metric, samples_of_one_family_add_up) {
    const char* text =
        "# HELP x_total X.\n# TYPE x_total counter\nx_total{s=\"ram\"} 5\n"
        "x_total{s=\"disk\"} 7e1\nx_total_more 100\ny 3\n";
    EXPECT_EQ(read_metric(text, "x_total"), 75);
    EXPECT_EQ(read_metric(text, "x_total", "s=\"disk\""), 70);
    EXPECT_EQ(read_metric(text, "y"), 3);
    EXPECT_EQ(read_metric(text, "z"), std::nullopt);
}

}  // namespace
}  // namespace semantic::bench
