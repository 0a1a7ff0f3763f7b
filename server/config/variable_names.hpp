// SPDX-License-Identifier: Apache-2.0
#pragma once
// Variables of the environment that set an option in addition to the one that is named after it.

#include <array>
#include <string_view>

namespace semantic::server::variable_names {

inline constexpr std::array<std::string_view, 1> host_names{"SEMANTIC_SERVER_HOST"};
inline constexpr std::array<std::string_view, 1> port_names{"SEMANTIC_SERVER_PORT"};
inline constexpr std::array<std::string_view, 1> key_names{"ANTHROPIC_API_KEY"};
inline constexpr std::array<std::string_view, 1> cors_names{"SEMANTIC_SERVER_CORS_ORIGINS"};
inline constexpr std::array<std::string_view, 1> log_names{"SEMANTIC_SERVER_LOG_LEVEL"};
inline constexpr std::array<std::string_view, 1> model_names{"SEMANTIC_MODEL_ID"};
inline constexpr std::array<std::string_view, 1> batch_names{"SEMANTIC_MAX_BATCH_SIZE"};
inline constexpr std::array<std::string_view, 1> min_chunk_names{
    "SEMANTIC_CHUNKED_PREFILL_MIN_CHUNK"};
inline constexpr std::array<std::string_view, 1> max_chunk_names{
    "SEMANTIC_CHUNKED_PREFILL_MAX_CHUNK"};
inline constexpr std::array<std::string_view, 1> cache_dir_names{"SEMANTIC_AGENT_CACHE_DIR"};
inline constexpr std::array<std::string_view, 1> hot_names{"SEMANTIC_AGENT_MAX_AGENTS_IN_MEMORY"};
inline constexpr std::array<std::string_view, 0> no_names{};

}  // namespace semantic::server::variable_names
