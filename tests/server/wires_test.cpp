// SPDX-License-Identifier: Apache-2.0
// Goal: what clients of the autumn of 2026 ask for in addition to an answer: summaries, verdicts on
// calls, counts. Method: whole requests over real sockets; the script distinguishes the requests.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/history/parts.hpp"
#include "protocol/history/summary.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

namespace json = boost::json;
using tests::answer_with;
using tests::get;
using tests::http_client;
using tests::http_reply;
using tests::post;

const std::string call_text =
    "<tool_call>\n{\"name\": \"Bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>";
const std::string tools = R"("tools":[{"name":"Bash","input_schema":{"type":"object"}}],)";

app_options options_with(std::chrono::seconds safeguards) {
    app_options options = test_server::default_options();
    options.settings.safeguards = safeguards;
    options.limits.engine_lateness = std::chrono::seconds(0);
    return options;
}

/// The last text that the model was sent.
std::string last_text(const engine::generation_request& request) {
    const auto* text = std::get_if<engine::text_part>(&request.chat.messages.back().parts.back());
    return text != nullptr ? text->text : std::string();
}

std::string messages_with(const std::string& fields, bool stream = false) {
    return message_body(stream).insert(1, fields);
}

TEST(wires, a_summary_is_asked_for_on_a_branch) {
    test_server server;
    server.ready().engine().on_submit = answer_with({"The dog is called Biscuit."});
    http_client client(server.port());
    const http_reply reply = client.request(
        post("/v1/messages?beta=true", messages_with(R"("compaction":{"type":"summarize"},)"),
             "x-session-id: s\r\n"));
    EXPECT_EQ(reply.status, 200) << reply.body;
    const json::value said = json::parse(reply.body);
    EXPECT_EQ(said.at("stop_reason"), "compaction");
    EXPECT_EQ(said.at("content").at(0).at("content"), "The dog is called Biscuit.");
    const auto& asked = server.engine().request_of(1);
    EXPECT_FALSE(asked.agent) << "the agent's memory stays as it is";
    EXPECT_EQ(last_text(asked), protocol::summary_question());
}

TEST(wires, a_summary_that_is_due_comes_before_the_answer) {
    test_server server;
    server.ready().engine().on_count = [](const engine::conversation& chat) {
        return static_cast<int>(5000 * chat.messages.size());
    };
    server.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        const bool sums_up = last_text(engine.request_of(id)) == protocol::summary_question();
        answer_with({sums_up ? "S." : "Yes."})(engine, id);
    };
    const std::string long_text(5000, 'x');
    const auto ask = [&](const std::string& edit, bool stream) {
        http_client client(server.port());
        return client.request(
            post("/v1/messages", R"({"model":"scripted","max_tokens":9,"stream":)" +
                                     std::string(stream ? "true" : "false") +
                                     R"(,"messages":[{"role":"user","content":")" + long_text +
                                     R"("}],"context_management":{"edits":[)" + edit + "]}}"));
    };
    const std::string edit =
        R"({"type":"compact_20260112","trigger":{"type":"input_tokens","value":4999})";
    const json::value said = json::parse(ask(edit + "}", false).body);
    EXPECT_EQ(said.at("content").at(0).at("content"), "S.") << said;
    EXPECT_EQ(said.at("content").at(1).at("text"), "Yes.");
    EXPECT_EQ(said.at("stop_reason"), "end_turn");
    EXPECT_TRUE(said.at("context_management").at("applied_edits").as_array().empty());
    ASSERT_EQ(server.engine().request_of(2).chat.messages.size(), 1u);
    EXPECT_EQ(last_text(server.engine().request_of(2)), std::string(protocol::summary_head) + "S.");
    EXPECT_NE(ask(edit + "}", true).body.find("compaction_delta"), std::string::npos);
    const json::value paused =
        json::parse(ask(edit + R"(,"pause_after_compaction":true})", false).body);
    EXPECT_EQ(paused.at("stop_reason"), "compaction");
    EXPECT_EQ(paused.at("content").as_array().size(), 1u);
    EXPECT_EQ(ask(R"({"type":"compact_20260112"})", false).body.find("compaction_delta"),
              std::string::npos);
}

/// A server whose prompts have 5,000 tokens for each message, and which answers "S." where a
/// summary is asked for.
class summarising_server {
  public:
    summarising_server() {
        server_.ready().engine().on_count = [](const engine::conversation& chat) {
            return static_cast<int>(5000 * chat.messages.size());
        };
        server_.engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
            const bool sums_up = last_text(engine.request_of(id)) == protocol::summary_question();
            answer_with({sums_up ? "S." : "Yes."})(engine, id);
        };
    }
    http_reply ask(const std::string& fields) {
        http_client client(server_.port());
        return client.request(
            post("/v1/responses", R"({"model":"scripted",)" + fields +
                                      R"(,"context_management":[{"type":"compaction",)"
                                      R"("compact_threshold":9999}]})"));
    }
    engine::generation_request wanted(std::size_t number) {
        return server_.engine().request_of(server_.engine().wait_for_request(number));
    }
    test_server& server() { return server_; }

  private:
    test_server server_;
};

