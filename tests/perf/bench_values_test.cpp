// SPDX-License-Identifier: Apache-2.0
// The small pure parts of semantic-bench: statistics, prompts, addresses, options.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "perf/bench/client/errors.hpp"
#include "perf/bench/client/url.hpp"
#include "perf/bench/measure/burst.hpp"
#include "perf/bench/measure/options.hpp"
#include "perf/bench/measure/prompts.hpp"
#include "perf/bench/report/statistics.hpp"

namespace semantic::bench {
namespace {

using testing::HasSubstr;

template <class Error, class Call>
std::string message_of(Call call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing was thrown";
}

TEST(statistics, percentiles_lie_between_neighbours) {
    const std::vector<double> values{40, 10, 30, 20};
    EXPECT_DOUBLE_EQ(percentile(values, 0), 10);
    EXPECT_DOUBLE_EQ(percentile(values, 1), 40);
    EXPECT_DOUBLE_EQ(median(values), 25);
    EXPECT_DOUBLE_EQ(percentile(values, 0.99), 39.7);
    EXPECT_DOUBLE_EQ(percentile(values, 7), 40);
}

TEST(statistics, one_value_is_every_percentile) {
    for (const double p : {0.0, 0.5, 0.99, 1.0}) EXPECT_DOUBLE_EQ(percentile({7}, p), 7);
}

TEST(statistics, no_values_are_zero) {
    EXPECT_DOUBLE_EQ(median({}), 0);
    EXPECT_EQ(summarise({}).count, 0U);
}

TEST(statistics, a_summary_agrees_with_its_parts) {
    const summary s = summarise({3, 1, 2});
    EXPECT_EQ(s.count, 3U);
    EXPECT_DOUBLE_EQ(s.min, 1);
    EXPECT_DOUBLE_EQ(s.mean, 2);
    EXPECT_DOUBLE_EQ(s.p50, 2);
    EXPECT_DOUBLE_EQ(s.p99, 2.98);
    EXPECT_DOUBLE_EQ(s.max, 3);
}

generation answer_at(double sent, std::vector<double> content) {
    generation g;
    g.sent_at = sent;
    g.first_s = content.front();
    g.last_s = content.back();
    g.output_tokens = static_cast<std::int64_t>(content.size());
    g.content_s = std::move(content);
    return g;
}

TEST(burst, speed_together_counts_only_the_time_in_which_all_answer) {
    // One answers from 1 to 4, the other from 3 to 6: between 3 and 4 come 2 tokens and 1.
    const burst b = judge({answer_at(0, {1, 2, 3, 3.5, 4}), answer_at(2, {1, 2, 4})});
    EXPECT_DOUBLE_EQ(b.together_speed, 3);
    EXPECT_DOUBLE_EQ(b.total_speed, 7.0 / 5);
}

TEST(burst, answers_that_never_overlap_have_no_speed_together) {
    EXPECT_DOUBLE_EQ(judge({answer_at(0, {1, 2}), answer_at(2, {1, 2})}).together_speed, 0);
}

TEST(burst, one_answer_is_together_with_itself) {
    const burst b = judge({answer_at(5, {1, 1.5, 2, 2.5, 3})});
    EXPECT_DOUBLE_EQ(b.together_speed, 2);
    EXPECT_DOUBLE_EQ(b.together_speed, b.total_speed);
}

TEST(burst, a_delta_of_several_tokens_counts_as_many) {
    generation g = answer_at(0, {1, 2, 3});
    g.output_tokens = 9;
    EXPECT_DOUBLE_EQ(judge({g}).together_speed, 3);
}

TEST(prompts, the_same_seed_draws_the_same_words) {
    EXPECT_EQ(words(5, 100), words(5, 100));
    EXPECT_NE(words(5, 100), words(6, 100));
}

TEST(prompts, a_text_has_as_many_words_as_asked) {
    for (const std::size_t count : {1U, 2U, 12U, 13U, 500U}) {
        const std::string text = words(1, count);
        EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), ' ')), count - 1);
    }
}

TEST(prompts, cold_prompts_part_at_the_first_characters) {
    const std::string a = cold_prompt(0x123456789ABCDEF0U, 1, 10);
    const std::string b = cold_prompt(0x023456789ABCDEF0U, 1, 10);
    EXPECT_EQ(a.substr(0, 17), "123456789abcdef0 ");
    EXPECT_NE(a[0], b[0]);
    EXPECT_EQ(a.substr(16), b.substr(16));
}

TEST(prompts, the_ruler_runs_through_both_measured_points) {
    const token_ruler ruler = token_ruler::through(50, 90, 400, 615);  // 15 + 1.5 a word
    EXPECT_EQ(ruler.words_for(90), 50U);
    EXPECT_EQ(ruler.words_for(615), 400U);
    EXPECT_EQ(ruler.words_for(1515), 1000U);
    EXPECT_EQ(ruler.words_for_turn(150), 100U);
    EXPECT_EQ(ruler.words_for(1), 1U) << "a prompt has a word at least";
}

TEST(prompts, a_server_that_counts_nothing_divides_nothing_by_zero) {
    const token_ruler ruler = token_ruler::through(50, 7, 400, 7);
    EXPECT_GT(ruler.tokens_per_word, 0);
}

TEST(server_url, loopback_addresses_are_taken) {
    EXPECT_EQ(parse_url("http://127.0.0.1:8001").text(), "http://127.0.0.1:8001");
    EXPECT_EQ(parse_url("http://127.8.9.10/").text(), "http://127.8.9.10:80");
    EXPECT_EQ(parse_url("http://[::1]:9/").authority(), "[::1]:9");
    const server_url named = parse_url("http://localhost:9/x/v1/");
    EXPECT_EQ(named.base_path, "/x");
    EXPECT_EQ(named.addresses, (std::vector<std::string>{"127.0.0.1", "::1"}));
    EXPECT_EQ(parse_url("http://localhost/v1").base_path, "");
}

