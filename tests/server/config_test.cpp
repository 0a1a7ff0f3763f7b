// SPDX-License-Identifier: Apache-2.0
#include "server/config/config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <unistd.h>

#include "storage/pool/kv_recipe.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::server {
namespace {

using environment = std::map<std::string, std::string>;

/// Of this process's variables those that the server reads, replaced for as long as this lives.
class scoped_environment {
  public:
    explicit scoped_environment(const environment& variables) {
        for (char** entry = environ; *entry != nullptr; ++entry) {
            std::string text(*entry);
            std::string name = text.substr(0, text.find('='));
            if (name.starts_with("SEMANTIC_") || name == "ANTHROPIC_API_KEY")
                before_[name] = text.substr(name.size() + 1);
        }
        replace(before_, variables);
        now_ = variables;
    }
    ~scoped_environment() { replace(now_, before_); }
    scoped_environment(const scoped_environment&) = delete;
    scoped_environment& operator=(const scoped_environment&) = delete;

  private:
    static void replace(const environment& old, const environment& fresh) {
        for (const auto& [name, value] : old) unsetenv(name.c_str());
        for (const auto& [name, value] : fresh) setenv(name.c_str(), value.c_str(), 1);
    }
    environment before_;
    environment now_;
};

parsed_config parse(const std::vector<std::string>& arguments, const environment& variables) {
    scoped_environment scope(variables);
    return parse_config(arguments);
}

std::string fault(const std::vector<std::string>& arguments, const environment& variables = {}) {
    try {
        parse(arguments, variables);
    } catch (const config_error& error) {
        return error.what();
    }
    return "no error";
}

/// A config file with that text.
class config_file {
  public:
    explicit config_file(const std::string& text) { std::ofstream(path()) << text; }
    std::string path() const { return dir_ / "server.conf"; }

