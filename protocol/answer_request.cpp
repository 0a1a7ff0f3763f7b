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

/// As llama.cpp calls it.
result<void> read_repeat_penalty(const json_cursor& root, engine::sampling_params& sampling) {
    std::optional<float> penalty;
    if (auto ok = read_number(root, "repeat_penalty", 0, 2, zero::refused, penalty); !ok) return ok;
    if (!penalty) return {};
    if (sampling.repetition_penalty && *sampling.repetition_penalty != *penalty)
        return root.at("repeat_penalty")
            ->fail(errc::bad_value, "contradicts repetition_penalty, which is the same");
    sampling.repetition_penalty = penalty;
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
    request.ending = std::move(ending);
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
        {"top_p", 0, 1, zero::allowed, &params::top_p},
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
    if (auto ok = read_repeat_penalty(root, sampling); !ok) return ok.error();
    // The smallest set of tokens that has any mass is the likeliest one.
    if (sampling.top_p)
        sampling.top_p = std::max(*sampling.top_p, std::numeric_limits<float>::min());
    auto top_k = read_integer(root, "top_k", -1, std::numeric_limits<int>::max(), sampling.top_k);
    if (!top_k) return top_k.error();
    if (sampling.top_k == -1) sampling.top_k = 0;
    std::optional<std::int64_t> number_of_seed;
    auto seed = read_integer(root, "seed", seed_min, std::numeric_limits<std::int64_t>::max(),
                             number_of_seed);
    if (!seed) return seed.error();
    if (number_of_seed && *number_of_seed != -1)
        sampling.seed = static_cast<std::uint64_t>(*number_of_seed);
    auto biases = parse_biases(root, limits);
    if (!biases) return biases.error();
    sampling.biases = std::move(*biases);
    return sampling;
}

result<engine::ending_params> parse_ending(const json_cursor& root, int max_tokens,
                                           const request_limits& limits) {
    engine::ending_params ending;
    if (auto field = root.find("min_tokens")) {
        auto tokens = field->as_integer(0, limits.max_tokens_max);
        if (!tokens) return tokens.error();
        if (*tokens > max_tokens)
            return field->fail(errc::bad_value, "must not be more than max_tokens, which is " +
                                                    std::to_string(max_tokens));
        ending.min_tokens = static_cast<int>(*tokens);
    }
    if (auto field = root.find("ignore_eos")) {
        auto ignores = field->as_bool();
        if (!ignores) return ignores.error();
        ending.ignores_end = *ignores;
    }
    if (auto list = root.find("stop_token_ids")) {
        auto count = parse_count(*list, limits.stop_tokens_max);
        if (!count) return count.error();
        for (std::size_t i = 0; i < *count; ++i) {
            auto token = list->item(i).as_integer(0, std::numeric_limits<engine::token_id>::max());
            if (!token) return token.error();
            ending.stop_tokens.push_back(static_cast<engine::token_id>(*token));
        }
    }
    return ending;
}

result<std::optional<int>> parse_max_tokens(const json_cursor& root,
                                            std::initializer_list<std::string_view> keys,
                                            const request_limits& limits) {
    std::optional<std::int64_t> found;
    std::string_view found_as;
    for (std::string_view key : keys) {
        auto field = root.find(key);
        if (!field) continue;
        auto value = field->as_integer(-1, limits.max_tokens_max);
        if (!value) return value.error();
        if (found && *found != *value)
            return field->fail(errc::bad_value, "contradicts " + std::string(found_as) +
                                                    ", which is " + std::to_string(*found) +
                                                    "; this one is " + std::to_string(*value));
        if (!found) found_as = key;
        found = *value;
    }
    if (!found) return std::optional<int>();
    return std::optional<int>(*found == -1 ? limits.max_tokens_max : static_cast<int>(*found));
}

result<std::vector<std::string>> parse_stop_list(const json_cursor& list,
                                                 const request_limits& limits) {
    std::vector<std::string> stops;
    auto count = parse_count(list, limits.stops_max);
    if (!count) return count.error();
    for (std::size_t i = 0; i < *count; ++i) {
        json_cursor item = list.item(i);
        if (item.value().is_string() && item.value().get_string().empty()) continue;
        auto stop = parse_bounded(item, limits.stop_bytes_max);
        if (!stop) return stop.error();
        stops.push_back(std::move(*stop));
    }
    return stops;
}

result<std::vector<std::string>> parse_stops(const json_cursor& field,
                                             const request_limits& limits) {
    if (field.value().is_array()) return parse_stop_list(field, limits);
    if (!field.value().is_string())
        return field.fail(errc::bad_value,
                          std::string("expected a string or a list of strings, found ") +
                              kind_name(field.value()));
    if (field.value().get_string().empty()) return std::vector<std::string>();
    auto stop = parse_bounded(field, limits.stop_bytes_max);
    if (!stop) return stop.error();
    return std::vector<std::string>{std::move(*stop)};
}

namespace {

/// What clients send for a field that they do not use.
bool asks_for_nothing(const boost::json::value& value) {
    if (const auto* text = value.if_string()) return text->empty();
    if (const auto* list = value.if_array()) return list->empty();
    if (const auto* object = value.if_object()) return object->empty();
    return value.is_null() || value == false;
}

constexpr const char* use_response_format =
    "is not supported; ask for a schema with response_format, or output_config.format in Messages";

}  // namespace

result<void> refuse_field(const json_cursor& root, std::string_view key, std::string_view why) {
    auto field = root.find(key);
    if (!field || asks_for_nothing(field->value())) return {};
    return field->fail(errc::unsupported, why);
}

result<void> refuse_foreign_fields(const json_cursor& root) {
    for (const auto& field : *root.value().if_object()) {
        const std::string_view key(field.key().data(), field.key().size());
        if (!key.starts_with("guided_") || key == "guided_decoding_backend") continue;
        if (auto ok = refuse_field(root, key, use_response_format); !ok) return ok;
    }
    for (std::string_view key : {"structured_outputs", "json_schema", "grammar"})
        if (auto ok = refuse_field(root, key, use_response_format); !ok) return ok;
    constexpr const char* no_continuation =
        "continuing an assistant message is not supported; the answer is a new one";
    if (auto ok = refuse_field(root, "continue_final_message", no_continuation); !ok) return ok;
    if (auto field = root.find("add_generation_prompt"); field && field->value() == false)
        return field->fail(errc::unsupported, no_continuation);
    return refuse_field(root, "lora", "this server runs no adapters");
}

}  // namespace semantic::protocol
