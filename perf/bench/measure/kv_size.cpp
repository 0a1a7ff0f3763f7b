// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/measure/kv_size.hpp"

#include <boost/json/parse.hpp>

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace semantic::bench {
namespace {

namespace json = boost::json;

double number(const json::object& config, const char* key) {
    const json::value* found = config.if_contains(key);
    if (found == nullptr || !found->is_number()) return 0;
    return found->to_number<double>();
}

}  // namespace

double fp16_token_bytes(const json::object& config) {
    if (config.contains("kv_lora_rank")) return 0;
    const double heads = number(config, "num_attention_heads");
    double kv_heads = number(config, "num_key_value_heads");
    if (kv_heads == 0) kv_heads = heads;
    double head_dim = number(config, "head_dim");
    if (head_dim == 0 && heads > 0) head_dim = number(config, "hidden_size") / heads;
    constexpr double keys_and_values = 2, bytes = 2;
    return number(config, "num_hidden_layers") * kv_heads * head_dim * keys_and_values * bytes;
}

double fp16_token_bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    if (!file) throw std::runtime_error(path + ": cannot be read");
    json::error_code error;
    const json::value config = json::parse(text, error);
    if (error || !config.is_object()) throw std::runtime_error(path + ": is no JSON object");
    return fp16_token_bytes(config.get_object());
}

cell saved_cell(const std::optional<double>& bytes, double whole) {
    if (!bytes || whole <= 0) return {};
    return 100 * (1 - *bytes / whole);
}

}  // namespace semantic::bench
