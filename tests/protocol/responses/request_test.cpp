// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/request.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <string>

#include "protocol/responses/kept_response.hpp"
#include "protocol/thinking_signature.hpp"
#include "tests/protocol/outline.hpp"

namespace semantic::protocol::responses {
namespace {

namespace json = boost::json;
using kind = engine::output_form::kind;

/// A request with `fields` in addition to the required ones. `fields` begins with a comma or is
/// empty.
std::string body(const std::string& fields = "", const std::string& input = R"("Hi")") {
    return R"({"model":"m","input":)" + input + fields + "}";
}

response_request parsed(const std::string& text) {
    auto request = parse_response(text);
    EXPECT_TRUE(request) << text << ": " << (request ? "" : request.error().message);
    return request ? std::move(*request) : response_request{};
}

failure refused(const std::string& text) {
    auto request = parse_response(text);
    EXPECT_FALSE(request) << text;
    return request ? failure{} : request.error();
}

const char* const function_tool =
    R"({"type":"function","name":"look","parameters":{"type":"object","properties":{}}})";
const char* const text_tool = R"({"type":"custom","name":"patch","description":"Patches."})";

TEST(parse_response, smallest_request_leaves_the_rest_to_the_model) {
    const response_request request = parsed(body());
    EXPECT_EQ(request.model, "m");
    EXPECT_EQ(outline(request.chat), "user: [Hi]\n");
    EXPECT_EQ(request.max_tokens, response_limits{}.max_tokens_max);
    EXPECT_FALSE(request.stream);
    EXPECT_FALSE(request.top_scores);
    EXPECT_FALSE(request.tool_calls_max);
    EXPECT_EQ(request.repeated.at("store"), true);
    EXPECT_TRUE(request.is_kept);
    EXPECT_EQ(request.previous, "");
    EXPECT_EQ(request.repeated.at("tool_choice"), "auto");
    EXPECT_TRUE(request.repeated.at("previous_response_id").is_null());
}

TEST(parse_response, the_first_of_instructions_and_developer_messages_is_the_system_text) {
    const response_request request = parsed(
        body(R"(,"instructions":"Be brief.")",
             R"([{"role":"developer","content":"Use tools."},{"type":"message","role":"system",)"
             R"("content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},)"
             R"({"role":"user","content":"Hi"},{"role":"developer","content":"Later."}])"));
    EXPECT_EQ(request.chat.system, "Be brief.");
    EXPECT_EQ(outline(request.chat),
              "system: [Use tools.]\nsystem: [a\nb]\nuser: [Hi]\nsystem: [Later.]\n");
    const response_request first = parsed(
        body(R"(,"instructions":"")",
             R"([{"role":"developer","content":""},)"
             R"({"role":"developer","content":"Use tools."},{"role":"user","content":"Hi"}])"));
    EXPECT_EQ(first.chat.system, "Use tools.");
    EXPECT_EQ(outline(first.chat), "user: [Hi]\n");
}

TEST(parse_response, items_of_one_answer_are_one_message_again) {
    const response_request request = parsed(body(
        "", R"([{"role":"user","content":"Hi"},)"
            R"({"type":"reasoning","id":"rs_1","summary":[],"content":)"
            R"([{"type":"reasoning_text","text":"Hm."}]},)"
            R"({"type":"message","role":"assistant","content":[{"type":"output_text",)"
            R"("text":"Let me look.","annotations":[]}]},)"
            R"({"type":"function_call","call_id":"c1","name":"look","arguments":"{\"a\": 1}"},)"
            R"({"type":"custom_tool_call","call_id":"c2","name":"patch","input":"+ x"},)"
            R"({"type":"function_call_output","call_id":"c1","output":"seen"},)"
            R"({"type":"custom_tool_call_output","call_id":"c2","output":)"
            R"([{"type":"input_text","text":"done"}]}])"));
    const auto& messages = request.chat.messages;
    ASSERT_EQ(messages.size(), 4u);
    ASSERT_EQ(messages[1].parts.size(), 4u);
    EXPECT_EQ(std::get<engine::thinking_part>(messages[1].parts[0]).text, "Hm.");
    EXPECT_EQ(std::get<engine::text_part>(messages[1].parts[1]).text, "Let me look.");
    EXPECT_EQ(std::get<engine::tool_call_part>(messages[1].parts[2]).arguments_json, R"({"a":1})");
    EXPECT_EQ(std::get<engine::tool_call_part>(messages[1].parts[3]).arguments_json,
              R"({"input":"+ x"})");
    EXPECT_EQ(std::get<engine::tool_result_part>(messages[2].parts[0]).text, "seen");
    EXPECT_EQ(std::get<engine::tool_result_part>(messages[3].parts[0]).tool_call_id, "c2");
    EXPECT_EQ(std::get<engine::tool_result_part>(messages[3].parts[0]).text, "done");
}

