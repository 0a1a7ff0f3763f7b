// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/measure/options.hpp"

#include <boost/json/parse.hpp>
#include <boost/program_options.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <sstream>

#include "perf/bench/client/errors.hpp"

namespace semantic::bench {
namespace {

namespace po = boost::program_options;

/// A subcommand with the defaults of its options.
struct subcommand {
    const char* name;
    const char* description;
    const char* lengths_option;  // nullptr: has none
    const char* lengths;
    const char* lengths_what;
    int repeats;
    int prompt_tokens;  // 0: has no such option
    int decode_tokens;
};

constexpr const char* tier_lengths = "1K,2K,4K,8K,16K,32K";
constexpr const char* tier_what = "context lengths; those that the model cannot hold are left out";

constexpr std::array subcommands{
    subcommand{"prefill", "cold prompts of given lengths: prompt tokens a second", "prompt-tokens",
               "512,2048", "prompt lengths", 3, 0, 0},
    subcommand{"decode", "one stream: tokens a second from the first to the last", nullptr, nullptr,
               nullptr, 3, 128, 128},
    subcommand{"depth", "prefill and decode speed on top of a context", "depths", "0,1K,4K,8K,16K",
               "context in front", 2, 512, 64},
    subcommand{"agents", "many agents that decode at the same time", nullptr, nullptr, nullptr, 1,
               1024, 64},
    subcommand{"connections", "streams beside connections that are idle or read slowly", nullptr,
               nullptr, nullptr, 3, 256, 64},
    subcommand{"staggered", "B arrives while A works: what each waits for", nullptr, nullptr,
               nullptr, 1, 4096, 256},
    subcommand{"cache", "what memory costs: bytes written, read, and held in RAM and on disk",
               "contexts", "1K,4K,16K", tier_what, 1, 0, 16},
    subcommand{"cold-warm-hot", "a turn on a context that is new, on disk only, in memory",
               "contexts", tier_lengths, tier_what, 1, 0, 16},
    subcommand{"phases", "scenarios of agents that remember, beside such as read anew", nullptr,
               nullptr, nullptr, 1, 1024, 48},
};

const subcommand* find_subcommand(std::string_view name) {
    const auto found = std::find_if(subcommands.begin(), subcommands.end(),
                                    [&](const subcommand& s) { return s.name == name; });
    return found == subcommands.end() ? nullptr : &*found;
}

/// Values as Program_options reads them, before take_raw() makes `options` of them.
struct raw_options {
    std::string url, dialect, extra, lengths, agents;
    std::int64_t run_seconds = 600;
    std::int64_t request_seconds = 300;
    double delay_seconds = 2;
};

/// Parses a number, which may have K for 1024. Errors: usage_error.
std::int64_t parse_count(std::string_view text, std::string_view option, std::int64_t low,
                         std::int64_t high) {
    std::string_view digits = text;
    std::int64_t unit = 1;
    if (digits.ends_with('K') || digits.ends_with('k')) {
        unit = 1024;
        digits.remove_suffix(1);
    }
    std::int64_t value = 0;
    const auto end = digits.data() + digits.size();
    const auto [last, error] = std::from_chars(digits.data(), end, value);
    const bool fits = error == std::errc() && last == end && !digits.empty() &&
                      value <= std::numeric_limits<std::int64_t>::max() / unit;
    if (!fits || value * unit < low || value * unit > high) {
        throw usage_error("--" + std::string(option) + ": \"" + std::string(text) +
                          "\" is no number from " + std::to_string(low) + " to " +
                          std::to_string(high));
    }
    return value * unit;
}

/// Checks that the value is from `low` to `high`. Errors: usage_error.
void require(std::int64_t value, std::string_view option, std::int64_t low, std::int64_t high) {
    parse_count(std::to_string(value), option, low, high);
}

/// The options that every subcommand has.
po::options_description common_options(options& o, raw_options& raw, const subcommand& s) {
    po::options_description all("Server and run");
    auto add = all.add_options();
    add("help,h", "show this text");
    add("url", po::value(&raw.url)->default_value("http://127.0.0.1:8001"),
        "the server; loopback addresses only");
    add("api", po::value(&raw.dialect)->default_value("anthropic"),
        "anthropic (Messages) or openai (chat completions)");
    add("model", po::value(&o.model), "default: the first model that the server lists");
    add("api-key", po::value(&o.api_key), "sent as bearer token and x-api-key");
    add("extra", po::value(&raw.extra), "JSON object whose fields join every chat request");
    add("out", po::value(&o.out_dir),
        "folder for JSON, CSV and SVG; without it nothing is written");
    add("repeats", po::value(&o.repeats)->default_value(s.repeats), "samples of each point");
    add("seed", po::value(&o.seed)->default_value(1), "draws the words of the prompts");
    add("max-context", po::value(&o.context_max)->default_value(0),
        "longest context in tokens; 0: as /v1/models tells");
    add("max-seconds", po::value(&raw.run_seconds)->default_value(600), "end of the whole run");
    add("timeout-seconds", po::value(&raw.request_seconds)->default_value(300),
        "end of one request");
    return all;
}

void add_cache_options(po::options_description& own, options& o) {
    auto add = own.add_options();
    const auto metric = [&add](const char* option, std::string& value, const char* name,
                               const char* description) {
        add(option, po::value(&value)->default_value(name), description);
    };
    add("turns", po::value(&o.turns)->default_value(3),
        "turns from memory, and as many from disk, on each context");
    add("cache-dir", po::value(&o.cache_dir),
        "the server's cache directory: its files are read plainly, to hold restoring against");
    add("model-config", po::value(&o.model_config),
        "the model's config.json: says what keys and values take at 16 bit");
    add("shared-agents", po::value(&o.shared_agents)->default_value(10),
        "agents that share a prefix; 0: leave this out");
    add("shared-tokens", po::value(&o.shared_tokens)->default_value(2000), "length of the prefix");
    metric("written-metric", o.written_metric, "semantic_store_written_bytes_total",
           "counter in /metrics of bytes written");
    metric("read-metric", o.read_metric, "semantic_store_read_bytes_total",
           "counter of bytes read from the cache directory");
    metric("restore-metric", o.restore_metric, "semantic_store_restore_seconds_total",
           "counter of seconds spent on bringing memory back from disk");
    metric("pool-metric", o.pool_metric, "semantic_pool_held_bytes",
           "gauge of bytes of RAM that hold keys and values");
    metric("directory-metric", o.directory_metric, "semantic_disk_bytes",
           "gauge of bytes in the cache directory");
}

/// The options of one subcommand.
po::options_description own_options(options& o, raw_options& raw, const subcommand& s) {
    po::options_description own(std::string("What ") + s.name + " measures");
    auto add = own.add_options();
    if (s.lengths_option != nullptr) {
        add(s.lengths_option, po::value(&raw.lengths)->default_value(s.lengths), s.lengths_what);
    }
    const std::string_view name = s.name;
    if (s.prompt_tokens != 0) {
        const char* option = name == "depth"    ? "chunk-tokens"
                             : name == "phases" ? "notes-tokens"
                                                : "prompt-tokens";
        add(option, po::value(&o.prompt_tokens)->default_value(s.prompt_tokens),
            name == "phases" ? "what each expert of \"routing\" has to read"
                             : "length of a prompt");
    }
    if (s.decode_tokens != 0) {
        const bool tiers = name == "cache" || name == "cold-warm-hot";
        add(tiers ? "answer-tokens" : "decode-tokens",
            po::value(&o.decode_tokens)->default_value(s.decode_tokens), "length of an answer");
        if (tiers) {
            add("turn-tokens", po::value(&o.turn_tokens)->default_value(50),
                "new tokens of a later turn");
            add("restart-command", po::value(&o.restart_command),
                "shell command that restarts the server and returns; without it, "
                "POST /v1/agents/{id}/evict is tried");
            add("disk-metric",
                po::value(&o.disk_metric)
                    ->default_value("semantic_tokens_reused_total{source=\"disk\"}"),
                "counter in /metrics of tokens taken from disk");
        }
    }
    if (name == "phases")
        add("scenarios", po::value(&o.scenarios)->default_value("prisoners-dilemma,gossip,routing"),
            "which; \"routing\" is made here, all others come with the server");
    if (name == "cache") add_cache_options(own, o);
    if (name == "agents") {
        add("agents", po::value(&raw.agents)->default_value("1,2,4,8,16"), "how many at once");
        add("turn-tokens", po::value(&o.turn_tokens)->default_value(16), "new tokens of each turn");
    }
    if (name == "connections") {
        add("streams", po::value(&raw.agents)->default_value("16"), "answers at the same time");
        add("idle-connections", po::value(&o.idle_connections)->default_value(10'000),
            "connections that say nothing");
        add("slow-readers", po::value(&o.slow_readers)->default_value(1'000),
            "connections that ask for /metrics many times and hardly read");
        add("turn-tokens", po::value(&o.turn_tokens)->default_value(16), "new tokens of each turn");
    }
    if (name == "staggered") {
        add("delay-seconds", po::value(&raw.delay_seconds)->default_value(2.0, "2"),
            "B arrives so long after A");
        add("tiny-tokens", po::value(&o.tiny_tokens)->default_value(32), "B's tiny prompt");
        add("turn-tokens", po::value(&o.turn_tokens)->default_value(50),
            "new tokens of B's warm turn");
    }
    return own;
}

std::string general_help() {
    std::ostringstream text;
    text
        << "semantic-bench: load and latency client for servers that speak the Anthropic Messages\n"
           "or OpenAI chat completions API over SSE. Measures a server on this machine only.\n\n"
           "usage: semantic-bench SUBCOMMAND [options]\n\n";
    for (const subcommand& s : subcommands) {
        text << "  " << s.name << std::string(15 - std::string_view(s.name).size(), ' ')
             << s.description << '\n';
    }
    text << "\nsemantic-bench SUBCOMMAND --help lists a subcommand's options.\n";
    return text.str();
}

/// The command line for the report, without the API key.
std::string masked_command_line(int argc, const char* const* argv) {
    std::string line;
    bool mask_next = false;
    for (int i = 0; i < argc; ++i) {
        std::string word = argv[i];
        if (mask_next) word = "***";
        mask_next = word == "--api-key";
        if (word.starts_with("--api-key=")) word = "--api-key=***";
        if (word.find_first_of(" \"'{}$") != std::string::npos) word = "'" + word + "'";
        line += (i == 0 ? "" : " ") + word;
    }
    return line;
}

/// Checks the values and makes `options` of them. Errors: usage_error.
void take_raw(options& o, const raw_options& raw, const subcommand& s) {
    o.url = parse_url(raw.url);
    if (raw.dialect != "anthropic" && raw.dialect != "openai") {
        throw usage_error("--api: must be anthropic or openai, not \"" + raw.dialect + "\"");
    }
    o.dialect = raw.dialect == "anthropic" ? api::anthropic : api::openai;
    if (!raw.extra.empty()) {
        boost::system::error_code error;
        boost::json::value parsed = boost::json::parse(raw.extra, error);
        if (error || !parsed.is_object()) throw usage_error("--extra: must be a JSON object");
        o.extra_body = std::move(parsed.as_object());
    }
    if (s.lengths_option != nullptr) {
        const int low = std::string_view(s.name) == "depth" ? 0 : 1;
        o.lengths = parse_counts(raw.lengths, s.lengths_option, low, tokens_max);
    }
    if (!raw.agents.empty()) {
        const char* option = o.command == "connections" ? "streams" : "agents";
        o.agents = parse_counts(raw.agents, option, 1, agents_max);
        if (o.command == "connections" && o.agents.size() != 1)
            throw usage_error("--streams: must be one number");
    }
    require(o.idle_connections, "idle-connections", 0, connections_max);
    require(o.slow_readers, "slow-readers", 0, connections_max);
    require(raw.run_seconds, "max-seconds", 1, seconds_max);
    require(raw.request_seconds, "timeout-seconds", 1, seconds_max);
    o.run_limit = std::chrono::seconds(raw.run_seconds);
    o.request_limit = std::chrono::seconds(raw.request_seconds);
    if (!(raw.delay_seconds >= 0) || raw.delay_seconds > 600) {
        throw usage_error("--delay-seconds: must be from 0 to 600");
    }
    o.delay = std::chrono::duration<double>(raw.delay_seconds);
    require(o.repeats, "repeats", 1, repeats_max);
    require(o.turns, "turns", 1, repeats_max);
    require(o.shared_agents, "shared-agents", 0, agents_max);
    require(o.shared_tokens, "shared-tokens", 1, tokens_max);
    require(o.context_max, "max-context", 0, tokens_max);
    require(o.turn_tokens, "turn-tokens", 1, tokens_max);
    require(o.tiny_tokens, "tiny-tokens", 1, tokens_max);
    if (s.prompt_tokens != 0) require(o.prompt_tokens, "prompt-tokens", 1, tokens_max);
    if (s.decode_tokens != 0) require(o.decode_tokens, "decode-tokens", 1, tokens_max);
}

}  // namespace

std::vector<std::int64_t> parse_counts(std::string_view text, std::string_view option,
                                       std::int64_t low, std::int64_t high) {
    std::vector<std::int64_t> counts;
    while (true) {
        const auto comma = text.find(',');
        counts.push_back(parse_count(text.substr(0, comma), option, low, high));
        if (counts.size() > list_entries_max) {
            throw usage_error("--" + std::string(option) + ": at most " +
                              std::to_string(list_entries_max) + " entries");
        }
        if (comma == text.npos) return counts;
        text.remove_prefix(comma + 1);
    }
}

parsed_options parse_options(int argc, const char* const* argv) {
    parsed_options parsed;
    const std::string_view first = argc > 1 ? argv[1] : "";
    if (first == "--help" || first == "-h" || first == "help") {
        parsed.help = general_help();
        return parsed;
    }
    const subcommand* s = find_subcommand(first);
    if (s == nullptr) {
        throw usage_error((first.empty() ? "no subcommand"
                                         : "no subcommand named \"" + std::string(first) + "\"") +
                          std::string("; semantic-bench --help lists them"));
    }
    options& o = parsed.opts;
    raw_options raw;
    o.command = s->name;
    po::options_description all(std::string("semantic-bench ") + s->name + ": " + s->description);
    all.add(own_options(o, raw, *s)).add(common_options(o, raw, *s));
    po::variables_map values;
    try {
        // No positional words and no guessing: a mistyped option must not be taken for another.
        namespace style = po::command_line_style;
        po::store(po::command_line_parser(argc - 1, argv + 1)
                      .options(all)
                      .positional({})
                      .style(style::unix_style & ~style::allow_guessing)
                      .run(),
                  values);
        if (values.count("help") != 0) {
            std::ostringstream text;
            text << all;
            parsed.help = text.str();
            return parsed;
        }
        po::notify(values);
    } catch (const po::error& error) {
        throw usage_error(error.what());
    }
    o.command_line = masked_command_line(argc, argv);
    take_raw(o, raw, *s);
    return parsed;
}

}  // namespace semantic::bench
