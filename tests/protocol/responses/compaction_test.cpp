#include "protocol/responses/compaction.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace semantic::protocol::responses
