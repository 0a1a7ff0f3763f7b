// SPDX-License-Identifier: Apache-2.0
// Goal: a conversation is answered by one block that later replaces it, and calls by verdicts.

#include "protocol/anthropic/summaries.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/anthropic/message_stream.hpp"
#include "protocol/anthropic/safeguards.hpp"
#include "protocol/history/summary.hpp"
#include "protocol/wire/json.hpp"
#include "tests/protocol/outline.hpp"

namespace semantic::protocol::anthropic {
namespace {

namespace json = boost::json;

const std::string hi = R"([{"role":"user","content":"Hi"}])";
std::string body(const std::string& more) {
    return R"({"model":"m","max_tokens":5000,"messages":)" + hi + more + "}";
}
id_maker numbers() {
    return id_maker([] { return std::uint64_t{7}; });
}
engine::admitted admission() { return {*storage::agent_id::parse("a"), {}}; }

TEST(summaries_asked_for, are_a_question_behind_the_conversation) {
    auto request = parse_messages(
        body(R"(,"compaction":{"type":"summarize"},"tools":[{"name":"a","input_schema":{}}],)"
             R"("tool_choice":{"type":"any"},"stop_sequences":["x"])"));
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_TRUE(request->compacts);
    EXPECT_EQ(outline(request->chat),
              "user: [Hi]\nuser: [" + std::string(summary_question()) + "]\n");
    EXPECT_EQ(request->max_tokens, summary_tokens_max);
    EXPECT_EQ(request->form.what, engine::output_form::kind::free);
    EXPECT_EQ(request->tool_calls_max, 0u);
    EXPECT_EQ(request->chat.tools.size(), 1u) << "the memory matches";
    auto own =
        parse_messages(body(R"(,"compaction":{"type":"summarize","instructions":"In a word."})"));
    EXPECT_EQ(outline(own->chat), "user: [Hi]\nuser: [In a word.]\n");
    auto blank = parse_messages(body(R"(,"compaction":{"type":"summarize","instructions":" "})"));
    EXPECT_EQ(outline(blank->chat),
              "user: [Hi]\nuser: [" + std::string(summary_question()) + "]\n");
    EXPECT_FALSE(parse_messages(body(R"(,"compaction":{"type":"other"})")));
}

TEST(summaries, a_conversation_may_have_a_thousand) {
    const auto after = [](int count) {
        std::string blocks = R"({"type":"compaction","content":"Of a dog."})";
        for (int i = 1; i < count; ++i) blocks += R"(,{"type":"compaction","content":"Of a cat."})";
        return parse_messages(R"({"model":"m","max_tokens":5,"messages":[{"role":"user",)"
                              R"("content":[)" +
                              blocks + "]}]}");
    };
    EXPECT_TRUE(after(1'000));
    auto refused = after(1'001);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              "messages.0.content.1000: there may be 1000 summaries in a conversation");
}

TEST(summaries_asked_for, come_in_one_block_that_comes_back) {
    id_maker ids = numbers();
    reply_options options;
    options.message_id = "msg_1";
    options.compacts = true;
    options.tool_calls_max = 0;
    message_stream stream(options, ids);
    std::string bytes = stream.on_admitted(admission());
    bytes += stream.on_text("The dog is ");
    bytes += stream.on_text("called Biscuit.");
    bytes += stream.on_finished({});
    EXPECT_NE(bytes.find(R"("type":"compaction_delta","content":"The dog is called Biscuit.")"),
              std::string::npos)
        << bytes;
    EXPECT_NE(bytes.find(R"("stop_reason":"compaction")"), std::string::npos);
    EXPECT_EQ(bytes.find("text_delta"), std::string::npos);

    message_collector collector(options, ids);
    collector.on_admitted(admission());
    collector.on_text("The dog is called Biscuit.");
    const json::value message = json::parse(*collector.on_finished({}));
    ASSERT_EQ(message.at("content").as_array().size(), 1u);
    EXPECT_EQ(message.at("stop_reason"), "compaction");
    const std::string block = json::serialize(message.at("content").at(0));
    auto next =
        parse_messages(R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":[)" +
                       block + R"(,{"type":"text","text":"Go on."}]}]})");
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(outline(next->chat),
              "user: [" + std::string(summary_head) + "The dog is called Biscuit.] [Go on.]\n");
}

TEST(summaries_asked_for, are_null_where_the_model_said_nothing) {
    EXPECT_TRUE(compaction_block(" \n", {}).at("content").is_null());
    EXPECT_EQ(compaction_block("x", {}).at("content"), "x");
    summary_collector silent;
    EXPECT_FALSE(silent.on_finished({}));
}

TEST(summaries_in_between, are_the_first_block_and_what_the_answer_goes_on_behind) {
    const json::object block = compaction_block("S.", {});
    const std::string next = body_behind_summary(R"({"model":"m","max_tokens":5})", block);
    auto request = parse_messages(next);
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(outline(request->chat), "user: [" + std::string(summary_head) + "S.]\n");
    id_maker ids = numbers();
    reply_options options;
    options.summary_block = block;
    message_stream stream(options, ids);
    const std::string begun = stream.on_admitted(admission());
    EXPECT_NE(begun.find("compaction_delta"), std::string::npos);
    EXPECT_NE(stream.on_text("Yes.").find(R"("index":1)"), std::string::npos);
    message_collector collector(options, ids);
    collector.on_admitted(admission());
    collector.on_text("Yes.");
    const json::value message = json::parse(*collector.on_finished({}));
    EXPECT_EQ(message.at("content").at(0).at("type"), "compaction");
    EXPECT_EQ(message.at("content").at(1).at("text"), "Yes.");
    // What comes back has the same prompt up to the answer.
    auto later = parse_messages(
        R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Long ago"},)"
        R"({"role":"assistant","content":)" +
        json::serialize(message.at("content")) + R"(},{"role":"user","content":"More"}]})");
    EXPECT_EQ(outline(later->chat),
              "user: [" + std::string(summary_head) + "S.]\nassistant: [Yes.]\nuser: [More]\n");
}

TEST(applied_edits, are_told_where_they_were_asked_for) {
    id_maker ids = numbers();
    reply_options options;
    options.applied_edits = json::array{json::object{{"type", "clear_thinking_20251015"}}};
    message_stream stream(options, ids);
    stream.on_admitted(admission());
    EXPECT_NE(stream.on_finished({}).find(
                  R"("context_management":{"applied_edits":[{"type":"clear_thinking_20251015"}]})"),
              std::string::npos);
    message_collector collector(options, ids);
    collector.on_admitted(admission());
    EXPECT_EQ(json::parse(*collector.on_finished({}))
                  .at("context_management")
                  .at("applied_edits")
                  .as_array()
                  .size(),
              1u);
}

const std::string asked = R"(,"safeguards":[{"type":"dangerous_tool_use","classifier_context":)"
                          R"({"v":1,"permission_mode":"auto","live_cwd":"/w","other":"x"}},)"
                          R"({"type":"of_tomorrow"}])";

TEST(safeguards, are_read_with_what_matters_of_their_context) {
    auto request = parse_messages(body(asked));
    ASSERT_TRUE(request && request->safeguards);
    EXPECT_EQ(request->safeguards->context, R"({"permission_mode":"auto","live_cwd":"/w"})");
    EXPECT_EQ(request->left_out, std::vector<std::string>{"of_tomorrow"});
    EXPECT_FALSE(parse_messages(body(""))->safeguards);
    auto odd = parse_messages(
        body(R"(,"safeguards":[{"type":"dangerous_tool_use","classifier_context":["x"]}])"));
    EXPECT_TRUE(odd) << odd.error().message;
}

TEST(safeguards, the_judge_is_held_to_an_outcome_for_each_call) {
    const std::vector<judged_call> calls{{"toolu_1", "Bash", R"({"command":"ls"})"},
                                         {"toolu_2", "Bash", R"({"command":"rm -rf /"})"}};
    engine::generation_request wanted;
    ask_for_verdicts({"{}"}, calls, wanted);
    EXPECT_EQ(wanted.form.what, engine::output_form::kind::json);
    EXPECT_NE(wanted.form.schema_json.find("call_2"), std::string::npos);
    EXPECT_EQ(wanted.form.schema_json.find("call_3"), std::string::npos);
    EXPECT_NE(outline(wanted.chat).find("rm -rf /"), std::string::npos);
    EXPECT_EQ(wanted.max_tokens, 16 + 2 * 96);
    const json::array said =
        verdicts_of(calls, R"({"call_1":{"reason":"lists","outcome":"not_flagged"},)"
                           R"("call_2":{"reason":"deletes all","outcome":"flagged"}})");
    const json::value& uses = said.at(0).at("status").at("tool_uses");
    EXPECT_EQ(said.at(0).at("status").at("type"), "available");
    EXPECT_EQ(uses.at("toolu_1").at("outcome"), "not_flagged");
    EXPECT_EQ(uses.at("toolu_2").at("outcome"), "flagged");
    EXPECT_EQ(uses.at("toolu_2").at("explanation"), "deletes all");
}

TEST(safeguards, what_the_judge_did_not_say_or_not_see_has_no_verdict) {
    const std::vector<judged_call> calls{{"1", "a", "{}"}, {"2", "b", std::string(2049, 'x')}};
    const auto uses = [&](const char* said) {
        return verdicts_of(calls, said).at(0).at("status").at("tool_uses");
    };
    EXPECT_EQ(uses("nothing").at("1").at("reason"), "error");
    EXPECT_EQ(uses(R"({"call_1":{"outcome":"unavailable"}})").at("1").at("reason"), "refused");
    EXPECT_EQ(uses(R"({"call_2":{"outcome":"not_flagged"}})").at("2").at("reason"), "truncated");
    EXPECT_EQ(without_verdicts(calls, no_verdict::timeout)
                  .at(0)
                  .at("status")
                  .at("tool_uses")
                  .at("2")
                  .at("reason"),
              "timeout");
    std::vector<judged_call> many(judged_calls_max + 1, {"x", "a", "{}"});
    engine::generation_request wanted;
    ask_for_verdicts({"{}"}, many, wanted);
    EXPECT_EQ(wanted.form.schema_json.find("call_9"), std::string::npos);
}

TEST(safeguards, verdicts_stand_in_the_last_delta_and_in_the_body) {
    id_maker ids = numbers();
    reply_options options;
    options.is_judged = true;
    message_stream stream(options, ids);
    stream.on_admitted(admission());
    stream.on_tool_call("Bash", R"({"command":"ls"})");
    const std::string plain = stream.on_finished({});
    EXPECT_NE(plain.find(R"("status":{"type":"available","tool_uses":{}})"), std::string::npos);
    ASSERT_EQ(stream.calls().size(), 1u);
    EXPECT_EQ(stream.calls()[0].arguments_json, R"({"command":"ls"})");
    const std::string judged = stream.with_verdicts(
        "before" + plain, without_verdicts(stream.calls(), no_verdict::timeout));
    EXPECT_TRUE(judged.starts_with("before"));
    EXPECT_NE(judged.find(R"("reason":"timeout")"), std::string::npos) << judged;
    EXPECT_TRUE(judged.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));

    message_collector collector(options, ids);
    collector.on_admitted(admission());
    collector.on_tool_call("Bash", "{}");
    ASSERT_TRUE(collector.on_finished({}));
    ASSERT_EQ(collector.calls().size(), 1u);
    const json::value body = json::parse(
        collector.with_verdicts(without_verdicts(collector.calls(), no_verdict::error)));
    EXPECT_EQ(body.at("safeguard_results").at(0).at("type"), "dangerous_tool_use");
    EXPECT_EQ(body.at("content").at(0).at("type"), "tool_use");
    // Where nobody judges, that is said at once.
    reply_options off;
    off.safeguard_results = unsupported_safeguards();
    message_stream unjudged(off, ids);
    unjudged.on_admitted(admission());
    EXPECT_NE(unjudged.on_finished({}).find(R"("status":{"type":"unsupported"})"),
              std::string::npos);
}

}  // namespace
}  // namespace semantic::protocol::anthropic
