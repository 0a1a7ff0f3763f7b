// SPDX-License-Identifier: Apache-2.0
#include "protocol/anthropic/messages.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <variant>

#include "protocol/thinking_signature.hpp"
#include "tests/protocol/outline.hpp"

namespace semantic::protocol::anthropic {
namespace {

/// A request with `fields` in addition to the required ones. `fields` begins with a comma or is
/// empty.
std::string body(const std::string& fields = "",
                 const std::string& messages = R"([{"role":"user","content":"Hi"}])") {
    return R"({"model":"m","max_tokens":5,"messages":)" + messages + fields + "}";
}

messages_request parsed(const std::string& text) {
    auto request = parse_messages(text);
    EXPECT_TRUE(request) << text << ": " << (request ? "" : request.error().message);
    return request ? std::move(*request) : messages_request{};
}

TEST(parse_messages, smallest_request_has_the_vendors_defaults) {
    messages_request request = parsed(body());
    EXPECT_EQ(request.model, "m");
    EXPECT_EQ(request.max_tokens, 5);
    EXPECT_EQ(outline(request.chat), "user: [Hi]\n");
    EXPECT_EQ(request.chat.system, "");
    EXPECT_TRUE(request.chat.tools.empty());
    EXPECT_TRUE(request.stop_sequences.empty());
    EXPECT_FALSE(request.stream);
    EXPECT_FALSE(request.sampling.temperature) << "the model's own preference";
    EXPECT_FALSE(request.sampling.top_p);
    EXPECT_FALSE(request.sampling.top_k);
    EXPECT_FALSE(request.sampling.seed);
    EXPECT_FALSE(request.tool_calls_max);
}

TEST(parse_messages, every_field_arrives) {
    messages_request request =
        parsed(body(R"(,"stream":true,"temperature":0.25,"top_p":0.5,"top_k":40,"seed":7,
               "min_p":0.125,"repetition_penalty":1.5,"presence_penalty":1,
               "frequency_penalty":-1,"logit_bias":{"3":4},
               "stop_sequences":["a","\n\nHuman:"],"system":"Be brief.",
               "metadata":{"user_id":"u-1"},"tool_choice":{"type":"auto"})"));
    EXPECT_TRUE(request.stream);
    EXPECT_EQ(request.sampling.temperature, 0.25f);
    EXPECT_EQ(request.sampling.top_p, 0.5f);
    EXPECT_EQ(request.sampling.top_k, 40);
    EXPECT_EQ(request.sampling.seed, 7u);
    EXPECT_EQ(request.sampling.min_p, 0.125f);
    EXPECT_EQ(request.sampling.repetition_penalty, 1.5f);
    EXPECT_EQ(request.sampling.presence_penalty, 1.0f);
    EXPECT_EQ(request.sampling.frequency_penalty, -1.0f);
    EXPECT_EQ(request.sampling.biases.size(), 1u);
    EXPECT_EQ(request.stop_sequences, (std::vector<std::string>{"a", "\n\nHuman:"}));
    EXPECT_EQ(request.chat.system, "Be brief.");
    EXPECT_EQ(request.user_id, "u-1");
}

TEST(parse_messages, take_generation_moves_everything_the_engine_needs) {
    messages_request request = parsed(body(R"(,"temperature":0,"stop_sequences":["x"])"));
    auto agent = *storage::agent_id::parse("sess_a");
    auto deadline = std::chrono::steady_clock::time_point(std::chrono::seconds(9));
    engine::generation_request generation = request.take_generation(agent, deadline);
    EXPECT_EQ(generation.agent, agent);
    EXPECT_EQ(generation.deadline, deadline);
    EXPECT_EQ(generation.max_tokens, 5);
    EXPECT_EQ(generation.sampling.temperature, 0.0f);
    EXPECT_EQ(generation.stop_sequences, std::vector<std::string>{"x"});
    EXPECT_EQ(outline(generation.chat), "user: [Hi]\n");
    EXPECT_EQ(request.model, "m");
}

TEST(parse_messages, system_may_be_a_list_of_blocks) {
    messages_request request = parsed(
        body(R"(,"system":[{"type":"text","text":"One.","cache_control":{"type":"ephemeral"}},
                           {"type":"text","text":"Two."}])"));
    EXPECT_EQ(request.chat.system, "One.\nTwo.");
}

TEST(parse_messages, billing_header_of_the_client_is_left_out_of_the_prompt) {
    messages_request request = parsed(body(
        R"(,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2; cch=1a2b3;"},
                           {"type":"text","text":"Two."}])"));
    EXPECT_EQ(request.chat.system, "Two.");
}

TEST(parse_messages, billing_line_is_left_out_wherever_a_system_text_begins_with_it) {
    struct row {
        const char* system;
        const char* expected;
    };
    for (const row& r : {row{R"("x-anthropic-billing-header: cch=1a2b3;\nBe brief.")", "Be brief."},
                         row{R"("x-anthropic-billing-header: cch=1a2b3;")", ""},
                         row{R"("See x-anthropic-billing-header: it stays.")",
                             "See x-anthropic-billing-header: it stays."},
                         row{R"([{"type":"text","text":"x-anthropic-billing-header: a;\nOne."},
                  {"type":"text","text":"Two."}])",
                             "One.\nTwo."},
                         row{R"([{"type":"text","text":"One."},
                  {"type":"text","text":"x-anthropic-billing-header: b;"},
                  {"type":"text","text":""},{"type":"text","text":"Two."}])",
                             "One.\n\nTwo."}})
        EXPECT_EQ(parsed(body(R"(,"system":)" + std::string(r.system))).chat.system, r.expected);
}

