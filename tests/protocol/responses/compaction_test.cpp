// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/compaction.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include "protocol/history/parts.hpp"
#include "protocol/history/summary.hpp"
#include "protocol/responses/request.hpp"
#include "protocol/responses/response_stream.hpp"
#include "protocol/thinking_signature.hpp"

namespace semantic::protocol::responses {
namespace {

namespace json = boost::json;

result<std::string> compacted(const std::string& summary) {
    id_maker ids([n = std::uint64_t{0}]() mutable { return ++n; });
    json::array items = json::parse(R"([{"type":"message","role":"user","content":"One"},
        {"type":"message","role":"assistant","content":"Two"},
        {"type":"function_call_output","call_id":"c","output":"x"},
        {"role":"user","content":"Three"}])")
                            .as_array();
    compaction_collector collector("resp_1", 7, std::move(items), ids);
    collector.on_admitted({*storage::agent_id::parse("msg_a"), {}});
    collector.on_text(summary);
    return collector.on_finished({engine::stop_reason::end_turn, "", 3, true});
}

TEST(compaction, is_what_the_user_said_and_a_sealed_summary) {
    const auto body = compacted("In short.");
    ASSERT_TRUE(body);
    const json::value read = json::parse(*body);
    EXPECT_EQ(read.at("object"), "response.compaction");
    const json::array& output = read.at("output").as_array();
    ASSERT_EQ(output.size(), 3u);
    EXPECT_EQ(output[0].at("content"), "One");
    EXPECT_EQ(output[1].at("content"), "Three");
    EXPECT_EQ(output[2].at("type"), "compaction");
    EXPECT_EQ(carried_by(output[2].at("encrypted_content").as_string()), "In short.");
    EXPECT_EQ(read.at("usage").at("output_tokens"), 3);
}

TEST(compaction, a_conversation_may_have_a_thousand_summaries) {
    const auto after = [](int count) {
        const std::string item = R"({"type":"compaction","encrypted_content":")" +
                                 seal_summary("Of a dog.", true) + "\"},";
        std::string items;
        for (int i = 0; i < count; ++i) items += item;
        return parse_response(R"({"model":"m","input":[)" + items +
                              R"({"role":"user","content":"Hi"}]})");
    };
    EXPECT_TRUE(after(1'000));
    auto refused = after(1'001);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "input.1000: there may be 1000 summaries in a conversation");
}

TEST(compaction, without_a_summary_is_a_failure) {
    ASSERT_FALSE(compacted(" \n"));
    EXPECT_EQ(compacted("").error().code, errc::bad_value);
}

TEST(compaction, a_trigger_at_the_end_of_the_input_asks_for_a_summary_in_an_item) {
    const std::string items =
        R"({"role":"user","content":"Hi"},{"role":"assistant","content":"Yes"})";
    const std::string trigger = R"({"type":"compaction_trigger"})";
    const auto parsed = [](const std::string& input) {
        return parse_response(R"({"model":"m","input":[)" + input + "]}");
    };
    const auto request = parsed(items + "," + trigger);
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_TRUE(request->compacts);
    ASSERT_EQ(request->chat.messages.size(), 3u);
    EXPECT_EQ(std::get<engine::text_part>(request->chat.messages[2].parts[0]).text,
              summary_question());
    EXPECT_EQ(request->max_tokens, summary_tokens_max);
    EXPECT_EQ(request->tool_calls_max, 0u);
    const auto earlier = parsed(trigger + "," + items);
    ASSERT_TRUE(earlier);
    EXPECT_FALSE(earlier->compacts);
    EXPECT_EQ(earlier->chat.messages.size(), 2u);

    id_maker ids([draws = std::uint64_t{0}]() mutable { return ++draws; });
    reply_options options;
    options.compacts = true;
    response_stream stream(options, ids);
    std::string bytes = stream.on_admitted(engine::admitted{*storage::agent_id::parse("a"), {}});
    bytes += stream.on_thinking("Hm.");
    bytes += stream.on_text("They said ");
    bytes += stream.on_text("hi.");
    bytes += stream.on_finished({engine::stop_reason::max_tokens, {}, 3, true});
    EXPECT_EQ(bytes.find("output_text"), std::string::npos) << bytes;
    EXPECT_NE(bytes.find("event: response.output_item.done"), std::string::npos) << bytes;
    EXPECT_NE(bytes.find("event: response.completed"), std::string::npos) << bytes;
    const auto& output = stream.response().at("output").as_array();
    ASSERT_EQ(output.size(), 1u);
    EXPECT_EQ(output[0].at("type"), "compaction");
    EXPECT_EQ(carried_by(output[0].at("encrypted_content").as_string()), "They said hi.");
}

TEST(compaction, a_trigger_that_is_answered_with_nothing_has_failed) {
    id_maker ids([draws = std::uint64_t{0}]() mutable { return ++draws; });
    reply_options options;
    options.compacts = true;
    response_stream stream(options, ids);
    stream.on_admitted(engine::admitted{*storage::agent_id::parse("a"), {}});
    const std::string bytes = stream.on_finished({engine::stop_reason::end_turn, {}, 3, true});
    EXPECT_NE(bytes.find("event: response.failed"), std::string::npos) << bytes;
}

std::optional<int> compacts_above(const std::string& list, int context = 4000) {
    response_limits limits;
    limits.context_tokens_max = context;
    const auto request =
        parse_response(R"({"model":"m","input":"Hi","context_management":[)" + list + "]}", limits);
    EXPECT_TRUE(request) << request.error().message;
    return request ? request->compacts_above : std::nullopt;
}

TEST(compaction, context_management_says_from_which_length_on) {
    EXPECT_EQ(compacts_above(R"({"type":"compaction","compact_threshold":1000})"), 1000);
    EXPECT_EQ(compacts_above(R"({"type":"compaction"})"), 3000);
    EXPECT_EQ(compacts_above(R"({"type":"compaction","compact_threshold":null})"), 3000);
    EXPECT_EQ(compacts_above(R"({"type":"compaction"})", 0), std::nullopt);
    EXPECT_EQ(compacts_above(R"({"type":"compaction","compact_threshold":9},)"
                             R"({"type":"compaction","compact_threshold":8})"),
              8);
    EXPECT_EQ(compacts_above(""), std::nullopt);
    const auto other =
        parse_response(R"({"model":"m","input":"Hi","context_management":[{"type":"later"}]})");
    ASSERT_TRUE(other);
    EXPECT_EQ(other->left_out, std::vector<std::string>{"later"});
    for (const char* wrong : {R"({"type":"compaction","compact_threshold":0})", "7", "{}"})
        EXPECT_FALSE(parse_response(R"({"model":"m","input":"Hi","context_management":[)" +
                                    std::string(wrong) + "]}"))
            << wrong;
}

TEST(compaction, a_seal_says_what_the_summary_stands_for) {
    EXPECT_EQ(open_summary(seal_summary("S.", true)).value().text, "S.");
    EXPECT_TRUE(open_summary(seal_summary("S.", true))->replaces_all);
    EXPECT_FALSE(open_summary(seal_summary("S.", false))->replaces_all);
    EXPECT_FALSE(open_summary("semantic-all-gAAAAABo"));
    EXPECT_FALSE(open_summary("gAAAAABo"));
}

const std::string long_conversation =
    R"({"role":"developer","content":"Help."},{"role":"user","content":"My dog is Biscuit."},)"
    R"({"type":"additional_tools","tools":[{"type":"function","name":"look"}]},)"
    R"({"type":"function_call","call_id":"c","name":"look","arguments":"{}"},)"
    R"({"type":"function_call_output","call_id":"c","output":"a dog"})";

TEST(compaction, a_summary_of_all_replaces_what_was_said_and_keeps_the_tools) {
    const std::string item =
        R"(,{"type":"compaction","encrypted_content":")" + seal_summary("A dog.", true) + R"("})";
    const std::string newest = R"(,{"role":"user","content":"Its name?"})";
    const auto sent = [](const std::string& input, const kept_sources& kept = {}) {
        return parse_response(R"({"model":"m","input":[)" + input + "]}", {}, kept).value();
    };
    const response_request later = sent(long_conversation + item + newest);
    EXPECT_EQ(later.chat.system, "Help.");
    ASSERT_EQ(later.chat.messages.size(), 2u);
    const auto& stands = std::get<engine::text_part>(later.chat.messages[0].parts[0]).text;
    EXPECT_TRUE(stands.starts_with(std::string(summary_head) + "A dog.")) << stands;
    ASSERT_EQ(later.chat.placed_tools.size(), 1u);
    EXPECT_EQ(later.chat.placed_tools[0].message, 0u);
    EXPECT_EQ(later.chat.placed_tools[0].tool.name, "look");
    // What the answer is made from when the summary is new is what later turns begin with.
    kept_sources made;
    made.summary = "A dog.";
    const response_request now = sent(long_conversation, made);
    ASSERT_EQ(now.chat.messages.size(), 1u);
    EXPECT_EQ(std::get<engine::text_part>(now.chat.messages[0].parts[0]).text, stands);
    EXPECT_EQ(now.chat.placed_tools.size(), 1u);
}

TEST(compaction, what_was_too_long_before_a_summary_counts_no_more) {
    response_limits limits;
    limits.bytes_per_token_max = 1;
    limits.context_tokens_max = 1000;
    const auto said = [](std::size_t bytes) {
        return R"({"role":"user","content":")" + std::string(bytes, 'x') + R"("})";
    };
    const std::string item =
        R"(,{"type":"compaction","encrypted_content":")" + seal_summary("S.", true) + R"("},)";
    const auto read = [&](const std::string& input) {
        return parse_response(R"({"model":"m","input":[)" + input + "]}", limits);
    };
    EXPECT_TRUE(read(said(800) + item + said(800)));
    EXPECT_FALSE(read(said(800) + "," + said(800)));
}

TEST(compaction, a_summary_that_is_due_is_the_first_item_of_the_answer) {
    id_maker ids([draws = std::uint64_t{0}]() mutable { return ++draws; });
    response_stream stream(reply_options{}, ids);
    stream.put_summary("They said hi.");
    std::string bytes = stream.on_admitted(engine::admitted{*storage::agent_id::parse("a"), {}});
    EXPECT_NE(bytes.find(R"("output_index":0,"item":{"id":"cmp_)"), std::string::npos) << bytes;
    bytes = stream.on_text("Hello.");
    EXPECT_NE(bytes.find(R"("output_index":1)"), std::string::npos) << bytes;
    stream.on_finished({engine::stop_reason::end_turn, {}, 3, true});
    const auto& output = stream.response().at("output").as_array();
    ASSERT_EQ(output.size(), 2u);
    const auto made = open_summary(output[0].at("encrypted_content").as_string());
    ASSERT_TRUE(made);
    EXPECT_TRUE(made->replaces_all);
    EXPECT_EQ(made->text, "They said hi.");
    EXPECT_EQ(output[1].at("type"), "message");
}

}  // namespace
}  // namespace semantic::protocol::responses