TEST(server_url, every_other_host_is_refused) {
    for (const char* url :
         {"http://0.0.0.0:8001", "http://10.0.0.1", "http://128.0.0.1", "http://126.255.255.255",
          "http://[::2]", "http://[::]", "http://[::ffff:127.0.0.1]", "http://example.com",
          "http://localhost.example.com", "http://127.0.0.1.example.com", "http://127.1",
          "http://2130706433", "http://", "http:///x"}) {
        EXPECT_THAT(message_of<usage_error>([&] { parse_url(url); }), HasSubstr("on this machine"))
            << url;
    }
}

TEST(server_url, what_is_no_plain_http_url_is_refused) {
    for (const char* url :
         {"", "127.0.0.1:8001", "https://127.0.0.1", "http://a@127.0.0.1", "http://[::1",
          "http://127.0.0.1:0", "http://127.0.0.1:65536", "http://127.0.0.1:x",
          "http://127.0.0.1:", "http://[::1]x", "http://127.0.0.1/?q", "http://127.0.0.1/a b"}) {
        EXPECT_THROW(parse_url(url), usage_error) << url;
    }
}

parsed_options parse(std::vector<const char*> words) {
    words.insert(words.begin(), "semantic-bench");
    return parse_options(static_cast<int>(words.size()), words.data());
}

TEST(options, each_subcommand_has_its_defaults_and_its_help) {
    for (const char* name :
         {"prefill", "decode", "depth", "agents", "staggered", "cache", "cold-warm-hot"}) {
        EXPECT_EQ(parse({name}).opts.command, name);
        EXPECT_THAT(parse({name, "--help"}).help, HasSubstr("--max-seconds"));
        EXPECT_THAT(parse({"--help"}).help, HasSubstr(name));
    }
    EXPECT_EQ(parse({"prefill"}).opts.lengths, (std::vector<std::int64_t>{512, 2048}));
    EXPECT_EQ(parse({"agents"}).opts.agents, (std::vector<std::int64_t>{1, 2, 4, 8, 16}));
    EXPECT_EQ(parse({"decode"}).opts.run_limit, std::chrono::seconds(600));
}

TEST(options, counts_know_kibi_and_their_bounds) {
    EXPECT_EQ(parse_counts("0,1K,2k", "x", 0, 2048), (std::vector<std::int64_t>{0, 1024, 2048}));
    for (const char* wrong : {"", "1,", ",1", "-1", "1.5", "K", "2049", "9223372036854775807K"}) {
        EXPECT_THAT(message_of<usage_error>([&] { parse_counts(wrong, "x", 0, 2048); }),
                    HasSubstr("--x"))
            << wrong;
    }
    std::string list = "1";
    for (std::size_t i = 1; i < list_entries_max; ++i) list += ",1";
    EXPECT_EQ(parse_counts(list, "x", 0, 9).size(), list_entries_max);
    EXPECT_THROW(parse_counts(list + ",1", "x", 0, 9), usage_error);
}

TEST(options, every_bound_is_held) {
    EXPECT_NO_THROW(parse({"agents", "--agents", "256"}));
    EXPECT_NO_THROW(parse({"connections", "--idle-connections", "50000"}));
    EXPECT_THROW(parse({"connections", "--idle-connections", "50001"}), usage_error);
    EXPECT_THROW(parse({"connections", "--slow-readers", "50001"}), usage_error);
    EXPECT_THROW(parse({"connections", "--streams", "2,4"}), usage_error);
    EXPECT_THROW(parse({"agents", "--agents", "257"}), usage_error);
    EXPECT_NO_THROW(parse({"decode", "--repeats", "1000"}));
    EXPECT_THROW(parse({"decode", "--repeats", "1001"}), usage_error);
    EXPECT_NO_THROW(parse({"decode", "--max-seconds", "86400"}));
    EXPECT_THROW(parse({"decode", "--max-seconds", "86401"}), usage_error);
    EXPECT_THROW(parse({"decode", "--max-seconds", "0"}), usage_error);
    EXPECT_NO_THROW(parse({"decode", "--decode-tokens", "1048576"}));
    EXPECT_THROW(parse({"decode", "--decode-tokens", "1048577"}), usage_error);
    EXPECT_NO_THROW(parse({"staggered", "--delay-seconds", "600"}));
    EXPECT_THROW(parse({"staggered", "--delay-seconds", "600.5"}), usage_error);
}

TEST(options, what_is_unknown_is_named) {
    const auto message = [](std::vector<const char*> words) {
        return message_of<usage_error>([&] { parse(words); });
    };
    EXPECT_THAT(message({}), HasSubstr("no subcommand"));
    EXPECT_THAT(message({"prefil"}), HasSubstr("prefil"));
    EXPECT_THAT(message({"prefill", "--prompt"}), HasSubstr("--prompt"));
    EXPECT_THAT(message({"prefill", "--api", "x"}), HasSubstr("--api"));
    EXPECT_THAT(message({"prefill", "--extra", "[1]"}), HasSubstr("--extra"));
    EXPECT_THAT(message({"prefill", "--url", "http://10.0.0.1"}), HasSubstr("10.0.0.1"));
}

TEST(options, the_key_is_not_written_down) {
    const options split = parse({"decode", "--api-key", "secret"}).opts;
    EXPECT_EQ(split.api_key, "secret");
    EXPECT_EQ(split.command_line.find("secret"), std::string::npos);
    const options joined = parse({"decode", "--api-key=secret"}).opts;
    EXPECT_EQ(joined.api_key, "secret");
    EXPECT_EQ(joined.command_line.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace semantic::bench