TEST(parse_response, sealed_reasoning_comes_back_and_another_servers_is_left_out) {
    const auto parse_with = [](const std::string& seal) {
        return parsed(body("", R"([{"role":"user","content":"Hi"},{"type":"reasoning",)"
                               R"("summary":[],"encrypted_content":")" +
                                   seal + R"("},{"role":"assistant","content":"5"}])"));
    };
    const auto own = parse_with(carrying_signature_of("2 and 3"));
    ASSERT_EQ(own.chat.messages.at(1).parts.size(), 2u);
    EXPECT_EQ(std::get<engine::thinking_part>(own.chat.messages[1].parts[0]).text, "2 and 3");
    EXPECT_EQ(parse_with("gAAAAABo").chat.messages.at(1).parts.size(), 1u);
}

TEST(parse_response, tools_that_take_a_text_are_functions_with_one_argument) {
    const response_request request =
        parsed(body(R"(,"tools":[)" + std::string(text_tool) + "," + function_tool + "]"));
    ASSERT_EQ(request.chat.tools.size(), 2u);
    EXPECT_EQ(request.text_tools, std::set<std::string>{"patch"});
    EXPECT_NE(request.chat.tools[0].parameters_json.find(R"("input":{"type":"string"})"),
              std::string::npos);
}

TEST(parse_response, a_text_tools_grammar_is_told_to_the_model) {
    const response_request request = parsed(
        body(R"(,"tools":[{"type":"custom","name":"patch","description":"Patches.","format":)"
             R"({"type":"grammar","syntax":"lark","definition":"start: \"x\""}}])"));
    EXPECT_NE(request.chat.tools.at(0).description.find("start: \"x\""), std::string::npos);
}

TEST(parse_response, a_text_tools_regular_expression_is_a_pattern_of_its_input) {
    const response_request request = parsed(
        body(R"(,"tools":[{"type":"custom","name":"patch","description":"Patches.","format":)"
             R"({"type":"grammar","syntax":"regex","definition":"a|b"}}])"));
    EXPECT_EQ(request.chat.tools.at(0).description, "Patches.");
    EXPECT_NE(request.chat.tools.at(0).parameters_json.find(R"("pattern":"^(?:a|b)$")"),
              std::string::npos);
}

TEST(parse_response, hosted_tools_are_left_out_and_named_and_refused_where_they_must_be_called) {
    const std::string tools = R"(,"tools":[{"type":"web_search"},{"type":"mcp"},)"
                              R"({"type":"web_search"},)" +
                              std::string(function_tool) + "]";
    const response_request request = parsed(body(tools));
    EXPECT_EQ(request.chat.tools.size(), 1u);
    EXPECT_EQ(request.left_out, (std::vector<std::string>{"web_search", "mcp"}));
    EXPECT_EQ(refused(body(tools + R"(,"tool_choice":{"type":"web_search"})")).code,
              errc::unsupported);
}

TEST(parse_response, tool_choice_holds_calls_to_what_it_names) {
    const std::string tools = R"(,"tools":[)" + std::string(text_tool) + "," + function_tool + "]";
    const auto choice = [&](const char* text) {
        return parsed(body(tools + R"(,"tool_choice":)" + text));
    };
    EXPECT_EQ(choice(R"("required")").form.what, kind::calls);
    EXPECT_EQ(choice(R"("none")").tool_calls_max, 0u);
    EXPECT_EQ(choice(R"({"type":"function","name":"look"})").form.tools,
              std::vector<std::string>{"look"});
    EXPECT_EQ(choice(R"({"type":"allowed_tools","mode":"required","tools":)"
                     R"([{"type":"custom","name":"patch"}]})")
                  .form.tools,
              std::vector<std::string>{"patch"});
    EXPECT_EQ(choice(R"({"type":"allowed_tools","mode":"auto","tools":)"
                     R"([{"type":"custom","name":"patch"},{"type":"function","name":"look"}]})")
                  .form.what,
              kind::free);
    EXPECT_EQ(refused(body(tools + R"(,"tool_choice":{"type":"allowed_tools","mode":"auto",)"
                                   R"("tools":[{"type":"custom","name":"patch"}]})"))
                  .path,
              "tool_choice.tools");
    for (const char* none :
         {R"("auto","tools":[{"name":"look"},{"name":"look"}])", R"("required","tools":[])"})
        EXPECT_EQ(
            refused(body(tools + R"(,"tool_choice":{"type":"allowed_tools","mode":)" + none + "}"))
                .path,
            "tool_choice.tools")
            << none;
    EXPECT_EQ(refused(body(tools + R"(,"tool_choice":{"type":"function","name":"lock"})")).code,
              errc::bad_value);
}

