// SPDX-License-Identifier: Apache-2.0
#include "protocol/models.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <numeric>

#include "protocol/responses/codex_catalog.hpp"

namespace semantic::protocol {
namespace {

std::vector<model_card> some(int count) {
    std::vector<model_card> models;
    for (int i = 0; i < count; ++i)
        models.push_back({std::string("m").append(std::to_string(i)), "", 0, 8192});
    return models;
}

/// "m1 m2 | more" for a page.
std::string page(const std::vector<model_card>& models, const models_query& query) {
    auto body = models_body(models, query);
    if (!body) return body.error().message;
    auto value = boost::json::parse(*body);
    std::string ids;
    for (const auto& item : value.at("data").as_array()) {
        ids += item.at("id").as_string();
        ids += ' ';
    }
    return ids + (value.at("has_more").as_bool() ? "| more" : "|");
}

TEST(models, one_object_serves_both_vendors) {
    auto body = models_body(
        {{"semantic-tiny", "Semantic Tiny", 1'781'913'600, 8192, 4096, true, false, 4, "k4v4"}},
        {});
    ASSERT_TRUE(body);
    EXPECT_EQ(
        *body,
        R"({"object":"list","data":[{"id":"semantic-tiny","object":"model","type":"model",)"
        R"("display_name":"Semantic Tiny","created":1781913600,)"
        R"("created_at":"2026-06-20T00:00:00Z","owned_by":"semantic",)"
        R"("lifecycle":"active","deprecated_at":null,"retires_at":null,"line":null,)"
        R"("max_input_tokens":8192,"max_tokens":4096,"capabilities":{)"
        R"("batch":{"supported":false},"chat_template":{"system_text":{"supported":true},)"
        R"("later_system_text":{"supported":true},"users_in_a_row":{"supported":true},)"
        R"("tools":{"supported":true},"tool_calls":{"supported":true},)"
        R"("parallel_tool_calls":{"supported":true},)"
        R"("tool_results":{"supported":true},"open_answers":{"supported":true}},)"
        R"("citations":{"supported":false},)"
        R"("code_execution":{"supported":false},"context_management":{"supported":false},)"
        R"("effort":{"supported":false,"low":{"supported":false},)"
        R"("medium":{"supported":false},"high":{"supported":false},)"
        R"("xhigh":{"supported":false},"max":{"supported":false}},)"
        R"("image_input":{"supported":false},"pdf_input":{"supported":false},)"
        R"("server_tools":{"supported":false,"code_execution":{"supported":false},)"
        R"("web_search":{"supported":false}},"structured_outputs":{"supported":true},)"
        R"("thinking":{"supported":true,"types":{"adaptive":{"supported":true},)"
        R"("between_tools":{"supported":false},"disabled":{"supported":true},)"
        R"("enabled":{"supported":true}}}},"kv_bits":4,"kv_recipe":"k4v4"}],"has_more":false,)"
        R"("first_id":"semantic-tiny","last_id":"semantic-tiny",)"
        R"("models":[{"name":"semantic-tiny","model":"semantic-tiny"}]})");
}

TEST(models, codex_reads_its_catalog) {
    std::vector<model_card> cards = some(2);
    cards[1].has_effort = true;
    const auto body = boost::json::parse(*models_body(cards, {}, responses::catalog_entry));
    const auto& entry = body.at("models").at(0);
    for (const char* needed :
         {"slug", "display_name", "supported_reasoning_levels", "shell_type", "visibility",
          "supported_in_api", "priority", "base_instructions", "supports_reasoning_summaries",
          "support_verbosity", "truncation_policy", "supports_parallel_tool_calls",
          "experimental_supported_tools"})
        EXPECT_TRUE(entry.as_object().contains(needed)) << needed;
    EXPECT_EQ(entry.at("slug"), "m0");
    EXPECT_EQ(entry.at("context_window"), 8192);
    EXPECT_EQ(boost::json::serialize(entry.at("input_modalities")), R"(["text"])");
    EXPECT_EQ(entry.at("supported_reasoning_levels").as_array().size(), 0u);
    EXPECT_FALSE(entry.at("base_instructions").as_string().empty());
    EXPECT_EQ(entry.at("truncation_policy").at("limit"), 1024);
    EXPECT_EQ(body.at("models").at(1).at("priority"), 1);
    EXPECT_EQ(body.at("models").at(1).at("supported_reasoning_levels").as_array().size(), 3u);
    EXPECT_EQ(body.at("data").at(0).at("max_input_tokens"), 8192);
}

TEST(models, bits_that_the_model_decided_on_come_with_the_reason) {
    model_card card{"m", "", 0, 8192};
    card.kv_bits = 8;
    card.kv_recipe = "k8v8";
    card.kv_recipe_reason = "53 % of 16 bit, KL 0.0010, 98.0 % same top";
    auto body = model_body({card}, "m");
    ASSERT_TRUE(body);
    EXPECT_NE(body->find(R"("kv_bits":8,"kv_recipe":"k8v8","kv_recipe_reason":"53 % of 16 bit, )"
                         R"(KL 0.0010, 98.0 % same top"})"),
              std::string::npos)
        << *body;
}

TEST(models, a_template_that_is_not_the_models_own_comes_with_the_reason) {
    model_card card{"m", "", 0, 8192};
    card.chat_template = "gemma3";
    EXPECT_EQ(model_body({card}, "m")->find(R"("chat_template":")"), std::string::npos);
    card.chat_template_reason = "the model has no chat template";
    EXPECT_NE(model_body({card}, "m")
                  ->find(R"("chat_template":"gemma3","chat_template_reason":"the model has no)"),
              std::string::npos);
}

TEST(models, say_in_which_form_a_model_writes_calls_and_reasoning) {
    model_card card{"m", "", 0, 8192};
    card.call_format = "qwen-xml";
    card.thinking_format = "think";
    EXPECT_NE(
        model_body({card}, "m")->find(R"("tool_call_format":"qwen-xml","thinking_format":"think")"),
        std::string::npos);
}

TEST(models, what_a_chat_template_has_no_place_for_is_told) {
    model_card card{"m", "", 0, 8192};
    card.chat_abilities.tools = false;
    const auto can = boost::json::parse(*model_body({card}, "m")).at("capabilities");
    EXPECT_FALSE(can.at("chat_template").at("tools").at("supported").as_bool());
    EXPECT_TRUE(can.at("chat_template").at("system_text").at("supported").as_bool());
}

TEST(models, one_model_is_found_by_name_and_an_unknown_one_is_not) {
    auto body = model_body(some(2), "m1");
    ASSERT_TRUE(body);
    EXPECT_EQ(boost::json::parse(*body).at("id").as_string(), "m1");
    EXPECT_EQ(boost::json::parse(*body).at("display_name").as_string(), "m1");
    auto missing = model_body(some(2), "m2");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, errc::not_found);
    EXPECT_EQ(missing.error().message, "there is no model \"m2\"");
}

TEST(models, pages_follow_limit_after_and_before) {
    EXPECT_EQ(page(some(0), {}), "|");
    EXPECT_EQ(page(some(3), {"2", {}, {}}), "m0 m1 | more");
    EXPECT_EQ(page(some(3), {"3", {}, {}}), "m0 m1 m2 |");
    EXPECT_EQ(page(some(3), {"1000", {}, {}}), "m0 m1 m2 |");
    EXPECT_EQ(page(some(3), {"1", "m0", {}}), "m1 | more");
    EXPECT_EQ(page(some(3), {{}, "m1", {}}), "m2 |");
    EXPECT_EQ(page(some(3), {{}, "m2", {}}), "|");
    EXPECT_EQ(page(some(3), {"1", {}, "m2"}), "m1 | more");
    EXPECT_EQ(page(some(3), {{}, {}, "m2"}), "m0 m1 |");
}

TEST(models, page_without_limit_ends_at_twenty) {
    std::string ids = page(some(21), {});
    EXPECT_TRUE(ids.ends_with("m19 | more")) << ids;
}

TEST(models, empty_page_has_no_first_or_last) {
    auto body = models_body({}, {});
    ASSERT_TRUE(body);
    EXPECT_EQ(*body,
              R"({"object":"list","data":[],"has_more":false,"first_id":null,"last_id":null,)"
              R"("models":[]})");
}

TEST(models, bad_query_is_refused_by_name) {
    for (std::string limit : {"0", "1001", "-1", "x", "", "1x", "99999999999999999999999"})
        EXPECT_EQ(page(some(1), {limit, {}, {}}),
                  "limit: must be a whole number between 1 and 1000");
    EXPECT_EQ(page(some(1), {{}, "zz", {}}), "after_id: there is no such model");
    EXPECT_EQ(page(some(1), {{}, {}, "zz"}), "before_id: there is no such model");
    EXPECT_EQ(page(some(1), {{}, "m0", "m0"}), "before_id: cannot be given together with after_id");
}

TEST(model_names, one_that_nobody_knows_is_told_with_those_there_are) {
    const failure alone = no_such_model("gpt-4o", "tiny", "");
    EXPECT_EQ(alone.code, errc::not_found);
    EXPECT_EQ(alone.message, R"(there is no model "gpt-4o" here; this server runs "tiny")");
    EXPECT_EQ(alone.path, "model");
    EXPECT_EQ(alone.error_code, "model_not_found");
    EXPECT_TRUE(no_such_model("x", "tiny", "tiny, big").message.ends_with(" and knows tiny, big"));
}

TEST(model_names, one_that_is_not_loaded_is_told_with_what_loads_it) {
    const failure other = model_not_loaded("big", "tiny");
    EXPECT_EQ(other.code, errc::not_found);
    EXPECT_EQ(other.error_code, "model_not_loaded");
    EXPECT_NE(other.message.find(R"(POST /admin/models/swap {"model_id": "big"})"),
              std::string::npos);
}

TEST(models, of_several_each_tells_its_state_and_what_is_known_of_it) {
    model_card card{"m", "", 0, 8192};
    card.state = "available";
    card.aliases = {"gpt-4o"};
    card.kv_bytes_per_token = 1024;
    card.agents_4k = 7;
    auto body = model_body({card}, "gpt-4o");
    ASSERT_TRUE(body) << "an alias is a name too";
    EXPECT_NE(body->find(R"("state":"available","aliases":["gpt-4o"],"context_length":8192,)"
                         R"("kv_bytes_per_token":1024,"agents_4k":7})"),
              std::string::npos)
        << *body;
    card.state = "failed";
    card.state_reason = "no such file";
    card.kv_bytes_per_token = 0;
    body = model_body({card}, "m");
    EXPECT_NE(body->find(R"("state":"failed","state_reason":"no such file","aliases":["gpt-4o"]})"),
              std::string::npos)
        << *body;
}

}  // namespace
}  // namespace semantic::protocol
