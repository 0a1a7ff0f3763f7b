// SPDX-License-Identifier: Apache-2.0
// The errors for a body that cannot be served, and every limit of a body exceeded by
// one.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/openai/chat.hpp"
#include "protocol/wire/api_error.hpp"

namespace semantic::protocol::openai {
namespace {

std::string body_with(const std::string& fields) {
    return R"({"model":"m","messages":[{"role":"user","content":"Hi"}],)" + fields + "}";
}
std::string saying(const std::string& messages) {
    return R"({"model":"m","messages":)" + messages + "}";
}
std::string asking(const std::string& parts) {
    return saying(R"([{"role":"user","content":[)" + parts + "]}]");
}
std::string calling(const std::string& calls) {
    return saying(R"([{"role":"assistant","content":null,"tool_calls":)" + calls + "}]");
}

struct bad_body {
    std::string body;
    errc code;
    std::string param;     // empty: null
    std::string sentence;  // after "PARAM: "
};

void expect_refused(const std::vector<bad_body>& table) {
    for (const bad_body& bad : table) {
        SCOPED_TRACE(bad.body);
        auto request = parse_chat(bad.body);
        ASSERT_FALSE(request);
        EXPECT_EQ(request.error().code, bad.code) << to_string(request.error().code);
        error_reply reply = make_error_reply(dialect::openai, request.error(), "req_1");
        EXPECT_EQ(reply.status, 400);
        auto error = boost::json::parse(reply.body).at("error");
        EXPECT_EQ(error.at("type").as_string(), "invalid_request_error");
        if (bad.param.empty()) {
            EXPECT_TRUE(error.at("param").is_null());
            EXPECT_EQ(error.at("message").as_string(), bad.sentence);
        } else {
            EXPECT_EQ(error.at("param").as_string(), bad.param);
            EXPECT_EQ(error.at("message").as_string(), bad.param + ": " + bad.sentence);
        }
        EXPECT_EQ(error.at("code").is_null(), bad.code != errc::unsupported);
    }
}

constexpr auto bad = errc::bad_value;
constexpr auto unsupported = errc::unsupported;
constexpr auto missing = errc::missing_field;

TEST(parse_chat, malformed_and_incomplete_bodies_are_400_with_the_path) {
    expect_refused({
        {"", errc::malformed_json, "", "the body is empty; a JSON object is expected"},
        {"{", errc::malformed_json, "", "the body is not valid JSON: incomplete JSON at byte 1"},
        {"[]", bad, "", "the body: expected an object, found an array"},
        {"{}", missing, "model", "field required"},
        {R"({"model":"m"})", missing, "messages", "field required"},
        {R"({"model":7})", bad, "model", "expected a string, found a number"},
        {R"({"model":""})", bad, "model", "must not be empty"},
        {saying("{}"), bad, "messages", "expected an array, found an object"},
        {saying("[]"), bad, "messages", "at least one message is required"},
        {saying("[7]"), bad, "messages.0", "expected an object, found a number"},
        {saying("[{}]"), missing, "messages.0.role", "field required"},
        {saying(R"([{"role":"cat","content":"x"}])"), bad, "messages.0.role",
         R"(must be "system", "developer", "user", "assistant", "tool" or "function", is "cat")"},
        {saying(R"([{"role":"user"}])"), missing, "messages.0.content", "field required"},
        {saying(R"([{"role":"system"}])"), missing, "messages.0.content", "field required"},
        {saying(R"([{"role":"user","content":null}])"), bad, "messages.0.content",
         "expected a string or a list of text parts, found null"},
        {saying(R"([{"role":"user","content":"x"},{"role":"assistant","content":7}])"), bad,
         "messages.1.content", "expected a string or a list of text parts, found a number"},
        {saying(R"([{"role":"assistant","refusal":7}])"), bad, "messages.0.refusal",
         "expected a string, found a number"},
    });
}

TEST(parse_chat, parts_other_than_text_are_400_with_the_path) {
    const std::string only_text = "only text is supported here, found a part of type ";
    expect_refused({
        {asking("7"), bad, "messages.0.content.0", "expected an object, found a number"},
        {asking("{}"), missing, "messages.0.content.0.type", "field required"},
        {asking(R"({"type":"text"})"), missing, "messages.0.content.0.text", "field required"},
        {asking(R"({"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}})"),
         unsupported, "messages.0.content.1",
         "Could not process image: this model takes text only"},
        {asking(R"({"type":"input_audio","input_audio":{}})"), unsupported, "messages.0.content.0",
         only_text + "\"input_audio\""},
        {asking(R"({"type":"refusal","refusal":"no"})"), unsupported, "messages.0.content.0",
         only_text + "\"refusal\""},
        {saying(R"([{"role":"tool","tool_call_id":"c","content":[{"type":"file"}]}])"), unsupported,
         "messages.0.content.0", only_text + "\"file\""},
    });
}

