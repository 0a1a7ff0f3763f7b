// SPDX-License-Identifier: Apache-2.0
#include "protocol/answer_request.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "protocol/wire/fields.hpp"

namespace semantic::protocol {

namespace {

enum class zero { allowed, refused };

/// Reads a number from `low` to `high` into `value`, which stays as it is where the field is
/// absent.
void read_number(const json_cursor& root, std::string_view key, double low, double high,
                 zero is_zero, std::optional<float>& value) {
    auto field = root.find(key);
    if (!field) return;
    value = static_cast<float>(field->as_number(low, high));
    if (is_zero == zero::refused && *value <= 0)
        field->fail(errc::bad_value, "must be greater than 0");
}

std::optional<std::int64_t> integer_at(const json_cursor& root, std::string_view key,
                                       std::int64_t low, std::int64_t high) {
    auto field = root.find(key);
    if (!field) return std::nullopt;
    return field->as_integer(low, high);
}

/// Reads repeat_penalty, llama.cpp's name for repetition_penalty. Complains where both are given
/// and differ.
void read_repeat_penalty(const json_cursor& root, engine::sampling_params& sampling) {
    std::optional<float> penalty;
    read_number(root, "repeat_penalty", 0, 2, zero::refused, penalty);
    if (!penalty) return;
    if (sampling.repetition_penalty && *sampling.repetition_penalty != *penalty)
        root.at("repeat_penalty")
            .fail(errc::bad_value, "contradicts repetition_penalty, which is the same");
    sampling.repetition_penalty = penalty;
}

/// Reads logit_bias: an object from token ids, written as strings, to biases from -100 to 100. The
/// engine checks whether the model has such tokens.
std::vector<engine::token_bias> parse_biases(const json_cursor& root,
                                             const request_limits& limits) {
    std::vector<engine::token_bias> biases;
    auto field = root.find("logit_bias");
    if (!field) return biases;
    const boost::json::object& object = field->as_object();
    if (object.size() > limits.biases_max)
        field->fail(errc::bad_value, "may have " + std::to_string(limits.biases_max) +
                                         " items, has " + std::to_string(object.size()));
    for (const auto& item : object) {
        if (!field->ok()) break;
        const std::string_view key(item.key().data(), item.key().size());
        engine::token_bias bias;
        auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), bias.token);
        if (error != std::errc() || end != key.data() + key.size() || bias.token < 0)
            field->fail(errc::bad_value, quoted(key) + " is no token id");
        bias.bias = static_cast<float>(field->at(key).as_number(-100, 100));
        biases.push_back(bias);
    }
    return biases;
}

// Log probabilities are kept in RAM until the answer is complete, each as an object with its text
// and bytes.
constexpr std::int64_t scores_bytes_max = std::int64_t{64} << 20;
// An estimate of one such object.
constexpr std::int64_t score_bytes = 600;

/// Returns: the most tokens that each of `choices` answers may have, so that the log probabilities
/// of all of them, with `top` alternatives each, stay within scores_bytes_max.
int scored_tokens_max(int top, int choices) {
    const std::int64_t scores_a_token = 1 + std::int64_t{top};
    return static_cast<int>(scores_bytes_max / score_bytes / scores_a_token / std::max(1, choices));
}

}  // namespace

engine::generation_request answer_request::take_generation(
    std::optional<storage::agent_id> agent,
    std::optional<std::chrono::steady_clock::time_point> deadline) {
    engine::generation_request request;
    request.agent = std::move(agent);
    request.chat = std::move(chat);
    request.max_tokens = max_tokens;
    request.stop_sequences = std::move(stop_sequences);
    request.ending = std::move(ending);
    request.form = std::move(form);
    request.sampling = std::move(sampling);
    request.thinking = std::move(thinking);
    request.top_scores = top_scores;
    request.choices = choices;
    if (top_scores)
        // Such an answer ends early with "length", which clients can handle, instead of being
        // refused.
        request.max_tokens = std::min(max_tokens, scored_tokens_max(*top_scores, choices));
    request.deadline = deadline;
    request.memory = memory;
    request.budget = std::move(budget);
    return request;
}

engine::sampling_params parse_sampling(const json_cursor& root, const request_limits& limits,
                                       std::int64_t seed_min) {
    struct number {
        std::string_view key;
        double low, high;
        zero is_zero;
        std::optional<float> engine::sampling_params::*member;
    };
    using params = engine::sampling_params;
    constexpr number numbers[]{
        {"temperature", 0, 2, zero::allowed, &params::temperature},
        {"top_p", 0, 1, zero::allowed, &params::top_p},
        {"min_p", 0, 1, zero::allowed, &params::min_p},
        {"repetition_penalty", 0, 2, zero::refused, &params::repetition_penalty},
        {"presence_penalty", -2, 2, zero::allowed, &params::presence_penalty},
        {"frequency_penalty", -2, 2, zero::allowed, &params::frequency_penalty},
    };
    engine::sampling_params sampling;
    for (const number& one : numbers)
        read_number(root, one.key, one.low, one.high, one.is_zero, sampling.*one.member);
    read_repeat_penalty(root, sampling);
    // top_p 0 means the likeliest token alone: the smallest set of tokens with any probability.
    if (sampling.top_p)
        sampling.top_p = std::max(*sampling.top_p, std::numeric_limits<float>::min());
    if (auto top_k = integer_at(root, "top_k", -1, std::numeric_limits<int>::max()))
        // The engine knows one value for "off", which is 0.
        sampling.top_k = static_cast<int>(std::max<std::int64_t>(*top_k, 0));
    auto seed = integer_at(root, "seed", seed_min, std::numeric_limits<std::int64_t>::max());
    if (seed && *seed != -1) sampling.seed = static_cast<std::uint64_t>(*seed);
    sampling.biases = parse_biases(root, limits);
    return sampling;
}