const std::string summary_text = std::string(protocol::summary_head) + "S.";

TEST(wires, a_long_response_is_answered_from_a_summary_that_stands_for_it_later) {
    summarising_server server;
    const json::value first = json::parse(server.ask(R"("input":"One")").body);
    EXPECT_EQ(first.at("output").as_array().size(), 1u) << first;
    const std::string follows =
        R"("previous_response_id":")" + std::string(first.at("id").as_string()) + '"';
    const json::value second = json::parse(server.ask(follows + R"(,"input":"Two")").body);
    ASSERT_EQ(second.at("output").as_array().size(), 2u) << second;
    EXPECT_EQ(second.at("output").at(0).at("type"), "compaction");
    EXPECT_EQ(second.at("output").at(1).at("content").at(0).at("text"), "Yes.");
    EXPECT_FALSE(server.wanted(2).agent) << "a summary is made on a branch";
    EXPECT_EQ(server.wanted(2).chat.messages.size(), 4u);
    ASSERT_EQ(server.wanted(3).chat.messages.size(), 1u);
    EXPECT_EQ(last_text(server.wanted(3)), summary_text);
    const std::string later =
        R"("previous_response_id":")" + std::string(second.at("id").as_string()) + '"';
    server.ask(later + R"(,"input":"Three")");
    // The summary, what was answered from it, and what is new: 15,000, so once more.
    EXPECT_EQ(last_text(server.wanted(4)), protocol::summary_question());
    ASSERT_EQ(server.wanted(4).chat.messages.size(), 4u);
    EXPECT_EQ(std::get<engine::text_part>(server.wanted(4).chat.messages[0].parts[0]).text,
              summary_text);
}

const std::string two_messages =
    R"("input":[{"role":"user","content":"One"},{"role":"user","content":"Two"}])";

TEST(wires, a_summary_that_is_due_streams_before_the_answer) {
    summarising_server server;
    const std::string streamed = server.ask(two_messages + R"(,"stream":true)").body;
    const std::size_t summary = streamed.find(R"("type":"compaction")");
    ASSERT_NE(summary, std::string::npos) << streamed;
    EXPECT_LT(summary, streamed.find("response.output_text.delta"));
}

TEST(wires, a_summary_that_is_due_in_the_background_is_made_there) {
    summarising_server server;
    const json::value queued = json::parse(server.ask(two_messages + R"(,"background":true)").body);
    EXPECT_EQ(queued.at("status"), "queued") << queued;
    EXPECT_EQ(last_text(server.wanted(1)), protocol::summary_question());
    EXPECT_EQ(last_text(server.wanted(2)), summary_text);
}

TEST(wires, without_a_summary_the_answer_is_from_the_whole_conversation) {
    summarising_server server;
    server.server().engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        const bool sums_up = last_text(engine.request_of(id)) == protocol::summary_question();
        answer_with({sums_up ? " " : "Yes."})(engine, id);
    };
    const json::value said = json::parse(server.ask(two_messages).body);
    ASSERT_EQ(said.at("output").as_array().size(), 1u) << said;
    EXPECT_EQ(server.wanted(2).chat.messages.size(), 2u);
}

