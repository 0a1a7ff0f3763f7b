// SPDX-License-Identifier: Apache-2.0
// semantic-bench against a scripted server: each subcommand in both dialects, and how it fails.

#include "perf/bench/measure/run.hpp"

#include <boost/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "perf/bench/measure/measure.hpp"
#include "tests/perf/scripted_server.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::bench {
namespace {

using testing::Each;
using testing::Gt;
using testing::HasSubstr;
using tests::scripted_server;
using tests::server_script;

outcome bench(const scripted_server& server, std::vector<std::string> words) {
    words.insert(words.begin(), "semantic-bench");
    words.insert(words.end(), {"--url", server.url()});
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    return run(parse_options(static_cast<int>(argv.size()), argv.data()).opts);
}

std::vector<std::string> with_dialect(std::vector<std::string> words, const char* dialect) {
    words.insert(words.end(), {"--api", dialect});
    return words;
}

std::vector<generation> of_phase(const report& r, const std::string& phase) {
    std::vector<generation> found;
    for (const sample& s : r.samples) {
        if (s.phase == phase) found.push_back(s.result);
    }
    return found;
}

double number(const cell& c) {
    if (const auto* count = std::get_if<std::int64_t>(&c)) return static_cast<double>(*count);
    return std::get<double>(c);
}

class each_dialect : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(run, each_dialect, testing::Values("anthropic", "openai"));

TEST_P(each_dialect, prefill_is_cold_and_has_the_length_asked) {
    const scripted_server server({});
    const outcome r =
        bench(server, with_dialect({"prefill", "--prompt-tokens", "100,500"}, GetParam()));
    ASSERT_EQ(r.failure, "");
    EXPECT_TRUE(r.found.complete);
    ASSERT_EQ(r.found.samples.size(), 6U);
    for (const sample& s : r.found.samples) {
        EXPECT_EQ(s.result.cached_tokens, 0);
        EXPECT_NEAR(static_cast<double>(s.result.prompt_tokens), static_cast<double>(s.target), 2);
        EXPECT_EQ(s.result.output_tokens, 1);
    }
    ASSERT_EQ(r.found.tables[0].rows.size(), 2U);
    // The script takes 20 microseconds a token, so no honest client measures more.
    EXPECT_LE(number(r.found.tables[0].rows[1][3]), 50'000);
    EXPECT_GT(number(r.found.tables[0].rows[1][3]), 500);
}

TEST_P(each_dialect, prompts_are_measured_when_the_server_counts_none) {
    const scripted_server server({.counts_tokens = false});
    const outcome r =
        bench(server, with_dialect({"prefill", "--prompt-tokens", "300"}, GetParam()));
    ASSERT_EQ(r.failure, "");
    EXPECT_NEAR(static_cast<double>(r.found.samples[0].result.prompt_tokens), 300, 2);
}

TEST_P(each_dialect, decode_counts_tokens_and_times_between_them) {
    const scripted_server server({});
    const outcome r = bench(server, with_dialect({"decode", "--decode-tokens", "20"}, GetParam()));
    ASSERT_EQ(r.failure, "");
    ASSERT_EQ(r.found.samples.size(), 3U);
    for (const sample& s : r.found.samples) {
        EXPECT_EQ(s.result.output_tokens, 20);
        EXPECT_EQ(s.result.content_s.size(), 20U);
        EXPECT_GT(s.result.first_byte_s, 0);
        EXPECT_LE(s.result.first_byte_s, s.result.first_s);
        EXPECT_LE(s.result.decode_speed(), 1'000);
        EXPECT_GT(s.result.decode_speed(), 50);
    }
}

TEST_P(each_dialect, an_answer_that_ends_early_is_counted_as_it_is) {
    const scripted_server server({.end_after_tokens = 5});
    const outcome r = bench(server, with_dialect({"decode", "--decode-tokens", "20"}, GetParam()));
    EXPECT_EQ(r.found.samples[0].result.output_tokens, 5);
    EXPECT_THAT(r.found.notes, testing::Contains(HasSubstr("ended before the number of tokens")));
}

TEST_P(each_dialect, depth_computes_the_chunk_only) {
    const scripted_server server({});
    const outcome r = bench(server, with_dialect({"depth", "--depths", "0,400", "--chunk-tokens",
                                                  "100", "--decode-tokens", "5"},
                                                 GetParam()));
    ASSERT_EQ(r.failure, "");
    const table& t = r.found.tables[0];
    ASSERT_EQ(t.rows.size(), 2U);
    EXPECT_EQ(number(t.rows[0][0]), 0);
    EXPECT_NEAR(number(t.rows[1][0]), 400, 3);
    EXPECT_NEAR(number(t.rows[1][1]), 100, 3);
}

TEST_P(each_dialect, agents_speak_at_the_same_time_and_remember) {
    const scripted_server server({});
    const outcome r = bench(server, with_dialect({"agents", "--agents", "1,6", "--prompt-tokens",
                                                  "50", "--decode-tokens", "30"},
                                                 GetParam()));
    ASSERT_EQ(r.failure, "");
    EXPECT_EQ(server.open_at_once_max(), 6);
    const table& t = r.found.tables[0];
    ASSERT_EQ(t.rows.size(), 2U);
    EXPECT_EQ(number(t.rows[1][3]), 180) << "tokens of all six";
    EXPECT_GT(number(t.rows[1][2]), 40) << "each was primed";
    EXPECT_GT(number(t.rows[1][4]), 2 * number(t.rows[0][4])) << "the script is parallel";
}

TEST_P(each_dialect, connections_holds_idle_and_slow_ones_while_streams_run) {
    const scripted_server server({});
    const outcome r = bench(
        server,
        with_dialect({"connections", "--streams", "3", "--idle-connections", "5", "--slow-readers",
                      "2", "--prompt-tokens", "50", "--decode-tokens", "20", "--repeats", "2"},
                     GetParam()));
    ASSERT_EQ(r.failure, "");
    EXPECT_EQ(server.open_at_once_max(), 3);
    EXPECT_EQ(of_phase(r.found, "3 at once").size(), 3U * (1 + 2 * 3))
        << "alone, then in each round beside the idle, beside both, and alone again";
    const table& t = r.found.tables[0];
    ASSERT_EQ(t.rows.size(), 3U);
    EXPECT_EQ(number(t.rows[1][1]), 5);
    EXPECT_EQ(number(t.rows[1][2]), 5) << "the server keeps connections that say nothing";
    EXPECT_EQ(number(t.rows[2][1]), 7);
    for (const auto& row : t.rows) {
        EXPECT_EQ(number(row[3]), 3);
        EXPECT_GT(number(row[5]), 0) << "its share of alone";
        EXPECT_LE(number(row[6]), number(row[5]));
        EXPECT_GE(number(row[7]), number(row[5]));
    }
}

TEST_P(each_dialect, staggered_sets_b_beside_a) {
    const scripted_server server({});
    const outcome r =
        bench(server, with_dialect({"staggered", "--prompt-tokens", "200", "--decode-tokens", "150",
                                    "--delay-seconds", "0.05"},
                                   GetParam()));
    ASSERT_EQ(r.failure, "");
    EXPECT_EQ(r.found.tables[0].rows.size(), 3U);
    EXPECT_EQ(r.found.tables[1].rows.size(), 3U);
    const auto b = of_phase(r.found, "B cold beside A");
    const auto a = of_phase(r.found, "A beside B cold");
    ASSERT_EQ(a.size(), 1U);
    ASSERT_EQ(b.size(), 1U);
    EXPECT_NEAR(b[0].sent_at - a[0].sent_at, 0.05, 0.04);
    EXPECT_GT(number(r.found.tables[0].rows[1][2]), 150) << "B warm has a past";
}

TEST_P(each_dialect, tiers_prove_their_reuse) {
    const scripted_server server({});
    const outcome r =
        bench(server, with_dialect({"cold-warm-hot", "--contexts", "200,1K"}, GetParam()));
    ASSERT_EQ(r.failure, "");
    ASSERT_EQ(r.found.tables[0].rows.size(), 2U);
    const auto& row = r.found.tables[0].rows[1];
    EXPECT_NEAR(number(row[0]), 1024, 3);
    EXPECT_EQ(number(row[1]), 0);
    EXPECT_NEAR(number(row[4]), 1024, 3);
    EXPECT_GT(number(row[7]), 1024);
    EXPECT_EQ(number(row[9]), number(row[7])) << "all that was reused came from disk";
    EXPECT_GT(number(row[10]), 1) << "cold over hot";
}

TEST_P(each_dialect, cache_says_what_a_turn_wrote) {
    const scripted_server server({});
    const outcome r = bench(
        server, with_dialect({"cache", "--contexts", "200", "--turns", "2", "--turn-tokens", "10"},
                             GetParam()));
    ASSERT_EQ(r.failure, "");
    const table& t = r.found.tables[0];
    ASSERT_EQ(t.rows.size(), 3U);
    EXPECT_NEAR(number(t.rows[0][5]) * 1024, 20'000, 400) << "100 bytes a word";
    EXPECT_LT(number(t.rows[1][5]), number(t.rows[0][5]) / 4);
    EXPECT_EQ(r.found.tables[1].rows.size(), 1U);
}

TEST_P(each_dialect, cache_says_how_fast_memory_comes_back_and_what_it_takes) {
    const tests::temp_dir folder;
    std::ofstream(folder / "config.json")
        << R"({"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 64,
               "num_key_value_heads": 1, "head_dim": 32})";
    std::ofstream(folder / "a block") << std::string(5'000'000, 'k');
    const auto later = std::filesystem::file_time_type::clock::now() + std::chrono::hours(1);
    std::filesystem::last_write_time(folder / "a block", later);
    const scripted_server server({});
    const outcome r = bench(
        server, with_dialect({"cache", "--contexts", "200", "--turns", "2", "--turn-tokens", "10",
                              "--cache-dir", folder / "", "--model-config", folder / "config.json",
                              "--shared-agents", "3", "--shared-tokens", "100"},
                             GetParam()));
    ASSERT_EQ(r.failure, "");
    const auto& restored = r.found.tables[1].rows.at(0);
    EXPECT_NEAR(number(restored[6]), number(restored[4]) * 1000 / 1e6, 1e-6) << "MB of the last";
    EXPECT_NEAR(number(restored[7]), 1000 / 1e-4 / 1e9, 1e-4) << "GB/s by the server's counters";
    EXPECT_GT(number(restored[8]), 0.05) << "GB/s of the files that were there";
    const auto& sizes = r.found.tables[2].rows.at(0);
    EXPECT_EQ(number(sizes[3]), 128);
    EXPECT_NEAR(number(sizes[4]), 100 * (1 - 36.0 / 128), 3);
    EXPECT_NEAR(number(sizes[5]), 100 * (1 - 40.0 / 128), 3);
    const auto& shared = r.found.tables[3].rows.at(0);
    EXPECT_EQ(number(shared[0]), 3);
    EXPECT_NEAR(number(shared[5]), 3, 0.1) << "this server shares nothing";
    EXPECT_NEAR(number(shared[6]), 1, 0.05);
}

TEST(run, what_a_server_does_not_count_is_no_part_of_its_cache) {
    const scripted_server server({.evicts = false, .has_metrics = false});
    const outcome r = bench(server, {"cache", "--contexts", "100", "--shared-agents", "2"});
    ASSERT_EQ(r.failure, "");
    const auto empty = [](const cell& c) { return std::holds_alternative<std::monostate>(c); };
    for (std::size_t i = 2; i < 10; ++i) EXPECT_TRUE(empty(r.found.tables[1].rows.at(0)[i])) << i;
    for (std::size_t i = 1; i < 6; ++i) EXPECT_TRUE(empty(r.found.tables[2].rows.at(0)[i])) << i;
    for (std::size_t i = 3; i < 7; ++i) EXPECT_TRUE(empty(r.found.tables[3].rows.at(0)[i])) << i;
}

TEST(run, what_a_server_lacks_is_an_empty_cell_and_a_note) {
    const scripted_server server({.evicts = false, .has_metrics = false});
    const outcome r = bench(server, {"cold-warm-hot", "--contexts", "100"});
    ASSERT_EQ(r.failure, "");
    EXPECT_TRUE(std::holds_alternative<std::monostate>(r.found.tables[0].rows[0][6]));
    EXPECT_TRUE(std::holds_alternative<std::monostate>(r.found.tables[0].rows[0][9]));
    EXPECT_THAT(r.found.notes, testing::Contains(HasSubstr("--restart-command")));
}

TEST(run, a_restart_command_is_run_for_each_warm_turn) {
    const tests::temp_dir folder;
    const scripted_server server({.evicts = false});
    const outcome r = bench(server, {"cold-warm-hot", "--contexts", "100,200", "--restart-command",
                                     "echo x >> " + folder / "runs"});
    ASSERT_EQ(r.failure, "");
    std::ifstream runs(folder / "runs");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(runs), {}), "x\nx\n");
    const outcome failed =
        bench(server, {"cold-warm-hot", "--contexts", "100", "--restart-command", "exit 3"});
    EXPECT_THAT(failed.failure, HasSubstr("--restart-command failed"));
}