TEST(parse_response, an_answer_begins_anew) {
    EXPECT_EQ(refused(body(R"(,"continue_final_message":true)")).code, errc::unsupported);
    EXPECT_EQ(refused(body(R"(,"add_generation_prompt":false)")).path, "add_generation_prompt");
    parsed(body(R"(,"continue_final_message":false,"add_generation_prompt":true)"));
}

TEST(parse_response, text_formats_are_the_form_of_the_answer) {
    EXPECT_EQ(parsed(body(R"(,"text":{"format":{"type":"text"},"verbosity":"low"})")).form.what,
              kind::free);
    EXPECT_EQ(parsed(body(R"(,"text":{"format":{"type":"json_object"}})")).form.what, kind::json);
    const response_request request =
        parsed(body(R"(,"text":{"format":{"type":"json_schema","name":"n","strict":true,)"
                    R"("schema":{"type":"object"}}})"));
    EXPECT_EQ(request.form.schema_json, R"({"type":"object"})");
    EXPECT_TRUE(request.form.is_strict);
    EXPECT_EQ(refused(body(R"(,"text":{"format":{"type":"xml"}})")).path, "text.format.type");
}

TEST(parse_response, include_says_what_comes_with_the_answer) {
    EXPECT_TRUE(parsed(body(R"(,"include":["reasoning.encrypted_content"])")).seals_reasoning);
    EXPECT_EQ(
        parsed(body(R"(,"include":["message.output_text.logprobs"],"top_logprobs":3)")).top_scores,
        3);
    EXPECT_FALSE(parsed(body(R"(,"include":["web_search_call.action.sources"])")).top_scores);
    EXPECT_EQ(refused(body(R"(,"top_logprobs":21)")).path, "top_logprobs");
}

result<void> hand_over(const char* items, const item_reader& read) {
    const boost::json::value list = boost::json::parse(items);
    for (const boost::json::value& each : list.as_array()) read(each);
    return {};
}

TEST(parse_response, max_tool_calls_bounds_the_calls) {
    EXPECT_EQ(parsed(body(R"(,"max_tool_calls":2)")).tool_calls_max, 2u);
    EXPECT_EQ(parsed(body(R"(,"max_tool_calls":2,"parallel_tool_calls":false)")).tool_calls_max,
              1u);
    EXPECT_EQ(refused(body(R"(,"max_tool_calls":0)")).path, "max_tool_calls");
}

TEST(parse_response, what_follows_a_response_stands_behind_its_conversation) {
    std::string asked_for;
    const auto before = [&](const std::string& id, const item_reader& read) {
        asked_for = id;
        return hand_over(R"([{"role":"developer","content":"Early."},
            {"role":"user","content":"One"},
            {"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}]},
            {"role":"assistant","content":[{"type":"output_text","text":"Two"}]}])",
                         read);
    };
    id_maker ids([] { return std::uint64_t{1}; });
    for (const char* input : {R"("Three")", R"([{"role":"user","content":"Three"}])"}) {
        const auto request =
            parse_response(body(R"(,"instructions":"Now.","previous_response_id":"resp_1")", input),
                           {}, {.before = before, .ids = &ids});
        ASSERT_TRUE(request) << request.error().message;
        EXPECT_EQ(asked_for, "resp_1");
        EXPECT_EQ(request->previous, "resp_1");
        EXPECT_EQ(request->repeated.at("previous_response_id"), "resp_1");
        EXPECT_EQ(request->chat.system, "Now.");
        ASSERT_EQ(request->chat.messages.size(), 4u);
        EXPECT_EQ(request->chat.messages[0].from, engine::role::system);
        EXPECT_EQ(request->chat.messages[2].parts.size(), 2u) << "reasoning and text are one turn";
        EXPECT_EQ(std::get<engine::text_part>(request->chat.messages[3].parts[0]).text, "Three");
        const boost::json::value kept = boost::json::parse(request->input);
        ASSERT_EQ(kept.as_array().size(), 1u) << "and no more is kept of it";
        EXPECT_EQ(kept.at(0).at("content").at(0).at("text"), "Three");
    }
}

