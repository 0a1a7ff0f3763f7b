// SPDX-License-Identifier: Apache-2.0
// The errors for a body that cannot be served, and every limit of a body exceeded by
// one.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/anthropic/messages.hpp"
#include "protocol/wire/api_error.hpp"

namespace semantic::protocol::anthropic {
namespace {

std::string body_with(const std::string& fields) {
    return R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"}],)" + fields +
           "}";
}
std::string saying(const std::string& messages) {
    return R"({"model":"m","max_tokens":5,"messages":)" + messages + "}";
}
std::string asking(const std::string& blocks) {
    return saying(R"([{"role":"user","content":[)" + blocks + "]}]");
}
std::string answering(const std::string& blocks) {
    return saying(R"([{"role":"assistant","content":[)" + blocks + "]}]");
}

struct bad_body {
    std::string body;
    errc code;
    std::string message;
};

void expect_refused(const std::vector<bad_body>& table) {
    for (const bad_body& bad : table) {
        SCOPED_TRACE(bad.body);
        auto request = parse_messages(bad.body);
        ASSERT_FALSE(request);
        EXPECT_EQ(request.error().code, bad.code) << to_string(request.error().code);
        EXPECT_EQ(request.error().message, bad.message);
        error_reply reply = make_error_reply(dialect::anthropic, request.error(), "req_1");
        EXPECT_EQ(reply.status, 400);
        auto error = boost::json::parse(reply.body).at("error");
        EXPECT_EQ(error.at("type").as_string(), "invalid_request_error");
        EXPECT_EQ(error.at("message").as_string(), bad.message);
    }
}

TEST(parse_messages, malformed_and_incomplete_bodies_are_400_with_the_path) {
    expect_refused({
        {"", errc::malformed_json, "the body is empty; a JSON object is expected"},
        {"{", errc::malformed_json, "the body is not valid JSON: incomplete JSON at byte 1"},
        {"[]", errc::bad_value, "the body: expected an object, found an array"},
        {"null", errc::bad_value, "the body: expected an object, found null"},
        {"{}", errc::missing_field, "model: field required"},
        {R"({"model":"m"})", errc::missing_field, "max_tokens: field required"},
        {R"({"model":"m","max_tokens":1})", errc::missing_field, "messages: field required"},
        {R"({"model":7})", errc::bad_value, "model: expected a string, found a number"},
        {R"({"model":null})", errc::bad_value, "model: expected a string, found null"},
        {R"({"model":""})", errc::bad_value, "model: must not be empty"},
        {R"({"model":"m","max_tokens":"9"})", errc::bad_value,
         "max_tokens: expected an integer, found a string"},
        {R"({"model":"m","max_tokens":1.5})", errc::bad_value,
         "max_tokens: expected an integer, found 1.5"},
        {R"({"model":"m","max_tokens":-2})", errc::bad_value,
         "max_tokens: must be between -1 and 1000000, is -2"},
        {R"({"model":"m","max_tokens":1000001})", errc::bad_value,
         "max_tokens: must be between -1 and 1000000, is 1000001"},
        {saying("{}"), errc::bad_value, "messages: expected an array, found an object"},
        {saying("[]"), errc::bad_value, "messages: at least one message is required"},
        {saying("[7]"), errc::bad_value, "messages.0: expected an object, found a number"},
        {saying("[{}]"), errc::missing_field, "messages.0.role: field required"},
        {saying(R"([{"role":"user"}])"), errc::missing_field, "messages.0.content: field required"},
        {saying(R"([{"role":"tool","content":"x"}])"), errc::bad_value,
         R"(messages.0.role: must be "user", "assistant" or "system", is "tool")"},
        {saying(R"([{"role":"user","content":"x"},{"role":"user","content":7}])"), errc::bad_value,
         "messages.1.content: expected a string or a list of content blocks, found a number"},
        {saying(R"([{"role":"system","content":7}])"), errc::bad_value,
         "messages.0.content: expected a string or a list of text blocks, found a number"},
    });
}

TEST(parse_messages, bad_blocks_are_400_with_the_path) {
    const std::string only_text = "only text is supported here, found a block of type ";
    const std::string no_image = "Could not process image: this model takes text only";
    const std::string no_pdf = "The PDF specified was not valid: this model takes text only";
    expect_refused({
        {asking("7"), errc::bad_value, "messages.0.content.0: expected an object, found a number"},
        {asking("{}"), errc::missing_field, "messages.0.content.0.type: field required"},
        {asking(R"({"type":"text"})"), errc::missing_field,
         "messages.0.content.0.text: field required"},
        {asking(R"({"type":"text","text":7})"), errc::bad_value,
         "messages.0.content.0.text: expected a string, found a number"},
        {asking(R"({"type":"image","source":{}})"), errc::unsupported,
         "messages.0.content.0: " + no_image},
        {asking(R"({"type":"text","text":"a"},{"type":"document"})"), errc::missing_field,
         "messages.0.content.1.source: field required"},
        {asking(R"({"type":"document","source":{"type":"base64","data":"JVBE"}})"),
         errc::unsupported, "messages.0.content.0: " + no_pdf},
        {asking(R"({"type":"document","source":{"type":"url","url":"x"}})"), errc::unsupported,
         "messages.0.content.0: " + no_pdf},
        {asking(R"({"type":"document","source":{"type":"file","file_id":"f"}})"), errc::unsupported,
         "messages.0.content.0: " + no_pdf},
        {asking(R"({"type":"document","source":{"type":"content","content":[{"type":"image"}]}})"),
         errc::unsupported, "messages.0.content.0.source.content.0: " + no_image},
        {asking(R"({"type":"document","source":{"type":"text"}})"), errc::missing_field,
         "messages.0.content.0.source.data: field required"},
        {asking(R"({"type":"search_result","source":"x","title":"t"})"), errc::missing_field,
         "messages.0.content.0.content: field required"},
        {answering(R"({"type":"search_result","content":[]})"), errc::bad_value,
         R"(messages.0.content.0: a block of type "search_result" belongs in a message of )"
         R"(role "user")"},
        {answering(R"({"type":"fallback"})"), errc::unsupported,
         "messages.0.content.0: " + only_text + "\"fallback\""},
        {asking(R"({"type":"tool_result","tool_use_id":"t","content":[{"type":"image"}]})"),
         errc::unsupported, "messages.0.content.0.content.0: " + no_image},
        {asking(R"({"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a"},)"
                R"({"type":"document","source":{"type":"base64"}}]})"),
         errc::unsupported, "messages.0.content.0.content.1: " + no_pdf},
        {asking(R"({"type":"tool_result","tool_use_id":"t","content":[{"type":"audio"}]})"),
         errc::unsupported, "messages.0.content.0.content.0: " + only_text + "\"audio\""},
        {asking(R"({"type":"tool_result"})"), errc::missing_field,
         "messages.0.content.0.tool_use_id: field required"},
        {asking(R"({"type":"tool_result","tool_use_id":"t","content":7})"), errc::bad_value,
         "messages.0.content.0.content: expected a string or a list of text blocks, found a "
         "number"},
        {asking(R"({"type":"tool_result","tool_use_id":"t","is_error":"no"})"), errc::bad_value,
         "messages.0.content.0.is_error: expected a boolean, found a string"},
        {asking(R"({"type":"tool_use","id":"t","name":"n","input":{}})"), errc::bad_value,
         R"(messages.0.content.0: a block of type "tool_use" belongs in a message of )"
         R"(role "assistant")"},
        {answering(R"({"type":"tool_result","tool_use_id":"t"})"), errc::bad_value,
         R"(messages.0.content.0: a block of type "tool_result" belongs in a message of )"
         R"(role "user")"},
        {asking(R"({"type":"thinking","thinking":"x"})"), errc::bad_value,
         R"(messages.0.content.0: a block of type "thinking" belongs in a message of )"
         R"(role "assistant")"},
        {answering(R"({"type":"thinking"})"), errc::missing_field,
         "messages.0.content.0.thinking: field required"},
        {answering(R"({"type":"tool_use","id":"","name":"n","input":{}})"), errc::bad_value,
         "messages.0.content.0.id: must not be empty"},
        {answering(R"({"type":"text","text":"The answer is "})"), errc::bad_value,
         "messages.0: final assistant content cannot end with trailing whitespace"},
        {answering(R"({"type":"tool_use","id":"t","name":"n","input":{}})"), errc::unsupported,
         "messages.0: an assistant message with tool calls cannot be continued; send their "
         "results"},
    });
}

TEST(parse_messages, bad_settings_are_400_with_the_path) {
    expect_refused({
        {body_with(R"("temperature":2.1)"), errc::bad_value,
         "temperature: must be between 0 and 2, is 2.1"},
        {body_with(R"("temperature":-0.1)"), errc::bad_value,
         "temperature: must be between 0 and 2, is -0.1"},
        {body_with(R"("temperature":"hot")"), errc::bad_value,
         "temperature: expected a number, found a string"},
        {body_with(R"("repetition_penalty":0)"), errc::bad_value,
         "repetition_penalty: must be greater than 0"},
        {body_with(R"("top_p":1.01)"), errc::bad_value, "top_p: must be between 0 and 1, is 1.01"},
        {body_with(R"("top_k":-2)"), errc::bad_value,
         "top_k: must be between -1 and 2147483647, is -2"},
        {body_with(R"("seed":-2)"), errc::bad_value,
         "seed: must be between -1 and 9223372036854775807, is -2"},
        {body_with(R"("stream":"yes")"), errc::bad_value,
         "stream: expected a boolean, found a string"},
        {body_with(R"("stop_sequences":"x")"), errc::bad_value,
         "stop_sequences: expected an array, found a string"},
        {body_with(R"("stop_sequences":[7])"), errc::bad_value,
         "stop_sequences.0: expected a string, found a number"},
        {body_with(R"("system":7)"), errc::bad_value,
         "system: expected a string or a list of text blocks, found a number"},
        {body_with(R"("system":[{"type":"image"}])"), errc::unsupported,
         "system.0: Could not process image: this model takes text only"},
        {body_with(R"("metadata":7)"), errc::bad_value,
         "metadata: expected an object, found a number"},
        {body_with(R"("metadata":{"user_id":7})"), errc::bad_value,
         "metadata.user_id: expected a string, found a number"},
        {body_with(R"("output_config":{"format":{"type":"json_schema"}})"), errc::missing_field,
         "output_config.format.schema: field required"},
        {body_with(R"("output_format":{"type":"json_schema","schema":7})"), errc::bad_value,
         "output_format.schema: expected an object, found a number"},
        {body_with(R"("output_format":{"type":"xml"})"), errc::bad_value,
         R"(output_format.type: must be "json_schema", is "xml")"},
        {body_with(R"("mcp_servers":[{"url":"x"}])"), errc::unsupported,
         "mcp_servers: this server does not call MCP servers"},
        {body_with(R"("tool_choice":{"type":"any"})"), errc::bad_value,
         "tool_choice.type: there are no tools to call"},
        {body_with(R"("tool_choice":{"type":"tool","name":"x"},)"
                   R"("tools":[{"name":"f","input_schema":{}}])"),
         errc::bad_value, "tool_choice.name: there is no tool 'x'"},
        {body_with(R"("tool_choice":{"type":"tool"})"), errc::missing_field,
         "tool_choice.name: field required"},
        {body_with(R"("tool_choice":{"type":"any"},"tools":[{"name":"f","input_schema":{}}],)"
                   R"("output_format":{"type":"json_schema","schema":{}})"),
         errc::bad_value,
         "tool_choice.type: an answer cannot be tool calls and a JSON text at once"},
        {body_with(R"("tools":[{"name":"f","input_schema":{},"strict":1}])"), errc::bad_value,
         "tools.0.strict: expected a boolean, found a number"},
        {body_with(R"("tool_choice":{"type":"maybe"})"), errc::bad_value,
         R"(tool_choice.type: must be "auto", "any", "tool" or "none")"},
        {body_with(R"("tool_choice":"auto")"), errc::bad_value,
         "tool_choice: expected an object, found a string"},
    });
}

TEST(parse_messages, bad_tools_are_400_with_the_path) {
    expect_refused({
        {body_with(R"("tools":{})"), errc::bad_value, "tools: expected an array, found an object"},
        {body_with(R"("tools":[7])"), errc::bad_value,
         "tools.0: expected an object, found a number"},
        {body_with(R"("tools":[{}])"), errc::missing_field, "tools.0.name: field required"},
        {body_with(R"("tools":[{"name":"a b","input_schema":{}}])"), errc::bad_value,
         "tools.0.name: may contain only letters, digits, - and _, is \"a b\""},
        {body_with(R"("tools":[{"name":"a"}])"), errc::missing_field,
         "tools.0.input_schema: field required"},
        {body_with(R"("tools":[{"name":"a","input_schema":[]}])"), errc::bad_value,
         "tools.0.input_schema: expected an object, found an array"},
        {body_with(R"("tools":[{"name":"a","description":7,"input_schema":{}}])"), errc::bad_value,
         "tools.0.description: expected a string, found a number"},
        {body_with(R"("tools":[{"name":"a","input_schema":{}},{"name":"a","input_schema":{}}])"),
         errc::bad_value, "tools.1.name: tool names must be unique, found \"a\" twice"},
        {body_with(R"("tools":[{"type":"bash_20250124"}])"), errc::missing_field,
         "tools.0.name: field required"},
    });
}

std::string continuing(const std::string& fields, const char* messages = R"([{"role":"user",)"
                                                                         R"("content":"Hi"}])") {
    return R"({"thread":{"type":"continue","previous_message_id":"msg_1"},"model":"m",)"
           R"("max_tokens":5,"messages":)" +
           std::string(messages) + fields + "}";
}

TEST(parse_messages, what_a_thread_cannot_take_is_refused_by_place) {
    struct row {
        std::string body;
        errc code;
        const char* message;
        const char* error_code;
    };
    const row rows[]{
        {R"({"thread":{"type":"fork"},"model":"m","max_tokens":5,"messages":[]})", errc::bad_value,
         "thread.type: must be \"create\" or \"continue\", is \"fork\"", ""},
        {R"({"thread":{},"model":"m","max_tokens":5,"messages":[]})", errc::missing_field,
         "thread.type: field required", ""},
        {R"({"thread":true,"model":"m","max_tokens":5,"messages":[]})", errc::bad_value,
         "thread: expected an object, found a boolean", ""},
        {R"({"thread":{"type":"continue"},"model":"m","max_tokens":5,"messages":[]})",
         errc::missing_field, "thread.previous_message_id: field required", ""},
        {continuing(R"(,"system":"S")"), errc::bad_value,
         "system: a thread keeps what it was created with; leave this out", ""},
        {continuing(R"(,"tools":[])"), errc::bad_value,
         "tools: a thread keeps what it was created with; leave this out", ""},
        {continuing("", "[]"), errc::bad_value,
         "messages: at least one message is required: no answer waits to be resumed", ""},
        {continuing(""), errc::not_found,
         "thread.previous_message_id: there is no thread with the answer \"msg_1\"",
         "thread_not_found"},
    };
    for (const row& one : rows) {
        auto request = parse_messages(one.body);
        ASSERT_FALSE(request) << one.body;
        EXPECT_EQ(request.error().code, one.code) << one.body;
        EXPECT_EQ(request.error().message, one.message) << one.body;
        EXPECT_EQ(request.error().error_code, one.error_code) << one.body;
    }
    error_reply reply = make_error_reply(dialect::anthropic, thread_not_found("msg_1"), "");
    EXPECT_EQ(reply.status, 404);
    EXPECT_EQ(reply.body, R"({"type":"error","error":{"type":"not_found_error","message":)"
                          R"("there is no thread with the answer \"msg_1\"",)"
                          R"("details":{"error_code":"thread_not_found"}}})");
}

TEST(parse_messages, long_text_of_the_client_is_cut_in_the_error) {
    auto request = parse_messages(saying(R"([{"role":")" + std::string(63, 'x') + "é" +
                                         std::string(1000, 'x') + R"(","content":"x"}])"));
    ASSERT_FALSE(request);
    EXPECT_EQ(request.error().message,
              R"(messages.0.role: must be "user", "assistant" or "system", is ")" +
                  std::string(63, 'x') + "…\"");
}