TEST(parse_messages, thinking_may_be_asked_for_without_its_text) {
    EXPECT_FALSE(parsed(body()).hides_thinking);
    EXPECT_FALSE(parsed(body(R"(,"thinking":{"type":"adaptive","display":null})")).hides_thinking);
    EXPECT_FALSE(
        parsed(body(R"(,"thinking":{"type":"adaptive","display":"summarized"})")).hides_thinking);
    EXPECT_TRUE(
        parsed(body(R"(,"thinking":{"type":"adaptive","display":"omitted"})")).hides_thinking);
    EXPECT_FALSE(parsed(body(R"(,"thinking":{"type":"adaptive","display":"all"})")).hides_thinking)
        << "clients of tomorrow know more displays";
}

TEST(parse_messages, reasoning_comes_back_in_the_signature_that_carries_it) {
    auto turn = [](const std::string& text, const std::string& signature) {
        return parse_messages(body("", R"([{"role":"user","content":"a"},
            {"role":"assistant","content":[{"type":"thinking","thinking":")" +
                                           text + R"(","signature":")" + signature + R"("}]},
            {"role":"user","content":"b"}])"));
    };
    const std::string carrying = carrying_signature_of("h\xc3\xa4");
    auto back = turn("", carrying);
    ASSERT_TRUE(back);
    EXPECT_EQ(outline(back->chat), "user: [a]\nassistant: [thinking h\xc3\xa4]\nuser: [b]\n");
    EXPECT_TRUE(turn("h\xc3\xa4", carrying)) << "with its text again";
    for (const std::string& damaged : {carrying.substr(0, carrying.size() - 1),
                                       carrying.substr(0, carrying.size() - 2), carrying + "zz"})
        EXPECT_FALSE(turn("", damaged)) << damaged;
    EXPECT_FALSE(turn("other", carrying));
}

TEST(parse_messages, diagnostics_are_asked_for_with_or_without_a_previous_message) {
    EXPECT_FALSE(parsed(body()).diagnoses);
    messages_request first = parsed(body(R"(,"diagnostics":{"previous_message_id":null})"));
    EXPECT_TRUE(first.diagnoses);
    EXPECT_EQ(first.previous_message_id, "");
    EXPECT_EQ(parsed(body(R"(,"diagnostics":{"previous_message_id":"msg_1"})")).previous_message_id,
              "msg_1");
    for (const char* bad : {R"(,"diagnostics":1)", R"(,"diagnostics":{"previous_message_id":""})",
                            R"(,"diagnostics":{"previous_message_id":5})"})
        EXPECT_FALSE(parse_messages(body(bad))) << bad;
    EXPECT_FALSE(parse_messages(
        body(R"(,"diagnostics":{"previous_message_id":")" + std::string(513, 'm') + R"("})")));
}