TEST(parse_response, a_response_that_is_not_kept_is_a_404_that_clients_know) {
    const auto none = [](const std::string& id, const item_reader&) -> result<void> {
        return previous_not_found(id);
    };
    for (const previous_items& before : {previous_items(), previous_items(none)}) {
        const auto previous =
            parse_response(body(R"(,"previous_response_id":"resp_1")"), {}, {.before = before});
        ASSERT_FALSE(previous);
        EXPECT_EQ(previous.error().code, errc::not_found);
        EXPECT_EQ(previous.error().error_code, "previous_response_not_found");
        EXPECT_EQ(previous.error().path, "previous_response_id");
    }
}

TEST(parse_response, a_reference_stands_for_the_item_that_is_kept) {
    const boost::json::value item = boost::json::parse(
        R"({"id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Two"}]})");
    const auto item_of = [&](const std::string& id) { return id == "msg_1" ? &item : nullptr; };
    id_maker ids([] { return std::uint64_t{1}; });
    const auto ask = [&](const char* id) {
        return parse_response(
            body("", R"([{"role":"user","content":"One"},{"type":)"
                     R"("item_reference","id":")" +
                         std::string(id) + R"("},{"role":"user","content":"Three"}])"),
            {}, {.item_of = item_of, .ids = &ids});
    };
    const auto request = ask("msg_1");
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(outline(request->chat), "user: [One]\nassistant: [Two]\nuser: [Three]\n");
    EXPECT_EQ(request->input.find("item_reference"), std::string::npos)
        << "what is kept stays whole when the item is deleted: " << request->input;
    EXPECT_EQ(boost::json::parse(request->input).at(1).at("id"), "msg_1");
    const auto lost = ask("msg_2");
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().error_code, "item_not_found");
    EXPECT_EQ(lost.error().path, "input.1.id");
}

/// A request that refers to one item `count` times.
std::string references(int count) {
    std::string list;
    for (int i = 0; i < count; ++i)
        list += std::string(i == 0 ? "[" : ",") + R"({"type":"item_reference","id":"msg_1"})";
    return list + "]";
}

boost::json::value said_by_user(std::string text) {
    return boost::json::object{{"role", "user"}, {"content", std::move(text)}};
}

