#pragma once
// What the chat dialects' requests have in common once they are parsed, and the fields that both
// spell alike. Pure.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/types/generation.hpp"
#include "protocol/wire/errc.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol {

/// The vendors' own limits where they publish them, else bounds that no honest client meets. Over a
/// limit: bad_value.
struct request_limits {
    json_limits json;
    std::size_t messages_max = 100'000;
    std::size_t tools_max = 1'000;
    std::size_t name_bytes_max = 128;  // of a tool
    std::size_t id_bytes_max = 512;    // model, tool call ids, user ids
    std::size_t stop_bytes_max = 1'024;
    std::size_t biases_max = 1'024;
    int max_tokens_max = 1'000'000;
};

struct answer_request {
    std::string model;  // as the client spelled it; echoed in the reply
    engine::conversation chat;
    int max_tokens = 0;  // 0 fills the cache and answers nothing
    std::vector<std::string> stop_sequences;
    engine::output_form form;
    engine::sampling_params sampling;
    engine::thinking_params thinking;
    std::optional<int> top_scores;  // log probabilities with each token; absent: none
    int choices = 1;
    bool stream = false;
    /// 0: tools may not be called; 1: no second call beside the first; absent: any number.
    std::optional<std::size_t> tool_calls_max;

    /// Leaves what the reply needs in place and moves the rest out.
    engine::generation_request take_generation(
        std::optional<storage::agent_id> agent,
        std::optional<std::chrono::steady_clock::time_point> deadline);
};

/// temperature, top_p, top_k, min_p, the penalties, logit_bias and seed, each with its own bounds.
/// Errors: bad_value.
result<engine::sampling_params> parse_sampling(const json_cursor& root,
                                               const request_limits& limits, std::int64_t seed_min);
/// A list of 0 to `count_max` stop strings. Errors: bad_value.
result<std::vector<std::string>> parse_stops(const json_cursor& list, std::size_t count_max,
                                             const request_limits& limits);

}  // namespace semantic::protocol