TEST(parse_chat, bad_calls_and_results_are_400_with_the_path) {
    const std::string function = "messages.0.tool_calls.0.function";
    expect_refused({
        {saying(R"([{"role":"tool","content":"x"}])"), missing, "messages.0.tool_call_id",
         "field required"},
        {saying(R"([{"role":"tool","tool_call_id":"","content":"x"}])"), bad,
         "messages.0.tool_call_id", "must not be empty"},
        {saying(R"([{"role":"tool","tool_call_id":"c"}])"), missing, "messages.0.content",
         "field required"},
        {saying(R"([{"role":"function","content":"x"}])"), missing, "messages.0.name",
         "field required"},
        {saying(R"([{"role":"user","content":"x","tool_calls":[]}])"), bad, "messages.0.tool_calls",
         R"(belong in a message of role "assistant")"},
        {calling("{}"), bad, "messages.0.tool_calls", "expected an array, found an object"},
        {calling("[7]"), bad, "messages.0.tool_calls.0", "expected an object, found a number"},
        {calling("[{}]"), missing, function, "field required"},
        {calling(R"([{"id":"c"}])"), missing, function, "field required"},
        {calling(R"([{"id":"c","function":{}}])"), missing, function + ".name", "field required"},
    });
}

TEST(parse_chat, settings_that_cannot_be_honoured_are_refused_and_never_ignored) {
    expect_refused({
        {body_with(R"("response_format":{"type":"json_schema","json_schema":{}})"), missing,
         "response_format.json_schema.schema", "field required"},
        {body_with(R"("response_format":{"type":"json_schema","json_schema":{"schema":[]}})"), bad,
         "response_format.json_schema.schema", "expected an object, found an array"},
        {body_with(R"("tool_choice":"required")"), bad, "tool_choice",
         "there are no tools to call"},
        {body_with(R"("tool_choice":{"type":"function","function":{"name":"f"}})"), bad,
         "tool_choice", "there are no tools to call"},
        {body_with(R"("tool_choice":{"type":"function","function":{"name":"f"}},)"
                   R"("tools":[{"type":"function","function":{"name":"g"}}])"),
         bad, "tool_choice", "there is no tool 'f'"},
        {body_with(R"("tool_choice":{"type":"web_search"})"), unsupported, "tool_choice.type",
         "only \"function\" and \"custom\" are supported, found \"web_search\""},
        {body_with(R"("tool_choice":{"type":"custom"})"), missing, "tool_choice.custom",
         "field required"},
        {body_with(R"("tools":[{"type":"custom"}])"), missing, "tools.0.custom", "field required"},
        {body_with(R"("tools":[{"type":"custom","custom":{"name":"f"}},)"
                   R"({"type":"function","function":{"name":"f"}}])"),
         bad, "tools.1.function.name", "tool names must be unique, found \"f\" twice"},
        {body_with(R"("modalities":["text","audio"])"), unsupported, "modalities.1",
         "only \"text\" is supported, found \"audio\""},
        {body_with(R"("audio":{"voice":"x"})"), unsupported, "audio", "audio is not supported"},
        {body_with(R"("web_search_options":{})"), unsupported, "web_search_options",
         "this server does not search the web"},
        {body_with(R"("functions":[{"name":"f"}])"), unsupported, "functions",
         "functions are not supported; send them as tools"},
    });
}

