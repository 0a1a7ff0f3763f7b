#include "protocol/responses/compaction.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace semantic::protocol::responses
