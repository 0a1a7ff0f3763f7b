// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the chat dialects' requests have in common once they are parsed, and the fields that both
// spell alike. Pure.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
    std::size_t name_bytes_max = 128;        // of a tool
    std::size_t id_bytes_max = 512;          // model, user ids
    std::size_t call_id_bytes_max = 65'536;  // some servers keep their state in the ids of calls
    std::size_t stops_max = 64;
    std::size_t stop_bytes_max = 1'024;
    std::size_t stop_tokens_max = 1'024;
    std::size_t biases_max = 1'024;
    int max_tokens_max = 1'000'000;
};

struct answer_request {
    std::string model;  // as the client spelled it; echoed in the reply
    engine::conversation chat;
    int max_tokens = 0;  // 0 fills the cache and answers nothing
    std::vector<std::string> stop_sequences;
    engine::ending_params ending;
    engine::output_form form;
    engine::sampling_params sampling;
    engine::thinking_params thinking;
    std::optional<int> top_scores;  // log probabilities with each token; absent: none
    int choices = 1;
    bool stream = false;
    /// 0: tools may not be called; 1: no second call in the same answer; absent: any number.
    std::optional<std::size_t> tool_calls_max;
    /// As generation_request has it.
    std::shared_ptr<storage::work_budget> budget{};
    /// How long the memory is to be kept.
    engine::memory_policy memory{};
    /// Types of tools, items and blocks that are left out of the prompt: the reply names them.
    std::vector<std::string> left_out{};

    /// Returns: the request to the engine. Moves fields into it; only those that the reply needs
    /// stay.
    engine::generation_request take_generation(
        std::optional<storage::agent_id> agent,
        std::optional<std::chrono::steady_clock::time_point> deadline);
};

// All of these complain of what they read, as json_cursor does.

/// Reads temperature, top_p, top_k, min_p, the penalties, logit_bias and seed, each with its own
/// bounds. Values that mean "off" for other servers are accepted as such: top_k -1, seed -1, top_p
/// 0 (the likeliest token alone). `seed_min`: the smallest seed that the dialect allows.
engine::sampling_params parse_sampling(const json_cursor& root, const request_limits& limits,
                                       std::int64_t seed_min);
/// Reads min_tokens, ignore_eos and stop_token_ids. `max_tokens`: the limit of the request, which
/// min_tokens may not exceed.
engine::ending_params parse_ending(const json_cursor& root, int max_tokens,
                                   const request_limits& limits);
/// Reads the limit of tokens from whichever of `keys` the client uses; several must be equal. -1
/// means no limit: limits.max_tokens_max. Returns: nothing where none is there.
std::optional<int> parse_max_tokens(const json_cursor& root,
                                    std::initializer_list<std::string_view> keys,
                                    const request_limits& limits);
/// Reads a list of at most limits.stops_max stop strings. Empty ones would stop nothing and are
/// left out.
std::vector<std::string> parse_stop_list(const json_cursor& list, const request_limits& limits);
/// Reads one stop string, or a list of them.
std::vector<std::string> parse_stops(const json_cursor& field, const request_limits& limits);

/// Complains of fields that change an answer on other servers and that this server does not
/// support, unless their value asks for nothing.
void refuse_foreign_fields(const json_cursor& root);
/// Complains of the field `key` unless its value asks for nothing. `why`: the end of the sentence,
/// with what the client can do instead.
void refuse_field(const json_cursor& root, std::string_view key, std::string_view why);

}  // namespace semantic::protocol
