// SPDX-License-Identifier: Apache-2.0
#include "server/config/config.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "engine/model/config/model_config.hpp"
#include "server/config/nearest_name.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::server {

namespace {

namespace po = boost::program_options;

constexpr const char* config_flag = "config";
constexpr unsigned help_width = 100;

/// An option's value as text, not checked yet, and where it was written.
struct raw_value {
    std::string text;
    std::string source;
    std::string
        blame;  // how an error names the place: "--port", "SEMANTIC_PORT", "server.conf:3: port"
};
using raw_values = std::map<const config_option*, raw_value>;

std::string_view trim(std::string_view text) {
    auto is_blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

/// The option of that name; null where there is none.
const config_option* find_option(std::string_view name) {
    auto all = config_options();
    auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& o) { return o.name == name; });
    return found == all.end() ? nullptr : &*found;
}

/// What a flag that is no option makes the program do instead of serving; nothing for options.
std::optional<config_action> find_action(std::string_view name) {
    if (name == "help") return config_action::help;
    if (name == "version") return config_action::version;
    if (name == "print-config") return config_action::print_config;
    return std::nullopt;
}

/// Adds the options under one heading of --help to `to`. The library takes every value as text; the
/// option table checks it, so that an error can name its place.
void add_group(po::options_description& to, std::string_view heading) {
    const config defaults;
    po::options_description group{std::string(heading), help_width, help_width / 2};
    for (const config_option& option : config_options()) {
        if (option.group != heading) continue;
        std::string value = option.print(defaults);
        auto* text = po::value<std::string>();
        text->value_name(std::string(option.value))
            ->default_value(value, value.empty() ? "empty" : value);
        group.add_options()(std::string(option.name).c_str(), text,
                            std::string(option.meaning).c_str());
    }
    to.add(group);
}

/// All options for the library: what the environment and the config file may set.
const po::options_description& settings_description() {
    static const po::options_description all = [] {
        po::options_description made(help_width, help_width / 2);
        std::string_view heading;
        for (const config_option& option : config_options()) {
            if (option.group == heading) continue;
            heading = option.group;
            add_group(made, heading);
        }
        return made;
    }();
    return all;
}

/// All flags for the library: the options, and --config, --print-config, --version, --help.
const po::options_description& flags_description() {
    static const po::options_description all = [] {
        po::options_description other("Other", help_width, help_width / 2);
        auto add = other.add_options();
        add(config_flag, po::value<std::string>()->value_name("FILE"),
            "read options from FILE (also SEMANTIC_CONFIG)");
        add("print-config", "show the effective options with their sources, and exit");
        add("version", "show the version, and exit");
        add("help,h", "show this, and exit");
        po::options_description made(help_width, help_width / 2);
        made.add(settings_description()).add(other);
        return made;
    }();
    return all;
}

/// The hint for an unknown name: " (did you mean PREFIXname?)" with the most similar option, or
/// `otherwise` where none is similar.
std::string hint_for(const std::string& given, const std::string& prefix,
                     const std::string& otherwise) {
    std::vector<std::string> names;
    for (const config_option& option : config_options()) names.emplace_back(option.name);
    const auto meant = nearest_name(given, names);
    return meant ? " (did you mean " + prefix + *meant + "?)" : otherwise;
}

/// Splits the command line. Throws config_error that names the wrong flag.
po::parsed_options parse_flags(const std::vector<std::string>& arguments) try {
    namespace style = po::command_line_style;
    // Whole names only: an abbreviation would change its meaning when an option is added.
    constexpr int exact = style::allow_long | style::long_allow_adjacent | style::long_allow_next |
                          style::allow_short | style::allow_dash_for_short |
                          style::short_allow_next;
    return po::command_line_parser(arguments).options(flags_description()).style(exact).run();
} catch (const po::unknown_option& error) {
    std::string name = error.get_option_name();
    name = name.substr(0, name.find('='));
    const std::string letters = name.substr(std::min(name.size(), name.find_first_not_of('-')));
    const bool is_long = name.starts_with("--");
    throw config_error("unknown option " + name +
                       (is_long ? hint_for(letters, "--", " (see --help)") : " (see --help)"));
} catch (const po::invalid_syntax& error) {
    bool has_value = error.kind() == po::invalid_syntax::extra_parameter;
    throw config_error(error.get_option_name() +
                       (has_value ? " takes no value" : " needs a value"));
} catch (const po::error& error) {
    throw config_error(std::string(error.what()) + " (see --help)");
}

struct command_line {
    raw_values values;
    config_action action = config_action::run;
    std::string config_file;
};

