#include "protocol/answer_request.hpp"

#include <boost/json.hpp>

#include <charconv>
#include <limits>
#include <utility>

#include "protocol/wire/fields.hpp"

namespace semantic::protocol {

namespace {

enum class zero { allowed, refused };

/// Leaves `into` alone when the field is absent.
result<void> read_number(const json_cursor& root, std::string_view key, double low, double high,
                         zero is_zero, std::optional<float>& into) {
    auto field = root.find(key);
    if (!field) return {};
    auto value = field->as_number(low, high);
    if (!value) return value.error();
    into = static_cast<float>(*value);
    if (is_zero == zero::refused && *into <= 0)
        return field->fail(errc::bad_value, "must be greater than 0");
    return {};
}

template <class Integer>
result<void> read_integer(const json_cursor& root, std::string_view key, std::int64_t low,
                          std::int64_t high, std::optional<Integer>& into) {
    auto field = root.find(key);
    if (!field) return {};
    auto value = field->as_integer(low, high);
    if (!value) return value.error();
    into = static_cast<Integer>(*value);
    return {};
}

/// An object from token ids, written as strings, to biases. Whether the model has such tokens only
/// the engine knows.
result<std::vector<engine::token_bias>> parse_biases(const json_cursor& root,
                                                     const request_limits& limits) {
    std::vector<engine::token_bias> biases;
    auto field = root.find("logit_bias");
    if (!field) return biases;
    auto object = field->as_object();
    if (!object) return object.error();
    if ((*object)->size() > limits.biases_max)
        return field->fail(errc::bad_value, "may have " + std::to_string(limits.biases_max) +
                                                " items, has " + std::to_string((*object)->size()));
    for (const auto& [key, value] : **object) {
        engine::token_bias bias;
        auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), bias.token);
        if (error != std::errc() || end != key.data() + key.size() || bias.token < 0)
            return field->fail(errc::bad_value, quoted(key) + " is no token id");
        auto number =
            json_cursor(value, field->path() + "." + std::string(key)).as_number(-100, 100);
        if (!number) return number.error();
        bias.bias = static_cast<float>(*number);
        biases.push_back(bias);
    }
    return biases;
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
    request.form = std::move(form);
    request.sampling = std::move(sampling);
    request.thinking = std::move(thinking);
    request.top_scores = top_scores;
    request.choices = choices;
    request.deadline = deadline;
    return request;
}

result<engine::sampling_params> parse_sampling(const json_cursor& root,
                                               const request_limits& limits,
                                               std::int64_t seed_min) {
    struct number {
        std::string_view key;
        double low, high;
        zero is_zero;
        std::optional<float> engine::sampling_params::*into;
    };
    using params = engine::sampling_params;
    constexpr number numbers[]{
        {"temperature", 0, 2, zero::allowed, &params::temperature},
        {"top_p", 0, 1, zero::refused, &params::top_p},
        {"min_p", 0, 1, zero::allowed, &params::min_p},
        {"repetition_penalty", 0, 2, zero::refused, &params::repetition_penalty},
        {"presence_penalty", -2, 2, zero::allowed, &params::presence_penalty},
        {"frequency_penalty", -2, 2, zero::allowed, &params::frequency_penalty},
    };
    engine::sampling_params sampling;
    for (const number& one : numbers) {
        auto ok = read_number(root, one.key, one.low, one.high, one.is_zero, sampling.*one.into);
        if (!ok) return ok.error();
    }
    auto top_k = read_integer(root, "top_k", 0, std::numeric_limits<int>::max(), sampling.top_k);
    if (!top_k) return top_k.error();
    auto seed = read_integer(root, "seed", seed_min, std::numeric_limits<std::int64_t>::max(),
                             sampling.seed);
    if (!seed) return seed.error();
    auto biases = parse_biases(root, limits);
    if (!biases) return biases.error();
    sampling.biases = std::move(*biases);
    return sampling;
}

result<std::vector<std::string>> parse_stops(const json_cursor& list, std::size_t count_max,
                                             const request_limits& limits) {
    std::vector<std::string> stops;
    auto count = parse_count(list, count_max);
    if (!count) return count.error();
    for (std::size_t i = 0; i < *count; ++i) {
        auto stop = parse_bounded(list.item(i), limits.stop_bytes_max);
        if (!stop) return stop.error();
        stops.push_back(std::move(*stop));
    }
    return stops;
}

}  // namespace semantic::protocol
