// SPDX-License-Identifier: Apache-2.0
#include "server/config/option_values.hpp"

#include <cctype>
#include <charconv>
#include <fstream>
#include <sstream>
#include <vector>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "storage/objects/open_object_store.hpp"
#include "storage/objects/redis/agent_leases.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::server::option_values {

namespace {

/// Splits a list at its commas: "a, b" -> "a", "b".
std::vector<std::string> items_of(std::string_view text) {
    std::vector<std::string> items;
    while (!text.empty()) {
        std::size_t comma = std::min(text.find(','), text.size());
        std::string_view item = text.substr(0, comma);
        text.remove_prefix(std::min(comma + 1, text.size()));
        while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
        while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
        items.emplace_back(item);
    }
    return items;
}

/// Whether the text is the origin of a web page: SCHEME://HOST[:PORT].
bool is_origin(std::string_view text) {
    std::size_t scheme = text.find("://");
    if (scheme == std::string_view::npos || scheme == 0) return false;
    std::string_view host = text.substr(scheme + 3);
    return !host.empty() && host.find_first_of("/ *") == std::string_view::npos;
}

}  // namespace

std::string lower(std::string_view text) {
    std::string copy(text);
    for (char& c : copy) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return copy;
}

std::string parse_number(std::string_view text, long long least, long long most, long long& value) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
        return "must be a whole number from " + std::to_string(least) + " to " +
               std::to_string(most);
    return {};
}

std::string set_log_level(config& settings, std::string_view text) {
    std::string name = lower(text);
    // Accepted as another name for the highest level.
    if (name == "critical") name = "error";
    for (log_level level :
         {log_level::debug, log_level::info, log_level::warning, log_level::error}) {
        if (name != to_string(level)) continue;
        settings.log_from = level;
        return {};
    }
    return "must be debug, info, warning or error";
}

std::string set_kernels(config& settings, std::string_view text) {
    for (std::string_view name : {"auto", "avx512", "avxvnni", "avx2", "portable", "scalar"}) {
        if (text != name) continue;
        settings.kernels = text;
        return {};
    }
    return "must be auto, avx512, avxvnni, avx2, portable or scalar";
}

std::string set_weights(config& settings, std::string_view text) {
    for (std::string_view name : {"native", "q8", "q4"}) {
        if (text != name) continue;
        settings.weights = text;
        return {};
    }
    return "must be native, q8 or q4";
}

std::string set_chat_template(config& settings, std::string_view text) {
    if (text != "auto" && text != engine::own_template_family && !engine::chat_template::make(text))
        return "must be auto or one of: " + engine::chat_template::families();
    settings.chat_template = text;
    return {};
}

std::string set_tokenizer_pre(config& settings, std::string_view text) {
    if (text != "auto" && !engine::tokenizer::is_gguf_pre(text))
        return "must be auto or one of: " + engine::tokenizer::gguf_pres();
    settings.tokenizer_pre = text;
    return {};
}

std::string set_kv_bits(config& settings, std::string_view text) {
    std::string name = lower(text);
    if (name == "none" || name == "null" || name == "0") {
        name = "16";  // how the earlier system spelled "not quantised"
    } else if (name != "auto" && name != "4" && name != "8" && name != "16") {
        return "must be auto, 4, 8 or 16";
    }
    settings.kv_bits = name;
    return {};
}

std::string set_kv_recipe(config& settings, std::string_view text) {
    if (text == "auto") {
        settings.kv_recipe = text;
        return {};
    }
    const auto recipe = storage::find_kv_recipe(text);
    if (!recipe) return "must be auto or one of: " + storage::kv_recipe_names();
    settings.kv_recipe = storage::name_of(*recipe);
    return {};
}

std::string set_object_store(config& settings, std::string_view text) {
    if (!text.empty())
        if (const auto url = storage::parse_object_url(text); !url) return url.error().what;
    settings.object_store = text;
    return {};
}

std::string set_redis(config& settings, std::string_view text) {
    std::string why;
    if (!text.empty() && !storage::parse_redis_url(text, why)) return why;
    settings.redis = text;
    return {};
}

std::string set_node_url(config& settings, std::string_view text) {
    while (text.ends_with('/')) text.remove_suffix(1);
    if (!text.empty() && !storage::is_node_url(text))
        return "must be http://HOST[:PORT] or https://HOST[:PORT], and a path where there is one";
    settings.node_url = text;
    return {};
}