TEST(parse_chat, bad_sampling_rules_are_400_with_the_path) {
    expect_refused({
        {body_with(R"("temperature":2.1)"), bad, "temperature", "must be between 0 and 2, is 2.1"},
        {body_with(R"("temperature":-0.1)"), bad, "temperature",
         "must be between 0 and 2, is -0.1"},
        {body_with(R"("temperature":"hot")"), bad, "temperature",
         "expected a number, found a string"},
        {body_with(R"("top_p":1.01)"), bad, "top_p", "must be between 0 and 1, is 1.01"},
        {body_with(R"("top_k":-2)"), bad, "top_k", "must be between -1 and 2147483647, is -2"},
        {body_with(R"("seed":1.5)"), bad, "seed", "expected an integer, found 1.5"},
        {body_with(R"("min_p":-0.01)"), bad, "min_p", "must be between 0 and 1, is -0.01"},
        {body_with(R"("min_p":1.01)"), bad, "min_p", "must be between 0 and 1, is 1.01"},
        {body_with(R"("repetition_penalty":0)"), bad, "repetition_penalty",
         "must be greater than 0"},
        {body_with(R"("repetition_penalty":2.01)"), bad, "repetition_penalty",
         "must be between 0 and 2, is 2.01"},
        {body_with(R"("frequency_penalty":-2.01)"), bad, "frequency_penalty",
         "must be between -2 and 2, is -2.01"},
        {body_with(R"("presence_penalty":2.01)"), bad, "presence_penalty",
         "must be between -2 and 2, is 2.01"},
        {body_with(R"("logit_bias":{"7":100.5})"), bad, "logit_bias.7",
         "must be between -100 and 100, is 100.5"},
        {body_with(R"("logit_bias":{"7":-101})"), bad, "logit_bias.7",
         "must be between -100 and 100, is -101"},
        {body_with(R"("logit_bias":{"7":"x"})"), bad, "logit_bias.7",
         "expected a number, found a string"},
        {body_with(R"("logit_bias":{"dog":1})"), bad, "logit_bias", "\"dog\" is no token id"},
        {body_with(R"("logit_bias":{"-1":1})"), bad, "logit_bias", "\"-1\" is no token id"},
        {body_with(R"("logit_bias":{"":1})"), bad, "logit_bias", "\"\" is no token id"},
        {body_with(R"("logit_bias":{"1 ":1})"), bad, "logit_bias", "\"1 \" is no token id"},
        {body_with(R"("logit_bias":{"2147483648":1})"), bad, "logit_bias",
         "\"2147483648\" is no token id"},
        {body_with(R"("logit_bias":[])"), bad, "logit_bias", "expected an object, found an array"},
        {body_with(R"("frequency_penalty":2.5)"), bad, "frequency_penalty",
         "must be between -2 and 2, is 2.5"},
        {body_with(R"("presence_penalty":"x")"), bad, "presence_penalty",
         "expected a number, found a string"},
    });
}

TEST(parse_chat, bad_settings_are_400_with_the_path) {
    expect_refused({
        {body_with(R"("n":0)"), bad, "n", "must be between 1 and 128, is 0"},
        {body_with(R"("n":129)"), bad, "n", "must be between 1 and 128, is 129"},
        {body_with(R"("logprobs":1)"), bad, "logprobs", "expected a boolean, found a number"},
        {body_with(R"("top_logprobs":21)"), bad, "top_logprobs", "must be between 0 and 20, is 21"},
        {body_with(R"("top_logprobs":1)"), bad, "top_logprobs",
         "may be given only when logprobs is true"},
        {body_with(R"("logprobs":false,"top_logprobs":20)"), bad, "top_logprobs",
         "may be given only when logprobs is true"},
        {body_with(R"("logprobs":true,"top_logprobs":21)"), bad, "top_logprobs",
         "must be between 0 and 20, is 21"},
        {body_with(R"("response_format":"text")"), bad, "response_format",
         "expected an object, found a string"},
        {body_with(R"("response_format":{"type":"xml"})"), bad, "response_format.type",
         R"(must be "text", "json_object" or "json_schema")"},
        {body_with(R"("stream":"yes")"), bad, "stream", "expected a boolean, found a string"},
        {body_with(R"("stream_options":true)"), bad, "stream_options",
         "expected an object, found a boolean"},
        {body_with(R"("stream_options":{"include_usage":1})"), bad, "stream_options.include_usage",
         "expected a boolean, found a number"},
        {body_with(R"("stop":7)"), bad, "stop",
         "expected a string or a list of strings, found a number"},
        {body_with(R"("max_tokens":-2)"), bad, "max_tokens",
         "must be between -1 and 1000000, is -2"},
        {body_with(R"("max_completion_tokens":1000001)"), bad, "max_completion_tokens",
         "must be between -1 and 1000000, is 1000001"},
        {body_with(R"("max_completion_tokens":8,"max_tokens":9)"), bad, "max_tokens",
         "contradicts max_completion_tokens, which is 8; this one is 9"},
        {body_with(R"("parallel_tool_calls":"no")"), bad, "parallel_tool_calls",
         "expected a boolean, found a string"},
        {body_with(R"("tool_choice":"maybe")"), bad, "tool_choice",
         R"(must be "none", "auto", "required" or an object, is "maybe")"},
        {body_with(R"("tool_choice":7)"), bad, "tool_choice", "expected a string, found a number"},
        {body_with(R"("modalities":"text")"), bad, "modalities",
         "expected an array, found a string"},
        {body_with(R"("modalities":[7])"), bad, "modalities.0",
         "expected a string, found a number"},
        {body_with(R"("functions":{})"), bad, "functions", "expected an array, found an object"},
    });
}

