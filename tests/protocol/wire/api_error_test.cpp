// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/api_error.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <array>

#include "protocol/wire/public_text.hpp"

namespace semantic::protocol {
namespace {

using std::chrono::seconds;

struct row {
    errc code;
    int anthropic_status;
    const char* anthropic_type;
    int other_status;
    const char* openai_type;
    bool is_retried;
};

constexpr std::array<row, 19> table{{
    {errc::malformed_json, 400, "invalid_request_error", 400, "invalid_request_error", false},
    {errc::missing_field, 400, "invalid_request_error", 400, "invalid_request_error", false},
    {errc::bad_value, 400, "invalid_request_error", 400, "invalid_request_error", false},
    {errc::unsupported, 400, "invalid_request_error", 400, "invalid_request_error", false},
    {errc::prompt_too_long, 400, "invalid_request_error", 400, "invalid_request_error", false},
    {errc::body_too_large, 413, "request_too_large", 413, "invalid_request_error", false},
    {errc::unauthorized, 401, "authentication_error", 401, "invalid_request_error", false},
    {errc::forbidden, 403, "permission_error", 403, "invalid_request_error", false},
    {errc::not_found, 404, "not_found_error", 404, "invalid_request_error", false},
    {errc::method_not_allowed, 405, "invalid_request_error", 405, "invalid_request_error", false},
    {errc::request_timeout, 408, "timeout_error", 408, "invalid_request_error", false},
    {errc::conflict, 409, "conflict_error", 409, "invalid_request_error", false},
    {errc::rate_limited, 429, "rate_limit_error", 429, "rate_limit_error", true},
    {errc::overloaded, 529, "overloaded_error", 503, "server_error", true},
    {errc::cancelled, 503, "overloaded_error", 503, "server_error", true},
    {errc::timeout, 504, "timeout_error", 504, "server_error", false},
    {errc::shutting_down, 503, "overloaded_error", 503, "server_error", true},
    {errc::out_of_space, 507, "api_error", 507, "server_error", false},
    {errc::internal, 500, "api_error", 500, "server_error", false},
}};

TEST(api_error, every_kind_has_its_status_type_and_retry_advice_in_every_dialect) {
    for (const row& expected : table) {
        SCOPED_TRACE(to_string(expected.code));
        EXPECT_STRNE(to_string(expected.code), "unknown");
        EXPECT_EQ(http_status(dialect::anthropic, expected.code), expected.anthropic_status);
        EXPECT_EQ(http_status(dialect::openai, expected.code), expected.other_status);
        EXPECT_EQ(http_status(dialect::native, expected.code), expected.other_status);
        EXPECT_STREQ(error_type(dialect::anthropic, expected.code), expected.anthropic_type);
        EXPECT_STREQ(error_type(dialect::native, expected.code), expected.anthropic_type);
        EXPECT_STREQ(error_type(dialect::openai, expected.code), expected.openai_type);
        error_reply reply =
            make_error_reply(dialect::anthropic, {expected.code, "m", "", ""}, "req_1", seconds(7));
        EXPECT_EQ(reply.status, expected.anthropic_status);
        EXPECT_EQ(reply.retry_after,
                  expected.is_retried ? std::optional(seconds(7)) : std::nullopt);
        EXPECT_EQ(reply.should_retry, expected.is_retried ? std::optional(true) : std::nullopt);
    }
}

TEST(api_error, bodies_have_the_shape_of_their_dialect) {
    failure f{errc::bad_value, "max_tokens: must be \"1\"", "max_tokens", ""};
    EXPECT_EQ(error_body(dialect::anthropic, f, "req_1"),
              R"({"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: )"
              R"(must be \"1\""},"request_id":"req_1"})");
    EXPECT_EQ(error_body(dialect::openai, f, "req_1"),
              R"({"error":{"message":"max_tokens: must be \"1\"","type":"invalid_request_error",)"
              R"("param":"max_tokens","code":null}})");
    EXPECT_EQ(
        error_body(dialect::native, f, "req_1"),
        R"({"error":{"type":"invalid_request_error","message":"max_tokens: must be \"1\""}})");
}

