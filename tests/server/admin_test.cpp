// SPDX-License-Identifier: Apache-2.0
// /admin over real sockets: who may, and what it does.

#include <gtest/gtest.h>

#include "server/handlers/routes.hpp"
#include "server/http/middleware.hpp"
#include "storage/files/checksum.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::answer_with;
using tests::get;
using tests::http_client;
using tests::http_reply;
using tests::post;

struct access_case {
    const char* host;
    std::vector<std::string> api_keys;
    const char* admin_key;
    std::vector<std::pair<std::string, std::string>> fields;
    int status;  // 0: may
};

TEST(refuse_admin, only_the_key_or_a_lone_user_of_this_machine_may) {
    const access_case cases[]{
        {"127.0.0.1", {}, "", {}, 0},
        {"localhost", {}, "", {}, 0},
        {"::1", {}, "", {}, 0},
        {"0.0.0.0", {}, "", {}, 403},
        {"192.168.1.2", {}, "", {}, 403},
        {"127.0.0.1", {"k"}, "", {}, 403},
        {"127.0.0.1", {"k"}, "", {{"x-api-key", "k"}}, 403},
        {"127.0.0.1", {}, "", {{"origin", "http://evil.example"}}, 403},
        {"127.0.0.1", {}, "s3cret", {}, 401},
        {"127.0.0.1", {}, "s3cret", {{"x-admin-key", "s3cre"}}, 401},
        {"127.0.0.1", {}, "s3cret", {{"x-admin-key", "s3crets"}}, 401},
        {"127.0.0.1", {}, "s3cret", {{"x-api-key", "s3cret"}}, 401},
        {"0.0.0.0", {"k"}, "s3cret", {{"X-Admin-Key", "s3cret"}}, 0},
        {"127.0.0.1", {}, "s3cret", {{"x-admin-key", "s3cret"}, {"origin", "http://a"}}, 0},
        {"127.0.0.1", {}, "", {{"host", "LOCALHOST"}}, 0},
        {"127.0.0.1", {}, "", {{"host", "[::1]:8001"}}, 0},
        {"127.0.0.1", {}, "", {{"host", "semantic.example"}}, 403},
        {"127.0.0.1", {}, "", {{"host", "localhost.semantic.example"}}, 403},
        {"127.0.0.1", {}, "", {{"host", "192.168.1.2"}}, 403},
        {"127.0.0.1", {}, "", {{"host", ""}}, 403},
        {"127.0.0.1", {}, "", {{"x-forwarded-for", "203.0.113.1"}}, 403},
        {"127.0.0.1", {}, "", {{"Forwarded", "for=203.0.113.1"}}, 403},
        {"127.0.0.1", {}, "", {{"X-Real-IP", "203.0.113.1"}}, 403},
        {"127.0.0.1", {}, "", {{"via", "1.1 proxy"}}, 403},
        {"127.0.0.1",
         {},
         "s3cret",
         {{"host", "semantic.example"}, {"via", "1.1 proxy"}, {"x-admin-key", "s3cret"}},
         0},
    };
    for (const access_case& one : cases) {
        config settings;
        settings.host = one.host;
        settings.api_keys = one.api_keys;
        settings.admin_key = one.admin_key;
        request incoming;
        incoming.fields = one.fields;
        if (!incoming.field("host")) incoming.fields.emplace_back("host", "localhost:8001");
        auto refused = refuse_admin(settings, incoming);
        EXPECT_EQ(refused ? refused->status : 0, one.status)
            << one.host << " " << one.admin_key << " " << one.fields.size();
    }
}

TEST(refuse_admin, a_target_in_absolute_form_names_the_host) {
    config settings;
    request incoming;
    incoming.fields = {{"host", "localhost"}};
    incoming.target = "http://semantic.example/admin/usage";
    EXPECT_TRUE(refuse_admin(settings, incoming));
    incoming.target = "http://localhost:1/admin/usage";
    EXPECT_FALSE(refuse_admin(settings, incoming));
    incoming.target = "/admin/usage";
    incoming.fields.clear();
    EXPECT_TRUE(refuse_admin(settings, incoming)) << "of before HTTP/1.1: it may come from a proxy";
}