TEST(parse_chat, bad_tools_are_400_with_the_path) {
    auto tool = [](const std::string& function) {
        return body_with(R"("tools":[{"type":"function","function":)" + function + "}]");
    };
    expect_refused({
        {body_with(R"("tools":{})"), bad, "tools", "expected an array, found an object"},
        {body_with(R"("tools":[7])"), bad, "tools.0", "expected an object, found a number"},
        {body_with(R"("tools":[{}])"), missing, "tools.0.type", "field required"},
        {body_with(R"("tools":[{"type":"function"}])"), missing, "tools.0.function",
         "field required"},
        {tool("7"), bad, "tools.0.function", "expected an object, found a number"},
        {tool("{}"), missing, "tools.0.function.name", "field required"},
        {tool(R"({"name":"a b"})"), bad, "tools.0.function.name",
         "may contain only letters, digits, - and _, is \"a b\""},
        {tool(R"({"name":"a","description":7})"), bad, "tools.0.function.description",
         "expected a string, found a number"},
        {tool(R"({"name":"a","parameters":[]})"), bad, "tools.0.function.parameters",
         "expected an object, found an array"},
        {body_with(R"("tools":[{"type":"function","function":{"name":"a"}},)"
                   R"({"type":"function","function":{"name":"a"}}])"),
         bad, "tools.1.function.name", "tool names must be unique, found \"a\" twice"},
    });
}

TEST(parse_chat, session_ids_that_are_no_agent_ids_are_refused) {
    const std::string characters =
        "an agent id may contain only letters, digits and . _ : - (ASCII)";
    expect_refused({
        {body_with(R"("session_id":"a b")"), bad, "session_id", characters},
        {body_with(R"("session_id":"../x")"), bad, "session_id", characters},
        {body_with(R"("session_id":"é")"), bad, "session_id", characters},
        {body_with(R"("session_id":"a\u0000b")"), bad, "session_id", characters},
        {body_with(R"("session_id":"")"), bad, "session_id", "must not be empty"},
        {body_with(R"("session_id":7)"), bad, "session_id", "expected a string, found a number"},
    });
}

std::string repeated(const std::string& item, std::size_t count) {
    std::string list;
    for (std::size_t i = 0; i < count; ++i) list += (i ? "," : "") + item;
    return list;
}

/// `make(n)` is a body with n of something; `max` of them pass, one more is refused with `message`.
template <class Make>
void expect_limit(std::size_t max, const chat_limits& limits, const std::string& message,
                  Make make) {
    auto at_limit = parse_chat(make(max), limits);
    EXPECT_TRUE(at_limit) << at_limit.error().message;
    auto over = parse_chat(make(max + 1), limits);
    ASSERT_FALSE(over) << message;
    EXPECT_EQ(over.error().message, message);
    EXPECT_EQ(over.error().code, errc::bad_value);
}

TEST(chat_limits, every_list_is_accepted_at_its_limit_and_refused_one_above) {
    chat_limits limits;
    limits.messages_max = 3;
    limits.parts_per_message_max = 4;
    limits.tool_calls_per_message_max = 5;
    limits.tools_max = 2;
    expect_limit(3, limits, "messages: may have 3 items, has 4", [](std::size_t n) {
        return saying("[" + repeated(R"({"role":"user","content":"x"})", n) + "]");
    });
    expect_limit(4, limits, "messages.0.content: may have 4 items, has 5", [](std::size_t n) {
        return asking(repeated(R"({"type":"text","text":"x"})", n));
    });
    expect_limit(5, limits, "messages.0.tool_calls: may have 5 items, has 6", [](std::size_t n) {
        return calling("[" + repeated(R"({"id":"c","function":{"name":"f","arguments":"{}"}})", n) +
                       "]");
    });
    expect_limit(2, limits, "tools: may have 2 items, has 3", [](std::size_t n) {
        std::string tools;
        for (std::size_t i = 0; i < n; ++i)
            tools += std::string(i ? "," : "") + R"({"type":"function","function":{"name":"t)" +
                     std::to_string(i) + "\"}}";
        return body_with("\"tools\":[" + tools + "]");
    });
    expect_limit(1024, {}, "logit_bias: may have 1024 items, has 1025", [](std::size_t n) {
        std::string biases;
        for (std::size_t i = 0; i < n; ++i)
            biases += (i ? ",\"" : "\"") + std::to_string(i) + "\":1";
        return body_with("\"logit_bias\":{" + biases + "}");
    });
}

