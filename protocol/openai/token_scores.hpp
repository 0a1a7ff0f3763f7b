// SPDX-License-Identifier: Apache-2.0
#pragma once
// Log probabilities as the vendor writes them, of every token and of the likeliest alternatives.
// Pure.

#include <boost/json/array.hpp>

#include <span>

#include "engine/types/generation.hpp"

namespace semantic::protocol::openai {

/// Appends to `to`, for each token, an entry with its log probability and those of its
/// alternatives.
void append_scores(boost::json::array& to, std::span<const engine::token_scores> scores);

}  // namespace semantic::protocol::openai
