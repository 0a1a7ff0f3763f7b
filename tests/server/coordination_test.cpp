// SPDX-License-Identifier: Apache-2.0
// /v1/coordination over real sockets.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "server/coordination/run_registry.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

namespace json = boost::json;
using tests::answer_with;
using tests::http_client;
using tests::http_reply;
using tests::post;

const storage::failure full_disk{storage::errc::out_of_space, "the disk is full"};

app_options with_settings(const std::function<void(config&)>& set) {
    app_options options = test_server::default_options();
    set(options.settings);
    return options;
}

class coordination_api : public ::testing::Test {
  protected:
    explicit coordination_api(app_options options = test_server::default_options())
        : server_(std::move(options)) {
        server_.ready().engine().on_submit = answer_with({"Ahoy", " there"});
    }

    http_reply send_to(const std::string& path, const std::string& body,
                       const std::string& key = {}) {
        http_client client(server_.port());
        return client.request(post("/v1/coordination" + path, body,
                                   key.empty() ? "" : "idempotency-key: " + key + "\r\n"));
    }
    http_reply send(const std::string& method, const std::string& path) {
        http_client client(server_.port());
        return client.request(method + " /v1/coordination" + path +
                              " HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    }
    http_reply open_with(const std::string& more = {}) {
        return send_to("/sessions", R"({"agents":[{"agent_id":"a","display_name":"Ann"},)"
                                    R"({"agent_id":"b","display_name":"Bob"}])" +
                                        more + "}");
    }
    std::string opened(const std::string& more = {}) {
        const http_reply reply = open_with(more);
        EXPECT_EQ(reply.status, 201) << reply.body;
        return "/sessions/" + std::string(json::parse(reply.body).at("session_id").as_string());
    }
    std::int64_t turns_of(const std::string& session) {
        return json::parse(send("GET", session).body).at("current_turn").as_int64();
    }
    std::size_t messages_of(const std::string& session, const std::string& agent = "a") {
        const http_reply reply = send("GET", session + "/messages?agent_id=" + agent);
        return json::parse(reply.body).at("messages").as_array().size();
    }
    void fill_disk(bool is_full) {
        auto& engine = server_.engine();
        std::lock_guard lock(engine.records_mutex);
        engine.on_keep_record = nullptr;
        if (is_full)
            engine.on_keep_record = [](const storage::kept_record&) -> storage::result<void> {
                return full_disk;
            };
    }
    std::string record_of(const std::string& session) {
        auto& engine = server_.engine();
        std::lock_guard lock(engine.records_mutex);
        const auto found =
            engine.kept.find({{}, "session:" + session.substr(std::string("/sessions/").size())});
        return found == engine.kept.end() ? "" : found->second.bytes;
    }

    test_server server_;
};

/// What changes a session, and its body.
struct change {
    const char* path;
    const char* body;
};
constexpr change changes[]{
    {"/whisper", R"({"from_agent_id":"a","to_agent_id":"b","content":"psst"})"},
    {"/vote", R"({"agent_id":"a","question":"q","choice":"yes"})"},
    {"/turn", "{}"},
    {"/turn/stream", "{}"},
    {"/round", "{}"},
    {"/round/stream", "{}"},
};

TEST_F(coordination_api, a_repeated_request_is_acknowledged_when_what_it_did_is_written) {
    for (const change& each : changes) {
        const std::string session = opened();
        fill_disk(true);
        const auto fails = [&] {
            const http_reply reply = send_to(session + each.path, each.body, "k");
            return reply.status != 200 || reply.body.find("event: error") != std::string::npos;
        };
        EXPECT_TRUE(fails()) << each.path;
        EXPECT_TRUE(fails()) << each.path << " repeated, and still nothing is written";
        const std::int64_t turns = turns_of(session);
        fill_disk(false);
        const http_reply repeated = send_to(session + each.path, each.body, "k");
        EXPECT_EQ(repeated.status, 200) << each.path;
        EXPECT_EQ(repeated.body.find("event: error"), std::string::npos) << repeated.body;
        EXPECT_GE(turns_of(session), turns);
        EXPECT_NE(record_of(session).find(R"("key":"k")"), std::string::npos) << each.path;
        // And what is done is done once.
        const std::int64_t now = turns_of(session);
        const std::size_t said = messages_of(session);
        EXPECT_EQ(send_to(session + each.path, each.body, "k").body, repeated.body) << each.path;
        EXPECT_EQ(turns_of(session), now);
        EXPECT_EQ(messages_of(session), said);
    }
}

TEST_F(coordination_api, a_turn_is_never_written_without_its_key) {
    auto& engine = server_.engine();
    std::atomic<int> turns{0};
    engine.on_keep_record = [&](const storage::kept_record& record) -> storage::result<void> {
        const bool is_whole = record.bytes.find(R"("turn":2,)") != std::string::npos ||
                              record.bytes.find(R"("round":1,)") != std::string::npos;
        if (!is_whole) return {};
        ++turns;
        EXPECT_NE(record.bytes.find(R"("key":"k2")"), std::string::npos) << record.bytes;
        return {};
    };
    for (const char* path : {"/turn", "/turn/stream", "/round", "/round/stream"}) {
        const std::string session = opened();
        const bool is_round = std::string(path).starts_with("/round");
        if (!is_round) {
            EXPECT_EQ(send_to(session + path, "{}", "k1").status, 200);
        }
        const http_reply reply = send_to(session + path, "{}", "k2");
        EXPECT_EQ(reply.status, 200) << reply.body;
        EXPECT_EQ(turns_of(session), 2);
    }
    EXPECT_GE(turns.load(), 4);
}

TEST_F(coordination_api, a_stream_that_is_sent_again_has_the_events_of_the_first) {
    server_.engine().on_submit = answer_with(std::vector<std::string>(1'000, "aho y"));
    const std::string session = opened();
    for (const char* path : {"/turn/stream", "/round/stream"}) {
        const std::string key = path + 1;
        const http_reply first = send_to(session + path, "{}", key);
        EXPECT_NE(first.body.find("\"accumulated\":\"aho y"), std::string::npos);
        const http_reply again = send_to(session + path, "{}", key);
        std::string without_pings = first.body;
        const std::string ping = "event: ping\ndata: {}\n\n";
        for (auto at = without_pings.find(ping); at != std::string::npos;
             at = without_pings.find(ping))
            without_pings.erase(at, ping.size());
        EXPECT_EQ(again.body, without_pings) << path;
    }
    EXPECT_EQ(turns_of(session), 2) << "of the round one was left";
    EXPECT_LT(record_of(session).size(), 100'000u) << "and takes no more than what was said";
    server_.engine().on_submit = nullptr;
}

TEST_F(coordination_api, equal_requests_at_once_count_once) {
    for (int i = 0; i < 20; ++i) {
        const std::string session = opened();
        std::vector<std::thread> all;
        for (int client = 0; client < 4; ++client)
            all.emplace_back([&] {
                EXPECT_EQ(send_to(session + changes[0].path, changes[0].body, "k").status, 200);
            });
        for (std::thread& each : all) each.join();
        ASSERT_EQ(messages_of(session), 1u);
    }
}

TEST_F(coordination_api, what_could_not_be_deleted_is_there_and_can_be_asked_again) {
    auto& engine = server_.engine();
    const std::string session = opened();
    EXPECT_EQ(send_to(session + "/turn", "{}").status, 200);
    engine.on_erase = [](const storage::agent_id&) -> storage::result<void> {
        return storage::failure{storage::errc::io, "the disk is ill"};
    };
    EXPECT_EQ(send("DELETE", session).status, 500);
    EXPECT_EQ(turns_of(session), 1) << "it is still there";
    EXPECT_EQ(send_to(session + "/turn", "{}").status, 200) << "and goes on";
    engine.on_erase = nullptr;
    {
        std::lock_guard lock(engine.records_mutex);
        engine.on_erase_record = [](const std::string&) -> storage::result<void> {
            return storage::failure{storage::errc::io, "the disk is ill"};
        };
    }
    EXPECT_EQ(send("DELETE", session).status, 500);
    EXPECT_EQ(turns_of(session), 2);
    EXPECT_NE(record_of(session), "") << "on the disk, too";
    {
        std::lock_guard lock(engine.records_mutex);
        engine.on_erase_record = nullptr;
    }
    EXPECT_EQ(send("DELETE", session).status, 204);
    EXPECT_EQ(send("GET", session).status, 404);
    EXPECT_TRUE(engine.kept.empty());
}

TEST_F(coordination_api, a_run_that_could_not_be_deleted_is_there_and_can_be_asked_again) {
    auto& engine = server_.engine();
    const std::string yaml = R"(id: x\ntitle: t\nagents: {a: {display_name: A}}\n)"
                             R"(phases: [{name: p, label: l, agents: [a], auto_rounds: 1}]\n)";
    const http_reply made = send_to("/scenarios/x/runs", R"({"yaml":")" + yaml + R"("})");
    EXPECT_NE(made.body.find("event: run_complete"), std::string::npos) << made.body;
    const auto runs = [&] { return json::parse(send("GET", "/runs").body).at("runs").as_array(); };
    ASSERT_EQ(runs().size(), 1u);
    EXPECT_EQ(runs()[0].at("outcome").at("summary"), "Ahoy there");
    const std::string run = "/runs/" + std::string(runs()[0].at("run_id").as_string());
    {
        std::lock_guard lock(engine.records_mutex);
        engine.on_erase_record = [](const std::string&) -> storage::result<void> {
            return storage::failure{storage::errc::io, "the disk is ill"};
        };
    }
    EXPECT_EQ(send("DELETE", run).status, 500);
    EXPECT_EQ(send("GET", run).status, 200);
    {
        std::lock_guard lock(engine.records_mutex);
        engine.on_erase_record = nullptr;
    }
    EXPECT_EQ(send("DELETE", run).status, 204);
    EXPECT_EQ(send("GET", run).status, 404);
}

TEST_F(coordination_api, an_opening_that_could_not_be_written_is_none) {
    fill_disk(true);
    EXPECT_EQ(open_with().status, 507);
    EXPECT_EQ(send("GET", "/sessions").body, R"({"sessions":[]})");
    fill_disk(false);
    opened();
}

TEST_F(coordination_api, a_vote_that_is_none_puts_no_question) {
    const std::string session = opened();
    EXPECT_EQ(send_to(session + "/vote", R"({"agent_id":"z","question":"q","choice":"x"})").status,
              404);
    EXPECT_EQ(json::parse(send("GET", session + "/votes").body).at("questions").as_array().size(),
              0u);
}

TEST_F(coordination_api, all_messages_of_a_long_session_are_shown) {
    std::string prior;
    for (int i = 0; i < 5'000; ++i)
        prior +=
            std::string(i == 0 ? "" : ",") + R"({"sender_id":"s","sender_name":"S","content":"x"})";
    const std::string session =
        opened(R"(,"initial_prompt":"Talk.","prior_agent_messages":{"a":[)" + prior + "]}");
    EXPECT_EQ(messages_of(session), 1u) << "what one alone was told is in no transcript";
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(send_to(session + changes[0].path, changes[0].body).status, 200);
    EXPECT_EQ(messages_of(session), 4u);
    EXPECT_EQ(messages_of(session, "b"), 4u);
    const auto status = json::parse(send("GET", session).body);
    EXPECT_EQ(status.at("agent_states").at(0).at("message_count"), 4);
}

TEST_F(coordination_api, a_transcript_of_any_length_is_sent_piece_by_piece) {
    const std::string session = opened();
    const std::string text(4'000, 'x');
    constexpr int count = 200;
    for (int i = 0; i < count; ++i)
        ASSERT_EQ(send_to(session + "/whisper",
                          R"({"from_agent_id":"a","to_agent_id":"b","content":")" + text + R"("})")
                      .status,
                  200);
    const http_reply reply = send("GET", session + "/messages?agent_id=a");
    EXPECT_EQ(reply.fields.count("content-length"), 0u);
    const auto messages = json::parse(reply.body).at("messages").as_array();
    ASSERT_EQ(messages.size(), std::size_t{count});
    EXPECT_EQ(messages[count - 1].at("content").as_string().size(), text.size());
}

TEST_F(coordination_api, many_sessions_are_listed_whole) {
    EXPECT_EQ(send("GET", "/sessions").body, R"({"sessions":[]})");
    EXPECT_EQ(send("GET", "/runs").body, R"({"runs":[]})");
    constexpr std::size_t count = 900;
    for (std::size_t i = 0; i < count; ++i) opened();
    const auto listed = json::parse(send("GET", "/sessions").body).at("sessions").as_array();
    EXPECT_EQ(listed.size(), count);
}

struct metered_coordination : coordination_api {
    metered_coordination()
        : coordination_api(with_settings([](config& all) { all.requests_per_minute = 2; })) {}
};

TEST_F(metered_coordination, an_opening_counts_for_the_limits_of_a_key) {
    opened();
    opened();
    const http_reply refused = open_with();
    EXPECT_EQ(refused.status, 429) << refused.body;
    EXPECT_TRUE(refused.fields.contains("retry-after"));
}

struct narrow_coordination : coordination_api {
    narrow_coordination()
        : coordination_api(with_settings([](config& all) { all.memory_limit_mb = 64; })) {}
};

TEST_F(narrow_coordination, openings_beyond_the_bytes_of_a_tenant_are_refused_until_some_are_gone) {
    const std::string text(50'000, 'x');
    std::string prior;
    for (int i = 0; i < 60; ++i)
        prior += std::string(i == 0 ? "" : ",") +
                 R"({"sender_id":"s","sender_name":"S","content":")" + text + R"("})";
    const std::string more = R"(,"prior_agent_messages":{"a":[)" + prior + "]}";
    const std::string first = opened(more);
    opened(more);
    const http_reply refused = open_with(more);
    EXPECT_EQ(refused.status, 409) << refused.body;
    EXPECT_NE(refused.body.find("may take 8 MiB together"), std::string::npos) << refused.body;
    EXPECT_EQ(send("DELETE", first).status, 204);
    opened(more);
    const http_reply turn = send_to(opened() + "/turn", "{}");
    EXPECT_EQ(turn.status, 200) << turn.body;
}

TEST_F(coordination_api, what_can_never_fit_the_context_is_refused_before_it_is_put_together) {
    const std::string text(50'000, 'x');
    std::string prior;
    for (int i = 0; i < 3; ++i)
        prior += std::string(i == 0 ? "" : ",") +
                 R"({"sender_id":"s","sender_name":"S","content":")" + text + R"("})";
    const std::string session = opened(R"(,"prior_agent_messages":{"a":[)" + prior + "]}");
    const std::size_t before = server_.engine().request_count();
    const http_reply refused = send_to(session + "/turn", "{}");
    EXPECT_EQ(refused.status, 400) << refused.body;
    EXPECT_NE(refused.body.find("would have to read 150000 bytes"), std::string::npos);
    EXPECT_EQ(server_.engine().request_count(), before);
}

TEST_F(coordination_api, a_request_for_a_run_has_a_bound_of_its_own) {
    const http_reply refused =
        send_to("/scenarios/x/runs", "{}" + std::string(run_request_bytes_max, ' '));
    EXPECT_EQ(refused.status, 413) << refused.body;
    EXPECT_NE(refused.body.find("may have 8388608 bytes"), std::string::npos) << refused.body;
}

}  // namespace
}  // namespace semantic::server
