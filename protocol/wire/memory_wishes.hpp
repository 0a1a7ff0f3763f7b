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

/// "90s", "5m", "1h", "2d". Returns: nothing for what is no such time, or longer than ten years.
std::optional<std::chrono::seconds> parse_lifetime(std::string_view text);

/// Messages: the longest `ttl` of any cache_control, of the body, its system blocks, its tools and
/// its messages' blocks.
engine::memory_policy parse_cache_control(const json_cursor& root);

/// Chat completions and Responses: prompt_cache_options.ttl, else prompt_cache_retention. Lifetimes
/// and modes that are not known ask for nothing.
engine::memory_policy parse_prompt_cache_options(const json_cursor& root);

/// A lifetime: a text as parse_lifetime() takes it, or seconds as a number. Complains of others.
std::optional<std::chrono::seconds> read_lifetime(const json_cursor& field);

/// Any request: {"memory_policy": {"keep": "1h", "pin": true, "drop": true}}, each of which may be
/// absent, before what the request says in the words of its wire, `vendors`. What is to be dropped
/// when the answer has ended is kept for 0 seconds. Complains of other members, and of keeping or
/// pinning what is dropped.
engine::memory_policy parse_memory_policy(const json_cursor& root,
                                          const engine::memory_policy& vendors);

}  // namespace semantic::protocol