TEST(parse_response, references_are_paid_for_each_time_and_one_too_many_is_refused) {
    const boost::json::value item = said_by_user(std::string(100'000, 'x'));
    const std::size_t one = memory_of(item);
    ASSERT_GT(one, 100'000u);
    const auto ask = [&](int count) {
        storage::work_budget budget({.bytes = 10 * one});
        auto request = parse_response(
            body("", references(count).c_str()), {},
            {.item_of = [&](const std::string&) { return &item; }, .budget = &budget});
        EXPECT_LE(budget.bytes_peak(), 10 * one);
        return request;
    };
    EXPECT_TRUE(ask(10));
    const auto refused = ask(11);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, errc::bad_value);
    EXPECT_NE(refused.error().message.find("one request may"), std::string::npos)
        << refused.error().message;
}

TEST(parse_response, what_was_said_before_is_paid_for_too) {
    const boost::json::value item = said_by_user(std::string(1'000, 'x'));
    const std::size_t one = memory_of(item);
    const auto ask = [&](int count) {
        storage::work_budget budget({.bytes = 10 * one});
        const auto before = [&](const std::string&, const item_reader& read) -> result<void> {
            for (int i = 0; i < count; ++i) read(item);
            return {};
        };
        for (const char* field : {"previous_response_id", "conversation"}) {
            const auto request =
                parse_response(body(",\"" + std::string(field) + R"(":"r")"), {},
                               {.before = before, .in_conversation = before, .budget = &budget});
            if (!request) return false;
            budget.release_bytes(budget.bytes());
        }
        return true;
    };
    EXPECT_TRUE(ask(10));
    EXPECT_FALSE(ask(11));
}

TEST(parse_response, texts_that_cannot_fit_the_context_are_refused_where_they_are_put_together) {
    response_limits limits;
    limits.bytes_per_token_max = 10;
    limits.context_tokens_max = 100;
    const boost::json::value item = said_by_user(std::string(99, 'x'));
    const auto ask = [&](int count, const std::string& more) {
        return parse_response(body(more, references(count).c_str()), limits,
                              {.item_of = [&](const std::string&) { return &item; }});
    };
    EXPECT_TRUE(ask(10, ""));
    EXPECT_TRUE(ask(10, R"(,"instructions":"123456789")"));
    EXPECT_TRUE(ask(10, R"(,"instructions":"123456789      ")")) << "blanks may be left out";
    for (const auto& refused : {ask(11, ""), ask(10, R"(,"instructions":"1234567890")")}) {
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, errc::prompt_too_long);
        ASSERT_TRUE(refused.error().excess);
        EXPECT_EQ(refused.error().excess->context_tokens, 100);
        EXPECT_GE(refused.error().excess->tokens, 100);
        EXPECT_TRUE(refused.error().excess->is_lower_bound);
    }
    const std::string text = '"' + std::string(1'000, 'x') + '"';
    EXPECT_EQ(parse_response(body("", text.c_str()), limits).error().code, errc::prompt_too_long);
}

TEST(parse_response, what_a_response_repeats_has_a_bound) {
    response_limits limits;
    const std::string half = R"(,"metadata":{"a":")" + std::string(1'000, 'x') + "\"}";
    limits.repeated_bytes_max = to_text(parsed(body(half)).repeated).size();
    EXPECT_TRUE(parse_response(body(half), limits));
    --limits.repeated_bytes_max;
    const std::string long_body = body(half, ('"' + std::string(2'000, 'y') + '"').c_str());
    ASSERT_GT(long_body.size(), limits.repeated_bytes_max);
    EXPECT_EQ(parse_response(long_body, limits).error().code, errc::body_too_large);
}

TEST(parse_response, store_false_is_not_kept) {
    const response_request request = parsed(body(R"(,"store":false)"));
    EXPECT_FALSE(request.is_kept);
    EXPECT_EQ(request.repeated.at("store"), false);
}

TEST(parse_response, what_this_server_does_not_keep_is_refused_by_name) {
    EXPECT_EQ(refused(body(R"(,"prompt":{"id":"p"})")).path, "prompt");
    EXPECT_EQ(refused(body(R"(,"background":true,"store":false)")).path, "background");
    EXPECT_EQ(refused(body(R"(,"truncation":"auto")")).path, "truncation");
    EXPECT_EQ(refused(body("", R"([{"type":"item_reference","id":"msg_1"}])")).error_code,
              "item_not_found");
    for (const char* idle : {R"(,"background":false)", R"(,"truncation":"disabled")",
                             R"(,"store":true)", R"(,"previous_response_id":null)"})
        EXPECT_TRUE(parse_response(body(idle))) << idle;
}

TEST(parse_response, a_conversation_is_named_by_its_id_or_as_an_object) {
    const auto read_conversation = [](const std::string& id,
                                      const item_reader& read) -> result<void> {
        if (id != "conv_1") return conversation_not_found(id);
        return hand_over(R"([{"role":"user","content":"One"},
            {"role":"assistant","content":[{"type":"output_text","text":"Two"}]}])",
                         read);
    };
    id_maker ids([] { return std::uint64_t{1}; });
    for (const char* name : {R"("conv_1")", R"({"id":"conv_1"})"}) {
        const auto request =
            parse_response(body(R"(,"store":false,"conversation":)" + std::string(name)), {},
                           {.in_conversation = read_conversation, .ids = &ids});
        ASSERT_TRUE(request) << request.error().message;
        EXPECT_EQ(request->conversation, "conv_1");
        EXPECT_EQ(request->chat.messages.size(), 3u);
        EXPECT_FALSE(request->input.empty()) << "it is added to the conversation";
    }
    const auto refusal = [&](const std::string& more) {
        const auto request = parse_response(body(more), {}, {.in_conversation = read_conversation});
        EXPECT_FALSE(request) << more;
        return request ? failure{errc::internal, ""} : request.error();
    };
    EXPECT_EQ(refusal(R"(,"conversation":"conv_2")").error_code, "conversation_not_found");
    EXPECT_EQ(refusal(R"(,"conversation":"")").path, "conversation");
    EXPECT_EQ(refusal(R"(,"conversation":{})").path, "conversation.id");
    EXPECT_EQ(refusal(R"(,"conversation":7)").path, "conversation");
    EXPECT_EQ(refused(body(R"(,"conversation":"conv_1")")).error_code, "conversation_not_found")
        << "none are kept";
}

TEST(parse_response, a_request_that_warms_up_may_have_a_system_text_alone) {
    const char* system_alone = R"([{"role":"developer","content":"You help."}])";
    const auto warm = parse_response(body(R"(,"generate":false)", system_alone));
    ASSERT_TRUE(warm) << warm.error().message;
    EXPECT_FALSE(warm->generates);
    EXPECT_EQ(warm->chat.system, "You help.");
    EXPECT_EQ(refused(body("", system_alone)).path, "input");
    const char* system_twice =
        R"([{"role":"developer","content":"You help."},{"role":"developer","content":"Well."}])";
    EXPECT_EQ(refused(body("", system_twice)).path, "input");
}

TEST(parse_response, a_summary_of_this_server_stands_for_a_conversation_and_others_are_left_out) {
    const std::string token = carrying_signature_of("Biscuit is a dog.");
    const auto input = [](const std::string& sealed) {
        return R"([{"type":"compaction","encrypted_content":")" + sealed +
               R"("},{"role":"user","content":"Who is Biscuit?"}])";
    };
    const std::string sealed = input(token);
    const auto request = parse_response(body("", sealed.c_str()));
    ASSERT_TRUE(request) << request.error().message;
    ASSERT_EQ(request->chat.messages.size(), 2u);
    const auto& said = std::get<engine::text_part>(request->chat.messages[0].parts[0]).text;
    EXPECT_TRUE(said.ends_with("Biscuit is a dog.")) << said;
    const std::string damaged = input("x" + token);
    const response_request other = parsed(body("", damaged.c_str()));
    EXPECT_EQ(outline(other.chat), "user: [Who is Biscuit?]\n");
    EXPECT_EQ(other.left_out, std::vector<std::string>{"compaction"});
}