engine::ending_params parse_ending(const json_cursor& root, int max_tokens,
                                   const request_limits& limits) {
    engine::ending_params ending;
    if (auto field = root.find("min_tokens")) {
        ending.min_tokens = static_cast<int>(field->as_integer(0, limits.max_tokens_max));
        if (ending.min_tokens > max_tokens)
            field->fail(errc::bad_value,
                        "must not be more than max_tokens, which is " + std::to_string(max_tokens));
    }
    ending.ignores_end = flag_at(root, "ignore_eos");
    auto list = root.find("stop_token_ids");
    const std::size_t count = list ? parse_count(*list, limits.stop_tokens_max) : 0;
    constexpr auto token_max = std::numeric_limits<engine::token_id>::max();
    for (std::size_t i = 0; i < count; ++i)
        ending.stop_tokens.push_back(
            static_cast<engine::token_id>(list->item(i).as_integer(0, token_max)));
    return ending;
}

std::optional<int> parse_max_tokens(const json_cursor& root,
                                    std::initializer_list<std::string_view> keys,
                                    const request_limits& limits) {
    std::optional<std::int64_t> found;
    std::string_view found_as;
    for (std::string_view key : keys) {
        auto field = root.find(key);
        if (!field) continue;
        const std::int64_t value = field->as_integer(-1, limits.max_tokens_max);
        if (found && *found != value)
            field->fail(errc::bad_value, "contradicts " + std::string(found_as) + ", which is " +
                                             std::to_string(*found) + "; this one is " +
                                             std::to_string(value));
        if (!found) found_as = key;
        found = value;
    }
    if (!found) return std::nullopt;
    return *found == -1 ? limits.max_tokens_max : static_cast<int>(*found);
}

std::vector<std::string> parse_stop_list(const json_cursor& list, const request_limits& limits) {
    std::vector<std::string> stops;
    const std::size_t count = parse_count(list, limits.stops_max);
    for (std::size_t i = 0; i < count; ++i) {
        const json_cursor item = list.item(i);
        // An empty one would end every answer at once; a client that sends it means none.
        if (item.as_string().empty()) continue;
        stops.push_back(parse_bounded(item, limits.stop_bytes_max));
    }
    return stops;
}

std::vector<std::string> parse_stops(const json_cursor& field, const request_limits& limits) {
    if (field.value().is_array()) return parse_stop_list(field, limits);
    if (!field.value().is_string())
        field.fail(errc::bad_value, std::string("expected a string or a list of strings, found ") +
                                        kind_name(field.value()));
    if (field.as_string().empty()) return {};
    return {parse_bounded(field, limits.stop_bytes_max)};
}

namespace {

/// Whether the value is one that clients send for a field which they do not use.
bool asks_for_nothing(const boost::json::value& value) {
    if (const auto* text = value.if_string()) return text->empty();
    if (const auto* list = value.if_array()) return list->empty();
    if (const auto* object = value.if_object()) return object->empty();
    return value.is_null() || value == false;
}

/// A numeric field of other servers that would change the answer, and the value with which it
/// changes nothing.
struct idle_number {
    std::string_view key;
    double idle;
};
constexpr idle_number idle_numbers[]{
    {"typical_p", 1},    {"mirostat", 0},       {"dry_multiplier", 0},  {"xtc_probability", 0},
    {"top_n_sigma", -1}, {"dynatemp_range", 0}, {"length_penalty", 1},  {"best_of", 1},
    {"tfs_z", 1},        {"top_a", 0},          {"smoothing_factor", 0}};

}  // namespace

void refuse_field(const json_cursor& root, std::string_view key, std::string_view why) {
    auto field = root.find(key);
    if (field && !asks_for_nothing(field->value())) field->fail(errc::unsupported, why);
}

void refuse_foreign_fields(const json_cursor& root) {
    constexpr const char* not_done = "is not supported";
    for (const auto& [key, idle] : idle_numbers)
        if (auto field = root.find(key); field && !asks_for_nothing(field->value()))
            if (!field->value().is_number() || field->value().to_number<double>() != idle)
                field->fail(errc::unsupported, not_done);
    for (std::string_view key :
         {"use_beam_search", "include_stop_str_in_output", "echo", "bad_words", "allowed_token_ids",
          "logits_processors", "truncate_prompt_tokens", "chat_template", "documents"})
        refuse_field(root, key, not_done);
    refuse_field(root, "lora", "this server runs no adapters");
}

}  // namespace semantic::protocol