TEST(run, contexts_that_the_model_cannot_hold_are_left_out) {
    const scripted_server server({.context_max = 1'000});
    const outcome r = bench(server, {"prefill", "--prompt-tokens", "500,1000"});
    ASSERT_EQ(r.failure, "");
    EXPECT_EQ(r.found.tables[0].rows.size(), 1U);
    EXPECT_THAT(r.found.notes, testing::Contains(HasSubstr("the model holds 1000")));
}

TEST(run, a_refusal_is_shown_and_what_was_measured_stands) {
    const scripted_server server({.fail_from_request = 6});
    const outcome r = bench(server, {"prefill", "--prompt-tokens", "100,200"});
    EXPECT_EQ(r.status, 1);
    EXPECT_FALSE(r.found.complete);
    EXPECT_THAT(r.failure, HasSubstr("HTTP 400"));
    EXPECT_THAT(r.failure, HasSubstr("the scripted refusal"));
    EXPECT_EQ(r.found.tables[0].rows.size(), 1U);
    EXPECT_EQ(r.found.samples.size(), 4U);
}

TEST(run, a_server_that_says_nothing_is_left_after_the_timeout) {
    const scripted_server server({.hangs = true});
    const outcome r = bench(server, {"decode", "--timeout-seconds", "1"});
    EXPECT_EQ(r.status, 1);
    EXPECT_THAT(r.failure, HasSubstr("--timeout-seconds"));
}

TEST(run, the_whole_run_ends_in_time) {
    const scripted_server server({});
    const auto start = std::chrono::steady_clock::now();
    const outcome r = bench(server, {"decode", "--repeats", "1000", "--max-seconds", "1"});
    EXPECT_EQ(r.status, 3);
    EXPECT_THAT(r.failure, HasSubstr("--max-seconds"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    EXPECT_FALSE(r.found.samples.empty()) << "what was measured stands";
}

TEST(run, a_cut_stream_is_an_error) {
    const scripted_server server({.cuts_stream = true});
    const outcome r = bench(server, {"decode"});
    EXPECT_EQ(r.status, 1);
    EXPECT_NE(r.failure, "");
}

TEST(run, nobody_at_the_port_is_told_as_such) {
    std::string url;
    { url = scripted_server({}).url(); }
    const char* argv[] = {"semantic-bench", "decode", "--url", url.c_str()};
    const outcome r = run(parse_options(4, argv).opts);
    EXPECT_EQ(r.status, 1);
    EXPECT_THAT(r.failure, HasSubstr("refused"));
}

TEST(run, the_report_holds_every_sample_in_every_form) {
    const tests::temp_dir folder;
    const scripted_server server({});
    const outcome r = bench(server, {"agents", "--agents", "1,2", "--prompt-tokens", "20",
                                     "--decode-tokens", "4", "--api-key", "secret"});
    ASSERT_EQ(r.failure, "");
    std::set<std::string> names;
    for (const std::string& file : write_report(r.found, folder / "new/folder")) {
        std::ifstream stream(file);
        const std::string text(std::istreambuf_iterator<char>(stream), {});
        EXPECT_EQ(text.find("secret"), std::string::npos);
        const std::string name = file.substr(file.rfind('/') + 1);
        names.insert(name);
        if (name == "agents.json") {
            const auto whole = boost::json::parse(text).as_object();
            EXPECT_EQ(whole.at("samples").as_array().size(), r.found.samples.size());
            EXPECT_TRUE(whole.at("complete").as_bool());
            EXPECT_GT(whole.at("machine").at("ram_bytes").as_int64(), 0);
        }
        if (name == "agents-samples.csv") {
            EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
                      r.found.samples.size() + 1);
        }
    }
    EXPECT_EQ(names, (std::set<std::string>{"agents.json", "agents.csv", "agents-samples.csv",
                                            "agents.svg", "agents-itl.svg"}));
}

}  // namespace
}  // namespace semantic::bench
