// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of semantic-bench: one options struct for all subcommands. Every count has a
// bound, so that no run can grow without end.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "perf/bench/client/chat_client.hpp"

namespace semantic::bench {

inline constexpr std::int64_t tokens_max = 1'048'576;  // of one prompt or answer
inline constexpr std::int64_t agents_max = 256;
inline constexpr std::int64_t connections_max = 50'000;
inline constexpr std::int64_t repeats_max = 1'000;
inline constexpr std::int64_t seconds_max = 86'400;
inline constexpr std::size_t list_entries_max = 64;

struct options : client_settings {
    std::string command;
    std::string command_line;  // as given, with the API key masked

    std::string out_dir;  // empty: nothing is written
    std::int64_t repeats = 3;
    std::uint64_t seed = 1;

    std::vector<std::int64_t> lengths;  // contexts, depths or prompt lengths, by subcommand
    std::vector<std::int64_t> agents;
    std::int64_t prompt_tokens = 0;
    std::int64_t decode_tokens = 0;
    std::int64_t turn_tokens = 50;
    std::int64_t tiny_tokens = 32;
    std::int64_t turns = 3;
    std::int64_t idle_connections = 0;
    std::int64_t slow_readers = 0;
    std::chrono::duration<double> delay{2.0};
    std::string restart_command;
    std::string written_metric;
    std::string disk_metric;
    std::string read_metric;
    std::string restore_metric;
    std::string pool_metric;
    std::string directory_metric;
    std::string cache_dir;  // empty: its files are not read
    std::string model_config;
    std::int64_t shared_agents = 10;  // 0: not measured
    std::int64_t shared_tokens = 2000;
    std::string scenarios;  // by name, with commas
};

struct parsed_options {
    options opts;
    std::string help;  // not empty: print this and stop
};

/// Errors: usage_error that names the option.
parsed_options parse_options(int argc, const char* const* argv);

/// "512,2K,32k" -> {512, 2048, 32768}. Errors: usage_error naming `option` when an entry is no
/// number from `low` to `high`, or there are too many.
std::vector<std::int64_t> parse_counts(std::string_view text, std::string_view option,
                                       std::int64_t low, std::int64_t high);

}  // namespace semantic::bench