TEST(parse_messages, blocks_of_every_text_kind_are_kept_in_order) {
    messages_request request = parsed(body("", R"([
        {"role":"user","content":[{"type":"text","text":"List"},{"type":"text","text":"it"}]},
        {"role":"assistant","content":[
            {"type":"thinking","thinking":"hm","signature":"s"},
            {"type":"redacted_thinking","data":"zz"},
            {"type":"text","text":"Yes"},
            {"type":"tool_use","id":"t1","name":"ls","input":{"z":1,"a":[0.5,"é"]}}]},
        {"role":"user","content":[
            {"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a"},)"
                                               R"({"type":"text","text":"b"}]},
            {"type":"tool_result","tool_use_id":"t2","content":"no","is_error":true},
            {"type":"tool_result","tool_use_id":"t3"},
            {"type":"text","text":"go on"}]}])"));
    EXPECT_EQ(outline(request.chat),
              "user: [List] [it]\n"
              "assistant: [thinking hm] [Yes] [call t1 ls {\"z\":1,\"a\":[0.5,\"é\"]}]\n"
              "tool: [result t1 a\nb] [error t2 no] [result t3 ]\n"
              "user: [go on]\n");
}

TEST(parse_messages, documents_and_search_results_of_text_are_read_as_text) {
    const std::string plain =
        R"({"type":"document","source":{"type":"text","media_type":"text/plain","data":"one"}})";
    const std::string whole =
        R"({"type":"document","title":"T","context":"C","citations":{"enabled":true},)"
        R"("source":{"type":"content","content":[{"type":"text","text":"a"},)"
        R"({"type":"text","text":"b"}]}})";
    const std::string string = R"({"type":"document","title":"","context":null,)"
                               R"("source":{"type":"content","content":"two"}})";
    const std::string found = R"({"type":"search_result","title":"T","source":"http://x",)"
                              R"("content":[{"type":"text","text":"three"}]})";
    const std::string as_text[] = {
        "<document>\n<content>one</content>\n</document>",
        "<document>\n<title>T</title>\n<context>C</context>\n<content>a\nb</content>\n"
        "</document>",
        "<document>\n<content>two</content>\n</document>",
        "<search_result>\n<title>T</title>\n<source>http://x</source>\n<content>three</content>\n"
        "</search_result>"};
    const std::string all = plain + "," + whole + "," + string + "," + found;
    auto asked = parsed(body("", R"([{"role":"user","content":[)" + all + "]}]"));
    ASSERT_EQ(asked.chat.messages.at(0).parts.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i)
        EXPECT_EQ(std::get<engine::text_part>(asked.chat.messages[0].parts[i]).text, as_text[i]);
    auto result = parsed(body("", R"([{"role":"user","content":[{"type":"tool_result",)"
                                  R"("tool_use_id":"t","content":[{"type":"text","text":"x"},)" +
                                      all + "]}]}]"));
    std::string joined = "x";
    for (const std::string& text : as_text) joined += "\n" + text;
    const auto& part = result.chat.messages.at(0).parts.at(0);
    EXPECT_EQ(std::get<engine::tool_result_part>(part).text, joined);
}

