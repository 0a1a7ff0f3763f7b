// SPDX-License-Identifier: Apache-2.0
#include "protocol/llama_cpp.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

namespace semantic::protocol {
namespace {

namespace json = boost::json;

model_card some_model() {
    model_card card{"m", "M", 0, 8192};
    card.call_format = "hermes";
    return card;
}

TEST(llama_cpp_props, say_how_long_a_prompt_may_be_and_what_the_template_can) {
    model_card card = some_model();
    const json::value body = json::parse(props_body(card, 16, "1.2.3"));
    EXPECT_EQ(body.at("default_generation_settings").at("n_ctx"), 8192);
    EXPECT_EQ(body.at("total_slots"), 16);
    EXPECT_EQ(body.at("model_alias"), "m");
    EXPECT_EQ(body.at("build_info"), "semantic-1.2.3");
    EXPECT_EQ(body.at("chat_template_caps").at("supports_tools"), true);
    EXPECT_EQ(body.at("modalities").at("vision"), false);
    EXPECT_EQ(body.at("chat_template_caps").at("supports_parallel_tool_calls"), true);
    card.chat_abilities.parallel_tool_calls = false;
    EXPECT_EQ(json::parse(props_body(card, 16, "1.2.3"))
                  .at("chat_template_caps")
                  .at("supports_parallel_tool_calls"),
              false);
    card.call_format = "none";
    const json::value mute = json::parse(props_body(card, 16, "1.2.3"));
    EXPECT_EQ(mute.at("chat_template_caps").at("supports_tools"), false);
    EXPECT_EQ(mute.at("chat_template_caps").at("supports_tool_calls"), false);
}

TEST(llama_cpp_slots, are_as_many_as_requests_are_answered_at_once) {
    const json::value body = json::parse(slots_body(some_model(), 3, 2));
    ASSERT_EQ(body.as_array().size(), 3u);
    EXPECT_EQ(body.at(1).at("is_processing"), true);
    EXPECT_EQ(body.at(2).at("is_processing"), false);
    EXPECT_EQ(body.at(2).at("id"), 2);
    EXPECT_EQ(body.at(0).at("n_ctx"), 8192);
}

}  // namespace
}  // namespace semantic::protocol
