// SPDX-License-Identifier: Apache-2.0
// Responses in the background: they go on without their client, and are read, resumed and stopped.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <limits>

#include "server/responses/background_runs.hpp"
#include "server/responses/response_keeper.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

namespace json = boost::json;
using tests::answer_with;
using tests::http_client;
using tests::http_reply;
using tests::post;

std::string background_body(bool stream, const std::string& more = "") {
    return R"({"model":"scripted","background":true,"stream":)" +
           std::string(stream ? "true" : "false") + R"(,"input":"hi")" + more + "}";
}

class background_api : public ::testing::Test {
  protected:
    background_api() { server_.ready(); }

    http_reply ask(const std::string& body) {
        http_client client(server_.port());
        return client.request(post("/v1/responses", body));
    }
    http_reply send(const std::string& method, const std::string& path) {
        http_client client(server_.port());
        const std::string length = method == "POST" ? "content-length: 2\r\n" : "";
        return client.request(method + " /v1/responses/" + path +
                              " HTTP/1.1\r\nhost: 127.0.0.1\r\n" + length + "\r\n" +
                              (method == "POST" ? "{}" : ""));
    }
    std::string begin(const std::string& more = "") {
        const http_reply reply = ask(background_body(false, more));
        EXPECT_EQ(reply.status, 200) << reply.body;
        const json::value made = json::parse(reply.body);
        EXPECT_EQ(made.at("status"), "queued");
        EXPECT_EQ(made.at("background"), true);
        return std::string(made.at("id").as_string());
    }
    json::value read(const std::string& id) { return json::parse(send("GET", id).body); }
    /// Waits up to 20 s.
    json::value read_until(const std::string& id, const std::string& status) {
        json::value last;
        for (int i = 0; i < 4000; ++i) {
            last = read(id);
            if (last.at("status") == json::value(status)) return last;
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        ADD_FAILURE() << "it never was " << status << ": " << last;
        return last;
    }

    test_server server_;
};

TEST_F(background_api, one_is_queued_at_once_and_read_by_its_id_until_it_is_complete) {
    const std::string id = begin();
    const engine::request_id asked = server_.engine().wait_for_request(1);
    EXPECT_EQ(read(id).at("status"), "queued");
    server_.engine().admit(asked);
    read_until(id, "in_progress");
    server_.engine().say(asked, "Hello");
    server_.engine().finish(asked, 1);
    const json::value done = read_until(id, "completed");
    EXPECT_EQ(done.at("output").at(0).at("content").at(0).at("text"), "Hello");
    EXPECT_EQ(server_.engine().kept.size(), 1u);
}

TEST_F(background_api, a_stream_that_is_left_goes_on_and_is_resumed_where_it_was_left) {
    http_client client(server_.port());
    client.send(post("/v1/responses", background_body(true)));
    EXPECT_EQ(client.read_head().status, 200);
    const std::string first = client.read_chunk();
    EXPECT_NE(first.find("event: response.queued"), std::string::npos) << first;
    const std::string id = first.substr(first.find("resp_"), 29);
    const engine::request_id asked = server_.engine().wait_for_request(1);
    client.close();
    server_.engine().admit(asked);
    server_.engine().say(asked, "Hel");
    server_.engine().say(asked, "lo");
    server_.engine().finish(asked, 2);
    read_until(id, "completed");
    EXPECT_FALSE(server_.engine().is_cancelled(asked));

    const std::string all = send("GET", id + "?stream=true").body;
    EXPECT_TRUE(all.starts_with("event: response.created\n")) << all;
    EXPECT_NE(all.find("event: response.completed\n"), std::string::npos);
    const std::string rest = send("GET", id + "?stream=true&starting_after=1").body;
    EXPECT_TRUE(rest.starts_with("event: response.in_progress\n")) << rest;
    EXPECT_TRUE(all.ends_with(rest)) << "the same bytes, however they are read";
    EXPECT_EQ(send("GET", id + "?stream=true&starting_after=x").status, 400);
}

TEST_F(background_api, a_reader_gets_each_event_as_it_is_made) {
    const std::string id = begin();
    const engine::request_id asked = server_.engine().wait_for_request(1);
    http_client reader(server_.port());
    reader.send(tests::get("/v1/responses/" + id + "?stream=true&starting_after=1"));
    server_.engine().admit(asked);
    EXPECT_EQ(reader.read_head().status, 200);
    EXPECT_TRUE(reader.read_chunk().starts_with("event: response.in_progress"));
    for (const char* word : {"a", "b", "c"}) {
        server_.engine().say(asked, word);
        std::string chunk;
        while (chunk.find(R"("delta":")" + std::string(word)) == std::string::npos)
            chunk += reader.read_chunk();
    }
    server_.engine().finish(asked, 3);
    reader.read_until("event: response.completed");
}

TEST_F(background_api, one_is_stopped_and_stays_as_it_was_then) {
    const std::string id = begin();
    const engine::request_id asked = server_.engine().wait_for_request(1);
    server_.engine().admit(asked);
    server_.engine().say(asked, "Half");
    read_until(id, "in_progress");
    const json::value stopped = json::parse(send("POST", id + "/cancel").body);
    EXPECT_EQ(stopped.at("status"), "cancelled");
    EXPECT_TRUE(server_.engine().wait_for_cancel(asked));
    EXPECT_EQ(read(id).at("status"), "cancelled");
    EXPECT_EQ(json::parse(send("POST", id + "/cancel").body).at("status"), "cancelled") << "again";
}

TEST_F(background_api, one_that_is_deleted_is_stopped_and_gone) {
    const std::string id = begin();
    const engine::request_id asked = server_.engine().wait_for_request(1);
    EXPECT_EQ(send("DELETE", id).status, 200);
    EXPECT_TRUE(server_.engine().wait_for_cancel(asked));
    EXPECT_EQ(send("GET", id).status, 404);
    const std::string next = begin();
    server_.engine().on_submit = nullptr;
    EXPECT_EQ(send("DELETE", next).status, 200);
    EXPECT_EQ(send("GET", id).status, 404) << "nothing of it comes back";
}

TEST_F(background_api, one_that_the_engine_refuses_has_failed) {
    server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        engine.push(id, engine::failed{engine::failure_kind::too_large, "needs 9, there are 4"});
    };
    const std::string id = begin();
    const json::value failed = read_until(id, "failed");
    EXPECT_EQ(failed.at("error").at("code"), "context_length_exceeded");
    server_.engine().on_submit = answer_with({"Hello"});
    const http_reply next =
        ask(R"({"model":"scripted","input":"x","previous_response_id":")" + id + R"("})");
    EXPECT_EQ(next.status, 200) << "what it was asked stands: " << next.body;
    const auto wanted = server_.engine().request_of(server_.engine().wait_for_request(2));
    EXPECT_EQ(wanted.chat.messages.size(), 2u);
}

TEST_F(background_api, one_that_was_stopped_in_the_middle_of_a_call_can_be_followed) {
    const std::string id =
        begin(R"(,"tools":[{"type":"function","name":"look","parameters":{"type":"object"}}])");
    const engine::request_id asked = server_.engine().wait_for_request(1);
    server_.engine().admit(asked);
    server_.engine().say(asked, "Well.<tool_call>\n{\"name\": \"look\", \"arguments\": {\"a");
    read_until(id, "in_progress");
    EXPECT_EQ(json::parse(send("POST", id + "/cancel").body).at("status"), "cancelled");
    server_.engine().on_submit = answer_with({"Hello"});
    const http_reply next =
        ask(R"({"model":"scripted","input":"x","previous_response_id":")" + id + R"("})");
    EXPECT_EQ(next.status, 200) << next.body;
}

TEST_F(background_api, one_that_is_deleted_while_it_is_written_does_not_come_back) {
    const std::string id = begin();
    const engine::request_id asked = server_.engine().wait_for_request(1);
    std::atomic<bool> is_writing{false};
    std::atomic<bool> may_write{false};
    server_.engine().on_keep_record = [&](const storage::kept_record&) -> storage::result<void> {
        is_writing = true;
        for (int i = 0; i < 2000 && !may_write; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return {};
    };
    server_.engine().admit(asked);
    server_.engine().say(asked, "x");
    server_.engine().finish(asked, 1);
    for (int i = 0; i < 2000 && !is_writing; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    auto deleted = std::async(std::launch::async, [&] { return send("DELETE", id).status; });
    EXPECT_EQ(deleted.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    may_write = true;
    EXPECT_EQ(deleted.get(), 200);
    EXPECT_EQ(send("GET", id).status, 404);
    EXPECT_TRUE(server_.engine().kept.empty());
}

TEST_F(background_api, head_of_a_stream_has_no_body) {
    const std::string id = begin();
    const engine::request_id asked = server_.engine().wait_for_request(1);
    for (const bool has_ended : {false, true}) {
        if (has_ended) {
            server_.engine().admit(asked);
            server_.engine().say(asked, "x");
            server_.engine().finish(asked, 1);
            read_until(id, "completed");
        }
        http_client client(server_.port());
        client.send("HEAD /v1/responses/" + id +
                    "?stream=true HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        EXPECT_EQ(client.read_head().status, 200);
        EXPECT_FALSE(client.has_input(100)) << "the next reply would begin with it";
        EXPECT_EQ(client.request(tests::get("/health/live")).status, 200) << "on one connection";
    }
}

TEST_F(background_api, a_tenant_has_sixteen_at_once_and_one_more_is_told_to_wait) {
    const std::size_t most = background_limits().at_once_of_tenant;
    std::vector<std::string> ids;
    for (std::size_t i = 0; i < most; ++i) ids.push_back(begin());
    const http_reply refused = ask(background_body(false));
    EXPECT_EQ(refused.status, 429);
    EXPECT_TRUE(refused.fields.contains("retry-after"));
    EXPECT_EQ(json::parse(send("POST", ids[0] + "/cancel").body).at("status"), "cancelled");
    ids[0] = begin();
    for (const std::string& id : ids) send("DELETE", id);
}

TEST_F(background_api, without_store_there_is_nothing_to_ask_for) {
    EXPECT_EQ(ask(background_body(false, R"(,"store":false)")).status, 400);
}

TEST_F(background_api, one_that_could_not_be_found_again_is_not_begun) {
    server_.engine().on_keep_record = [](const storage::kept_record&) -> storage::result<void> {
        return storage::failure{storage::errc::out_of_space, "full"};
    };
    EXPECT_EQ(ask(background_body(false)).status, 507);
    EXPECT_EQ(server_.engine().request_count(), 0u);
}

TEST(background_restart, one_that_a_kill_broke_off_has_failed) {
    tests::scripted_engine engine;
    kept_responses before;
    protocol::responses::kept_response made;
    made.id = "resp_1";
    made.input = "[]";
    made.body = R"({"id":"resp_1","status":"in_progress","background":true,"output":[]})";
    ASSERT_TRUE(keep_response(before, engine, {}, made));
    response_registry after;
    EXPECT_TRUE(load_responses(after, engine).empty());
    const auto found = after.stored.find({}, "resp_1");
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(json::parse(found->body).at("status"), "failed");
}

std::string event(const std::string& text) { return "event: " + text + "\n\n"; }

std::string joined(const protocol::result<background_run::said>& found) {
    std::string all;
    for (const background_run::event& each : found->events) all += *each;
    return all;
}

TEST(background_run, keeps_its_latest_events_and_says_when_earlier_ones_are_asked_for) {
    background_run run("resp_1", 3 * event("0").size());
    for (const char* text : {"0", "1", "2"}) run.add(event(text));
    EXPECT_EQ(joined(run.after(-1)), event("0") + event("1") + event("2"));
    run.add(event("3"));
    EXPECT_EQ(run.after(-1).error().path, "starting_after");
    EXPECT_EQ(joined(run.after(0)), event("1") + event("2") + event("3"));
    EXPECT_EQ(joined(run.after(2)), event("3"));
    EXPECT_EQ(run.after(2)->last, 3);
    EXPECT_EQ(joined(run.after(9)), "");
}

TEST(background_run, a_number_that_no_event_has_is_behind_all_of_them) {
    background_run run("resp_1", 1'000);
    run.add(event("0"));
    const auto last = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t number : {last, last - 1, std::int64_t{1}, std::int64_t{0}}) {
        const auto found = run.after(number);
        ASSERT_TRUE(found) << number;
        EXPECT_TRUE(found->events.empty()) << number;
        EXPECT_EQ(found->last, number);
    }
}

TEST(background_run, gives_a_reader_some_events_at_a_time) {
    background_run run("resp_1", 1 << 20);
    std::string all;
    for (int i = 0; i < 1'000; ++i) {
        all += event(std::to_string(i));
        run.add(event(std::to_string(i)));
    }
    run.end();
    std::string read;
    std::int64_t last = -1;
    for (int calls = 0;; ++calls) {
        ASSERT_LT(calls, 1'000);
        const auto found = run.after(last);
        read += joined(found);
        last = found->last;
        EXPECT_EQ(found->has_ended, last == 999);
        if (found->has_ended) break;
        EXPECT_LT(joined(found).size(), 10'000u);
    }
    EXPECT_EQ(read, all);
}

TEST(background_run, keeps_fewer_events_when_it_is_told_to) {
    background_run run("resp_1", 1'000);
    for (const char* text : {"0", "1", "2"}) run.add(event(text));
    run.keep_events(2 * event("0").size());
    EXPECT_EQ(joined(run.after(0)), event("1") + event("2"));
    EXPECT_FALSE(run.after(-1));
}

TEST(background_runs, those_that_have_not_ended_share_the_bytes_for_events) {
    background_limits limits;
    limits.event_bytes_of_one = 100;
    limits.open_event_bytes = 160;
    background_runs runs(limits);
    const auto one = *runs.begin({}, "a");
    const std::string long_event = std::string(38, 'x') + "\n\n";
    for (int i = 0; i < 4; ++i) one->add(long_event);
    EXPECT_EQ(one->bytes(), 80u) << "its own bound";
    const auto other = *runs.begin({}, "b");
    const auto third = *runs.begin({}, "c");
    for (int i = 0; i < 4; ++i)
        for (const auto& each : {one, other, third}) each->add(long_event);
    EXPECT_EQ(one->bytes() + other->bytes() + third->bytes(), 120u);
    runs.ended({}, "b");
    runs.ended({}, "c");
    for (int i = 0; i < 4; ++i) one->add(long_event);
    EXPECT_EQ(one->bytes(), 80u) << "again";
}

TEST(background_runs, requests_of_a_tenant_and_of_all_have_a_bound_in_bytes) {
    const storage::tenant_id a = tests::scripted_engine().tenant("a");
    const storage::tenant_id b = tests::scripted_engine().tenant("b");
    background_limits limits;
    limits.request_bytes_of_tenant = 100;
    limits.request_bytes = 150;
    background_runs runs(limits);
    ASSERT_TRUE(runs.begin(a, "1", 60));
    ASSERT_TRUE(runs.begin(a, "2", 40));
    EXPECT_EQ(runs.begin(a, "3", 1).error().code, protocol::errc::rate_limited);
    ASSERT_TRUE(runs.begin(b, "4", 50));
    EXPECT_EQ(runs.begin(b, "5", 1).error().code, protocol::errc::overloaded);
    runs.ended(a, "1");
    EXPECT_TRUE(runs.begin(b, "5", 1));
    EXPECT_TRUE(runs.begin(a, "6", 59));
    background_runs empty(limits);
    EXPECT_TRUE(empty.begin(a, "7", 1'000)) << "one alone may have any size";
}

TEST(background_runs, of_those_that_ended_the_tenant_with_most_pays) {
    const storage::tenant_id loud = tests::scripted_engine().tenant("a");
    background_limits limits;
    limits.event_bytes = 60;
    background_runs runs(limits);
    const auto run_one = [&](const storage::tenant_id& tenant, const std::string& id) {
        (*runs.begin(tenant, id))->add(std::string(18, 'x') + "\n\n");
        runs.ended(tenant, id);
    };
    run_one({}, "quiet");
    for (const char* id : {"1", "2", "3", "4"}) run_one(loud, id);
    EXPECT_NE(runs.find({}, "quiet"), nullptr);
    EXPECT_EQ(runs.find(loud, "1"), nullptr);
    EXPECT_EQ(runs.find(loud, "2"), nullptr);
    EXPECT_NE(runs.find(loud, "3"), nullptr);
}

TEST(background_runs, events_of_those_that_ended_first_go_first) {
    background_limits limits;
    limits.event_bytes = 30;
    background_runs runs(limits);
    for (const char* id : {"a", "b", "c"}) {
        auto run = runs.begin({}, id);
        ASSERT_TRUE(run);
        (*run)->add(std::string(12, 'x') + "\n\n");
        (*run)->end();
        runs.ended({}, id);
    }
    EXPECT_EQ(runs.find({}, "a"), nullptr);
    EXPECT_NE(runs.find({}, "b"), nullptr);
    EXPECT_NE(runs.find({}, "c"), nullptr);
}

TEST(background_runs, all_tenants_together_have_a_bound_too) {
    background_limits limits;
    limits.at_once = 2;
    limits.at_once_of_tenant = 2;
    background_runs runs(limits);
    ASSERT_TRUE(runs.begin({}, "a"));
    ASSERT_TRUE(runs.begin({}, "b"));
    EXPECT_EQ(runs.begin({}, "c").error().code, protocol::errc::overloaded);
    runs.ended({}, "a");
    EXPECT_TRUE(runs.begin({}, "c"));
}

}  // namespace
}  // namespace semantic::server