TEST(refuse_admin, whatever_is_for_administrators_asks_for_one) {
    int found = 0;
    for (const route& each : routes()) {
        const bool is_theirs = each.pattern.starts_with("/admin") ||
                               each.pattern.starts_with("/debug") ||
                               each.pattern == "/ws/kv-events";
        EXPECT_EQ(each.auth == auth_class::admin, is_theirs) << each.pattern;
        found += is_theirs ? 1 : 0;
    }
    EXPECT_GT(found, 8);
}

std::string delete_line(const std::string& target) {
    return "DELETE " + target + " HTTP/1.1\r\nhost: localhost\r\n\r\n";
}

TEST(admin_api_guard, behind_a_proxy_nobody_is_of_this_machine) {
    app_options options = test_server::default_options();
    options.settings.cors_origins = {"loopback", "https://semantic.example"};
    options.kv_events = std::make_shared<storage::kv_event_feed>();
    test_server server(std::move(options));
    server.ready();
    const auto status = [&](const std::string& line, const std::string& fields) {
        http_client client(server.port());
        return client.request(line + " HTTP/1.1\r\n" + fields + "\r\n").status;
    };
    for (const char* line : {"DELETE /admin/caches", "GET /admin/usage", "GET /admin/nodes",
                             "GET /debug/memory", "GET /metrics", "GET /ws/kv-events"}) {
        EXPECT_EQ(status(line, "host: semantic.example\r\n"), 403) << line;
        EXPECT_EQ(status(line, "host: localhost\r\nx-forwarded-for: 1.2.3.4\r\n"), 403) << line;
        const int here = status(line, "host: localhost\r\n");
        EXPECT_EQ(here, std::string_view(line).ends_with("kv-events") ? 426 : 200) << line;
    }
    EXPECT_EQ(status("GET /v1/models", "host: semantic.example\r\nvia: x\r\n"), 200);
}

class admin_api : public ::testing::Test {
  protected:
    admin_api() { server_.ready(); }
    http_reply ask(const std::string& bytes) {
        http_client client(server_.port());
        return client.request(bytes);
    }
    test_server server_;
};

TEST_F(admin_api, clearing_forgets_everybodys_agents_but_those_that_answer) {
    auto remember = [&](const char* name, bool busy, const storage::tenant_id& tenant) {
        engine::agent_info info{storage::agent_id::parse(name)->owned_by(tenant)};
        info.hot = true;
        info.in_use = busy;
        server_.engine().remember(info);
    };
    remember("a", false, {});
    remember("b", false, server_.engine().tenant("other"));
    remember("c", true, {});
    http_reply cleared = ask(delete_line("/admin/caches"));
    EXPECT_EQ(cleared.status, 200);
    EXPECT_NE(cleared.body.find(R"("disk_cleared":2)"), std::string::npos) << cleared.body;
    EXPECT_NE(cleared.body.find(R"("kept":1)"), std::string::npos) << cleared.body;
    EXPECT_EQ(server_.engine().agents_of_all().size(), 1u);
}

TEST_F(admin_api, clearing_takes_the_memories_of_all_models_or_of_the_one_that_is_named) {
    const auto remember = [&](const char* name, bool by_loaded, bool by_old) {
        engine::agent_info info{storage::agent_id::parse(name).value()};
        info.hot = info.is_remembered = by_loaded;
        if (by_loaded) info.memories.push_back({"scripted", storage::checksum128("one"), true});
        if (by_old) info.memories.push_back({"old", storage::checksum128("two"), false});
        server_.engine().remember(info);
    };
    remember("a", true, true);
    remember("b", false, true);
    remember("c", true, false);
    EXPECT_EQ(ask(delete_line("/admin/caches?model=nope")).status, 404);
    http_reply cleared = ask(delete_line("/admin/caches?model=old"));
    EXPECT_NE(cleared.body.find(R"("hot_cleared":0,"disk_cleared":2)"), std::string::npos)
        << cleared.body;
    EXPECT_EQ(server_.engine().agents_of_all().size(), 2u) << "a and c, of the loaded model";
    remember("b", false, true);
    cleared = ask(delete_line("/admin/caches"));
    EXPECT_NE(cleared.body.find(R"("hot_cleared":2,"disk_cleared":3)"), std::string::npos)
        << cleared.body;
    EXPECT_TRUE(server_.engine().agents_of_all().empty());
}