  private:
    tests::temp_dir dir_;
};

const config_setting& setting(const parsed_config& parsed, std::string_view name) {
    for (const config_setting& one : parsed.settings)
        if (one.option->name == name) return one;
    throw std::runtime_error("no such option");
}

TEST(config, defaults_are_those_of_the_design) {
    config values = parse({}, {}).values;
    EXPECT_EQ(values.host, "127.0.0.1");
    EXPECT_EQ(values.port, 8001);
    EXPECT_EQ(values.cache_directory, "~/.semantic/caches");
    EXPECT_EQ(values.kv_bits, "auto");
    EXPECT_EQ(values.kv_recipe, "auto");
    EXPECT_EQ(values.kv_group_size, 64);
    EXPECT_EQ(values.block_tokens, 256);
    EXPECT_EQ(values.prefill_min_chunk_tokens, 512);
    EXPECT_EQ(values.prefill_max_chunk_tokens, 4096);
    EXPECT_EQ(values.chunked_prefill_threshold_tokens, 2048);
    EXPECT_EQ(values.decode_latency.count(), 200);
    EXPECT_EQ(values.max_batch, 16);
    EXPECT_EQ(values.io_threads, 1);
    EXPECT_TRUE(values.api_keys.empty());
}

TEST(config, flag_beats_environment_beats_file) {
    config_file file("# comment\nport = 1001\n  max-batch=3\nhost = 127.0.0.1\n");
    environment variables{{"SEMANTIC_PORT", "1002"}, {"SEMANTIC_HOST", "127.0.0.2"}};
    auto parsed = parse({"--config", file.path(), "--port=1003"}, variables);
    EXPECT_EQ(parsed.values.port, 1003);
    EXPECT_EQ(parsed.values.host, "127.0.0.2");
    EXPECT_EQ(parsed.values.max_batch, 3);
    EXPECT_EQ(setting(parsed, "port").source, "flag --port");
    EXPECT_EQ(setting(parsed, "host").source, "SEMANTIC_HOST");
    EXPECT_EQ(setting(parsed, "max-batch").source, file.path() + ":3");
    EXPECT_EQ(setting(parsed, "kv-bits").source, "default");
}

TEST(config, comments_may_follow_values) {
    config_file file("model = a#b  # the model\n#port = 1\n");
    config values = parse({"--config", file.path()}, {}).values;
    EXPECT_EQ(values.model, "a#b");
    EXPECT_EQ(values.port, 8001);
}

TEST(config, file_can_be_named_by_the_environment) {
    config_file file("port = 1001\n");
    EXPECT_EQ(parse({}, {{"SEMANTIC_CONFIG", file.path()}}).values.port, 1001);
}

TEST(config, every_option_has_three_spellings) {
    config_file keys("k1\n");
    for (const config_option& option : config_options()) {
        if (option.secret) continue;
        std::string value = option.print(config{});
        if (value.empty()) value = "x";
        std::string name(option.name);
        if (name == "api-key-file") value = keys.path();
        if (name == "object-store") value = "dir:/x";
        if (name == "redis") value = "redis://x";
        if (name == "node-url") value = "http://x";
        // What some options need in addition.
        environment needed{{"SEMANTIC_OBJECT_STORE", "dir:/x"}, {"SEMANTIC_REDIS", "redis://x"}};
        needed.erase(environment_name(name));
        if (name == "object-store") needed.clear();
        auto by_flag = parse({"--" + name, value}, needed);
        EXPECT_EQ(setting(by_flag, name).source, "flag --" + name);
        config_file file(name + " = " + value + "\n");
        auto by_file = parse({"--config", file.path()}, needed);
        EXPECT_EQ(setting(by_file, name).source, file.path() + ":1");
        needed[environment_name(name)] = value;
        EXPECT_EQ(setting(parse({}, needed), name).source, environment_name(name));
    }
}

TEST(config, weights_are_native_q8_or_q4) {
    EXPECT_EQ(parse({}, {}).values.weights, "native");
    for (const char* form : {"native", "q8", "q4"})
        EXPECT_EQ(parse({"--weights", form}, {}).values.weights, form);
    try {
        parse({"--weights", "q5"}, {});
        FAIL() << "q5 was accepted";
    } catch (const config_error& error) {
        EXPECT_NE(std::string(error.what()).find("weights"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("q5"), std::string::npos) << error.what();
    }
}

TEST(config, names_of_the_earlier_system_are_aliases) {
    environment variables{{"SEMANTIC_MLX_MODEL_ID", "/models/a"},
                          {"SEMANTIC_MLX_MAX_BATCH_SIZE", "2"},
                          {"SEMANTIC_MLX_CHUNKED_PREFILL_THRESHOLD", "1024"},
                          {"SEMANTIC_MLX_CHUNKED_PREFILL_MIN_CHUNK", "256"},
                          {"SEMANTIC_MLX_CHUNKED_PREFILL_MAX_CHUNK", "2048"},
                          {"SEMANTIC_MLX_KV_BITS", "none"},
                          {"SEMANTIC_MLX_KV_GROUP_SIZE", "64"},
                          {"SEMANTIC_MLX_BLOCK_TOKENS", "128"},
                          {"SEMANTIC_MLX_CACHE_BUDGET_MB", "512"},
                          {"SEMANTIC_AGENT_MAX_AGENTS_IN_MEMORY", "12"},
                          {"SEMANTIC_AGENT_CACHE_DIR", "/caches"},
                          {"SEMANTIC_SERVER_HOST", "0.0.0.0"},
                          {"SEMANTIC_SERVER_PORT", "8000"},
                          {"SEMANTIC_SERVER_LOG_LEVEL", "WARNING"},
                          {"ANTHROPIC_API_KEY", "k1, k2"}};
    config values = parse({}, variables).values;
    EXPECT_EQ(values.model, "/models/a");
    EXPECT_EQ(values.max_batch, 2);
    EXPECT_EQ(values.chunked_prefill_threshold_tokens, 1024);
    EXPECT_EQ(values.prefill_min_chunk_tokens, 256);
    EXPECT_EQ(values.prefill_max_chunk_tokens, 2048);
    EXPECT_EQ(values.kv_bits, "16");
    EXPECT_EQ(values.kv_group_size, 64);
    EXPECT_EQ(values.block_tokens, 128);
    EXPECT_EQ(values.cache_budget_mb, 512u);
    EXPECT_EQ(values.max_hot_agents, 12);
    EXPECT_EQ(values.cache_directory, "/caches");
    EXPECT_EQ(values.host, "0.0.0.0");
    EXPECT_EQ(values.port, 8000);
    EXPECT_EQ(values.log_from, log_level::warning);
    EXPECT_EQ(values.api_keys, (std::vector<std::string>{"k1", "k2"}));
}

TEST(config, states_of_turns_and_agents_reach_the_engine) {
    const config values = parse({"--states-per-turn", "3", "--states-per-agent", "5"}, {}).values;
    const auto options = make_engine_options(values, "/m", "/home/me");
    EXPECT_EQ(options.states_per_turn, 3);
    EXPECT_EQ(options.states_per_agent, 5);
}

TEST(config, shares_and_bounds_of_what_is_kept_and_written_reach_the_engine) {
    const config values = parse({"--kept-share-percent", "25", "--disk-writes-per-day-mb", "3",
                                 "--disk-writes-per-turn-mb", "2"},
                                {})
                              .values;
    const auto options = make_engine_options(values, "/m", "/home/me");
    EXPECT_EQ(options.kept_share_percent, 25u);
    EXPECT_EQ(options.disk_writes_per_day_bytes, 3u << 20);
    EXPECT_EQ(options.disk_writes_per_turn_bytes, 2u << 20);
    EXPECT_EQ(make_engine_options(config{}, "/m", "/home/me").kept_share_percent, 50u);
    EXPECT_EQ(fault({"--kept-share-percent", "101"}),
              "--kept-share-percent '101' must be a whole number from 0 to 100");
}

TEST(config, disk_budget_is_given_in_mebibytes) {
    EXPECT_EQ(parse({"--disk-budget-mb", "3"}, {}).values.disk_budget_mb, 3u);
    config values;
    values.disk_budget_mb = 3;
    EXPECT_EQ(make_engine_options(values, "/m", "/home/me").disk_budget_bytes, 3u << 20);
}

TEST(config, own_name_beats_its_alias) {
    environment variables{{"SEMANTIC_SERVER_PORT", "1"}, {"SEMANTIC_PORT", "2"}};
    EXPECT_EQ(parse({}, variables).values.port, 2);
}

TEST(config, doubled_underscores_and_the_infix_change_nothing) {
    EXPECT_EQ(parse({}, {{"SEMANTIC_MLX__MODEL_ID", "/m"}}).values.model, "/m");
    EXPECT_EQ(parse({}, {{"SEMANTIC_MLX_CACHE_DIR", "/c"}}).values.cache_directory, "/c");
}

TEST(config, of_two_aliases_the_first_by_name_counts) {
    environment variables{{"SEMANTIC_SERVER_PORT", "1"}, {"SEMANTIC_MLX_PORT", "2"}};
    EXPECT_EQ(parse({}, variables).values.port, 2);
}

TEST(config, names_without_a_counterpart_are_warned_about_and_change_nothing) {
    for (const char* name :
         {"SEMANTIC_MLX_MAX_CONTEXT_LENGTH", "SEMANTIC_MLX_PREFILL_STEP_SIZE",
          "SEMANTIC_MLX_CHUNKED_PREFILL_ENABLED", "SEMANTIC_MLX_REASONING_EXTRA_TOKENS",
          "SEMANTIC_MLX_SCHEDULER_ENABLED", "SEMANTIC_MLX_SCHEDULER_INTERLEAVE_THRESHOLD",
          "SEMANTIC_MLX_DEFAULT_MAX_TOKENS", "SEMANTIC_MLX_DEFAULT_TEMPERATURE",
          "SEMANTIC_AGENT_BATCH_WINDOW_MS", "SEMANTIC_AGENT_LRU_EVICTION_ENABLED",
          "SEMANTIC_AGENT_EVICT_TO_DISK", "SEMANTIC_AGENT_VALIDATE_MODEL_TAG",
          "SEMANTIC_SERVER_WORKERS", "SEMANTIC_SERVER_RATE_LIMIT_PER_AGENT",
          "SEMANTIC_SERVER_RATE_LIMIT_GLOBAL", "SEMANTIC_AUTH_DISABLED",
          "SEMANTIC_DISABLE_FUSED_ATTN", "SEMANTIC_ENABLE_METAL_DECODE",
          "SEMANTIC_SCHEDULER_ENABLED"}) {
        auto parsed = parse({}, {{name, "hunter2"}});
        ASSERT_EQ(parsed.warnings.size(), 1u) << name;
        EXPECT_TRUE(parsed.warnings[0].starts_with(std::string(name) + " has no effect here: "));
        EXPECT_EQ(parsed.warnings[0].find("hunter2"), std::string::npos);
        EXPECT_EQ(print_config(parsed), print_config(parse({}, {}))) << name;
        EXPECT_TRUE(parse({}, {{name, ""}}).warnings.empty()) << name;
    }
}

TEST(config, origins_are_a_list_of_what_a_browser_would_say) {
    auto origins = [](const char* text) {
        return parse({"--cors-origins", text}, {}).values.cors_origins;
    };
    using list = std::vector<std::string>;
    EXPECT_EQ(config{}.cors_origins, list{"loopback"});
    EXPECT_EQ(origins("none"), list{});
    EXPECT_EQ(origins("*"), list{"*"});
    EXPECT_EQ(origins("loopback, https://a.example"), (list{"loopback", "https://a.example"}));
    EXPECT_EQ(
        parse({}, {{"SEMANTIC_SERVER_CORS_ORIGINS", "http://localhost:3000"}}).values.cors_origins,
        list{"http://localhost:3000"});
    for (const char* bad : {"a.example", "https://a.example/", "*,loopback", "none,loopback",
                            "://a", "https://", "loopback,,*", "https://*.a"})
        EXPECT_NE(fault({"--cors-origins", bad}).find("cors-origins"), std::string::npos) << bad;
}

TEST(config, the_admin_key_is_one_word_and_never_shown) {
    auto parsed = parse({}, {{"SEMANTIC_ADMIN_KEY", "hunter2"}});
    EXPECT_EQ(parsed.values.admin_key, "hunter2");
    EXPECT_EQ(print_config(parsed).find("hunter2"), std::string::npos);
    EXPECT_NE(fault({"--admin-key", "two words"}).find("white space"), std::string::npos);
    EXPECT_EQ(parse({}, {}).values.admin_key, "");
}

TEST(config, no_ignored_name_is_one_of_an_option) {
    for (const ignored_variable& ignored : ignored_variables())
        for (const config_option& option : config_options()) {
            EXPECT_NE(ignored.name, environment_name(option.name));
            for (std::string_view alias : option.aliases) EXPECT_NE(ignored.name, alias);
        }
}

TEST(config, flags_are_whole_names) {
    EXPECT_EQ(fault({"--por", "1"}), "unknown option --por (did you mean --port?)");
    EXPECT_EQ(fault({"--api-ke=hunter2"}), "unknown option --api-ke (did you mean --api-key?)");
    EXPECT_EQ(fault({"-p", "1"}), "unknown option -p (see --help)");
    config_file file("por = 1\n");
    EXPECT_EQ(fault({"--config", file.path()}),
              file.path() + ":1: unknown key 'por' (did you mean port?)");
}

TEST(config, flags_that_need_a_value_and_those_that_take_none) {
    EXPECT_EQ(fault({"--port="}), "--port needs a value");
    EXPECT_EQ(fault({"--port", "-h"}), "--port needs a value");
    EXPECT_EQ(fault({"--help=yes"}), "--help takes no value");
    EXPECT_EQ(fault({"--port", "-1"}), "--port '-1' must be a whole number from 0 to 65535");
    EXPECT_EQ(fault({"--", "x"}), "unexpected argument 'x' (options start with --; see --help)");
    EXPECT_EQ(parse({"-h"}, {}).action, config_action::help);
    EXPECT_EQ(parse({"--port", "1", "--port", "2"}, {}).values.port, 2);
}

TEST(config, empty_flag_beats_the_environment) {
    EXPECT_TRUE(parse({"--api-key", ""}, {{"SEMANTIC_API_KEY", "k"}}).values.api_keys.empty());
}

TEST(config, unknown_flags_and_keys_are_errors_that_name_what_was_meant) {
    EXPECT_EQ(fault({"--prot", "1"}), "unknown option --prot (did you mean --port?)");
    EXPECT_EQ(fault({"--cache-dri=x"}), "unknown option --cache-dri (did you mean --cache-dir?)");
    EXPECT_EQ(fault({"--colour", "red"}), "unknown option --colour (see --help)");
    EXPECT_EQ(fault({"--" + std::string(100, 'x'), "1"}),
              "unknown option --" + std::string(100, 'x') + " (see --help)");
    config_file file("\nprot = 1\n");
    EXPECT_EQ(fault({"--config", file.path()}),
              file.path() + ":2: unknown key 'prot' (did you mean port?)");
}

TEST(config,
     a_variable_that_is_none_of_the_servers_is_warned_about_in_one_line_and_changes_nothing) {
    const environment strange{{"SEMANTIC_PROT", "hunter2"},
                              {"SEMANTIC_REAL_MODELS", "/models"},
                              {"SEMANTIC_MLX_COLOUR", "red"},
                              {"SEMANTIC_EMPTY_ONE", ""}};
    const auto parsed = parse({}, strange);
    ASSERT_EQ(parsed.warnings.size(), 1u);
    const std::string& line = parsed.warnings[0];
    EXPECT_NE(line.find("SEMANTIC_PROT (did you mean SEMANTIC_PORT?)"), line.npos) << line;
    EXPECT_NE(line.find("SEMANTIC_REAL_MODELS"), line.npos) << line;
    EXPECT_EQ(line.find("hunter2"), line.npos) << line;
    EXPECT_EQ(line.find("EMPTY"), line.npos) << line;
    EXPECT_EQ(line.find('\n'), line.npos);
    EXPECT_EQ(print_config(parsed), print_config(parse({}, {})));
    environment many;
    for (int i = 0; i < 9; ++i) many["SEMANTIC_STRANGE_" + std::to_string(i)] = "x";
    EXPECT_TRUE(parse({}, many).warnings.at(0).ends_with("SEMANTIC_STRANGE_7 and 1 more"))
        << parse({}, many).warnings.at(0);
}

TEST(config, bad_values_are_errors_that_name_the_place) {
    EXPECT_EQ(fault({"--port", "65536"}), "--port '65536' must be a whole number from 0 to 65535");
    EXPECT_EQ(fault({}, {{"SEMANTIC_MLX_KV_BITS", "5"}}),
              "SEMANTIC_MLX_KV_BITS '5' must be auto, 4, 8 or 16");
    EXPECT_EQ(fault({"--max-loaded", "9"}), "--max-loaded '9' must be a whole number from 1 to 8");
    EXPECT_EQ(fault({"--max-loaded", "0"}), "--max-loaded '0' must be a whole number from 1 to 8");
    EXPECT_EQ(fault({"--states-per-turn", "65"}),
              "--states-per-turn '65' must be a whole number from 1 to 64");
    EXPECT_EQ(fault({"--states-per-turn", "0"}),
              "--states-per-turn '0' must be a whole number from 1 to 64");
    EXPECT_EQ(fault({"--states-per-agent", "129"}),
              "--states-per-agent '129' must be a whole number from 2 to 128");
    EXPECT_EQ(fault({"--states-per-agent", "1"}),
              "--states-per-agent '1' must be a whole number from 2 to 128");
    config_file file("port = 80x\n");
    EXPECT_EQ(fault({"--config", file.path()}),
              file.path() + ":1: port '80x' must be a whole number from 0 to 65535");
    EXPECT_EQ(fault({"--port"}), "--port needs a value");
    EXPECT_EQ(fault({"8001"}), "unexpected argument '8001' (options start with --; see --help)");
    EXPECT_EQ(fault({"--prefill-min-chunk", "4096", "--prefill-max-chunk", "512"}),
              "prefill-min-chunk (4096) is larger than prefill-max-chunk (512)");
    EXPECT_TRUE(fault({"--chat-template", "vicuna"})
                    .starts_with("--chat-template 'vicuna' must be auto or one of: llama3, "));
    EXPECT_TRUE(fault({"--tokenizer-pre", "vicuna"})
                    .starts_with("--tokenizer-pre 'vicuna' must be auto or one of: gpt-2, "));
    EXPECT_EQ(fault({"--config", "/nonexistent"}), "cannot read the config file /nonexistent");
}

TEST(config, file_faults_name_their_line) {
    config_file no_equals("port 80\n");
    EXPECT_EQ(fault({"--config", no_equals.path()}),
              no_equals.path() + ":1: expected 'key = value', found 'port 80'");
    config_file section("\n[network]\nport = 1\n");
    EXPECT_EQ(fault({"--config", section.path()}),
              section.path() + ":2: expected 'key = value', found '[network]'");
    config_file action("help = 1\n");
    EXPECT_EQ(fault({"--config", action.path()}), action.path() + ":1: unknown key 'help'");
    config_file nameless("= 1\n");
    EXPECT_EQ(fault({"--config", nameless.path()}), nameless.path() + ":1: unknown key ''");
    config_file twice("port = 1\nport = 2\n");
    EXPECT_EQ(fault({"--config", twice.path()}), twice.path() + ":2: 'port' is set twice");
}

TEST(config, empty_variable_counts_as_unset) {
    auto parsed = parse({}, {{"SEMANTIC_PORT", ""}, {"ANTHROPIC_API_KEY", ""}});
    EXPECT_EQ(parsed.values.port, 8001);
    EXPECT_TRUE(parsed.values.api_keys.empty());
}

TEST(config, keys_are_never_printed) {
    auto parsed = parse({"--api-key", "hunter2"}, {});
    std::string shown = print_config(parsed);
    EXPECT_EQ(shown.find("hunter2"), std::string::npos);
    EXPECT_NE(shown.find("1 set"), std::string::npos);
    EXPECT_EQ(fault({"--api-key", "hunter2,,b"}).find("hunter2"), std::string::npos);
}

TEST(config, a_key_file_has_a_key_a_line_and_perhaps_its_tenant) {
    config_file keys("# ours\nk1\n\n  quarry team  \nk3\tteam\n");
    auto parsed = parse({"--api-key-file", keys.path()}, {});
    EXPECT_EQ(parsed.values.file_keys.now(),
              (std::vector<tenant_key>{{"k1", ""}, {"quarry", "team"}, {"k3", "team"}}));
    EXPECT_TRUE(needs_key(parsed.values));
    EXPECT_FALSE(needs_key(parse({}, {}).values));
    EXPECT_EQ(print_config(parsed).find("quarry"), std::string::npos);
    config_file empty("# none\n"), three("k1 team x\n"), twice("quayside\nquayside team\n");
    EXPECT_NE(fault({"--api-key-file", empty.path()}).find("has no key"), std::string::npos);
    EXPECT_NE(fault({"--api-key-file", three.path()}).find("line 1 has more"), std::string::npos);
    EXPECT_NE(
        fault({"--api-key-file", twice.path()}).find("line 2 has a key that an earlier line has"),
        std::string::npos);
    EXPECT_EQ(fault({"--api-key-file", twice.path()}).find("quayside"), std::string::npos);
    EXPECT_NE(fault({"--api-key-file", "/no/such/file"}).find("cannot be read"), std::string::npos);
}

TEST(config, nobody_beyond_this_machine_is_served_without_a_key_unless_that_is_asked_for) {
    config_file keys("k1\n");
    for (const char* host : {"127.0.0.1", "127.8.9.10", "::1", "localhost"})
        EXPECT_EQ(fault({"--host", host}), "no error") << host;
    for (const char* host :
         {"0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "a.example", "127.0.0.1.a.example"}) {
        EXPECT_EQ(fault({"--host", host}),
                  std::string("host ") + host +
                      " can be reached from other machines and there is no key: set api-key or "
                      "api-key-file, listen on 127.0.0.1, or say --insecure on");
        EXPECT_EQ(fault({"--host", host, "--insecure", "on"}), "no error") << host;
        EXPECT_EQ(fault({"--host", host, "--api-key", "k"}), "no error") << host;
        EXPECT_EQ(fault({"--host", host, "--api-key-file", keys.path()}), "no error") << host;
        // An admin's key is none that clients must send.
        EXPECT_NE(fault({"--host", host, "--admin-key", "k"}), "no error") << host;
    }
}

TEST(config, printed_configuration_can_be_read_back) {
    auto parsed = parse({"--port", "99", "--kv-bits", "8"}, {});
    config_file file(print_config(parsed));
    auto again = parse({"--config", file.path()}, {});
    EXPECT_EQ(again.values.port, 99);
    EXPECT_EQ(again.values.kv_bits, "8");
}

TEST(config, a_kv_recipe_is_named_or_measured_and_bits_are_short_for_one) {
    const auto recipe = [](const std::vector<std::string>& flags,
                           const environment& variables = {}) {
        return make_engine_options(parse(flags, variables).values, "/m", "/home/me").kv_recipe;
    };
    EXPECT_EQ(recipe({}), "auto");
    EXPECT_EQ(recipe({"--kv-recipe", "k8m-v5r"}), "k8m-v5r");
    EXPECT_EQ(recipe({"--kv-recipe", "8"}), "k8v8");
    EXPECT_EQ(recipe({"--kv-bits", "4"}), "4");
    EXPECT_EQ(recipe({"--kv-bits", "auto"}), "auto");
    EXPECT_EQ(recipe({}, {{"SEMANTIC_KV_BITS", "none"}}), "16");
    EXPECT_EQ(recipe({"--kv-bits", "8", "--kv-recipe", "k8v8"}), "8");
}

TEST(config, what_a_request_brings_is_content_unless_it_is_trusted) {
    const auto trusted = [](const std::vector<std::string>& flags,
                            const environment& variables = {}) {
        return make_engine_options(parse(flags, variables).values, "/m", "/home/me").trust_content;
    };
    EXPECT_FALSE(trusted({}));
    EXPECT_TRUE(trusted({"--trust-content", "on"}));
    EXPECT_TRUE(trusted({}, {{"SEMANTIC_TRUST_CONTENT", "on"}}));
    EXPECT_FALSE(trusted({"--trust-content", "off"}, {{"SEMANTIC_TRUST_CONTENT", "on"}}));
    EXPECT_NE(fault({"--trust-content", "yes please"}).find("trust-content"), std::string::npos);
}

TEST(config, kv_bits_and_a_recipe_that_contradict_each_other_are_refused) {
    EXPECT_NE(fault({"--kv-bits", "4", "--kv-recipe", "k8v8"})
                  .find("kv-bits 4 and kv-recipe k8v8 contradict each other"),
              std::string::npos);
    EXPECT_NE(fault({"--kv-recipe", "k9v9"}).find("must be auto or one of: k4v4, "),
              std::string::npos);
    EXPECT_NE(fault({"--kv-bits", "5"}).find("must be auto, 4, 8 or 16"), std::string::npos);
}

TEST(config, an_object_store_has_a_url_and_its_wait_needs_one) {
    EXPECT_EQ(parse({"--object-store", "dir:/mnt/shared"}, {}).values.object_store,
              "dir:/mnt/shared");
    const auto both =
        parse({"--object-store", "s3://store.example/b/p", "--object-store-wait-ms", "500"}, {});
    EXPECT_EQ(both.values.object_store_wait.count(), 500);
    EXPECT_NE(fault({"--object-store", "http://store.example/b"}).find("neither dir:, s3://"),
              std::string::npos);
    EXPECT_NE(fault({"--object-store-wait-ms", "500"}).find("needs object-store"),
              std::string::npos);
}

TEST(config, leases_need_an_object_store_and_what_is_told_of_them_needs_leases) {
    const auto all = parse({"--object-store", "dir:/x", "--redis", "redis://localhost:6380/2",
                            "--node-url", "http://node1:8001/", "--held-elsewhere", "redirect"},
                           {});
    EXPECT_EQ(all.values.redis, "redis://localhost:6380/2");
    EXPECT_EQ(all.values.node_url, "http://node1:8001");
    EXPECT_EQ(all.values.held_elsewhere, "redirect");
    const std::pair<std::vector<std::string>, const char*> bad[] = {
        {{"--redis", "redis://h"}, "needs object-store"},
        {{"--node-url", "http://n"}, "needs redis"},
        {{"--held-elsewhere", "serve"}, "needs redis"},
        {{"--held-elsewhere", "wait"}, "must be refuse, redirect or serve"},
        {{"--node-url", "node1"}, "must be http://"},
        {{"--redis", "redis://u:p@h"}, "REDISCLI_AUTH"},
    };
    for (const auto& [flags, why] : bad)
        EXPECT_NE(fault(flags).find(why), std::string::npos) << fault(flags);
}

TEST(config, keys_for_an_object_store_need_one) {
    EXPECT_FALSE(parse({}, {}).values.kv_events);
    EXPECT_TRUE(parse({"--kv-events", "on"}, {}).values.kv_events);
    EXPECT_NE(fault({"--kv-events", "all"}).find("kv-events"), std::string::npos);
    const auto both = parse({"--object-store", "dir:/x", "--object-store-key-file", "keys"}, {});
    EXPECT_EQ(both.values.object_store_key_file, "keys");
    EXPECT_NE(fault({"--object-store-key-file", "keys"}).find("needs object-store"),
              std::string::npos);
}

TEST(config, help_names_every_option) {
    std::string text = help_text();
    for (const config_option& option : config_options())
        EXPECT_NE(text.find("--" + std::string(option.name) + " "), std::string::npos)
            << option.name;
}

TEST(config, help_names_every_kv_recipe) {
    const std::string text = help_text();
    for (const storage::named_kv_recipe& each : storage::kv_recipes())
        EXPECT_NE(text.find(each.name), std::string::npos) << each.name;
}

TEST(config, home_is_expanded_for_the_engine) {
    config values;
    EXPECT_EQ(make_engine_options(values, "/m", "/home/me").cache_directory,
              "/home/me/.semantic/caches");
    EXPECT_THROW(make_engine_options(values, "/m", ""), config_error);
}

// The shipped file states every key once, with its default.
TEST(config, shipped_file_agrees_with_the_schema) {
    std::ifstream file(SEMANTIC_SOURCE_DIR "/etc/semantic-server.conf");
    ASSERT_TRUE(file);
    std::set<std::string> seen;
    std::string line;
    while (std::getline(file, line)) {
        if (!line.starts_with("#") || line.find(" = ") == std::string::npos) continue;
        std::string name = line.substr(1, line.find(" = ") - 1);
        for (const config_option& option : config_options()) {
            if (option.name != name) continue;
            EXPECT_TRUE(seen.insert(name).second) << name << " stands there twice";
            EXPECT_EQ(line.substr(line.find(" = ") + 3), option.print(config{})) << name;
        }
    }
    for (const config_option& option : config_options())
        EXPECT_TRUE(seen.contains(std::string(option.name))) << option.name << " is missing";
}

TEST(config, the_manual_page_has_every_option_with_its_default) {
    std::ifstream file(SEMANTIC_SOURCE_DIR "/etc/package/semantic-server.8");
    ASSERT_TRUE(file);
    std::string page(std::istreambuf_iterator<char>(file), {});
    page.erase(std::remove(page.begin(), page.end(), '\\'), page.end());  // troff's, before dashes
    for (const config_option& option : config_options()) {
        const std::string value = option.print(config{});
        const std::string line = "fB--" + std::string(option.name) + "fR fI" +
                                 std::string(option.value) +
                                 " (=" + (value.empty() ? "empty" : value) + ")fR\n";
        EXPECT_NE(page.find(line), std::string::npos) << line;
    }
}

}  // namespace
}  // namespace semantic::server