TEST(parse_response, a_conversation_is_the_same_wherever_requests_divide_it) {
    const json::array items = boost::json::parse(R"([{"role":"developer","content":"You help."},
        {"role":"developer","content":"Be brief."}, {"role":"user","content":"Hi"},
        {"role":"assistant","content":"Hello"}, {"role":"developer","content":"Be briefer."},
        {"role":"user","content":"How are you?"}])")
                                  .as_array();
    const auto whole = parse_response(body("", json::serialize(items).c_str()));
    ASSERT_TRUE(whole) << whole.error().message;
    EXPECT_EQ(whole->chat.system, "You help.");
    for (std::size_t read = 1; read < items.size(); ++read) {
        const auto middle = items.begin() + static_cast<std::ptrdiff_t>(read);
        const auto before = [&](const std::string&, const item_reader& take) -> result<void> {
            std::for_each(items.begin(), middle, take);
            return {};
        };
        const std::string rest = json::serialize(json::array(middle, items.end()));
        const auto divided = parse_response(body(R"(,"previous_response_id":"r")", rest.c_str()),
                                            {}, {.before = before});
        ASSERT_TRUE(divided) << divided.error().message;
        EXPECT_EQ(divided->chat.system, whole->chat.system) << read;
        EXPECT_EQ(outline(divided->chat), outline(whole->chat)) << read;
    }
}

TEST(parse_response, what_is_wrong_is_named_by_its_place) {
    struct row {
        const char* input;
        const char* path;
    };
    for (const row& one :
         {row{"[]", "input"}, row{"7", "input"},
          row{R"([{"role":"robot","content":""}])", "input.0.role"},
          row{R"([{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])",
              "input.0.content.0"},
          row{R"([{"type":"function_call","name":"n","arguments":"{}"}])", "input.0.call_id"},
          row{R"([{"type":"function_call_output","call_id":"c"}])", "input.0.output"},
          row{R"([{"type":"of_tomorrow"}])", "input"}})
        EXPECT_EQ(refused(body("", one.input)).path, one.path) << one.input;
    EXPECT_EQ(refused(R"({"input":"Hi"})").path, "model");
    EXPECT_EQ(refused(R"({"model":"m"})").path, "input");
}

TEST(parse_response, more_items_than_the_limit_are_refused) {
    response_limits limits;
    limits.items_max = 2;
    const std::string item = R"({"role":"user","content":"x"})";
    EXPECT_TRUE(parse_response(body("", "[" + item + "," + item + "]"), limits));
    EXPECT_FALSE(parse_response(body("", "[" + item + "," + item + "," + item + "]"), limits));
}

}  // namespace
}  // namespace semantic::protocol::responses
