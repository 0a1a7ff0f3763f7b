// SPDX-License-Identifier: Apache-2.0
#include "protocol/reply_parts.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include "protocol/openai/reply_fields.hpp"

namespace semantic::protocol {
namespace {

namespace json = boost::json;

TEST(memory_object, names_what_was_told_in_another_shape_and_only_then) {
    engine::prompt_usage usage;
    EXPECT_FALSE(memory_object("a", usage).contains("template_fit"));
    usage.template_fit = {"messages_joined", "calls_split"};
    EXPECT_EQ(json::serialize(memory_object("a", usage).at("template_fit")),
              R"(["messages_joined","calls_split"])");
}

TEST(memory_object, names_what_of_a_schema_is_not_held_and_only_then) {
    engine::prompt_usage usage;
    EXPECT_FALSE(memory_object("a", usage).contains("not_held"));
    usage.not_held = {"#/a: 'not' is not supported", "#/b: 'if' is not supported"};
    EXPECT_EQ(json::serialize(memory_object("a", usage).at("not_held")),
              R"(["#/a: 'not' is not supported","#/b: 'if' is not supported"])");
}

std::string ending_of(const engine::finished& event) {
    json::object memory;
    add_ending(memory, event);
    return json::serialize(memory);
}

TEST(memory_object, says_why_a_memory_is_not_saved_and_only_then) {
    engine::finished event;
    event.saved = true;
    EXPECT_EQ(ending_of(event), R"({"saved":true})");
    event.saved = false;
    EXPECT_EQ(ending_of(event), R"({"saved":false})") << "there was nothing to save";
    const std::pair<engine::unsaved_reason, std::string> words[] = {
        {engine::unsaved_reason::late, "late"},
        {engine::unsaved_reason::failed, "failed"},
        {engine::unsaved_reason::over_bound, "over_bound"},
        {engine::unsaved_reason::dropped, "dropped"}};
    for (const auto& [reason, word] : words) {
        event.unsaved = reason;
        EXPECT_EQ(ending_of(event), R"({"saved":false,"not_saved":")" + word + R"("})");
    }
}

TEST(memory_object, names_the_bytes_that_were_written_when_a_save_has_ended) {
    engine::finished event;
    event.saved = true;
    event.written = engine::written_bytes{4096, std::uint64_t{1} << 40};
    EXPECT_EQ(ending_of(event),
              R"({"saved":true,"bytes_written":{"turn":4096,"total":1099511627776}})");
    const json::object whole = memory_object("a", {}, event);
    EXPECT_EQ(whole.at("agent"), "a");
    EXPECT_EQ(whole.at("bytes_written").at("turn"), 4096);
}

TEST(memory_object, says_what_drafts_came_to_by_source_where_some_were_run) {
    engine::finished event;
    event.drafts.add(engine::draft_origin::form, {9, 0});
    EXPECT_EQ(ending_of(event), R"({"saved":false,"drafts":{"form":{"drafted":9,"taken":0}}})");
    event.drafts.add(engine::draft_origin::repeats, {20, 15});
    EXPECT_EQ(ending_of(event), R"({"saved":false,"drafts":{"repeats":{"drafted":20,"taken":15},)"
                                R"("form":{"drafted":9,"taken":0}}})");
}

TEST(usage_object, counts_the_tokens_of_an_answer_that_came_by_drafts) {
    engine::prompt_usage prompt;
    prompt.prompt_tokens = 100;
    engine::finished end;
    end.output_tokens = 40;
    EXPECT_EQ(json::serialize(openai::usage_object(prompt, end, 3).at("completion_tokens_details")),
              R"({"reasoning_tokens":3})");
    end.drafts.add(engine::draft_origin::repeats, {20, 15});
    end.drafts.add(engine::draft_origin::form, {9, 2});
    const json::object usage = openai::usage_object(prompt, end, 3);
    EXPECT_EQ(usage.at("completion_tokens"), 40) << "a draft's tokens are counted once";
    EXPECT_EQ(usage.at("total_tokens"), 140);
    EXPECT_EQ(json::serialize(usage.at("completion_tokens_details")),
              R"({"reasoning_tokens":3,"accepted_prediction_tokens":17})");
}

}  // namespace
}  // namespace semantic::protocol
