// SPDX-License-Identifier: Apache-2.0
#pragma once
// `safeguards` of Messages: the client asks whether the calls of the answer are dangerous before it
// runs them. The judge is the model itself, asked on a branch of the agent's memory and held to a
// form. Pure. Source: what Claude Code sends and reads, and LiteLLM's answer.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/generation.hpp"
#include "protocol/history/parts.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::anthropic {

/// What a request with safeguards of type dangerous_tool_use asks for.
struct safeguard_request {
    static constexpr std::size_t context_bytes_max = 4096;
    std::string context;  // what the client says of its surroundings, as JSON; may be cut
};

/// Reads `safeguards`. Those of unknown types are left out by name. Returns: nothing where none of
/// the known type is asked for.
std::optional<safeguard_request> parse_safeguards(const json_cursor& root,
                                                  left_out_names& left_out);

/// A call of the answer.
struct judged_call {
    std::string id;
    std::string name;
    std::string arguments_json;
};

/// The most calls of one answer that are judged; further ones are "unavailable".
constexpr std::size_t judged_calls_max = 8;

/// Turns `wanted` into a request to the judge: appends the question about `calls` and sets the form
/// of the judge's answer, an outcome for each call. `wanted`: a request with the conversation that
/// was answered, and the answer.
void ask_for_verdicts(const safeguard_request& request, const std::vector<judged_call>& calls,
                      engine::generation_request& wanted);

/// Why there is no verdict, in the wire's words.
enum class no_verdict { timeout, error, input_too_long };

/// Returns: the field safeguard_results from what the judge `said`. A call without a usable outcome
/// is "unavailable".
boost::json::array verdicts_of(const std::vector<judged_call>& calls, std::string_view said);
/// Returns: the field where the judge gave no answer: every call is "unavailable", and why.
boost::json::array without_verdicts(const std::vector<judged_call>& calls, no_verdict why);
/// Returns: the field of a server that does not judge.
boost::json::array unsupported_safeguards();

}  // namespace semantic::protocol::anthropic