std::string repeated(const std::string& item, std::size_t count) {
    std::string list;
    for (std::size_t i = 0; i < count; ++i) list += (i ? "," : "") + item;
    return list;
}

/// `make(n)` is a body with n of something; `max` of them pass, one more is refused with `message`.
template <class Make>
void expect_limit(std::size_t max, const messages_limits& limits, const std::string& message,
                  Make make) {
    auto at_limit = parse_messages(make(max), limits);
    EXPECT_TRUE(at_limit) << at_limit.error().message;
    auto over = parse_messages(make(max + 1), limits);
    ASSERT_FALSE(over) << message;
    EXPECT_EQ(over.error().message, message);
    EXPECT_EQ(over.error().code, errc::bad_value);
}

TEST(messages_limits, every_list_is_accepted_at_its_limit_and_refused_one_above) {
    messages_limits limits;
    limits.messages_max = 3;
    limits.blocks_per_message_max = 4;
    limits.tools_max = 2;
    expect_limit(3, limits, "messages: may have 3 items, has 4", [](std::size_t n) {
        return saying("[" + repeated(R"({"role":"user","content":"x"})", n) + "]");
    });
    expect_limit(4, limits, "messages.0.content: may have 4 items, has 5", [](std::size_t n) {
        return asking(repeated(R"({"type":"text","text":"x"})", n));
    });
    expect_limit(4, limits, "system: may have 4 items, has 5", [](std::size_t n) {
        return body_with("\"system\":[" + repeated(R"({"type":"text","text":"x"})", n) + "]");
    });
    expect_limit(2, limits, "tools: may have 2 items, has 3", [](std::size_t n) {
        std::string tools;
        for (std::size_t i = 0; i < n; ++i)
            tools += std::string(i ? "," : "") + R"({"input_schema":{},"name":"t)" +
                     std::to_string(i) + "\"}";
        return body_with("\"tools\":[" + tools + "]");
    });
}

