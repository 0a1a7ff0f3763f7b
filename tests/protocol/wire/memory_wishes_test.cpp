// SPDX-License-Identifier: Apache-2.0
// Goal: how long a client wants its memory kept is read from every wire that has a word for it.

#include "protocol/wire/memory_wishes.hpp"

#include <gtest/gtest.h>

#include <string>

#include "protocol/agents/generate.hpp"
#include "protocol/anthropic/messages.hpp"
#include "protocol/ollama/request.hpp"
#include "protocol/openai/chat.hpp"
#include "protocol/openai/completions.hpp"
#include "protocol/responses/request.hpp"

namespace semantic::protocol {
namespace {

using std::chrono::seconds;

TEST(lifetimes, are_a_number_and_a_unit) {
    EXPECT_EQ(parse_lifetime("30s"), seconds(30));
    EXPECT_EQ(parse_lifetime("5m"), seconds(300));
    EXPECT_EQ(parse_lifetime("12h"), seconds(43'200));
    EXPECT_EQ(parse_lifetime("3650d"), seconds(std::chrono::hours(24 * 3650)));
    for (const char* none : {"", "5", "m", "-5m", "5x", "5 m", "3651d", "99999999999999999999h",
                             "9223372036854775807d"})
        EXPECT_FALSE(parse_lifetime(none)) << none;
}

TEST(memory_wishes, of_messages_are_the_longest_of_all_blocks) {
    const auto kept = [](const std::string& messages, const std::string& more) {
        auto request = anthropic::parse_messages(R"({"model":"m","max_tokens":5,"messages":[)" +
                                                 messages + "]" + more + "}");
        EXPECT_TRUE(request) << request.error().message;
        return request->memory.keep_seconds;
    };
    const std::string five = R"("cache_control":{"type":"ephemeral","ttl":"5m"})";
    const std::string hour = R"("cache_control":{"type":"ephemeral","ttl":"1h"})";
    const std::string user = R"({"role":"user","content":"Hi"})";
    EXPECT_EQ(kept(user, ""), std::nullopt);
    EXPECT_EQ(kept(user, R"(,"cache_control":{"type":"ephemeral"})"), std::nullopt);
    EXPECT_EQ(kept(user, "," + five), seconds(300));
    EXPECT_EQ(kept(user, R"(,"system":[{"type":"text","text":"x",)" + hour + "}]," + five),
              seconds(3600));
    EXPECT_EQ(kept(user, R"(,"tools":[{"name":"a","input_schema":{},)" + hour + "}]"),
              seconds(3600));
    EXPECT_EQ(kept(R"({"role":"user","content":[{"type":"text","text":"x",)" + hour + "}]}", ""),
              seconds(3600));
}

TEST(memory_wishes, of_openai_are_its_lifetime_or_its_retention) {
    const auto of_response = [](const std::string& more) {
        auto request = responses::parse_response(R"({"model":"m","input":"Hi")" + more + "}");
        EXPECT_TRUE(request) << request.error().message;
        return request->memory.keep_seconds;
    };
    EXPECT_EQ(of_response(""), std::nullopt);
    EXPECT_EQ(of_response(R"(,"prompt_cache_options":{"mode":"explicit","ttl":"12h"})"),
              seconds(43'200));
    EXPECT_EQ(of_response(R"(,"prompt_cache_retention":"24h")"), seconds(86'400));
    EXPECT_EQ(of_response(R"(,"prompt_cache_retention":"in_memory")"), std::nullopt);
    auto chat = openai::parse_chat(R"({"model":"m","messages":[{"role":"user","content":"Hi"}],)"
                                   R"("prompt_cache_options":{"ttl":"30m"}})");
    ASSERT_TRUE(chat) << chat.error().message;
    EXPECT_EQ(chat->memory.keep_seconds, seconds(1800));
    EXPECT_EQ(chat->take_generation({}, {}).memory.keep_seconds, seconds(1800));
}

TEST(memory_wishes, of_memory_policy_come_before_those_of_the_wire_on_every_wire) {
    const std::string user = R"([{"role":"user","content":"Hi"}])";
    const auto all = [&](const std::string& policy) {
        const std::string more = R"(,"memory_policy":)" + policy + "}";
        std::vector<result<engine::memory_policy>> found;
        const auto add = [&](const auto& request) {
            found.push_back(request ? result<engine::memory_policy>(request->memory)
                                    : request.error());
        };
        add(anthropic::parse_messages(
            R"({"model":"m","max_tokens":5,"cache_control":{"type":"ephemeral","ttl":"5m"},)"
            R"("messages":)" +
            user + more));
        add(openai::parse_chat(R"({"model":"m","prompt_cache_retention":"24h","messages":)" + user +
                               more));
        add(openai::parse_completion(R"({"model":"m","prompt":"Hi")" + more));
        add(responses::parse_response(R"({"model":"m","input":"Hi")" + more));
        add(agents::parse_generate(R"({"prompt":"Hi")" + more));
        add(ollama::parse_chat(R"({"model":"m","messages":)" + user + more));
        return found;
    };
    for (const auto& each : all(R"({"keep":"1h","pin":true})"))
        EXPECT_EQ(each.value(), (engine::memory_policy{seconds(3600), true}));
    for (const auto& each : all(R"({"drop":true})"))
        EXPECT_EQ(each.value(), (engine::memory_policy{seconds(0), false}));
    EXPECT_EQ(all(R"({"pin":false})")[0].value(), (engine::memory_policy{seconds(300), false}));
    EXPECT_EQ(all("null")[1].value().keep_seconds, seconds(86'400));
    for (const char* bad :
         {R"({"keep":"soon"})", R"({"keep":-1})", R"({"pin":1})", "[]", R"("1h")",
          R"({"keep":"1h","drop":true})", R"({"pin":true,"drop":true})", R"({"prefetch":true})"})
        for (const auto& each : all(bad)) {
            ASSERT_FALSE(each) << bad;
            EXPECT_EQ(each.error().code, errc::bad_value) << bad;
            EXPECT_TRUE(each.error().path.starts_with("memory_policy")) << each.error().path;
        }
}

}  // namespace
}  // namespace semantic::protocol