TEST(wires, edits_are_counted_and_told) {
    test_server server;
    server.ready().engine().on_count = [](const engine::conversation& chat) {
        std::size_t bytes = 0;
        for (const engine::message& each : chat.messages)
            for (const engine::content_part& part : each.parts)
                if (const auto* found = std::get_if<engine::tool_result_part>(&part))
                    bytes += found->text.size();
        return static_cast<int>(bytes);
    };
    server.engine().on_submit = answer_with({"ok"});
    const std::string body =
        R"({"model":"scripted","max_tokens":9,"messages":[{"role":"user","content":"a"},)"
        R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]},)"
        R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":")" +
        std::string(200, 'x') +
        R"("}]}],"context_management":{"edits":[{"type":"clear_tool_uses_20250919","trigger":)"
        R"({"type":"tool_uses","value":0},"keep":{"type":"tool_uses","value":0}}]}})";
    http_client client(server.port());
    const json::value said = json::parse(client.request(post("/v1/messages", body)).body);
    EXPECT_EQ(said.at("context_management").at("applied_edits").at(0).at("cleared_tool_uses"), 1);
    const json::value counted =
        json::parse(client.request(post("/v1/messages/count_tokens", body)).body);
    EXPECT_LT(counted.at("input_tokens").as_int64(), 60);
    EXPECT_EQ(counted.at("context_management").at("original_input_tokens"), 200);
}

const std::string asked_safeguards =
    R"("safeguards":[{"type":"dangerous_tool_use","classifier_context":{"v":1}}],)";

TEST(wires, the_calls_of_an_answer_are_judged_before_its_end_goes_out) {
    test_server server;
    server.ready().engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        const bool judges = engine.request_of(id).form.what == engine::output_form::kind::json;
        answer_with({judges ? R"({"call_1":{"reason":"lists","outcome":"not_flagged"}})"
                            : call_text})(engine, id);
    };
    for (const bool stream : {false, true}) {
        http_client client(server.port());
        const http_reply reply =
            client.request(post("/v1/messages", messages_with(asked_safeguards + tools, stream)));
        EXPECT_EQ(reply.status, 200);
        EXPECT_NE(reply.body.find(R"("type":"evaluated","outcome":"not_flagged")"),
                  std::string::npos)
            << reply.body;
        const auto& judged = server.engine().request_of(stream ? 4 : 2);
        EXPECT_FALSE(judged.agent);
        EXPECT_EQ(judged.memory.keep_seconds, std::chrono::seconds(0));
        EXPECT_NE(last_text(judged).find(R"({"command":"ls"})"), std::string::npos);
    }
}

TEST(wires, a_judge_that_takes_too_long_or_says_nothing_gives_no_verdict) {
    test_server server(options_with(std::chrono::seconds(1)));
    server.ready().engine().on_submit = [](tests::scripted_engine& engine, engine::request_id id) {
        const bool judges = engine.request_of(id).form.what == engine::output_form::kind::json;
        if (!judges) answer_with({call_text})(engine, id);
    };
    http_client client(server.port());
    const http_reply reply =
        client.request(post("/v1/messages", messages_with(asked_safeguards + tools)));
    EXPECT_EQ(reply.status, 200);
    EXPECT_NE(reply.body.find(R"("type":"unavailable")"), std::string::npos) << reply.body;
}

TEST(wires, nobody_judges_where_that_is_off_or_there_is_no_call) {
    test_server off(options_with(std::chrono::seconds(0)));
    off.ready().engine().on_submit = answer_with({call_text});
    http_client client(off.port());
    const http_reply reply =
        client.request(post("/v1/messages", messages_with(asked_safeguards + tools)));
    EXPECT_NE(reply.body.find(R"("status":{"type":"unsupported"})"), std::string::npos)
        << reply.body;
    test_server judging;
    judging.ready().engine().on_submit = answer_with({"Hello."});
    http_client other(judging.port());
    const http_reply plain =
        other.request(post("/v1/messages", messages_with(asked_safeguards + tools)));
    EXPECT_NE(plain.body.find(R"("status":{"type":"available","tool_uses":{}})"), std::string::npos)
        << plain.body;
}

TEST(wires, a_client_is_greeted_and_tokens_of_a_response_are_counted) {
    test_server server;
    server.ready().engine().on_count = [](const engine::conversation&) { return 17; };
    http_client client(server.port());
    client.send("HEAD /api/hello HTTP/1.1\r\nhost: localhost\r\n\r\n");
    EXPECT_EQ(client.read_reply(false).status, 200);
    const http_reply counted =
        client.request(post("/v1/responses/input_tokens", R"({"model":"scripted","input":"Hi"})"));
    EXPECT_EQ(counted.status, 200);
    EXPECT_EQ(counted.body, R"({"object":"response.input_tokens","input_tokens":17})");
    EXPECT_EQ(client.request(post("/v1/responses/input_tokens", "{}")).status, 400);
}

TEST(wires, an_earlier_response_is_compared_with_where_it_is_known) {
    test_server server;
    server.ready().engine().on_submit = answer_with({"Hello."});
    http_client client(server.port());
    const json::value first = json::parse(
        client.request(post("/v1/responses", R"({"model":"scripted","input":"Hi"})")).body);
    const auto compared = [&](const std::string& id) {
        return json::parse(
                   client
                       .request(post("/v1/responses",
                                     R"({"model":"scripted","input":"Hi",)"
                                     R"("prompt_cache_options":{"comparison_response_id":")" +
                                         id + R"("}})"))
                       .body)
            .at("prompt_cache_diagnostics")
            .at("type");
    };
    EXPECT_NE(compared(std::string(first.at("id").as_string())), "comparison_response_not_found");
    EXPECT_EQ(compared("resp_gone"), "comparison_response_not_found");
}

}  // namespace
}  // namespace semantic::server
