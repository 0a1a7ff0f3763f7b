// SPDX-License-Identifier: Apache-2.0
#pragma once
// Agents that ask an engine in their own process, without server or socket: the same conversations
// and the same arithmetic as `semantic-bench agents`.
// Owner: the caller; the engine outlives it. Thread: one. Errors: std::runtime_error where an
// answer fails, has no token or takes more than five minutes.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "perf/bench/measure/burst.hpp"
#include "perf/bench/measure/prompts.hpp"

namespace semantic::perf {

class direct_agents {
  public:
    direct_agents(engine::engine& runner, int count);

    /// Each agent reads a text of its own.
    void prime(int context_tokens);
    /// All of them answer a further turn of `turn_tokens`.
    bench::burst speak(int turn_tokens, int answer_tokens);

  private:
    class listener;

    std::int64_t count_tokens(std::string text) const;
    void add(std::size_t agent, engine::role speaker, std::string text);
    std::shared_ptr<listener> say(std::size_t agent, std::string text, int answer_tokens);

    engine::engine& engine_;
    const std::chrono::steady_clock::time_point run_start_ = std::chrono::steady_clock::now();
    bench::token_ruler ruler_;
    std::vector<engine::conversation> chats_;
    std::uint64_t seed_ = 1000;
};

}  // namespace semantic::perf
