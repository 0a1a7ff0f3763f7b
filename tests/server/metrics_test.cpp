// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/metrics.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

/// What is wrong with a text of the Prometheus format, as far as these rules go; empty when nothing
/// is.
std::string fault_of(const std::string& text) {
    static const std::regex sample(
        R"(([a-z_]+)(\{([a-z_]+="(\\.|[^"\\])*",?)+\})? (-?[0-9.e+-]+|\+Inf))");
    std::set<std::string> families;
    std::string family;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("# HELP ")) {
            family = line.substr(7, line.find(' ', 7) - 7);
            if (!families.insert(family).second) return "family twice: " + family;
        } else if (line.starts_with("# TYPE ")) {
            if (!line.starts_with("# TYPE " + family + " ")) return "TYPE apart from HELP: " + line;
        } else {
            std::smatch found;
            if (!std::regex_match(line, found, sample)) return "no sample: " + line;
            if (!found[1].str().starts_with(family)) return "sample outside its family: " + line;
        }
    }
    return families.empty() ? "empty" : "";
}

TEST(metrics, text_is_well_formed_with_and_without_an_engine) {
    server_probe probe;
    probe.count_request("/v1/messages", "POST", 200, 0.5);
    probe.count_request("unmatched", "other", 404, 0.001);
    EXPECT_EQ(fault_of(render_metrics(probe, {}, nullptr)), "");
    tests::scripted_engine engine;
    EXPECT_EQ(fault_of(render_metrics(probe, {}, &engine)), "");
}

TEST(metrics, histograms_are_cumulative_and_end_at_the_count) {
    server_probe probe;
    for (double seconds : {0.0005, 0.02, 500.0}) probe.count_request("/", "GET", 200, seconds);
    std::string text = render_server_metrics(probe);
    auto has = [&](const std::string& line) { return text.find(line + "\n") != std::string::npos; };
    const std::string name = "semantic_http_request_duration_seconds";
    EXPECT_TRUE(has(name + R"(_bucket{route="/",le="0.001"} 1)")) << text;
    EXPECT_TRUE(has(name + R"(_bucket{route="/",le="0.025"} 2)")) << text;
    EXPECT_TRUE(has(name + R"(_bucket{route="/",le="120"} 2)")) << text;
    EXPECT_TRUE(has(name + R"(_bucket{route="/",le="+Inf"} 3)")) << text;
    EXPECT_TRUE(has(name + R"(_count{route="/"} 3)")) << text;
}

TEST(metrics, clients_cannot_invent_series) {
    test_server server;
    server.ready();
    tests::http_client client(server.port());
    client.request(tests::get("/made-up-1"));
    client.request(tests::get("/made-up-2"));
    client.request("BREW /made-up-3 HTTP/1.1\r\nhost: localhost\r\n\r\n");
    std::string text = client.request(tests::get("/metrics")).body;
    EXPECT_EQ(text.find("made-up"), std::string::npos);
    EXPECT_NE(text.find(R"({route="unmatched",method="GET",status="404"} 2)"), std::string::npos)
        << text;
    EXPECT_NE(text.find(R"({route="unmatched",method="other",status="404"} 1)"), std::string::npos)
        << text;
}

TEST(metrics, a_streams_first_bytes_are_timed_from_its_place_in_the_batch_on) {
    test_server server;
    server.ready().engine().on_submit = tests::answer_with({"a", "b"});
    tests::http_client client(server.port());
    client.request(tests::post("/v1/messages", message_body(true)));
    client.request(tests::post("/v1/messages", message_body(false)));
    std::string text = client.request(tests::get("/metrics")).body;
    EXPECT_NE(text.find("semantic_first_byte_seconds_count 1\n"), std::string::npos) << text;
    EXPECT_NE(text.find("semantic_first_byte_seconds_bucket{le=\"120\"} 1\n"), std::string::npos);
}

TEST(metrics, engine_counters_are_shown_by_source_and_reason) {
    tests::scripted_engine engine;
    engine.counters().tokens_reused_disk = 5;
    engine.counters().misses[static_cast<std::size_t>(engine::miss_reason::evicted)] = 2;
    std::string text = render_metrics(server_probe{}, {}, &engine);
    EXPECT_NE(text.find("semantic_tokens_reused_total{source=\"disk\"} 5\n"), std::string::npos);
    EXPECT_NE(text.find("semantic_cache_misses_total{reason=\"evicted\"} 2\n"), std::string::npos);
}

TEST(metrics, what_is_shared_is_shown_where_there_is_an_object_store) {
    tests::scripted_engine engine;
    EXPECT_EQ(render_metrics(server_probe{}, {}, &engine).find("semantic_shared_"),
              std::string::npos);
    engine.shared.emplace();
    engine.shared->conflicts = 3;
    engine.shared->pending = 4;
    const std::string text = render_metrics(server_probe{}, {}, &engine);
    EXPECT_EQ(fault_of(text), "");
    EXPECT_NE(text.find("semantic_shared_conflicts_total 3\n"), std::string::npos);
    EXPECT_NE(text.find("semantic_shared_pending 4\n"), std::string::npos);
}

TEST(metrics, leases_are_shown_once_however_many_engines_there_are) {
    tests::scripted_engine engine;
    EXPECT_EQ(render_metrics(server_probe{}, {}, &engine).find("semantic_leases_"),
              std::string::npos);
    engine.nodes.leases.emplace();
    engine.nodes.leases->held = 2;
    engine.nodes.leases->taken = 7;
    const std::string text = render_metrics(server_probe{}, {}, &engine);
    EXPECT_EQ(fault_of(text), "");
    EXPECT_NE(text.find("semantic_leases_taken_total 7\n"), std::string::npos);
    EXPECT_NE(text.find("semantic_leases_held 2\n"), std::string::npos);
}

TEST(metrics, news_of_other_nodes_are_shown_where_there_are_any) {
    tests::scripted_engine engine;
    EXPECT_EQ(render_metrics(server_probe{}, {}, &engine).find("semantic_news_"),
              std::string::npos);
    engine.nodes.news = storage::node_news_counts{2, 3, 4, 5};
    const std::string text = render_metrics(server_probe{}, {}, &engine);
    EXPECT_EQ(fault_of(text), "");
    for (const char* line : {"semantic_other_nodes 2\n", "semantic_news_told_total 3\n",
                             "semantic_news_heard_total 4\n", "semantic_news_dropped_total 5\n"})
        EXPECT_NE(text.find(line), std::string::npos) << line;
}

TEST(metrics, what_the_disk_holds_and_what_gave_way_is_shown) {
    tests::scripted_engine engine;
    std::string text = render_metrics(server_probe{}, {}, &engine);
    for (const char* name :
         {"semantic_disk_bytes", "semantic_disk_budget_bytes", "semantic_store_disk_removals_total",
          "semantic_store_incompatible_removals_total", "semantic_store_saves_out_of_space_total",
          "semantic_store_agents_lost_total", "semantic_store_restore_seconds_total"})
        EXPECT_NE(text.find("\n" + std::string(name) + " 0\n"), std::string::npos) << name;
}

}  // namespace
}  // namespace semantic::server