/// Reads the command line: options, the config file's name and what to do. Throws config_error.
command_line read_flags(const std::vector<std::string>& arguments) {
    command_line line;
    for (const po::option& found : parse_flags(arguments).options) {
        if (found.position_key >= 0)
            throw config_error("unexpected argument '" + found.original_tokens.at(0) +
                               "' (options start with --; see --help)");
        std::string flag = "--" + found.string_key;
        if (auto action = find_action(found.string_key)) {
            line.action = *action;
        } else if (found.string_key == config_flag) {
            line.config_file = found.value.at(0);
        } else {  // the last of several counts
            // It is an option, since the library knows no other flags.
            line.values[find_option(found.string_key)] = {found.value.at(0), "flag " + flag, flag};
        }
    }
    return line;
}

/// The name of a variable in this server's spelling. The earlier system wrote most names as
/// SEMANTIC_MLX_NAME, and its templates doubled underscores.
std::string plain_variable(std::string name) {
    constexpr std::string_view infix = "SEMANTIC_MLX_";
    for (std::size_t at = name.find("__"); at != name.npos; at = name.find("__")) name.erase(at, 1);
    return name.starts_with(infix) ? "SEMANTIC_" + name.substr(infix.size()) : name;
}

/// The option that a variable of the environment sets, by its own name or an alias; null: none.
const config_option* find_by_variable(const std::string& variable) {
    std::string plain = plain_variable(variable);
    for (const config_option& option : config_options()) {
        if (environment_name(option.name) == plain) return &option;
        if (std::find(option.aliases.begin(), option.aliases.end(), plain) != option.aliases.end())
            return &option;
    }
    return nullptr;
}

/// The variable if the earlier system read it and this one does not; null for others.
const ignored_variable* find_ignored(const std::string& variable) {
    auto all = ignored_variables();
    std::string plain = plain_variable(variable);
    auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& o) { return o.name == plain; });
    return found == all.end() ? nullptr : &*found;
}

struct variables {
    raw_values values;
    std::string config_file;
    std::vector<std::string> warnings;
};

/// Whether `variable` wins over `other` when both set this option. The name that --help shows beats
/// its aliases; among aliases the alphabetically first wins, so that the order of the environment
/// does not matter.
bool counts_more(const config_option& option, const std::string& variable,
                 const std::string& other) {
    std::string own = environment_name(option.name);
    return variable == own || (other != own && variable < other);
}

/// One warning about all variables that begin with SEMANTIC_ and set no option (the project's own
/// tests set such).
std::string warn_of_unknown(const std::vector<std::string>& unknown) {
    constexpr std::size_t shown_max = 8;
    std::string line = "no option of this server, and without effect:";
    for (std::size_t i = 0; i < std::min(unknown.size(), shown_max); ++i) {
        const std::string& name = unknown[i];
        line += (i == 0 ? " " : ", ") + name.substr(0, 100);
        std::vector<std::string> names;
        for (const config_option& option : config_options())
            names.push_back(environment_name(option.name));
        if (const auto meant = nearest_name(name, names)) line += " (did you mean " + *meant + "?)";
    }
    const std::size_t more = unknown.size() - std::min(unknown.size(), shown_max);
    if (more > 0) line += " and " + std::to_string(more) + " more";
    return line;
}

/// Reads the options from the environment. Empty variables count as unset; unknown ones become
/// warnings.
variables read_environment() {
    // Names of the variables found, in the order of the result, which has only option names.
    std::vector<std::string> names;
    auto option_name = [&names](const std::string& variable) -> std::string {
        const config_option* option = find_by_variable(variable);
        if (option == nullptr && !variable.starts_with("SEMANTIC_")) return {};
        names.push_back(variable);
        return option != nullptr ? std::string(option->name) : variable;
    };
    variables all;
    std::vector<std::string> unknown;
    po::parsed_options parsed = po::parse_environment(settings_description(), option_name);
    for (std::size_t i = 0; i < names.size(); ++i) {
        const std::string& name = names[i];
        const std::string& text = parsed.options.at(i).value.at(0);
        if (name == environment_name(config_flag)) {
            all.config_file = text;
        } else if (const ignored_variable* ignored = find_ignored(name); ignored != nullptr) {
            if (!text.empty())
                all.warnings.push_back(name + " has no effect here: " + std::string(ignored->why));
        } else if (const config_option* option = find_by_variable(name); option == nullptr) {
            if (!text.empty()) unknown.push_back(name);
        } else if (!text.empty()) {
            auto there = all.values.find(option);
            if (there == all.values.end() || counts_more(*option, name, there->second.source))
                all.values[option] = {text, name, name};
        }
    }
    if (!unknown.empty()) all.warnings.push_back(warn_of_unknown(unknown));
    return all;
}

