// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forgetting agents: under every model that remembers them, or under one that a client names.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.hpp"

namespace semantic::server {

/// The fingerprints of the models that `wanted` (a name or a part of a fingerprint) means, among
/// those that remember the agent.
std::vector<storage::block_hash> models_meant(const engine::agent_info& agent,
                                              std::string_view wanted);

/// Forgets the agent, or only what `model` remembers of it. Blocks. Errors: not_found, io.
storage::result<void> forget(engine::engine& engine, const engine::agent_info& agent,
                             const std::optional<std::string>& model);

}  // namespace semantic::server