TEST(parse_messages, tool_results_stay_in_place_between_texts) {
    messages_request request = parsed(body("", R"([{"role":"user","content":[
        {"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"t","content":"y"},)"
                                               R"({"type":"text","text":"z"}]}])"));
    EXPECT_EQ(outline(request.chat), "user: [x]\ntool: [result t y]\nuser: [z]\n");
}

TEST(parse_messages, same_role_twice_and_system_in_the_middle_are_accepted) {
    messages_request request = parsed(body("", R"([
        {"role":"user","content":"a"},{"role":"user","content":"b"},
        {"role":"system","content":[{"type":"text","text":"# Environment"}]},
        {"role":"assistant","content":"c"},{"role":"assistant","content":[]},
        {"role":"user","content":"d"},{"role":"system","content":"left: 9"}])"));
    EXPECT_EQ(outline(request.chat),
              "user: [a]\nuser: [b]\nsystem: [# Environment]\nassistant: [c]\nassistant:\n"
              "user: [d]\nsystem: [left: 9]\n");
}

TEST(parse_messages, first_message_may_be_the_assistants) {
    EXPECT_EQ(
        outline(
            parsed(
                body("", R"([{"role":"assistant","content":"a"},{"role":"user","content":"b"}])"))
                .chat),
        "assistant: [a]\nuser: [b]\n");
}

TEST(parse_messages, tool_schema_keeps_its_order_and_numbers) {
    messages_request request =
        parsed(body(R"(,"tools":[{"name":"get_weather","description":"d",)"
                    R"("input_schema":{"type":"object","required":["b"],)"
                    R"("properties":{"b":{"minimum":0.1},"a":{"maximum":1.0}}}},
                     {"type":"custom","name":"noop","input_schema":{},"strict":true,)"
                    R"("cache_control":{"type":"ephemeral"}}])"));
    ASSERT_EQ(request.chat.tools.size(), 2u);
    EXPECT_EQ(request.chat.tools[0].name, "get_weather");
    EXPECT_EQ(request.chat.tools[0].description, "d");
    EXPECT_EQ(request.chat.tools[0].parameters_json,
              R"({"type":"object","required":["b"],"properties":{"b":{"minimum":0.1},)"
              R"("a":{"maximum":1.0}}})");
    EXPECT_EQ(request.chat.tools[1].description, "");
    EXPECT_EQ(request.chat.tools[1].parameters_json, "{}");
}

TEST(parse_messages, tools_that_the_client_runs_come_with_the_arguments_that_the_vendor_knows) {
    struct row {
        const char* type;
        const char* name;
        std::vector<std::string> has;
        std::vector<std::string> has_not;
    };
    const std::vector<std::string> editing{"\"view\",\"create\",\"str_replace\",\"insert\"",
                                           "\"path\"",
                                           "\"old_str\"",
                                           "\"new_str\"",
                                           "\"insert_line\"",
                                           "\"view_range\""};
    for (const row& r :
         {row{"bash_20250124", "bash", {"\"command\"", "\"restart\""}, {"\"path\""}},
          row{"text_editor_20250124", "str_replace_editor", {"\"undo_edit\""}, {"\"insert_text\""}},
          row{"text_editor_20250728", "str_replace_based_edit_tool", editing, {"\"undo_edit\""}},
          row{"text_editor_20991231", "my_editor", {"\"insert_text\""}, {"\"undo_edit\""}},
          row{"memory_20250818", "memory", {"\"rename\"", "\"old_path\""}, {"\"undo_edit\""}}}) {
        SCOPED_TRACE(r.type);
        auto request = parsed(body(std::string(R"(,"tools":[{"type":")") + r.type +
                                   R"(","name":")" + r.name + R"(","max_characters":100}])"));
        ASSERT_EQ(request.chat.tools.size(), 1u);
        const engine::tool_definition& tool = request.chat.tools[0];
        EXPECT_EQ(tool.name, r.name);
        EXPECT_FALSE(tool.description.empty());
        EXPECT_FALSE(tool.strict);
        auto schema = parse_json(tool.parameters_json, {});
        ASSERT_TRUE(schema) << tool.parameters_json;
        EXPECT_EQ(schema->at("type").as_string(), "object");
        for (const std::string& part : r.has)
            EXPECT_NE(tool.parameters_json.find(part), std::string::npos) << part;
        for (const std::string& part : r.has_not)
            EXPECT_EQ(tool.parameters_json.find(part), std::string::npos) << part;
    }
    EXPECT_TRUE(parsed(body(R"(,"tools":[{"type":"bash_20250124","name":"bash","strict":true}])"))
                    .chat.tools.at(0)
                    .strict);
}

TEST(parse_messages, tool_choice_limits_the_calls_of_the_reply) {
    EXPECT_EQ(parsed(body(R"(,"tool_choice":{"type":"none"})")).tool_calls_max, 0u);
    EXPECT_EQ(parsed(body(R"(,"tool_choice":{"type":"auto","disable_parallel_tool_use":true})"))
                  .tool_calls_max,
              1u);
    EXPECT_FALSE(parsed(body(R"(,"tool_choice":{"type":"auto","disable_parallel_tool_use":false})"))
                     .tool_calls_max);
}

TEST(parse_messages, calls_and_formats_that_are_asked_for_arrive) {
    using kind = engine::output_form::kind;
    const std::string tools = R"(,"tools":[{"name":"f","input_schema":{}},)"
                              R"({"name":"g","input_schema":{},"strict":true}])";
    auto forced = parsed(body(tools + R"(,"tool_choice":{"type":"any"})"));
    EXPECT_EQ(forced.form.what, kind::calls);
    EXPECT_TRUE(forced.form.tools.empty());
    EXPECT_TRUE(forced.form.several_calls);
    auto named = parsed(body(tools + R"(,"tool_choice":{"type":"tool","name":"f",)"
                                     R"("disable_parallel_tool_use":true})"));
    EXPECT_EQ(named.form.tools, std::vector<std::string>{"f"});
    EXPECT_FALSE(named.form.several_calls);
    EXPECT_EQ(named.tool_calls_max, 1u);
    auto strict = parsed(body(tools));
    EXPECT_EQ(strict.form.what, kind::strict_calls);
    EXPECT_TRUE(strict.chat.tools[1].strict);
    EXPECT_EQ(parsed(body(tools + R"(,"tool_choice":{"type":"none"})")).form.what, kind::free);
    auto json = parsed(body(R"(,"output_config":{"format":{"type":"json_schema",)"
                            R"("schema":{"type":"null"}}})"));
    EXPECT_EQ(json.form.what, kind::json);
    EXPECT_EQ(json.form.schema_json, R"({"type":"null"})");
    EXPECT_FALSE(json.form.calls_too);
    EXPECT_TRUE(json.form.is_strict);
    auto either = parsed(body(tools + R"(,"output_format":{"type":"json_schema","schema":{}})"));
    EXPECT_EQ(either.form.what, kind::json);
    EXPECT_TRUE(either.form.calls_too);
    EXPECT_EQ(json.take_generation({}, {}).form.what, kind::json);
}