/// The line without its comment. A # begins a comment at the start of the line or after white
/// space.
std::string_view without_comment(std::string_view line) {
    for (std::size_t at = line.find('#'); at != line.npos; at = line.find('#', at + 1))
        if (at == 0 || std::isspace(static_cast<unsigned char>(line[at - 1])) != 0)
            return line.substr(0, at);
    return line;
}

/// Parses one line of the config file, without comment. The library could read the whole file but
/// would not say which line is wrong. `place` ("FILE:3") is for errors. Throws config_error.
po::option parse_line(const std::string& text, const std::string& place) try {
    // The library would take any # for a comment, so those in values are replaced while it parses.
    constexpr char hash_substitute = '\x01';
    std::string hidden = text;
    std::replace(hidden.begin(), hidden.end(), '#', hash_substitute);
    std::istringstream one_line(hidden);
    po::parsed_options parsed = po::parse_config_file(one_line, settings_description());
    if (parsed.options.size() != 1)  // a [section], which would change nothing
        throw po::invalid_config_file_syntax(text, po::invalid_syntax::unrecognized_line);
    po::option found = parsed.options.front();
    std::string& value = found.value.at(0);
    std::replace(value.begin(), value.end(), hash_substitute, '#');
    return found;
} catch (const po::unknown_option& error) {
    const std::string name = error.get_option_name();
    throw config_error(place + ": unknown key '" + name + "'" + hint_for(name, "", ""));
} catch (const po::error&) {
    throw config_error(place + ": expected 'key = value', found '" + text + "'");
}

/// Reads a config file. Blocks. Throws config_error, also for a key that is set twice.
raw_values read_file(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw config_error("cannot read the config file " + path);
    raw_values values;
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        std::string_view text = trim(without_comment(line));
        if (text.empty()) continue;
        std::string place = path + ":" + std::to_string(number);
        po::option found = parse_line(std::string(text), place);
        const config_option* option = find_option(found.string_key);
        if (values.contains(option))
            throw config_error(place + ": '" + found.string_key + "' is set twice");
        values[option] = {found.value.at(0), place, place + ": " + found.string_key};
    }
    return values;
}

/// Checks options that depend on each other. Throws config_error.
void check_together(const config& values) {
    if (values.prefill_min_chunk_tokens > values.prefill_max_chunk_tokens)
        throw config_error("prefill-min-chunk (" + std::to_string(values.prefill_min_chunk_tokens) +
                           ") is larger than prefill-max-chunk (" +
                           std::to_string(values.prefill_max_chunk_tokens) + ")");
    if (!serves_this_machine_only(values) && !needs_key(values) && !values.insecure)
        throw config_error("host " + values.host +
                           " can be reached from other machines and there is no key: set api-key "
                           "or api-key-file, listen on 127.0.0.1, or say --insecure on");
    if (values.model_ttl.count() > 0 && !values.auto_swap)
        throw config_error("model-ttl needs auto-swap on: nothing else loads a model again");
    if (values.object_store_wait.count() > 0 && values.object_store.empty())
        throw config_error("object-store-wait-ms needs object-store: there is none to wait for");
    if (!values.redis.empty() && values.object_store.empty())
        throw config_error("redis needs object-store: without one no agent is another server's");
    if (!values.node_url.empty() && values.redis.empty())
        throw config_error("node-url needs redis: there the other servers learn of it");
    if (values.held_elsewhere != "refuse" && values.redis.empty())
        throw config_error("held-elsewhere " + values.held_elsewhere +
                           " needs redis: nothing else says who is at work on an agent");
    if (!values.object_store_key_file.empty() && values.object_store.empty())
        throw config_error("object-store-key-file needs object-store: there is none to encrypt");
    if (values.kv_bits != "auto" && values.kv_recipe != "auto" &&
        storage::find_kv_recipe(values.kv_bits) != storage::find_kv_recipe(values.kv_recipe))
        throw config_error("kv-bits " + values.kv_bits + " and kv-recipe " + values.kv_recipe +
                           " contradict each other: give one of them");
}

/// `path` with a leading ~ replaced by `home`. Throws config_error where `home` is empty.
std::string expand_home(const std::string& path, const std::string& home) {
    if (path != "~" && !path.starts_with("~/")) return path;
    if (home.empty()) throw config_error("cache-dir is " + path + ", but HOME is not set");
    return home + path.substr(1);
}

}  // namespace

std::string environment_name(std::string_view option_name) {
    std::string name = "SEMANTIC_";
    for (char c : option_name)
        name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return name;
}

