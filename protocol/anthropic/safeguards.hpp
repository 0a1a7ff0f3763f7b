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

/// Safeguards of other types are left out by name. Returns: nothing where none is asked for.
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

/// The question to the judge after the answer, and the form of its own answer: an outcome for each
/// call. `wanted` has the conversation that was answered, with the answer.
void ask_for_verdicts(const safeguard_request& request, const std::vector<judged_call>& calls,
                      engine::generation_request& wanted);

/// Why there is no verdict, in the wire's words.
enum class no_verdict { timeout, error, input_too_long };

/// The field safeguard_results. `said`: the judge's answer.
boost::json::array verdicts_of(const std::vector<judged_call>& calls, std::string_view said);
boost::json::array without_verdicts(const std::vector<judged_call>& calls, no_verdict why);
boost::json::array unsupported_safeguards();

}  // namespace semantic::protocol::anthropic