TEST(parse_messages, unknown_and_null_fields_are_ignored) {
    messages_request request = parsed(body(
        R"(,"service_tier":"auto","thinking":{"type":"adaptive"},"context_management":{"edits":[]},
               "output_config":{"effort":"low"},"mcp_servers":[],"new_in_2031":{"a":[1]},
               "thread":null,"system":null,"tools":null,"temperature":null,"stream":null,
               "metadata":{"user_id":null},"tool_choice":null,"stop_sequences":null)"));
    EXPECT_EQ(request.model, "m");
}

TEST(parse_messages, request_for_no_tokens_only_fills_the_cache_and_may_end_with_any_role) {
    auto request =
        parse_messages(R"({"model":"m","max_tokens":0,"messages":[{"role":"user","content":"a"},)"
                       R"({"role":"assistant","content":"b"}]})");
    ASSERT_TRUE(request);
    EXPECT_EQ(request->max_tokens, 0);
}

TEST(parse_messages, thinking_is_as_the_request_says_and_off_when_it_does_not) {
    struct row {
        const char* fields;
        bool enabled;
        int budget;
        const char* effort;
    };
    for (const row& expected :
         {row{"", false, 0, ""}, row{R"(,"thinking":null)", false, 0, ""},
          row{R"(,"thinking":{"type":"disabled"})", false, 0, ""},
          row{R"(,"thinking":{"type":"enabled","budget_tokens":2048})", true, 2048, ""},
          row{R"(,"thinking":{"type":"enabled"})", true, 0, ""},
          row{R"(,"thinking":{"type":"adaptive"},"output_config":{"effort":"max"})", true, 0,
              "high"},
          row{R"(,"output_config":{"effort":"low"})", false, 0, "low"}}) {
        std::string body =
            R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}])";
        auto request = parse_messages(body + expected.fields + "}");
        ASSERT_TRUE(request) << expected.fields << request.error().message;
        auto wanted = request->take_generation({}, {});
        EXPECT_EQ(wanted.thinking.enabled, expected.enabled) << expected.fields;
        EXPECT_EQ(request->shows_thinking, expected.enabled);
        EXPECT_EQ(wanted.thinking.budget_tokens.value_or(0), expected.budget);
        EXPECT_EQ(wanted.thinking.effort.value_or(""), expected.effort);
        EXPECT_EQ(parse_count_tokens(body + expected.fields + "}")->thinking.enabled,
                  expected.enabled);
    }
}

TEST(parse_messages, thinking_that_is_none_is_refused_by_name) {
    for (auto [fields, place] :
         {std::pair{R"("thinking":{"type":"much"})", "thinking.type"},
          std::pair{R"("thinking":{})", "thinking.type"},
          std::pair{R"("thinking":"on")", "thinking"},
          std::pair{R"("thinking":{"type":"enabled","budget_tokens":0})", "thinking.budget_tokens"},
          std::pair{R"("output_config":{"effort":"huge"})", "output_config.effort"}}) {
        auto request = parse_messages(
            std::string(
                R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}],)") +
            fields + "}");
        ASSERT_FALSE(request) << fields;
        EXPECT_TRUE(request.error().message.starts_with(place)) << request.error().message;
    }
}