std::string set_weights_access(config& settings, std::string_view text) {
    if (text != "auto" && text != "map" && text != "read") return "must be auto, map or read";
    settings.weights_access = text;
    return {};
}

std::string set_held_elsewhere(config& settings, std::string_view text) {
    if (text != "refuse" && text != "redirect" && text != "serve")
        return "must be refuse, redirect or serve";
    settings.held_elsewhere = text;
    return {};
}

// The earlier system took 16 to 256; the kernels here are made for groups of 64.
std::string set_kv_group_size(config& settings, std::string_view text) {
    if (text != "64") return "must be 64, the only group size there is";
    settings.kv_group_size = 64;
    return {};
}

std::string set_block_tokens(config& settings, std::string_view text) {
    long long value = 0;
    std::string why = parse_number(text, 16, 4096, value);
    if (!why.empty()) return why;
    if (value % 16 != 0) return "must be a multiple of 16";
    settings.block_tokens = static_cast<int>(value);
    return {};
}

std::string set_api_keys(config& settings, std::string_view text) {
    std::vector<std::string> keys = items_of(text);
    for (const std::string& key : keys)
        if (key.empty()) return "has an empty key in its comma list";
    settings.api_keys = std::move(keys);
    return {};
}

std::string read_key_file(const std::string& path, std::vector<tenant_key>& keys) {
    std::ifstream file(path);
    if (!file) return "cannot be read";
    std::vector<tenant_key> found;
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        std::istringstream words(line);
        tenant_key entry;
        std::string rest;
        words >> entry.key >> entry.tenant >> rest;
        if (entry.key.empty() || entry.key.front() == '#') continue;
        const std::string where = "line " + std::to_string(number);
        if (!rest.empty()) return where + " has more than a key and the name of a tenant";
        for (const tenant_key& other : found)
            if (other.key == entry.key) return where + " has a key that an earlier line has";
        found.push_back(std::move(entry));
    }
    if (found.empty()) return "has no key in it";
    keys = std::move(found);
    return {};
}

std::string set_api_key_file(config& settings, std::string_view text) {
    settings.api_key_file = text;
    std::vector<tenant_key> keys;
    std::string why = text.empty() ? std::string() : read_key_file(settings.api_key_file, keys);
    if (why.empty()) settings.file_keys = live_keys(std::move(keys));
    return why;
}

std::string set_log_format(config& settings, std::string_view text) {
    if (text != "text" && text != "json") return "must be text or json";
    settings.log_as = text == "json" ? log_format::json : log_format::text;
    return {};
}

std::string set_metrics_readers(config& settings, std::string_view text) {
    if (text == "local")
        settings.metrics_for = metrics_readers::local;
    else if (text == "admin")
        settings.metrics_for = metrics_readers::admin;
    else if (text == "all")
        settings.metrics_for = metrics_readers::all;
    else
        return "must be local, admin or all";
    return {};
}

std::string print_metrics_readers(const config& from) {
    if (from.metrics_for == metrics_readers::local) return "local";
    return from.metrics_for == metrics_readers::admin ? "admin" : "all";
}

std::string print_api_keys(const config& from) {
    std::string count = std::to_string(from.api_keys.size());
    return from.api_keys.empty() ? std::string() : count + " set";
}

std::string set_cors_origins(config& settings, std::string_view text) {
    constexpr const char* wanted =
        "must be none, *, or a comma list of loopback and origins such as https://a.example";
    std::vector<std::string> origins = items_of(text);
    if (origins.empty()) return wanted;
    bool is_alone = origins.size() == 1;
    for (const std::string& one : origins)
        if (one != "loopback" && !is_origin(one) && !(is_alone && (one == "*" || one == "none")))
            return wanted;
    if (origins.front() == "none") origins.clear();
    settings.cors_origins = std::move(origins);
    return {};
}

std::string print_cors_origins(const config& from) {
    std::string list;
    for (const std::string& one : from.cors_origins)
        list.append(list.empty() ? "" : ",").append(one);
    return list.empty() ? "none" : list;
}

std::string set_admin_key(config& settings, std::string_view text) {
    if (text.find_first_of(" \t\r\n") != std::string_view::npos) return "has white space in it";
    settings.admin_key = text;
    return {};
}

}  // namespace semantic::server::option_values
