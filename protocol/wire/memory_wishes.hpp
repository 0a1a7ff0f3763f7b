// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long clients want a memory to be kept, in the words of each wire, as one policy. Pure. All of
// it complains of what it reads, as json_cursor does.

#include <chrono>
#include <optional>
#include <string_view>

#include "engine/types/memory_policy.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol {

/// Returns: the time that a text such as "90s", "5m", "1h" or "2d" means; nothing for any other
/// text, or more than ten years.
std::optional<std::chrono::seconds> parse_lifetime(std::string_view text);

/// Reads, for Messages, the longest `ttl` of any cache_control: of the body, its system blocks, its
/// tools and the blocks of its messages.
engine::memory_policy parse_cache_control(const json_cursor& root);

/// Reads, for chat completions and Responses, prompt_cache_options.ttl, else
/// prompt_cache_retention. Unknown lifetimes and modes ask for nothing.
engine::memory_policy parse_prompt_cache_options(const json_cursor& root);

/// Reads a lifetime: a text as parse_lifetime() reads it, or seconds as a number. Complains of
/// anything else.
std::optional<std::chrono::seconds> read_lifetime(const json_cursor& field);

/// Reads, for any request, {"memory_policy": {"keep": "1h", "pin": true, "drop": true}}; each
/// member is optional and overrides `vendors`, the policy in the words of the request's own API.
/// "drop" means kept for 0 seconds after the answer. Complains of other members, and of keeping or
/// pinning what is dropped.
engine::memory_policy parse_memory_policy(const json_cursor& root,
                                          const engine::memory_policy& vendors);

}  // namespace semantic::protocol