TEST(messages_limits, every_name_is_accepted_at_its_length_and_refused_one_byte_longer) {
    expect_limit(128, {}, "tools.0.name: may have 128 bytes, has 129", [](std::size_t n) {
        return body_with(R"("tools":[{"input_schema":{},"name":")" + std::string(n, 'a') + "\"}]");
    });
    expect_limit(512, {}, "model: may have 512 bytes, has 513", [](std::size_t n) {
        return R"({"max_tokens":5,"messages":[{"role":"user","content":"Hi"}],"model":")" +
               std::string(n, 'a') + "\"}";
    });
    expect_limit(512, {}, "metadata.user_id: may have 512 bytes, has 513", [](std::size_t n) {
        return body_with(R"("metadata":{"user_id":")" + std::string(n, 'a') + "\"}");
    });
    expect_limit(
        65'536, {}, "messages.0.content.0.tool_use_id: may have 65536 bytes, has 65537",
        [](std::size_t n) {
            return asking(R"({"type":"tool_result","tool_use_id":")" + std::string(n, 'a') + "\"}");
        });
    expect_limit(1024, {}, "stop_sequences.0: may have 1024 bytes, has 1025", [](std::size_t n) {
        return body_with("\"stop_sequences\":[\"" + std::string(n, 'a') + "\"]");
    });
}

TEST(messages_limits, greatest_max_tokens_passes) {
    EXPECT_TRUE(parse_messages(
        R"({"model":"m","max_tokens":1000000,"messages":[{"role":"user","content":"Hi"}]})"));
}

TEST(messages_limits, body_one_byte_over_its_limit_is_413) {
    messages_limits limits;
    std::string body = body_with(R"("x":1)");
    limits.json.bytes_max = body.size();
    EXPECT_TRUE(parse_messages(body, limits));
    auto over = parse_messages(body + " ", limits);
    ASSERT_FALSE(over);
    EXPECT_EQ(make_error_reply(dialect::anthropic, over.error(), "").status, 413);
}

}  // namespace
}  // namespace semantic::protocol::anthropic