TEST(parse_messages, thinking_comes_back_with_its_signature_and_unchanged) {
    auto parse_with = [](const std::string& block) {
        return parse_messages(
            R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},)"
            R"({"role":"assistant","content":[)" +
            block + R"(,{"type":"text","text":"b"}]},{"role":"user","content":"c"}]})");
    };
    auto thinking_of = [](const messages_request& request) {
        return std::get<engine::thinking_part>(request.chat.messages.at(1).parts.at(0)).text;
    };
    const std::string signed_text =
        R"({"type":"thinking","thinking":"hm","signature":")" + signature_of("hm") + "\"}";
    EXPECT_EQ(thinking_of(*parse_with(signed_text)), "hm");
    EXPECT_EQ(
        thinking_of(*parse_with(R"({"type":"thinking","thinking":"hm","signature":"EqQBCg"})")),
        "hm")
        << "another server's";
    EXPECT_EQ(thinking_of(*parse_with(R"({"type":"thinking","thinking":"hm"})")), "hm");
    auto changed = parse_with(R"({"type":"thinking","thinking":"ho","signature":")" +
                              signature_of("hm") + "\"}");
    ASSERT_FALSE(changed);
    EXPECT_TRUE(changed.error().message.starts_with("messages.1.content.0.signature"))
        << changed.error().message;
    EXPECT_EQ(
        parse_with(R"({"type":"redacted_thinking","data":"x"})")->chat.messages.at(1).parts.size(),
        1u);
}

TEST(parse_count_tokens, takes_the_same_prompt_without_max_tokens) {
    auto request = parse_count_tokens(
        R"({"model":"m","system":[{"type":"text","text":"S"}],"messages":[{"role":"user",)"
        R"("content":"a"}],
            "tools":[{"name":"t","input_schema":{}}]})");
    ASSERT_TRUE(request);
    EXPECT_EQ(request->model, "m");
    EXPECT_EQ(request->chat.system, "S");
    EXPECT_EQ(outline(request->chat), "user: [a]\n");
    EXPECT_EQ(request->chat.tools.size(), 1u);
    EXPECT_EQ(count_tokens_body(17), R"({"input_tokens":17})");
    EXPECT_EQ(count_tokens_body(17, 20),
              R"({"input_tokens":17,"context_management":{"original_input_tokens":20}})");
}

TEST(parse_messages, thread_is_created_or_continued_with_the_tools_that_it_has) {
    EXPECT_FALSE(parsed(body()).thread.is_kept);
    messages_request created = parsed(body(R"(,"thread":{"type":"create"},"system":"S")"));
    EXPECT_TRUE(created.thread.is_kept);
    EXPECT_EQ(created.thread.continues, "");
    EXPECT_EQ(created.chat.system, "S");

    struct one_thread final : thread_reader {
        result<engine::tool_lists> read_tools(const std::string& id) override {
            EXPECT_EQ(id, "msg_1");
            return engine::tool_lists{{{"look", "", "{}", false}}};
        }
    } threads;
    const std::string thread = R"(,"thread":{"type":"continue","previous_message_id":"msg_1"})";
    auto continued = parse_messages(
        body(thread + R"(,"tool_choice":{"type":"tool","name":"look"})"), {}, &threads);
    ASSERT_TRUE(continued) << continued.error().message;
    EXPECT_TRUE(continued->thread.is_kept);
    EXPECT_EQ(continued->thread.continues, "msg_1");
    ASSERT_EQ(continued->chat.tools.size(), 1u);
    EXPECT_EQ(continued->form.what, engine::output_form::kind::calls);
    EXPECT_FALSE(parse_messages(body(thread + R"(,"tool_choice":{"type":"tool","name":"x"})"), {},
                                &threads));
    auto counted = parse_count_tokens(body(thread), {}, &threads);
    ASSERT_TRUE(counted) << counted.error().message;
    EXPECT_EQ(counted->thread.continues, "msg_1");
    EXPECT_EQ(counted->chat.tools.size(), 1u);
}

TEST(parse_count_tokens, fails_with_the_same_errors) {
    EXPECT_EQ(parse_count_tokens("{").error().code, errc::malformed_json);
    EXPECT_EQ(parse_count_tokens("[]").error().message,
              "the body: expected an object, found an array");
    EXPECT_EQ(parse_count_tokens(R"({"messages":[]})").error().message, "model: field required");
    EXPECT_EQ(parse_count_tokens(R"({"model":"m","messages":[]})").error().message,
              "messages: at least one message is required");
    auto fork = parse_count_tokens(R"({"model":"m","thread":{"type":"x"},"messages":[]})");
    EXPECT_EQ(fork.error().message, R"(thread.type: must be "create" or "continue", is "x")");
}

}  // namespace
}  // namespace semantic::protocol::anthropic