TEST(chat_limits, every_name_is_accepted_at_its_length_and_refused_one_byte_longer) {
    expect_limit(128, {}, "tools.0.function.name: may have 128 bytes, has 129", [](std::size_t n) {
        return body_with(R"("tools":[{"type":"function","function":{"name":")" +
                         std::string(n, 'a') + "\"}}]");
    });
    expect_limit(128, {}, "messages.0.tool_calls.0.function.name: may have 128 bytes, has 129",
                 [](std::size_t n) {
                     return calling(R"([{"id":"c","function":{"arguments":"{}","name":")" +
                                    std::string(n, 'a') + "\"}}]");
                 });
    expect_limit(65'536, {}, "messages.0.tool_calls.0.id: may have 65536 bytes, has 65537",
                 [](std::size_t n) {
                     return calling(R"([{"function":{"arguments":"{}","name":"f"},"id":")" +
                                    std::string(n, 'a') + "\"}]");
                 });
    expect_limit(65'536, {}, "messages.0.tool_call_id: may have 65536 bytes, has 65537",
                 [](std::size_t n) {
                     return saying(R"([{"role":"tool","content":"x","tool_call_id":")" +
                                   std::string(n, 'a') + "\"}]");
                 });
    expect_limit(512, {}, "model: may have 512 bytes, has 513", [](std::size_t n) {
        return R"({"messages":[{"role":"user","content":"Hi"}],"model":")" + std::string(n, 'a') +
               "\"}";
    });
    expect_limit(1024, {}, "stop: may have 1024 bytes, has 1025", [](std::size_t n) {
        return body_with("\"stop\":\"" + std::string(n, 'a') + "\"");
    });
    expect_limit(1024, {}, "stop.0: may have 1024 bytes, has 1025", [](std::size_t n) {
        return body_with("\"stop\":[\"" + std::string(n, 'a') + "\"]");
    });
    expect_limit(
        124, {}, "session_id: an agent id may have 128 characters, this one has 129",
        [](std::size_t n) { return body_with("\"session_id\":\"" + std::string(n, 'a') + "\""); });
}

TEST(chat_limits, greatest_max_tokens_passes) {
    EXPECT_TRUE(parse_chat(body_with(R"("max_completion_tokens":1000000)")));
}

TEST(chat_limits, arguments_that_nest_deeper_than_the_limit_stay_as_they_are_written) {
    chat_limits limits;
    limits.json.depth_max = 8;
    auto nested = [](std::size_t depth) {
        return calling(R"([{"id":"c","function":{"name":"f","arguments":"{\"a\": )" +
                       std::string(depth - 1, '[') + std::string(depth - 1, ']') + R"(}"}}])");
    };
    const auto arguments = [&](std::size_t depth) {
        auto request = parse_chat(nested(depth), limits);
        EXPECT_TRUE(request) << depth;
        return std::get<engine::tool_call_part>(request->chat.messages.at(0).parts.at(0))
            .arguments_json;
    };
    EXPECT_EQ(arguments(8), R"({"a":[[[[[[[]]]]]]]})");
    EXPECT_EQ(arguments(9), R"({"a": [[[[[[[[]]]]]]]]})");
}

TEST(chat_limits, body_one_byte_over_its_limit_is_413) {
    chat_limits limits;
    std::string body = body_with(R"("x":1)");
    limits.json.bytes_max = body.size();
    EXPECT_TRUE(parse_chat(body, limits));
    auto over = parse_chat(body + " ", limits);
    ASSERT_FALSE(over);
    EXPECT_EQ(make_error_reply(dialect::openai, over.error(), "").status, 413);
}

}  // namespace
}  // namespace semantic::protocol::openai