TEST(api_error, absent_request_id_is_left_out) {
    EXPECT_EQ(error_body(dialect::anthropic, {errc::internal, "m", "", ""}, ""),
              R"({"type":"error","error":{"type":"api_error","message":"m"}})");
}

TEST(api_error, vendor_code_reaches_the_client) {
    failure f{errc::unsupported, "m", "thread", "thread_unsupported_request"};
    EXPECT_EQ(error_body(dialect::anthropic, f, ""),
              R"({"type":"error","error":{"type":"invalid_request_error","message":"m",)"
              R"("details":{"error_code":"thread_unsupported_request"}}})");
    EXPECT_EQ(error_body(dialect::openai, {errc::not_found, "m", "", "model_not_found"}, ""),
              R"({"error":{"message":"m","type":"invalid_request_error","param":null,)"
              R"("code":"model_not_found"}})");
}

TEST(api_error, openai_codes_are_the_vendors) {
    auto code_of = [](errc code) {
        auto body = boost::json::parse(error_body(dialect::openai, {code, "m", "", ""}, ""));
        return std::string(body.at("error").at("code").as_string());
    };
    EXPECT_EQ(code_of(errc::prompt_too_long), "context_length_exceeded");
    EXPECT_EQ(code_of(errc::unauthorized), "invalid_api_key");
    EXPECT_EQ(code_of(errc::rate_limited), "rate_limit_exceeded");
}

TEST(api_error, a_prompt_that_is_too_long_is_said_in_the_words_that_clients_compact_on) {
    engine::failed refused{engine::failure_kind::too_large, "needs 600, has 512"};
    refused.at_fault = engine::request_part::prompt;
    refused.excess = engine::prompt_excess{600, 512};
    auto error_of = [&](dialect d) {
        return boost::json::parse(error_body(d, from_engine(refused), "")).at("error");
    };
    EXPECT_EQ(error_of(dialect::anthropic).at("message").as_string(),
              "prompt is too long: 600 tokens > 511 maximum");
    EXPECT_EQ(error_of(dialect::anthropic).at("type").as_string(), "invalid_request_error");
    EXPECT_EQ(error_of(dialect::openai).at("message").as_string(),
              "This model's maximum context length is 512 tokens. However, your messages resulted "
              "in 600 tokens.");
    EXPECT_EQ(error_of(dialect::openai).at("code").as_string(), "context_length_exceeded");
    EXPECT_EQ(error_of(dialect::openai).at("param").as_string(), "messages");
    EXPECT_EQ(error_of(dialect::native).at("message").as_string(), "needs 600, has 512");
    EXPECT_EQ(error_of(dialect::ollama).as_string(),
              "prompt too long; exceeded max context length by 89 tokens");
    refused.excess->is_lower_bound = true;
    const std::string honest = " (the prompt has at least so many tokens, by its size)";
    EXPECT_EQ(error_of(dialect::anthropic).at("message").as_string(),
              "prompt is too long: 600 tokens > 511 maximum" + honest);
    EXPECT_TRUE(std::string(error_of(dialect::openai).at("message").as_string()).ends_with(honest));
}

TEST(api_error, a_refusal_by_the_engine_names_the_parameter_at_fault) {
    using engine::request_part;
    auto param_of = [](request_part part) {
        engine::failed refused{engine::failure_kind::bad_request, "no"};
        refused.at_fault = part;
        auto body = boost::json::parse(error_body(dialect::openai, from_engine(refused), ""));
        return body.at("error").at("param");
    };
    EXPECT_TRUE(param_of(request_part::unsaid).is_null());
    EXPECT_EQ(param_of(request_part::prompt).as_string(), "messages");
    EXPECT_EQ(param_of(request_part::form).as_string(), "response_format");
    EXPECT_EQ(param_of(request_part::tools).as_string(), "tools");
    EXPECT_EQ(param_of(request_part::biases).as_string(), "logit_bias");
    EXPECT_EQ(param_of(request_part::stop_tokens).as_string(), "stop_token_ids");
}

