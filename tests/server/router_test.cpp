// SPDX-License-Identifier: Apache-2.0
#include "server/http/router.hpp"

#include <gtest/gtest.h>

#include "server/handlers/routes.hpp"

namespace semantic::server {
namespace {

struct routing_case {
    const char* method;
    const char* path;
    const char* pattern;  // "" when no route answers
    const char* parameter;
    const char* allow;
};

TEST(router, requests_find_their_rows) {
    const routing_case cases[]{
        {"GET", "/", "/", "", ""},
        {"HEAD", "/", "/", "", ""},
        {"GET", "/health", "/health", "", ""},
        {"GET", "/health/ready", "/health/ready", "", ""},
        {"POST", "/v1/messages", "/v1/messages", "", ""},
        {"POST", "/v1/messages/count_tokens", "/v1/messages/count_tokens", "", ""},
        {"GET", "/v1/models", "/v1/models", "", ""},
        {"GET", "/v1/models/abc", "/v1/models/{id...}", "abc", ""},
        {"GET", "/v1/models/a%2Fb", "/v1/models/{id...}", "a/b", ""},
        {"GET", "/v1/models/", "", "", ""},
        {"GET", "/v1/models/a/b", "/v1/models/{id...}", "a/b", ""},
        {"GET", "/v1/models/a/b/", "", "", ""},
        {"GET", "/v1/models//b", "", "", ""},
        {"GET", "/v1/agents/a/b", "", "", ""},
        {"GET", "/v1/messages", "", "", "POST"},
        {"DELETE", "/v1/models/x", "", "", "GET, HEAD"},
        {"POST", "/health", "", "", "GET, HEAD"},
        {"GET", "/nowhere", "", "", ""},
        {"GET", "/health/", "", "", ""},
        {"GET", "//", "", "", ""},
        {"GET", "", "", "", ""},
        {"GET", "*", "", "", ""},
    };
    for (const routing_case& one : cases) {
        route_match match = match_route(routes(), one.method, one.path);
        EXPECT_EQ(match.found != nullptr ? match.found->pattern : "", one.pattern) << one.path;
        EXPECT_EQ(match.parameter, one.parameter) << one.path;
        EXPECT_EQ(match.allow, one.allow) << one.path;
    }
}

TEST(router, every_row_has_exactly_one_handler) {
    for (const route& row : routes())
        EXPECT_NE(row.plain == nullptr, row.async == nullptr) << row.pattern;
}

TEST(router, only_probes_and_the_front_page_are_open) {
    for (const route& row : routes()) {
        bool is_of_llama_cpp = row.pattern == "/props" || row.pattern == "/slots";
        bool is_api = row.pattern.starts_with("/v1/") || is_of_llama_cpp || row.pattern == "/mcp";
        // Claude Code asks for it without a key before its first request.
        bool is_preflight = row.pattern == "/api/hello";
        bool is_other_api = row.pattern.starts_with("/api/") && !is_preflight;
        bool is_debug = row.pattern.starts_with("/debug/");  // looks, and takes no engine
        // Shows every tenant's texts, and takes no engine.
        bool is_feed = row.pattern == "/ws/kv-events";
        bool is_admin = row.pattern.starts_with("/admin/") || is_debug || is_feed;
        EXPECT_EQ(row.auth == auth_class::key, is_api || is_other_api) << row.pattern;
        EXPECT_EQ(row.auth == auth_class::admin, is_admin) << row.pattern;
        // Models are spoken of also while one takes another's place; a seed is no engine's.
        bool is_of_models = row.pattern.find("/models") != std::string_view::npos;
        // Counters have readers of their own.
        EXPECT_EQ(row.auth == auth_class::reader, row.pattern == "/metrics") << row.pattern;
        bool is_usage = row.pattern.ends_with("/usage");
        // A WebSocket takes one for each of its requests; no model embeds text.
        bool is_socket = row.pattern == "/v1/responses" && row.method == "GET";
        bool is_refused = row.pattern == "/v1/embeddings";
        bool needs_none = is_of_models || row.pattern == "/admin/seed" || is_debug || is_usage ||
                          is_socket || is_refused || is_feed || row.pattern == "/admin/nodes";
        bool answers = row.pattern == "/api/chat" || row.pattern == "/api/generate";
        bool is_with_engine = is_other_api ? answers : (is_api || is_admin) && !needs_none;
        EXPECT_EQ(row.engine != engine_need::none, is_with_engine) << row.pattern;
    }
}

TEST(router, errors_speak_the_dialect_of_the_path) {
    using protocol::dialect;
    EXPECT_EQ(dialect_of("/v1/messages", false), dialect::anthropic);
    EXPECT_EQ(dialect_of("/v1/messages/nowhere", false), dialect::anthropic);
    EXPECT_EQ(dialect_of("/v1/messagesx", false), dialect::native);
    EXPECT_EQ(dialect_of("/v1/chat/completions", false), dialect::openai);
    EXPECT_EQ(dialect_of("/v1/models/x", false), dialect::openai);
    EXPECT_EQ(dialect_of("/v1/models/x", true), dialect::anthropic);
    EXPECT_EQ(dialect_of("/health", false), dialect::native);
    EXPECT_EQ(dialect_of("/api/chat", false), dialect::ollama);
    EXPECT_EQ(dialect_of("/api/event_logging/batch", false), dialect::native);
    for (const char* path : {"/v1/files", "/v1/skills/x", "/v1", "/v1/nowhere/at/all"}) {
        EXPECT_EQ(dialect_of(path, true), dialect::anthropic) << path;
        EXPECT_EQ(dialect_of(path, false), dialect::native) << path;
    }
    EXPECT_EQ(dialect_of("/v1/agents/x", true), dialect::native);
    EXPECT_EQ(dialect_of("/health", true), dialect::native);
    EXPECT_EQ(dialect_of("/v1/chat/completions", true), dialect::openai);
}

TEST(request, query_parameters_are_decoded) {
    request one;
    one.target = "/v1/models?limit=5&after_id=a%2Fb%20c&flag&bad=%zz";
    EXPECT_EQ(one.query("limit"), "5");
    EXPECT_EQ(one.query("after_id"), "a/b c");
    EXPECT_EQ(one.query("flag"), "");
    EXPECT_EQ(one.query("bad"), "%zz");
    EXPECT_EQ(one.query("none"), std::nullopt);
}

TEST(request, well_formed_request_id_is_echoed_and_any_other_replaced) {
    request one;
    EXPECT_TRUE(request_id_of(one).starts_with("req_"));
    one.fields = {{"X-Request-Id", "abc-1.2_3"}};
    EXPECT_EQ(request_id_of(one), "abc-1.2_3");
    for (const std::string& bad :
         {std::string(), std::string("a b"), std::string("a\r\nb"), std::string(129, 'a')}) {
        one.fields = {{"x-request-id", bad}};
        EXPECT_TRUE(request_id_of(one).starts_with("req_")) << bad;
    }
    one.fields = {{"x-request-id", std::string(128, 'a')}};
    EXPECT_EQ(request_id_of(one), std::string(128, 'a'));
}

}  // namespace
}  // namespace semantic::server