parsed_config parse_config(const std::vector<std::string>& arguments) {
    command_line flags = read_flags(arguments);
    parsed_config parsed;
    parsed.action = flags.action;
    if (parsed.action == config_action::help || parsed.action == config_action::version)
        return parsed;
    variables environment = read_environment();
    parsed.warnings = std::move(environment.warnings);
    std::string file_name = flags.config_file.empty() ? environment.config_file : flags.config_file;
    raw_values file;
    if (!file_name.empty()) file = read_file(file_name);

    for (const config_option& option : config_options()) {
        config_setting setting{&option, "default"};
        for (const raw_values* layer : {&flags.values, &environment.values, &file}) {
            auto found = layer->find(&option);
            if (found == layer->end()) continue;
            std::string why = option.set(parsed.values, found->second.text);
            std::string shown = option.secret ? "" : " '" + found->second.text + "'";
            if (!why.empty()) throw config_error(found->second.blame + shown + " " + why);
            setting.source = found->second.source;
            break;
        }
        parsed.settings.push_back(std::move(setting));
    }
    check_together(parsed.values);
    return parsed;
}

std::string help_text() {
    std::ostringstream text;
    text << "semantic-server: LLM inference on CPUs, with a memory on disk for every agent\n\n"
            "usage: semantic-server [--OPTION VALUE]...\n\n"
            "Every option has three spellings: --cache-dir DIR, the environment variable "
            "SEMANTIC_CACHE_DIR,\n"
            "and 'cache-dir = DIR' in the file that --config names. Flags beat the environment, "
            "which beats the\n"
            "file. In brackets: the default."
         << flags_description();
    return text.str();
}

std::string print_config(const parsed_config& parsed) {
    std::string text;
    for (const config_setting& setting : parsed.settings) {
        std::string line =
            std::string(setting.option->name) + " = " + setting.option->print(parsed.values);
        if (setting.option->secret) line = "# " + line;
        // The sources begin in one column.
        line.resize(std::max<std::size_t>(line.size() + 1, 44), ' ');
        text.append(line).append("# ").append(setting.source).append("\n");
    }
    return text;
}

engine::engine_options make_engine_options(const config& from, std::string model_directory,
                                           const std::string& home) {
    engine::engine_options options;
    options.model_directory = std::move(model_directory);
    options.cache_directory = expand_home(from.cache_directory, home);
    options.cache_budget_bytes = from.cache_budget_mb << 20;
    options.disk_budget_bytes = static_cast<std::uint64_t>(from.disk_budget_mb) << 20;
    options.record_budget_bytes = static_cast<std::uint64_t>(from.records_budget_mb) << 20;
    options.kept_share_percent = static_cast<unsigned>(from.kept_share_percent);
    options.disk_writes_per_day_bytes = static_cast<std::uint64_t>(from.disk_writes_per_day_mb)
                                        << 20;
    options.disk_writes_per_turn_bytes = static_cast<std::uint64_t>(from.disk_writes_per_turn_mb)
                                         << 20;
    options.kv_recipe = from.kv_bits != "auto" ? from.kv_bits : from.kv_recipe;
    options.kv_group_size = from.kv_group_size;
    options.block_tokens = from.block_tokens;
    options.context_tokens = from.context_tokens;
    options.prefill_min_chunk_tokens = from.prefill_min_chunk_tokens;
    options.prefill_max_chunk_tokens = from.prefill_max_chunk_tokens;
    options.chunked_prefill_threshold_tokens = from.chunked_prefill_threshold_tokens;
    options.decode_latency = from.decode_latency;
    options.max_batch = from.max_batch;
    options.speculation =
        from.speculation ? engine::draft_rule::where_faster : engine::draft_rule::never;
    options.max_queued = from.max_queued;
    options.max_hot_agents = from.max_hot_agents;
    options.states_per_turn = from.states_per_turn;
    options.states_per_agent = from.states_per_agent;
    options.compute_threads = from.compute_threads;
    options.kernels = from.kernels;
    options.weights = from.weights;
    options.chat_template = from.chat_template;
    options.trust_content = from.trust_content;
    if (from.tokenizer_pre != "auto") options.tokenizer_pre = from.tokenizer_pre;
    options.save_wait = from.save_wait;
    return options;
}

engine::weight_storage make_weight_storage(const config& from) {
    engine::weight_storage disk;
    disk.keeps_packed = from.packed_weights;
    disk.budget_bytes = static_cast<std::uint64_t>(from.packed_budget_mb) << 20;
    disk.access = from.weights_access;
    disk.verifies_all = from.verify_weights;
    return disk;
}

bool serves_this_machine_only(const config& from) {
    boost::system::error_code not_an_address;
    const auto address = boost::asio::ip::make_address(from.host, not_an_address);
    return not_an_address ? from.host == "localhost" : address.is_loopback();
}

}  // namespace semantic::server
