// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the texts of options become values, and back: one pair of functions a kind of value. The
// setters return what is wrong with a text, empty when nothing is. Thread: any, they are pure but
// for set_api_key_file(), which blocks.

#include <string>
#include <string_view>
#include <type_traits>

#include "server/config/config.hpp"

namespace semantic::server::option_values {

std::string lower(std::string_view text);
/// Reads a whole number from `least` to `most` into `value`. Returns: empty, or what is wrong with
/// it.
std::string parse_number(std::string_view text, long long least, long long most, long long& value);

std::string set_log_level(config& settings, std::string_view text);
std::string set_log_format(config& settings, std::string_view text);
std::string set_metrics_readers(config& settings, std::string_view text);
std::string print_metrics_readers(const config& from);
/// Reads a key file: a line has a key and optionally the name of its tenant. Blocks. Returns:
/// empty, or what is wrong with the file; `keys` is then unchanged.
std::string read_key_file(const std::string& path, std::vector<tenant_key>& keys);
std::string set_kernels(config& settings, std::string_view text);
std::string set_weights(config& settings, std::string_view text);
std::string set_chat_template(config& settings, std::string_view text);
std::string set_tokenizer_pre(config& settings, std::string_view text);
std::string set_kv_bits(config& settings, std::string_view text);
std::string set_kv_recipe(config& settings, std::string_view text);
std::string set_kv_group_size(config& settings, std::string_view text);
std::string set_block_tokens(config& settings, std::string_view text);
std::string set_object_store(config& settings, std::string_view text);
std::string set_redis(config& settings, std::string_view text);
std::string set_node_url(config& settings, std::string_view text);
std::string set_weights_access(config& settings, std::string_view text);
std::string set_held_elsewhere(config& settings, std::string_view text);
std::string set_api_keys(config& settings, std::string_view text);
std::string set_api_key_file(config& settings, std::string_view text);
std::string print_api_keys(const config& from);
std::string set_cors_origins(config& settings, std::string_view text);
std::string print_cors_origins(const config& from);
std::string set_admin_key(config& settings, std::string_view text);

/// Sets the number `Member` of the configuration; must be from Least to Most.
template <auto Member, long long Least, long long Most>
std::string set_number(config& settings, std::string_view text) {
    long long value = 0;
    std::string why = parse_number(text, Least, Most, value);
    if (why.empty())
        settings.*Member = static_cast<std::remove_reference_t<decltype(settings.*Member)>>(value);
    return why;
}

template <auto Member>
std::string print_number(const config& from) {
    return std::to_string(from.*Member);
}

/// Sets the duration `Member`, a whole number of its unit; must be from Least to Most.
template <auto Member, long long Least, long long Most>
std::string set_duration(config& settings, std::string_view text) {
    long long value = 0;
    std::string why = parse_number(text, Least, Most, value);
    if (why.empty()) settings.*Member = std::remove_reference_t<decltype(settings.*Member)>(value);
    return why;
}

/// The duration as a number of its unit.
template <auto Member>
std::string print_duration(const config& from) {
    return std::to_string((from.*Member).count());
}

/// Sets a text that must not be empty.
template <auto Member>
std::string set_text(config& settings, std::string_view text) {
    if (text.empty()) return "must not be empty";
    settings.*Member = std::string(text);
    return {};
}

template <auto Member>
std::string print_text(const config& from) {
    return from.*Member;
}

/// Sets a text that may be empty, which means the default.
template <auto Member>
std::string set_any_text(config& settings, std::string_view text) {
    settings.*Member = std::string(text);
    return {};
}

/// Sets a bool from on or off and their synonyms.
template <auto Member>
std::string set_switch(config& settings, std::string_view text) {
    std::string name = lower(text);
    bool is_on = name == "on" || name == "true" || name == "yes" || name == "1";
    bool is_off = name == "off" || name == "false" || name == "no" || name == "0";
    if (!is_on && !is_off) return "must be on or off";
    settings.*Member = is_on;
    return {};
}

template <auto Member>
std::string print_switch(const config& from) {
    return from.*Member ? "on" : "off";
}

}  // namespace semantic::server::option_values