TEST_F(admin_api, clearing_says_what_it_could_not_clear) {
    for (const char* name : {"a", "b", "c", "d"}) {
        engine::agent_info info{storage::agent_id::parse(name).value()};
        server_.engine().remember(info);
    }
    server_.engine().on_erase = [](const storage::agent_id& id) -> storage::result<void> {
        if (id.str() == "a") return storage::failure{storage::errc::not_found, "no agent a"};
        if (id.str() < "d") return storage::failure{storage::errc::io, id.str() + " resists"};
        return {};
    };
    http_reply cleared = ask(delete_line("/admin/caches"));
    EXPECT_EQ(cleared.status, 500);
    EXPECT_NE(cleared.body.find("cleared 1 agents, but 2 not: this server's disk failed"),
              std::string::npos)
        << cleared.body;
    EXPECT_EQ(cleared.body.find("resists"), std::string::npos) << "what may name files is logged";
}

TEST_F(admin_api, a_seed_is_that_of_requests_that_bring_none) {
    server_.engine().on_submit = answer_with({"x"});
    EXPECT_EQ(ask(post("/admin/seed", R"({"seed":7})")).body, R"({"status":"ok","seed":7})");
    ask(post("/v1/messages", message_body(false)));
    EXPECT_EQ(server_.engine().request_of(1).sampling.seed, 7u);
    ask(post("/v1/agents/a/generate", R"({"prompt":"x","seed":8})"));
    EXPECT_EQ(server_.engine().request_of(2).sampling.seed, 8u);
    EXPECT_EQ(ask(post("/admin/seed", R"({"seed":null})")).status, 200);
    ask(post("/v1/messages", message_body(false)));
    EXPECT_FALSE(server_.engine().request_of(3).sampling.seed);
    EXPECT_EQ(ask(post("/admin/seed", R"({"seed":-1})")).status, 400);
}

TEST_F(admin_api, models_are_told_truly_and_another_one_is_refused) {
    EXPECT_NE(ask(get("/admin/models/current")).body.find(R"("model_id":"scripted")"),
              std::string::npos);
    EXPECT_EQ(ask(get("/admin/models/available")).body, R"({"models":["scripted"]})");
    EXPECT_EQ(ask(post("/admin/models/swap", R"({"model_id":"scripted"})")).status, 200);
    http_reply other = ask(post("/admin/models/swap", R"({"model_id":"other"})"));
    EXPECT_EQ(other.status, 404);
    EXPECT_NE(other.body.find("this server runs"), std::string::npos) << other.body;
    EXPECT_EQ(ask(post("/admin/models/swap", "{}")).status, 400);
    EXPECT_EQ(ask(post("/admin/models/offload", R"({"model_id":"other"})")).status, 404);
    EXPECT_EQ(ask(get("/health/ready")).status, 200) << "and nothing has happened";
}

TEST_F(admin_api, memory_is_told_by_its_parts) {
    const http_reply told = ask(get("/debug/memory"));
    EXPECT_EQ(told.status, 200);
    for (const char* part : {"limit_bytes", "process_bytes", "weights_bytes", "pool_held_bytes"})
        EXPECT_NE(told.body.find(part), std::string::npos) << told.body;
}

TEST(admin_api_guard, every_admin_route_asks_for_the_key_before_anything_else) {
    app_options options = test_server::default_options();
    options.settings.admin_key = "s3cret";
    test_server server(std::move(options));
    server.ready();
    for (const std::string& bytes :
         {delete_line("/admin/caches"), post("/admin/seed", "{"), get("/admin/models/current"),
          get("/admin/models/available"), post("/admin/models/swap", "{"),
          post("/admin/models/offload", "")}) {
        http_client client(server.port());
        http_reply refused = client.request(bytes);
        EXPECT_EQ(refused.status, 401) << bytes;
        EXPECT_NE(refused.body.find("X-Admin-Key header missing"), std::string::npos);
    }
    http_client client(server.port());
    EXPECT_EQ(client.request(get("/admin/models/current", "X-Admin-Key: s3cret\r\n")).status, 200);
}

}  // namespace
}  // namespace semantic::server