TEST(api_error, error_in_a_stream_is_a_named_event_except_for_openai) {
    failure f{errc::overloaded, "full", "", ""};
    EXPECT_EQ(error_event(dialect::anthropic, f, "req_1"),
              "event: error\ndata: "
              R"({"type":"error","error":{"type":"overloaded_error","message":"full"},)"
              R"("request_id":"req_1"})"
              "\n\n");
    EXPECT_EQ(
        error_event(dialect::openai, f, "req_1"),
        "data: "
        R"({"error":{"message":"full","type":"server_error","param":null,"code":"overloaded"}})"
        "\n\n");
}

TEST(api_error, message_with_a_line_break_stays_one_line_of_the_stream) {
    std::string bytes = error_event(dialect::anthropic, {errc::internal, "a\r\nb", "", ""}, "");
    EXPECT_EQ(bytes.find('\r'), std::string::npos);
    EXPECT_EQ(bytes.find("\n\n"), bytes.size() - 2);
}

TEST(failure, engine_and_store_failures_keep_their_sentence_and_find_their_kind) {
    using engine::failure_kind;
    EXPECT_EQ(from_engine({failure_kind::bad_request, "x"}).code, errc::bad_value);
    EXPECT_EQ(from_engine({failure_kind::too_large, "x"}).code, errc::prompt_too_long);
    EXPECT_EQ(from_engine({failure_kind::overloaded, "x"}).code, errc::overloaded);
    EXPECT_EQ(from_engine({failure_kind::internal, "x"}).code, errc::internal);
    EXPECT_EQ(from_engine({failure_kind::shutting_down, "x"}).code, errc::shutting_down);
    EXPECT_EQ(from_engine({failure_kind::internal, "disk on fire"}).message, "disk on fire");
    EXPECT_EQ(from_storage({storage::errc::not_found, "x"}).code, errc::not_found);
    EXPECT_EQ(from_storage({storage::errc::corrupt, "x"}).code, errc::internal);
    EXPECT_EQ(from_storage({storage::errc::incompatible, "x"}).code, errc::conflict);
    EXPECT_EQ(from_storage({storage::errc::io, "x"}).code, errc::internal);
    EXPECT_EQ(from_storage({storage::errc::out_of_space, "x"}).code, errc::out_of_space);
    EXPECT_EQ(from_storage({storage::errc::pool_exhausted, "x"}).code, errc::overloaded);
    EXPECT_EQ(from_storage({storage::errc::locked, "x"}).code, errc::internal);
    EXPECT_EQ(from_storage({storage::errc::bad_value, "why"}).message, "why");
}

TEST(api_error, no_fault_of_the_store_shows_a_client_a_path) {
    using storage::errc;
    for (const errc code :
         {errc::not_found, errc::corrupt, errc::incompatible, errc::io, errc::out_of_space,
          errc::pool_exhausted, errc::locked, errc::bad_value}) {
        for (const char* message : {"/srv/cache/agents/a.manifest: write: No space left on device",
                                    "caches/blocks/ab/abcd.safetensors: its checksum is wrong"}) {
            const failure told = from_storage({code, message});
            EXPECT_FALSE(told.message.empty());
            EXPECT_EQ(told.message.find('/'), std::string::npos) << told.message;
        }
    }
    EXPECT_EQ(from_storage({errc::io, "caches: fsync"}).message.find("caches"), std::string::npos);
    EXPECT_EQ(from_storage({errc::not_found, "no agent a"}).message, "no agent a");
    const failure broken =
        from_engine({engine::failure_kind::internal, "/srv/m/x.gguf: too short"});
    EXPECT_EQ(broken.message, "x.gguf: too short");
}

TEST(public_text, a_path_is_cut_down_to_its_last_name) {
    EXPECT_EQ(without_directories("/a/b/c.json: no"), "c.json: no");
    EXPECT_EQ(without_directories("cannot read '/a/b/c.json', nor caches/d/"),
              "cannot read 'c.json', nor d/");
    EXPECT_EQ(without_directories("nothing of the kind"), "nothing of the kind");
    EXPECT_EQ(without_directories(""), "");
    EXPECT_EQ(without_directories("/"), "/");
}

}  // namespace
}  // namespace semantic::protocol
